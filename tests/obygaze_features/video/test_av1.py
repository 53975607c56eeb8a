from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from support.videos import write_video

from obygaze_features.video.av1 import Av1Reader
from obygaze_features.video.film import probe
from obygaze_features.video.h264 import CodedPictures

N_PICTURES = 56
SVT = {"g": "24", "preset": "8", "crf": "20"}
# Pictures of a screen state more fields, and those of low delay have hidden pictures seldom.
STREAMS = {"pyramid": "lp=1", "screen": "lp=1:scm=1", "low-delay": "lp=1:pred-struct=1"}


def film_of(stream: str, folder: Path) -> Path:
    options = SVT | {"svtav1-params": STREAMS[stream]}
    return write_video(
        folder / "film.mp4", "libsvtav1", numbers=range(N_PICTURES), options=options
    )


def packets_of(path: Path) -> tuple[bytes | None, list[Any]]:
    with av.open(str(path)) as film:
        packets = [packet for packet in film.demux(video=0) if packet.size]
        return film.streams.video[0].codec_context.extradata, packets


def pictures_without(path: Path, left_out: set[int]) -> dict[int, bytes]:
    """The pixels of each picture that FFmpeg decodes if it gets only the other packets."""
    pictures = {}
    with av.open(str(path)) as film:
        stream = film.streams.video[0]
        stream.codec_context.thread_count = 1
        for position, packet in enumerate(film.demux(stream)):
            packet.pts = position if packet.size else None
            for frame in packet.decode() if position not in left_out else ():
                pictures[frame.pts] = frame.to_ndarray().tobytes()
    return pictures


def unused_of(extradata: bytes | None, packets: list[Any]) -> np.ndarray:
    pictures = CodedPictures(Av1Reader(extradata))
    for packet in packets:
        assert not pictures.is_after_gap(bytes(packet))
    return pictures.find_unused(np.arange(len(packets)), 0)


@pytest.mark.parametrize("name", STREAMS)
def test_no_other_picture_changes_without_unused_pictures(name, tmp_path) -> None:
    path = film_of(name, tmp_path)
    unused = set(np.flatnonzero(probe(path).index.unused).tolist())
    assert len(unused) >= 5
    whole = pictures_without(path, set())
    assert len(whole) == N_PICTURES
    rest = {at: pixels for at, pixels in whole.items() if at not in unused}
    assert pictures_without(path, unused) == rest


def test_a_doubtful_film_has_no_unused_pictures(tmp_path: Path) -> None:
    extradata, packets = packets_of(film_of("pyramid", tmp_path))
    contents = [bytes(packet) for packet in packets]
    unused = unused_of(extradata, contents)
    (first, *_) = np.flatnonzero(unused)
    swapped = [*contents]
    swapped[first : first + 2] = contents[first : first + 2][::-1]
    # The units no longer fill the packet.
    shorter = [*contents]
    shorter[first] = contents[first][:-1]
    # The fields that a picture states are zeros, and so is what it fills: its place in the order is
    # then wrong.
    head = contents[first][: 4 if contents[first][1] > 127 else 3]
    zeros = [*contents]
    zeros[first] = head + bytes(len(contents[first]) - len(head))
    for damaged in (swapped, shorter, zeros):
        assert not unused_of(extradata, damaged).any()


def test_a_stream_without_its_sequence_header_has_no_unused_pictures(tmp_path) -> None:
    _, packets = packets_of(film_of("pyramid", tmp_path))
    assert not unused_of(None, packets[1:]).any()
