"""The p of many differences of one run, against plain loops and against chance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from obygaze_models.evaluation.families import DrawnDifference, family_p_values

N_DRAWS = 400


def drawn(
    value: float,
    draws: np.ndarray,
    n_films: int = 12,
    inflation: float = 1.0,
) -> DrawnDifference:
    return DrawnDifference(value, draws, n_films, inflation)


def random_family(seed: int, n: int = 6) -> list[DrawnDifference]:
    """Differences that depend on each other, of different sizes and inflations."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=N_DRAWS)
    family = []
    for _ in range(n):
        spread = rng.uniform(0.01, 0.1)
        value = spread * rng.normal(scale=2)
        draws = value + spread * (0.6 * common + 0.8 * rng.normal(size=N_DRAWS))
        family.append(drawn(value, draws, inflation=rng.choice([1.0, 2.0])))
    return family


def plain_p_values(family: list[DrawnDifference]) -> list[float]:
    """The definition, one difference and one draw at a time."""
    scores = []
    draws = []
    for item in family:
        mean = sum(item.draws) / N_DRAWS
        sd = (sum((x - mean) ** 2 for x in item.draws) / N_DRAWS) ** 0.5
        draws.append([abs(x - mean) / sd for x in item.draws])
        k = item.n_films
        t = item.value / (sd * (item.inflation * k / (k - 1)) ** 0.5)
        scores.append(stats.norm.isf(stats.t.sf(abs(t), k - 1)))
    order = sorted(range(len(family)), key=lambda i: -scores[i])
    p_values = [0.0] * len(family)
    previous = 0.0
    for rank, i in enumerate(order):
        not_larger = order[rank:]
        n_extreme = 0
        for replicate in range(N_DRAWS):
            if max(draws[j][replicate] for j in not_larger) >= scores[i]:
                n_extreme += 1
        previous = max(previous, (n_extreme + 1) / (N_DRAWS + 1))
        p_values[i] = previous
    return p_values


@pytest.mark.parametrize("seed", range(5))
def test_p_values_are_those_of_the_definition(seed: int) -> None:
    family = random_family(seed)
    assert family_p_values(family) == pytest.approx(plain_p_values(family))


def test_a_single_difference_has_nearly_the_p_of_students_t() -> None:
    rng = np.random.default_rng(1)
    draws = 0.3 + 0.1 * rng.normal(size=20_000)
    (p,) = family_p_values([drawn(0.3, draws)])
    error = float(draws.std()) * (12 / 11) ** 0.5
    assert p == pytest.approx(2 * stats.t.sf(0.3 / error, 11), rel=0.25)


def test_without_a_difference_few_families_have_a_small_p() -> None:
    """Forty means of twelve films, all of which are 0: one p at least is below .05 in 5 %."""
    rng = np.random.default_rng(2)
    n_worlds = 200
    n_rejected = 0
    n_uncorrected = 0
    for _ in range(n_worlds):
        of_films = rng.normal(size=(12, 40)) + rng.normal(size=(12, 1))
        chosen = rng.integers(0, 12, size=(300, 12))
        means = of_films[chosen].mean(axis=1)
        family = [drawn(of_films[:, j].mean(), means[:, j]) for j in range(40)]
        n_rejected += min(family_p_values(family)) <= 0.05
        alone = stats.ttest_1samp(of_films, 0).pvalue
        n_uncorrected += min(alone) <= 0.05
    assert 0.01 <= n_rejected / n_worlds <= 0.09
    assert n_uncorrected / n_worlds > 0.3


def test_what_has_no_standard_error_is_no_member() -> None:
    rng = np.random.default_rng(3)
    known = drawn(0.2, 0.2 + 0.1 * rng.normal(size=N_DRAWS))
    constant = drawn(0.2, np.full(N_DRAWS, 0.2))
    one_film = drawn(0.2, known.draws, n_films=1)
    unknown_width = drawn(0.2, known.draws, inflation=np.inf)
    alone = family_p_values([known])
    p_values = family_p_values([constant, known, one_film, unknown_width])
    assert [p_values[1]] == alone
    assert np.isnan([p_values[0], *p_values[2:]]).all()
    assert family_p_values([]) == []


def test_draws_without_a_value_are_not_extreme() -> None:
    rng = np.random.default_rng(4)
    draws = 0.2 + 0.1 * rng.normal(size=N_DRAWS)
    with_gaps = draws.copy()
    with_gaps[:10] = np.nan
    (p,) = family_p_values([drawn(0.2, with_gaps)])
    assert p == pytest.approx(family_p_values([drawn(0.2, draws)])[0], abs=0.02)
