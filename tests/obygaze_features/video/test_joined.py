"""Recordings that were joined: a clock that is set back finds no picture, and this is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.videos import write_video

from obygaze_features.core.errors import FixInput
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.cut_films import make_windows
from obygaze_features.manifest.windows import Grid
from obygaze_features.video import PictureView, decode_clip
from obygaze_features.video.container import BadVideo
from obygaze_features.video.film import probe

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
