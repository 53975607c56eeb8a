"""Comparing readers: films carry their numbers, and pictures are checked by their pixels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.decoding import comparison
from benchmarks.decoding.comparison import DecodeComparison, Headline, compare_readers
from benchmarks.decoding.films import (
    FilmSpec,
    character_films,
    coded_films,
    make_film,
    odd_films,
    read_stamp,
    stamp,
)
from benchmarks.decoding.pictures import CHARACTERS, pictures
from benchmarks.decoding.readers import READERS
from benchmarks.timing import Settings
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import View

# What its tests share is made once: they stay in one process.
pytestmark = [pytest.mark.check("benchmarks"), pytest.mark.xdist_group("bench decode")]

QUICK = {"preset": "ultrafast"}
TIMED = FilmSpec("timed", options=QUICK, n_frames=60, width=320, height=240)
EDITED = FilmSpec(
    "edited", options=QUICK, n_frames=60, width=320, height=240, hidden=20
)


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
    assert (
        [read_stamp(picture) for picture in clip.pictures]
        == EDITED.shown
        == list(range(20, 60))
    )
    before = path.stat().st_mtime_ns
    assert make_film(EDITED, tmp_path).stat().st_mtime_ns == before
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    assert make_film(replace(EDITED, n_frames=61), tmp_path) != path


def test_film_names_are_unlike() -> None:
    specs = [
        *character_films(150),
        *coded_films(150),
        *odd_films(),
        *character_films(30),
    ]
    files = [spec.file_name for spec in specs]
    assert len(set(files)) == len(files) >= 25


def test_every_character_has_a_film_coded_by_default() -> None:
    films = character_films(150)
    assert [film.character for film in films] == list(CHARACTERS)
    shapes = {(f.codec, len(f.options), f.n_frames, f.width, f.height) for f in films}
    assert shapes == {("libx264", 0, 3600, 1280, 544)}


def _luma(name: str, count: int) -> np.ndarray:
    return np.array(
        [planes[:120] for planes in pictures(CHARACTERS[name], count, 120, 160)]
    )


def _changed(name: str) -> np.ndarray:
    """The mean change from each picture to the next, within the first twelve (one shot)."""
    return np.abs(np.diff(_luma(name, 12).astype(int), axis=0)).mean(axis=(1, 2))


def test_characters_are_what_their_words_say() -> None:
    # Drawn: every picture twice. A locked camera: most pixels change by grain alone.
    assert np.array_equal(_changed("clean") == 0, np.arange(11) % 2 == 0)
    still = np.abs(np.diff(_luma("static", 12).astype(int), axis=0))
    assert np.median(still) <= 2 < _changed("busy").mean()
    # The same film but for its grain, of standard deviations 4 and 1.5.
    more = _luma("noisy", 12).astype(int) - _luma("calm", 12)
    assert more.std() == pytest.approx(4 - 1.5, abs=0.3)


@pytest.mark.parametrize("name", CHARACTERS)
def test_films_are_the_same_every_time_and_in_colour(name: str) -> None:
    once, again = (
        np.array(list(pictures(CHARACTERS[name], 5, 120, 160))) for _ in range(2)
    )
    assert np.array_equal(once, again) and once.shape == (5, 180, 160)
    assert np.ptp(once[:, 120:].astype(int)) > 10


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> DecodeComparison:
    readers = ("obygaze", "obygaze, key frames", "pyav in order")
    folder = tmp_path_factory.mktemp("films")
    return compare_readers(
        [TIMED],
        [EDITED],
        readers=readers,
        odd_readers=readers,
        count=8,
        rounds=2,
        folder=folder,
    )


def test_only_the_right_pictures_count(result: DecodeComparison) -> None:
    found = {(one.film, one.reader): one.n_correct for one in result.readings}
    assert found == {
        ("timed", "obygaze"): 8,
        ("timed", "obygaze, key frames"): 8,
        ("timed", "pyav in order"): 8,
        ("edited", "obygaze"): 8,
        ("edited", "obygaze, key frames"): 8,
        # Counting packets counts those that the edit list hides: 60 instead of 40.
        ("edited", "pyav in order"): 1,
    }


def test_times_are_of_two_rounds_and_only_of_timed_films(
    result: DecodeComparison,
) -> None:
    (timed,) = result.timed.values()
    assert timed.reference == "obygaze"
    assert all(
        len(timing.cpu_s) == 2 and min(timing.cpu_s) > 0 for timing in timed.timings
    )
    assert timed.ratio("obygaze", "cpu_s") == 1.0


def test_a_headline_is_the_median_over_films() -> None:
    ratios = {
        "decord": {"a": 1.5, "b": 4.0, "c": 2.0},
        "torchcodec": {"a": 1.25, "c": 1.75},
    }
    headline = Headline("obygaze", ratios)
    assert headline.medians == {"decord": 2.0, "torchcodec": 1.5}
    rows = [line.split() for line in headline.to_text().splitlines()[1:]]
    assert ["a", "1.50x", "1.25x"] in rows and ["median", "2.00x", "1.50x"] in rows


def test_headlines_set_the_others_beside_both_ways_of_ours(
    result: DecodeComparison,
) -> None:
    whole, keys = result.headlines()
    assert (whole.reference, keys.reference) == ("obygaze", "obygaze, key frames")
    (timed,) = result.timed.values()
    assert whole.ratios == {
        "pyav in order": {"timed": timed.ratio("pyav in order", "cpu_s")}
    }
    ours, others = timed.timing("obygaze, key frames"), timed.timing("pyav in order")
    pairs = [b / a for a, b in zip(ours.cpu_s, others.cpu_s, strict=True)]
    assert keys.medians["pyav in order"] == pytest.approx(sum(pairs) / 2)


def test_tables_name_films_and_readers(result: DecodeComparison) -> None:
    text = replace(result, absent={"decord": "No module named 'decord'"}).to_text()
    for part in (
        "8 pictures of timed",
        "edited",
        "8 of 8",
        "1 of 8",
        "decord was not measured: No mod",
    ):
        assert part in text
    assert json.loads(json.dumps(result.to_json()))["exact"][0]["n_correct"] == 8


def test_a_reader_that_fails_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / EDITED.file_name
    path.write_bytes(b"no film")
    found = compare_readers([], [EDITED], odd_readers=["obygaze"], folder=tmp_path)
    assert (
        found.readings[0].failed
        == "the file is not a video, or its beginning is damaged"
    )
    assert "fails" in found.to_text()


def test_each_page_has_its_films_and_its_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []
    monkeypatch.setattr(
        comparison, "compare_readers", lambda *films, **o: calls.append((films, o))
    )
    comparison.measure(Settings())
    comparison.measure(Settings(quick=True))
    comparison.measure_codings(Settings(rounds=5))
    comparison.measure_clips(Settings())
    clips = [*character_films(10), *coded_films(10)]
    readers = set(READERS) - {"obygaze, key frames", "opencv"}
    last_films, last_options = calls.pop()
    assert last_films == (clips,)
    assert set(last_options.pop("readers")) == readers
    assert last_options == {"rounds": 5}
    assert calls == [
        ((character_films(150), odd_films()), {"rounds": 2}),
        ((character_films(4), odd_films()), {"rounds": 1}),
        ((coded_films(150),), {"rounds": 5}),
    ]
    # Readers that take minutes for a long film are only checked on small ones.
    defaults = compare_readers.__kwdefaults__
    assert set(defaults["odd_readers"]) - set(defaults["readers"]) == {
        "opencv",
        "pyav in order",
        "torchcodec, approximate",
    }
    assert set(defaults["odd_readers"]) == set(READERS)
