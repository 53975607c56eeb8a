"""Packets: which of them show a picture, and which stream is the one with the pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from support.videos import numbered, read_numbers, write_video

from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import PictureView
from obygaze_features.video.film import open_film, probe
from obygaze_features.video.source import VideoSource


def test_the_larger_of_two_streams_is_read(tmp_path: Path) -> None:
    path = tmp_path / "two.mkv"
    with av.open(str(path), "w") as out:
        streams = []
        for width, height in ((64, 48), (160, 120)):
            stream = out.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            streams.append(stream)
        for number in range(20):
            for stream, shift in zip(streams, (500, 0), strict=True):
                grey = numbered(number + shift, stream.width, stream.height)
                frame = av.VideoFrame.from_ndarray(grey, format="gray").reformat(
                    format="yuv420p"
                )
                frame.pts = number
                out.mux(stream.encode(frame))
        for stream in streams:
            out.mux(stream.encode())
    assert read_numbers(decode_clip(path, PictureView(4)).pictures) == [0, 5, 10, 15]


def test_a_cover_is_not_the_film(tmp_path: Path) -> None:
    path = write_video(tmp_path / "film.mp4", numbers=range(30), cover=True)
    with av.open(str(path)) as container:
        assert len(container.streams.video) == 2
    assert (probe(path).geometry.width, probe(path).index.frames) == (160, 30)


LIGHT = {
    "h264": ("libx264", {"preset": "veryfast", "x264-params": "bframes=3:b-adapt=0"}),
    "hevc": (
        "libx265",
        {"x265-params": "log-level=none:pools=1:frame-threads=1:bframes=3:b-adapt=0"},
    ),
}


@pytest.mark.parametrize(
    ("codec", "suffix"), [("h264", ".mp4"), ("h264", ".ts"), ("hevc", ".mkv")]
)
def test_what_no_picture_needs_is_left_out_and_the_rest_decoded_once(
    codec: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, options = LIGHT[codec]
    path = write_video(tmp_path / f"film{suffix}", encoder, options=options)
    sent = []
    decode = VideoSource._decode

    def counted(self: VideoSource, packet: Any, position: int, *rest: Any) -> bool:
        if packet is not None:
            sent.append(position)
        return decode(self, packet, position, *rest)

    with open_film(path) as source:
        index = source.film.index
    is_unused = index.unused
    with av.open(str(path)) as film:
        film.streams.video[0].codec_context.skip_frame = "NONREF"
        of_references = [frame.pts for frame in film.decode(video=0)]
    is_reference = np.isin(index.pts, of_references)
    assert is_unused.tolist() == (~is_reference).tolist()
    assert is_unused.sum() > 30
    wanted = [0, 37, 38, 60]
    monkeypatch.setattr(VideoSource, "_decode", counted)
    clip = decode_clip(path, PictureView(4), ranks=wanted)
    assert read_numbers(clip.pictures) == wanted
    assert len(set(sent)) == len(sent)
    last = max(index.order[wanted])
    needed = ~is_unused
    needed[index.order[wanted]] = True
    assert set(np.flatnonzero(needed[: last + 1])) <= set(sent)
    # The first pictures tell the geometry of the film, and two are stored beside those wanted.
    assert len([at for at in sent if at > 10 and not needed[at]]) <= 6
    assert len(sent) < 60
