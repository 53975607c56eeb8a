"""Comparing readers: films carry their numbers, and pictures are checked by their pixels."""

from __future__ import annotations

import pytest

from benchmarks.decode.comparison import (
    Reading,
    exactness_text,
    read_films,
)
from benchmarks.decode.films import (
    FilmSpec,
)

# What its tests share is made once: they stay in one process.
pytestmark = pytest.mark.check("benchmarks")

QUICK = {"preset": "ultrafast"}
WHOLE = FilmSpec("whole", options=QUICK, n_frames=60, width=320, height=240)
EDITED = FilmSpec(
    "edited", options=QUICK, n_frames=60, width=320, height=240, hidden=20
)


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
