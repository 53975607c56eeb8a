"""Association tests against hand counts, full enumeration, and the published cases."""

import json
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from obygaze.audits.eat import run_tests
from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation import permutation
from obygaze_models.evaluation.group_tests import GroupTest, compare_groups
from obygaze_models.evaluation.permutation import permutation_p
from obygaze_models.text_vectors import VectorGroup, unit_rows

# Two groups of four on the axes: four ties with the observed split at each step.
X = [[1, 0], [1, 0], [0, 1], [1, 1]]
Y = [[0, 1], [0, 1], [1, 0], [1, 1]]
A, B = [[1, 0]], [[0, 1]]


def embedding_association(x: Any, y: Any, a: Any, b: Any, *films: Any) -> GroupTest:
    """The result of one test of X against Y, with the films of each of both."""
    of_x, of_y = films or (None, None)
    pair = (VectorGroup("A", a), VectorGroup("B", b))
    return run_tests(VectorGroup("X", x, of_x), VectorGroup("Y", y, of_y), [pair])[0]


@given(
    st.lists(st.integers(-3, 3), min_size=4, max_size=10),
    st.integers(1, 9),
    st.lists(st.integers(0, 2), min_size=10, max_size=10),
)
def test_exact_counts_equal_full_enumeration(values, n_first, labels) -> None:
    """Small integers tie often, which is where counting goes wrong."""
    n = len(values)
    n_first = min(n_first, n - 1)
    block = np.array(labels[:n])
    first = np.arange(n) < n_first
    taken = {label: int(first[block == label].sum()) for label in set(block)}
    sums = np.array(
        [
            sum(values[i] for i in chosen)
            for chosen in combinations(range(n), n_first)
            if all(sum(block[i] == b for i in chosen) == k for b, k in taken.items())
        ],
        dtype=float,
    )
    observed = sum(values[:n_first])
    p = permutation_p(values, first, block)
    assert p.n == len(sums)
    assert p.n_greater == int((sums >= observed).sum())
    assert p.less == pytest.approx((sums <= observed).mean(), abs=1e-12)
    far = np.abs(sums - sums.mean()) >= abs(observed - sums.mean()) - 1e-9
    assert p.two_sided == pytest.approx(far.mean(), abs=1e-12)


def test_sampling_agrees_with_counting_within_blocks(monkeypatch) -> None:
    draws = np.random.default_rng(3)
    values, films = draws.normal(size=14), [0] * 5 + [1] * 6 + [2] * 3
    is_x = [1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 0, 1, 0]
    exact = permutation_p(values, is_x, films)
    assert (exact.n, exact.method) == (600, "exact")
    monkeypatch.setattr(permutation, "MAX_COUNTED", 1)
    p = permutation_p(values, is_x, films, permutations=200_000)
    # Four standard errors of a share in 200,000.
    error = (exact.greater * (1 - exact.greater) / 200_000) ** 0.5
    assert p.greater == pytest.approx(exact.greater, abs=4 * error)
    assert p.method == "sampled, 200000 permutations, seed 0"
    assert p == permutation_p(values, is_x, films, permutations=200_000)


@pytest.mark.parametrize(
    ("x", "films"),
    [
        ([[0.0, 0.0], [1.0, 0.0]], ()),
        ([[np.nan, 1.0]], ()),
        ([], ()),
        ([1.0, 2.0], ()),
        ([[1.0, 2.0, 3.0]], ()),
        (X, ([0, 1, 2, 3], None)),
        (X, ([0], [0, 1, 2, 3])),
    ],
)
def test_vectors_and_films_that_do_not_fit_are_errors(x: Any, films: Any) -> None:
    with pytest.raises(FixInput):
        embedding_association(x, Y, A, B, *films)


def test_normal_form_has_the_mean_and_variance_of_all_permutations() -> None:
    s, block = (
        np.array([3.0, 1.0, -2.0, 0.5, 4.0, 2.5, 7.0]),
        np.array([0, 0, 0, 1, 1, 1, 2]),
    )
    first = np.array([1, 0, 1, 0, 1, 0, 1], dtype=bool)
    sums = [
        s[list(a)].sum() + s[b] + s[6]
        for a in combinations(range(3), 2)
        for b in range(3, 6)
    ]
    z = (s[first].sum() - np.mean(sums)) / np.std(sums)
    normal = permutation_p(s, first, block).normal
    assert normal is not None
    assert normal["greater"] == pytest.approx(stats.norm.sf(z))
    assert normal["less"] == pytest.approx(stats.norm.cdf(z))
    assert normal["two_sided"] == pytest.approx(2 * stats.norm.sf(abs(z)))
    assert permutation_p([1.0, 1.0, 1.0], [True, False, False]).normal is None


def test_published_cases() -> None:
    from support.data import golden

    cases = json.loads(golden("audits", "eat.json").read_text("utf-8"))
    for case in cases["cases"]:
        result = embedding_association(*(case[name] for name in "XYAB"))
        expected = case["expected"]
        assert result.effect_size == pytest.approx(expected["effect_size"], abs=1e-9)
        assert result.across.n_greater == expected["exact"]["ge"]
        assert result.across.greater == expected["exact"]["p_ge"]
        assert result.across.normal is not None
        p_normal = result.across.normal["greater"]
        assert p_normal == pytest.approx(expected["p_normal_closed_form"], rel=1e-6)
    for case in cases["sc_weat"]:
        # One item alone: its cosines to A against those to B.
        item = unit_rows([case["w"]], "w")[0]
        to_a = unit_rows(case["A"], "A") @ item
        to_b = unit_rows(case["B"], "B") @ item
        result = compare_groups(("w", "", "A", "B"), to_a, to_b)
        assert result.effect_size == pytest.approx(case["effect_size"], abs=1e-9)
        assert result.across.greater == pytest.approx(case["p_exact_ge"], abs=1e-12)
    blocked = cases["blocked"]
    p = permutation_p(
        blocked["s"], np.array(blocked["is_x"], dtype=bool), blocked["block"]
    )
    assert (p.greater, p.n) == (blocked["p_exact_ge"], blocked["n"])
    assert p.normal is not None
    assert p.normal["greater"] == pytest.approx(blocked["p_normal"], abs=1e-12)
    forty = cases["exact_40C20"]
    assert permutation_p(forty["s"], np.arange(40) < 20).n_greater == forty["ge"]
