"""Exact p-values against enumeration, and the sizes at which they must stay cheap."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from obygaze_models.evaluation import permutation
from obygaze_models.evaluation.permutation import permutation_p


def enumerated(values: NDArray[np.float64], n_first: int) -> tuple[float, float]:
    """The one-sided p-values by writing down every group, in whole numbers."""
    observed = sum(values[:n_first].tolist())
    sums = [sum(group) for group in combinations(values.tolist(), n_first)]
    n = len(sums)
    return sum(one >= observed for one in sums) / n, sum(
        one <= observed for one in sums
    ) / n


def test_a_film_whose_clips_are_all_in_one_group_costs_nothing() -> None:
    # 2 ** 60 subsets of the second film were written down before, to take all of them.
    values = np.random.default_rng(0).normal(size=72)
    film = np.repeat([0, 1], [12, 60])
    first = np.arange(72) < 5
    first[12:] = True
    alone = permutation_p(values[:12], first[:12])
    both = permutation_p(values, first, film)
    assert (both.n, both.method) == (792, "exact")  # 12 over 5
    assert (both.greater, both.less) == (alone.greater, alone.less)


def test_all_but_one_clip_of_a_large_film_is_counted() -> None:
    values = np.random.default_rng(1).normal(size=3000)
    first = np.arange(3000) > 0
    p = permutation_p(values, first)
    # One clip is left out: it is as good as the others are by rank.
    assert (p.n, p.method) == (3000, "exact")
    assert p.greater == pytest.approx(
        float((values <= values[0]).sum()) / 3000, abs=1e-12
    )


@pytest.mark.parametrize("seed", range(8))
def test_few_whole_numbers_are_counted_as_by_enumeration(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(seed)
    values = random.choice([-6.0, -3.0, 0.0, 9.0], size=10)
    n_first = int(random.integers(1, 10))
    monkeypatch.setattr(permutation, "MAX_LOG2_HALF", -1.0)
    p = permutation_p(values, np.arange(10) < n_first)
    assert p.method == "exact"
    assert (p.greater, p.less) == pytest.approx(enumerated(values, n_first), abs=1e-12)


@pytest.mark.parametrize(("limit", "is_counted"), [(48.0, True), (47.0, False)])
def test_values_that_cost_too_much_to_count_are_sampled(
    limit: float, is_counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One item has a rare value (5): 2 ** 2 numbers for each of the 6 steps and 2 items taken.
    values = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 5.0])
    monkeypatch.setattr(permutation, "MAX_LOG2_HALF", -1.0)
    monkeypatch.setattr(permutation, "MAX_GRID_COST", limit)
    p = permutation_p(values, np.arange(6) < 2)
    assert (p.method == "exact") is is_counted


@pytest.mark.parametrize(("unit", "is_counted"), [(2.0**49, True), (2.0**50, False)])
def test_whole_numbers_that_a_float_cannot_count_are_sampled(
    unit: float, is_counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Above 2 ** 53 a float has no next whole number: 8 * 2 ** 50 is the first that is too large.
    monkeypatch.setattr(permutation, "MAX_LOG2_HALF", -1.0)
    values = unit * np.array([0.0, 1.0, 2.0, 8.0])
    assert (permutation_p(values, np.arange(4) < 2).method == "exact") is is_counted


def test_eight_thousand_captions_are_counted() -> None:
    random = np.random.default_rng(2)
    n_words = random.poisson(0.05, 8000)
    p = permutation_p(n_words, np.arange(8000) < 4000)
    assert p.method == "exact"
    # By the central limit, the exact one-sided p is near that of a normal with the same variance.
    assert p.normal is not None
    half_a_step = 0.5 * abs(p.greater - (1 - p.less))
    assert p.greater == pytest.approx(p.normal["greater"], abs=half_a_step + 0.002)


@pytest.mark.parametrize("scale", [1e-15, 1.0, 1e15])
def test_p_does_not_depend_on_the_unit(scale: float) -> None:
    values = np.array([0.3, 0.1, 0.2, 0.9, 0.8, 0.7])
    p = permutation_p(scale * values, np.arange(6) < 3)
    # Of the 20 groups of three, the first is the smallest.
    assert (p.greater, p.less, p.two_sided) == (1.0, 1 / 20, 2 / 20)


def test_few_values_that_are_far_apart_are_sampled() -> None:
    """Exactly, they have a billion sums: it took all memory, or of several films hours."""
    is_first = np.arange(100) < 10
    of_film = np.where(np.arange(100) % 2, 10.0**8, 0.0)
    of_film[5] = 1.0
    assert permutation_p(of_film, is_first, permutations=100).method.startswith(
        "sampled"
    )
    films = np.repeat(np.arange(8), 30)
    values = np.where(np.arange(240) % 2, 10_000.0, 0.0)
    values[::30] = 1.0
    found = permutation_p(values, np.arange(240) % 30 < 10, films, permutations=100)
    assert found.method.startswith("sampled")
