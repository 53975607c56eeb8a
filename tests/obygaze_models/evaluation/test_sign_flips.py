"""Changing the signs of films, against plain loops, closed forms and statsmodels."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.permutation import holm
from obygaze_models.evaluation.sign_flips import N_SAMPLED, sign_flip_p


def signs_of(n_films: int) -> list[tuple[int, ...]]:
    return list(itertools.product((1, -1), repeat=n_films))


@pytest.mark.parametrize("n_films", [1, 2, 6, 13])
def test_one_difference_is_that_of_the_plain_count(n_films: int) -> None:
    rng = np.random.default_rng(n_films)
    for shift in (0.0, 0.5):
        by_film = rng.normal(size=n_films).round(1) + shift
        flipped = np.array([abs(np.mean(by_film * s)) for s in signs_of(n_films)])
        expected = np.mean(flipped >= abs(by_film.mean()) - 1e-12)
        assert sign_flip_p(by_film) == (pytest.approx(expected), True)


def test_up_to_twenty_films_are_counted_and_more_are_sampled() -> None:
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
    # With 40 films the flipped mean is nearly Gaussian with variance sum(d^2) / 40^2.
    many = np.random.default_rng(3).normal(0.2, 1, 40)
    z = many.mean() / np.sqrt((many**2).sum()) * 40
    p, is_exact = sign_flip_p(many)
    assert p == pytest.approx(2 * stats.norm.sf(abs(z)), abs=0.015)
    assert (p, is_exact) == sign_flip_p(many)
    # A sampled p is never 0.
    assert sign_flip_p(np.ones(60))[0] == pytest.approx(1 / (N_SAMPLED + 1))


@pytest.mark.parametrize("unit", [1e-300, 1e-12, 1.0, 1e12])
def test_ties_scale_with_the_differences(unit: float) -> None:
    """Of three positive differences two of eight patterns are as extreme: p is 1/4."""
    assert sign_flip_p(np.array([0.1, 0.2, 0.3]) * unit)[0] == 2 / 8
    assert sign_flip_p(np.zeros(3) * unit)[0] == 1


def test_equal_films_have_the_smallest_p() -> None:
    assert sign_flip_p([0.2] * 6) == (2 / 64, True)
    assert sign_flip_p([0.2, -0.2]) == (1.0, True)
    assert sign_flip_p([math.nan, 0.2]) == (1.0, True)
    with pytest.raises(FixInput):
        sign_flip_p([math.nan])


def test_holm_is_that_of_statsmodels() -> None:
    p = np.random.default_rng(0).random(20) ** 3
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1])
    for bad in ([], [1.2], [np.nan]):
        with pytest.raises(FixInput):
            holm(bad)
