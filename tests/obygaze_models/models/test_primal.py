"""Support vector machines without products of rows, against libsvm and against answers by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVC

from obygaze_models.models.concepts import ConceptBank
from obygaze_models.models.linear_solvers import Gram, PrimalRows


def rows_and_sides(seed: int, n: int = 400, d: int = 12) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    positive = X @ rng.normal(size=d) + 2 * rng.normal(size=n) > 1.5
    weight = np.where(positive, n / (2 * positive.sum()), n / (2 * (~positive).sum()))
    return X, positive, weight


@pytest.mark.parametrize("C", [0.003, 0.03, 0.3, 3.0])
@pytest.mark.parametrize("seed", [0])
def test_the_plane_is_nearer_to_that_of_an_exact_libsvm_than_libsvm_by_default(
    seed: int, C: float
) -> None:
    X, positive, weight = rows_and_sides(seed)
    normal, bias = PrimalRows(X).svm(np.arange(len(X)), positive, C, weight)
    exact = SVC(kernel="linear", C=C, tol=1e-7).fit(X, positive, sample_weight=weight)
    decisions = X @ normal + bias
    # The corner of the loss is .0005 wide, so that no decision is farther off than a few of them.
    assert np.abs(decisions - exact.decision_function(X)).max() < 2e-3


def test_the_plane_of_another_tolerance_does_not_depend_on_the_one_before() -> None:
    X, positive, weight = rows_and_sides(5)
    every_row = np.arange(len(X))
    along_a_path = PrimalRows(X)
    for C in (0.01, 0.1, 1.0):
        warm = along_a_path.svm(every_row, positive, C, weight)
    cold = PrimalRows(X).svm(every_row, positive, 1.0, weight)
    np.testing.assert_allclose(warm[0], cold[0], atol=2e-4)
    assert warm[1] == pytest.approx(cold[1], abs=2e-4)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_concept_vectors_of_both_solvers_are_the_same(scale: float) -> None:
    X, first, _ = rows_and_sides(11)
    second = rows_and_sides(12)[1]
    targets = np.column_stack([first, second]).astype(np.int64)
    films = np.repeat(np.arange(8), 50)
    rows = np.arange(len(X))
    by_libsvm, by_newton = (
        ConceptBank(["Body", "Look"]).fit_rows(machines, targets, rows, films)
        for machines in (Gram(X * scale), PrimalRows(X * scale))
    )
    np.testing.assert_array_equal(by_libsvm.C_, by_newton.C_)
    cosines = (by_libsvm.coef_ * by_newton.coef_).sum(axis=1)
    assert (cosines > 0.9999).all()
    np.testing.assert_allclose(
        by_libsvm.intercept_ / scale, by_newton.intercept_ / scale, atol=5e-3
    )
