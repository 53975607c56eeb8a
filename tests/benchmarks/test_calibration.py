"""Simulated worlds are as uneven as the real films, and what is counted is what a run prints."""

from __future__ import annotations

from collections import Counter

import pytest
from support.published import split_file

from benchmarks import calibration
from benchmarks.calibration import simulate
from benchmarks.fit import FILMS
from benchmarks.worlds import REAL_LEVELS

pytestmark = pytest.mark.check("benchmarks")


def test_a_design_counts_what_its_runs_print() -> None:
    rates = simulate("guess", n_worlds=1)
    found = {rate.quantity: rate.n for rate in rates}
    # A world has one store and its difference to a guess.
    assert found == {
        "0 outside the interval": 1,
        "the least p of a family": 1,
        "truth outside the interval of ap": 1,
        "truth outside the interval of auc": 1,
    }
    for rate in rates:
        if rate.above is not None:
            assert rate.above + rate.below == rate.rejected


def test_what_differs_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of the check: one store with a strong signal beside one without."""
    own = calibration.features_of
    signals = [3.0, 0.0]

    def features(world, film_of_row, is_sure, signal, rng):
        signals.append(signals.pop(0))
        return own(world, film_of_row, is_sure, signals[-1], rng)

    monkeypatch.setattr(calibration, "features_of", features)
    rates = simulate("ridge", n_worlds=2)
    found = {rate.quantity: rate.rejected for rate in rates}
    assert found["the least p of a family"] == found["0 outside the interval"] == 2
    # Two stores that differ have no common truth.
    assert found["truth outside the interval of ap"] >= 2


def test_the_levels_of_films_are_those_of_the_published_split() -> None:
    two = split_file("02_EN_S.csv")
    three = split_file("02_ENHN_S.csv")
    n_easy = Counter(film for film, y in zip(two.films, two.y, strict=True) if not y)
    n_sure = Counter(film for film, y in zip(two.films, two.y, strict=True) if y)
    pairs = zip(three.films, three.y, strict=True)
    n_negative = Counter(film for film, y in pairs if not y)
    published = []
    for film in FILMS:
        n_hard = n_negative[film] - n_easy[film]
        published.append((n_easy[film], n_hard, n_sure[film]))
    assert tuple(published) == REAL_LEVELS["published"]
