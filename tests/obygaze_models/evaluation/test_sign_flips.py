"""Changing the signs of films, against plain loops, closed forms, and chance."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.sign_flips import max_t_p, sign_flip_p


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


def plain_max_t(D: np.ndarray, inflations: list[float]) -> list[float]:
    """The definition, one pattern and one difference at a time."""
    n_films, n = D.shape

    def t_of(values: np.ndarray) -> float:
        """Student's t of the films that have a value."""
        values = values[np.isfinite(values)]
        return abs(values.mean()) / (values.std(ddof=1) / len(values) ** 0.5)

    observed = [t_of(D[:, j]) / inflations[j] ** 0.5 for j in range(n)]
    order = sorted(range(n), key=lambda j: -observed[j])
    p_values = [0.0] * n
    previous = 0.0
    every = list(itertools.product((1, -1), repeat=n_films))
    for rank, j in enumerate(order):
        rest = order[rank:]
        n_larger = 0
        for signs in every:
            largest = max(t_of(D[:, k] * signs) for k in rest)
            n_larger += largest >= observed[j] * (1 - 1e-9)
        previous = max(previous, n_larger / len(every))
        p_values[j] = previous
    return p_values


@pytest.mark.parametrize("seed", [0, 3])
def test_many_differences_are_those_of_the_plain_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(6, 1)) + rng.normal(size=(6, 4)) + [0, 0.5, 1, 2]
    if seed == 3:
        D[0, 1] = math.nan
    inflations = [1.0, 2.0, 1.0, 2.2]
    np.testing.assert_allclose(max_t_p(D, inflations), plain_max_t(D, inflations))


def test_differences_without_a_p_are_no_members() -> None:
    rng = np.random.default_rng(6)
    D = rng.normal(size=(8, 3)) + 0.5
    D[:, 1] = 0.0
    p = max_t_p(D, [1.0, 1.0, np.inf])
    assert math.isnan(p[1]) and math.isnan(p[2])
    assert p[0] == pytest.approx(sign_flip_p(D[:, 0])[0])
    assert np.isnan(max_t_p(np.full((3, 2), math.nan))).all()


def test_a_difference_that_is_alike_in_all_films_is_the_most_certain() -> None:
    rng = np.random.default_rng(7)
    D = np.column_stack([np.full(7, 0.1), rng.normal(size=7)])
    assert max_t_p(D)[0] == pytest.approx(2 / 128)


@pytest.mark.parametrize("n_films", [6, 12])
def test_some_difference_is_below_05_in_at_most_5_percent_of_null_worlds(
    n_films: int,
) -> None:
    """300 worlds of fifteen differences of six models, whose films differ in look and in size."""
    n_worlds = 300
    rng = np.random.default_rng(n_films)
    n_found = 0
    for _ in range(n_worlds):
        look = rng.normal(size=(n_films, 1))
        sizes = rng.lognormal(sigma=0.5, size=(n_films, 1))
        models = look + rng.normal(size=(n_films, 6)) * sizes
        pairs = itertools.combinations(range(6), 2)
        D = np.column_stack([models[:, i] - models[:, j] for i, j in pairs])
        n_found += bool(np.nanmin(max_t_p(D)) <= 0.05)
    # Three standard errors of a share of .05 above it.
    assert n_found / n_worlds <= 0.05 + 3 * (0.05 * 0.95 / n_worlds) ** 0.5
