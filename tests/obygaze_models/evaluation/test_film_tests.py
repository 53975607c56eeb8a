"""Differences over films: against SciPy, plain loops over rotations, and simulated noise."""

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from obygaze_models.evaluation import film_tests
from obygaze_models.evaluation.film_tests import (
    mean_over_films,
    p_alone,
    p_among_all,
    training_factor,
)

Floats = NDArray[np.float64]
WITHOUT_FACTOR = np.array([1.0])


@pytest.mark.parametrize("n_films", [5, 9, 40])
@pytest.mark.parametrize(
    ("greater", "alternative"), [(True, "greater"), (False, "two-sided")]
)
def test_one_difference_has_the_p_of_student(n_films, greater, alternative) -> None:
    rng = np.random.default_rng(n_films)
    for shift in (-0.4, 0.0, 0.5):
        by_film = rng.normal(size=n_films) + shift
        expected = stats.ttest_1samp(by_film, 0, alternative=alternative).pvalue
        alone = p_alone(by_film[:, None], WITHOUT_FACTOR, greater=greater)
        among = p_among_all(by_film[:, None], WITHOUT_FACTOR, greater=greater)
        assert alone[0] == among[0] == pytest.approx(expected)


def test_the_factor_is_that_of_films_that_trained_each_other() -> None:
    """Films whose results have the correlation 1 / (k - 1), drawn many times."""
    rng = np.random.default_rng(0)
    k = 7
    covariance = np.full((k, k), 1 / (k - 1))
    np.fill_diagonal(covariance, 1.0)
    drawn = rng.multivariate_normal(np.zeros(k), covariance, size=200_000)
    shown = drawn.var(axis=1, ddof=1).mean() / k
    assert drawn.mean(axis=1).var() / shown == pytest.approx(
        training_factor(k), rel=0.02
    )
    assert training_factor(2) == math.inf


def test_the_interval_is_student_s_and_ends_where_the_difference_ends() -> None:
    by_film = np.array([0.3, 0.1, np.nan, 0.2, 0.4])
    known = by_film[np.isfinite(by_film)]
    mean, interval = mean_over_films(by_film, 3.0, 1.0)
    error = known.std(ddof=1) * math.sqrt(3.0 / 4)
    expected = stats.t.interval(0.95, 3, loc=known.mean(), scale=error)
    assert mean == pytest.approx(0.25)
    assert (interval.low, interval.high) == pytest.approx(expected)
    _, narrow = mean_over_films(by_film, 3.0, 0.4)
    assert narrow.high == 0.4
    # Two films, an infinite factor, and films that are all equal say nothing.
    for films, factor in (([0.1, 0.2], 1.0), ([0.1, 0.2, 0.4], math.inf)):
        assert math.isnan(mean_over_films(np.array(films), factor, 1.0)[1].low)
    assert math.isnan(mean_over_films(np.full(6, 0.5), 1.0, 0.5)[1].low)


def plain_among_all(D: Floats, factors: Floats, *, greater: bool) -> list[float]:
    """The definition: one rotation and one difference at a time, of other random rotations."""
    rng = np.random.default_rng(17)
    n_films, n = D.shape

    def t_of(values: Floats) -> float:
        values = values[np.isfinite(values)]
        t = values.mean() / (values.std(ddof=1) / len(values) ** 0.5)
        return t if greater else abs(t)

    def rotated(values: Floats, direction: Floats) -> float:
        """Student's t where the mean lies along a random direction."""
        known = np.isfinite(values)
        along = direction[known] / np.linalg.norm(direction[known])
        part = values[known] @ along
        rest = values[known] - part * along
        t = part / math.sqrt(rest @ rest / (known.sum() - 1))
        return t if greater else abs(t)

    observed = [t_of(D[:, j]) / factors[j] ** 0.5 for j in range(n)]
    order = sorted(range(n), key=lambda j: -observed[j])
    n_drawn = 4000
    n_larger = np.zeros(n)
    for _ in range(n_drawn):
        direction = rng.normal(size=n_films)
        by_chance = [rotated(D[:, j], direction) for j in range(n)]
        for rank, j in enumerate(order):
            n_larger[rank] += (
                max(by_chance[other] for other in order[rank:]) >= observed[j]
            )
    p_values = [0.0] * n
    previous = 0.0
    for rank, j in enumerate(order):
        previous = max(previous, n_larger[rank] / n_drawn)
        p_values[j] = previous
    return p_values


@pytest.mark.parametrize("greater", [True, False])
def test_many_differences_are_those_of_the_plain_definition(greater: bool) -> None:
    rng = np.random.default_rng(3)
    D = 0.5 * rng.normal(size=(8, 1)) + rng.normal(size=(8, 4)) + [0, 0.4, 0.8, 1.2]
    D[0, 1] = math.nan
    factors = np.array([1.0, 2.0, 1.0, 2.2])
    found = p_among_all(D, factors, greater=greater)
    plain = plain_among_all(D, factors, greater=greater)
    # Three standard errors of a share of 4,000 draws.
    assert found == pytest.approx(np.array(plain), abs=0.024)


def test_differences_without_a_p_are_no_members() -> None:
    rng = np.random.default_rng(6)
    D = rng.normal(size=(8, 4)) + 0.5
    D[:, 1] = 0.0
    D[4:, 3] = math.nan
    p = p_among_all(D, np.array([1.0, 1.0, np.inf, 1.0]))
    # Alike in all films, of an infinite factor, and of four films.
    assert np.isnan(p[1:]).all()
    assert p[0] == pytest.approx(stats.ttest_1samp(D[:, 0], 0).pvalue)


def test_equal_differences_are_one_comparison() -> None:
    """A model is compared with several baselines that give all clips of a film one score."""
    by_film = np.random.default_rng(4).normal(size=7) + 0.8
    p = p_among_all(np.repeat(by_film[:, None], 5, axis=1), np.ones(5), greater=True)
    alone = stats.ttest_1samp(by_film, 0, alternative="greater").pvalue
    assert p.tolist() == pytest.approx([alone] * 5, rel=1e-12)


def test_films_that_are_all_equal_have_the_p_of_their_signs() -> None:
    by_film = np.full((5, 1), 0.5)
    assert p_alone(by_film, WITHOUT_FACTOR, greater=True)[0] == 1 / 32
    assert p_alone(by_film, WITHOUT_FACTOR)[0] == 2 / 32
    assert p_alone(-by_film, WITHOUT_FACTOR, greater=True)[0] == 1


@pytest.mark.parametrize(("n_films", "greater"), [(5, False), (12, True)])
def test_some_difference_is_below_05_in_at_most_5_percent_of_null_worlds(
    n_films, greater, monkeypatch
):
    """300 worlds of fifteen differences of six models, whose films differ in look, with gaps."""
    monkeypatch.setattr(film_tests, "N_ROTATIONS", 2_000)
    n_worlds = 300
    rng = np.random.default_rng(n_films)
    n_found = 0
    for _ in range(n_worlds):
        look = rng.normal(size=(n_films, 1))
        models = look + rng.normal(size=(n_films, 6))
        pairs = itertools.combinations(range(6), 2)
        D = np.column_stack([models[:, i] - models[:, j] for i, j in pairs])
        if n_films > 5:
            D[rng.random(D.shape) < 0.05] = math.nan
        p = p_among_all(D, np.ones(D.shape[1]), greater=greater)
        n_found += bool(np.nanmin(p) <= 0.05)
    # Three standard errors of a share of .05 above it.
    assert n_found / n_worlds <= 0.05 + 3 * (0.05 * 0.95 / n_worlds) ** 0.5
