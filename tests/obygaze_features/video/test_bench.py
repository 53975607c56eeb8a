"""The decode bench: its films carry their numbers, and its verdicts are those of the pixels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from obygaze_features.video.bench import (
    DecodeBench,
    bench_decode,
    bench_decoding,
    long_films,
    odd_films,
)
from obygaze_features.video.bench_films import FilmSpec, make_film, read_stamp, stamp
from obygaze_features.video.bench_readers import READERS
from obygaze_features.video.decode import View, decode_clip

QUICK = {"preset": "ultrafast"}
TIMED = FilmSpec("timed", options=QUICK, n_frames=60, width=320, height=240)
EDITED = FilmSpec("edited", options=QUICK, n_frames=60, width=320, height=240, hidden=20)


@pytest.mark.parametrize("number", [0, 1, 1365, 2730, 4095])
@pytest.mark.parametrize("size", [(240, 320), (544, 1280)])
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
    clip = decode_clip(path, View(40))
    assert [read_stamp(picture) for picture in clip.frames] == EDITED.shown == list(range(20, 60))
    before = path.stat().st_mtime_ns
    assert make_film(EDITED, tmp_path).stat().st_mtime_ns == before
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_film_names_are_unlike() -> None:
    names = [spec.name for spec in [*long_films(150), *odd_films()]]
    assert len(set(names)) == len(names) >= 14


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> DecodeBench:
    readers = ("obygaze", "obygaze, key frames", "pyav in order")
    folder = tmp_path_factory.mktemp("films")
    return bench_decoding([TIMED], [EDITED], readers=readers, count=8, rounds=2, folder=folder)


def test_only_the_right_pictures_count(result: DecodeBench) -> None:
    found = {(one.film, one.reader): one.right for one in result.readings}
    assert found == {
        ("timed", "obygaze"): 8,
        ("timed", "obygaze, key frames"): 8,
        ("timed", "pyav in order"): 8,
        ("edited", "obygaze"): 8,
        ("edited", "obygaze, key frames"): 8,
        # Counting packets counts those that the edit list hides: 60 instead of 40.
        ("edited", "pyav in order"): 1,
    }


def test_times_are_of_two_rounds_and_only_of_timed_films(result: DecodeBench) -> None:
    (timed,) = result.timed
    assert timed.reference == "obygaze"
    assert all(len(timing.cpu_s) == 2 and min(timing.cpu_s) > 0 for timing in timed.timings)
    assert timed.ratio("obygaze", "cpu_s") == 1.0


def test_tables_name_films_and_readers(result: DecodeBench) -> None:
    text = replace(result, absent={"decord": "No module named 'decord'"}).as_text()
    for part in ("8 pictures of timed", "edited", "8 of 8", "1 of 8", "decord is not here: No mod"):
        assert part in text
    assert json.loads(json.dumps(result.as_json()))["exact"][0]["right"] == 8


def test_a_reader_that_fails_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "edited-60.mp4"
    path.write_bytes(b"no film")
    found = bench_decoding([], [EDITED], readers=["obygaze"], folder=tmp_path)
    assert found.readings[0].failed == "the file is not a video, or its beginning is damaged"
    assert "fails" in found.as_text()


def test_the_command_explains_itself() -> None:
    words = CliRunner().invoke(bench_decode, ["--help"]).output
    assert "Examples:" in words and "--reader" in words
    assert all(name.split(",")[0] in words for name in READERS)
