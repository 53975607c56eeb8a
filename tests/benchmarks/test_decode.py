"""Comparing readers: films carry their numbers, and pictures are checked by their pixels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.decode import comparison
from benchmarks.decode.comparison import (
    Reading,
    exactness_text,
    read_films,
    times_text,
)
from benchmarks.decode.films import (
    FilmSpec,
    make_film,
    read_stamp,
    stamp,
)
from benchmarks.timing import Timing
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import PictureView

# What its tests share is made once: they stay in one process.
pytestmark = pytest.mark.check("benchmarks")

QUICK = {"preset": "ultrafast"}
WHOLE = FilmSpec("whole", options=QUICK, n_frames=60, width=320, height=240)
EDITED = FilmSpec(
    "edited", options=QUICK, n_frames=60, width=320, height=240, hidden=20
)


@pytest.mark.parametrize(
    ("number", "size"), [(0, (240, 320)), (1365, (544, 1280)), (4095, (240, 320))]
)
def test_stamps_are_read_as_written(number: int, size: tuple[int, int]) -> None:
    grey = np.full(size, 128, dtype=np.uint8)
    stamp(grey, number)
    assert read_stamp(np.repeat(grey[:, :, None], 3, axis=2)) == number


def test_a_blend_of_two_pictures_has_no_number() -> None:
    both = np.full((2, 240, 320), 128, dtype=np.uint8)
    stamp(both[0], 5)
    stamp(both[1], 10)
    blend = both.mean(axis=0).astype(np.uint8)
    assert read_stamp(np.repeat(blend[:, :, None], 3, axis=2)) == -1


def test_films_hold_what_they_say(tmp_path: Path) -> None:
    path = make_film(EDITED, tmp_path)
    clip = decode_clip(path, PictureView(40))
    assert (
        [read_stamp(picture) for picture in clip.pictures]
        == EDITED.shown
        == list(range(20, 60))
    )
    before = path.stat().st_mtime_ns
    assert make_film(EDITED, tmp_path).stat().st_mtime_ns == before
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    assert make_film(replace(EDITED, n_frames=61), tmp_path) != path


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> list[Reading]:
    readers = ("obygaze", "pyav in order")
    folder = tmp_path_factory.mktemp("films")
    return read_films([WHOLE, EDITED], readers, rounds=2, count=8, folder=folder)


def test_only_the_right_pictures_count(readings: list[Reading]) -> None:
    found = {(one.film, one.timing.name): one.n_correct for one in readings}
    assert found == {
        ("whole", "obygaze"): 8,
        ("whole", "pyav in order"): 8,
        ("edited", "obygaze"): 8,
        # Counting packets counts those that the edit list hides: 60 instead of 40.
        ("edited", "pyav in order"): 1,
    }
    for one in readings:
        assert len(one.timing.cpu_s) == 2
        assert min(one.timing.cpu_s) > 0
    text = exactness_text(readings)
    assert "8 of 8" in text
    assert "1 of 8" in text


def test_times_are_multiples_of_ours_and_medians_are_over_films() -> None:
    readings = []
    for film, theirs in (("a", 1.5), ("b", 4.0), ("c", 2.0)):
        for name, cpu_s in (("obygaze", 1.0), ("decord", theirs)):
            timing = Timing(name, (9.0, 9.0), (cpu_s, 2 * cpu_s))
            readings.append(Reading(film, timing, 32, 32))
    rows = [line.split() for line in times_text(readings).splitlines()]
    assert ["a", "1.50x"] in rows
    assert ["median", "2.00x"] in rows


def test_a_reader_that_fails_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / EDITED.file_name
    path.write_bytes(b"no film")
    (reading,) = read_films([EDITED], ["obygaze"], rounds=1, folder=tmp_path)
    assert reading.failed == "the file is not a video, or its beginning is damaged"
    assert "fails" in exactness_text([reading])


def test_a_reader_that_is_not_installed_has_no_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = {"absent": "No module named 'decord'"}
    monkeypatch.setattr(comparison, "result_of", lambda *given: absent)
    assert read_films([WHOLE], ["decord"], rounds=1, folder=tmp_path) == []
