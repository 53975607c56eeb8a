"""Exact p-values against enumeration, and the sizes at which they must stay cheap."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import hypergeom

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
    # The second film alone has 2 ** 60 subsets.
    values = np.random.default_rng(0).normal(size=72)
    film = np.repeat([0, 1], [12, 60])
    first = np.arange(72) < 5
    first[12:] = True
    alone = permutation_p(values[:12], first[:12])
    both = permutation_p(values, first, film)
    assert (both.n, both.method) == (792, "exact")  # 12 over 5
    assert (both.greater, both.less) == (alone.greater, alone.less)


@pytest.mark.parametrize("scale", [1e-15, 1.0, 1e15])
def test_p_does_not_depend_on_the_unit(scale: float) -> None:
    values = np.array([0.3, 0.1, 0.2, 0.9, 0.8, 0.7])
    p = permutation_p(scale * values, np.arange(6) < 3)
    # Of the 20 groups of three, the first is the smallest.
    assert (p.greater, p.less, p.two_sided) == (1.0, 1 / 20, 2 / 20)


@pytest.mark.parametrize(("n_pairs", "is_counted"), [(20, True), (21, False)])
def test_pairs_are_counted_up_to_a_million_exchanges(n_pairs, is_counted) -> None:
    values = np.random.default_rng(4).normal(size=2 * n_pairs)
    pairs = np.repeat(np.arange(n_pairs), 2)
    p = permutation_p(values, np.arange(2 * n_pairs) % 2 == 0, pairs, permutations=100)
    if not is_counted:
        assert p.method == "sampled, 100 permutations, seed 0"
        return
    # Of each pair one value is taken: the sums of all exchanges, written down.
    sums = np.zeros(1)
    for one, other in values.reshape(-1, 2):
        sums = np.concatenate([sums + one, sums + other])
    observed = values[::2].sum()
    assert (p.n, p.method) == (2**20, "exact")
    assert p.greater == np.mean(sums >= observed - 1e-9)
    assert p.less == np.mean(sums <= observed + 1e-9)


@pytest.mark.parametrize(("n_items", "is_counted"), [(14, True), (49, False)])
def test_one_block_is_counted_by_two_halves(n_items: int, is_counted: bool) -> None:
    values = np.random.default_rng(5).integers(-6, 9, n_items).astype(float)
    n_first = n_items // 2
    p = permutation_p(values, np.arange(n_items) < n_first, permutations=100)
    if not is_counted:
        assert p.method == "sampled, 100 permutations, seed 0"
        return
    assert p.method == "exact"
    assert (p.greater, p.less) == enumerated(values, n_first)


def test_whole_numbers_of_many_items_are_sampled() -> None:
    n_words = np.random.default_rng(2).poisson(0.05, 8000)
    p = permutation_p(n_words, np.arange(8000) < 4000, permutations=1000)
    assert p.method == "sampled, 1000 permutations, seed 0"
    assert p.normal is not None
    # Half a step, as sums are whole numbers, and four standard errors.
    half_a_step = 0.5 * abs(p.greater - (1 - p.less))
    assert p.greater == pytest.approx(p.normal["greater"], abs=half_a_step + 0.064)


@pytest.mark.parametrize(
    ("n_items", "n_yes", "n_taken"),
    [(300, 40, 120), (300, 290, 60), (300, 300, 7), (300, 1, 299), (51, 25, 26)],
)
def test_chances_of_a_large_film_are_those_of_scipy(
    n_items, n_yes, n_taken, monkeypatch
):
    counts = np.arange(min(n_yes, n_taken) + 1)
    expected = hypergeom.pmf(counts, n_items, n_yes, n_taken)
    monkeypatch.setattr(permutation, "MOST_CHANCES", 50)
    found = permutation._hypergeometric(n_items, n_yes, n_taken)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-290)
