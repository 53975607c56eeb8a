"""Changing the signs of films, against plain loops and closed forms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.sign_flips import sign_flip_p


@pytest.mark.parametrize("n_films", [1, 2, 6, 13])
def test_one_difference_is_that_of_the_plain_count(n_films: int) -> None:
    rng = np.random.default_rng(n_films)
    for shift in (0.0, 0.5):
        by_film = rng.normal(size=n_films).round(1) + shift
        mean = abs(by_film.mean())
        flipped = [
            abs(np.mean(by_film * signs))
            for signs in itertools.product((1, -1), repeat=n_films)
        ]
        expected = np.mean([value >= mean - 1e-12 for value in flipped])
        assert sign_flip_p(by_film) == (pytest.approx(expected), True)


def signs_of(n_films: int) -> list[tuple[int, ...]]:
    return list(itertools.product((1, -1), repeat=n_films))


def test_up_to_twenty_films_are_counted() -> None:
    rng = np.random.default_rng(0)
    by_film = rng.normal(size=18) + 0.3
    p, is_exact = sign_flip_p(by_film)
    # Plain loops over all patterns of half of the films, and their sums with the other half.
    first = np.array([np.dot(s, by_film[:9]) for s in signs_of(9)])
    second = np.array([np.dot(s, by_film[9:]) for s in signs_of(9)])
    sums = np.abs(first[:, None] + second)
    assert is_exact
    assert p == pytest.approx(np.mean(sums >= abs(by_film.sum()) - 1e-9))
    assert not sign_flip_p(rng.normal(size=21))[1]


def test_equal_films_have_the_smallest_p() -> None:
    assert sign_flip_p([0.2] * 6) == (2 / 64, True)
    assert sign_flip_p([0.2, -0.2]) == (1.0, True)
    assert sign_flip_p([math.nan, 0.2]) == (1.0, True)
    with pytest.raises(FixInput):
        sign_flip_p([math.nan])
