"""Recordings that were joined: a clock that is set back finds no picture, and this is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.videos import read_number, remux, write_video

from obygaze_features.core.errors import FixInput
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.cut_films import make_windows
from obygaze_features.manifest.windows import Grid
from obygaze_features.video import PictureView, decode_clip
from obygaze_features.video.container import BadVideo
from obygaze_features.video.film import film_index, probe

RATE = 25
CODECS = {
    "mpeg2video": {"g": "12", "bf": "2"},
    "libx264": {"g": "20", "preset": "veryfast"},
}


def joined(folder: Path, codec: str, first: int, second: int) -> Path:
    """Two recordings of 60 pictures one behind the other, each with a clock that begins anew."""
    parts = [
        write_video(
            folder / f"{numbers.start}.ts",
            codec,
            numbers=numbers,
            ticks=[begin + number - numbers.start for number in numbers],
            options=CODECS[codec],
        )
        for numbers, begin in ((range(60), first), (range(60, 120), second))
    ]
    film = folder / "joined.ts"
    film.write_bytes(b"".join(part.read_bytes() for part in parts))
    return film


@pytest.mark.parametrize(
    ("codec", "second", "indexed"),
    [("mpeg2video", 0, False), ("libx264", 140, True)],
)
def test_a_part_of_a_film_whose_clock_is_set_back_is_refused(
    tmp_path: Path, codec: str, second: int, indexed: bool
) -> None:
    film = joined(tmp_path, codec, 100, second)
    indexes = tmp_path / "indexes" if indexed else None
    for start_s, end_s in ((0.0, 1.0), (1.5, None), (None, 2.0), (3.0, 4.0)):
        with pytest.raises(
            BadVideo, match="the clock of the file is set back"
        ) as caught:
            decode_clip(
                film, PictureView(4), start_s=start_s, end_s=end_s, indexes=indexes
            )
        assert caught.value.reason == "clock"
    words = {"workspace": Workspace(tmp_path), "name": "w"}
    with pytest.raises(FixInput, match="the clock of the file is set back"):
        make_windows(tmp_path, Grid(seconds=1, every=1), **words)
    info = probe(film)
    assert not info.index.timed and info.index.jump == 60
    assert "set back after picture 60; pictures counted" in str(info)
    assert info.to_json()["clock_jumps"] is True
    # All pictures are there, in the order of the file, at the times of counting.
    assert info.index.duration_s == pytest.approx(120 / RATE)


def test_neighbours_in_disorder_are_no_jump(tmp_path: Path) -> None:
    plain = write_video(tmp_path / "plain.mp4", options={"g": "30", "bf": "0"})

    def repeat(number: int, packet: object) -> object:
        packet.pts = packet.dts = number // 2 * 1024  # type: ignore[attr-defined]
        return packet

    index = probe(remux(plain, tmp_path / "twice.mkv", repeat)).index
    assert not index.timed and index.has_clock


def test_key_frames_have_the_ranks_of_their_pictures(tmp_path: Path) -> None:
    """Two B pictures are stored after each key frame, and shown before it."""
    import av

    film = joined(tmp_path, "mpeg2video", 100, 30)
    index, _ = film_index(film, tmp_path / "indexes")
    numbers = []
    with av.open(str(film)) as container:
        for frame in container.decode(video=0):
            if frame.key_frame:
                numbers.append(read_number(frame.to_ndarray(format="rgb24")))
    # The pictures have the numbers 0 to 119 in the order of showing.
    assert index.ranks[index.keys].tolist() == numbers
    assert len(numbers) > 8
