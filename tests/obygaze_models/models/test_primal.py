"""Support vector machines without products of rows, against libsvm and against answers by hand."""

import numpy as np
import pytest
from sklearn.svm import SVC

from obygaze_models.models.concepts import CAV
from obygaze_models.models.linear_solvers import (
    TOLERANCE,
    Gram,
    PrimalRows,
    machines_on,
)


def rows_and_sides(seed: int, n: int = 400, d: int = 12) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    positive = X @ rng.normal(size=d) + 2 * rng.normal(size=n) > 1.5
    weight = np.where(positive, n / (2 * positive.sum()), n / (2 * (~positive).sum()))
    return X, positive, weight


@pytest.mark.parametrize("C", [0.003, 0.03, 0.3, 3.0])
@pytest.mark.parametrize("seed", [0])
def test_the_plane_is_nearer_to_that_of_an_exact_libsvm_than_libsvm_by_default(seed, C):
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
        CAV(["Body", "Look"]).fit_rows(machines, targets, rows, films)
        for machines in (Gram(X * scale), PrimalRows(X * scale))
    )
    np.testing.assert_array_equal(by_libsvm.C_, by_newton.C_)
    cosines = (by_libsvm.coef_ * by_newton.coef_).sum(axis=1)
    assert (cosines > 0.9999).all()
    np.testing.assert_allclose(
        by_libsvm.intercept_ / scale, by_newton.intercept_ / scale, atol=5e-3
    )


@pytest.mark.parametrize("solver", ["libsvm", "primal"])
@pytest.mark.parametrize(("scale", "shift"), [(50.0, 3000.0), (1.0, 200.0)])
def test_the_plane_of_rows_far_from_0_is_exact_whatever_rows_are_beside(
    solver, scale, shift
):
    """The conditions of the best plane hold; rows that are tested change nothing."""
    X, y, _ = rows_and_sides(0, n=120)
    X = X * scale + shift
    rows = np.arange(90)
    normal, bias = machines_on(X, solver).svm(rows, y[:90], 1.0)
    alone = machines_on(X[:90], solver).svm(rows, y[:90], 1.0)
    np.testing.assert_allclose(normal, alone[0], rtol=1e-9, atol=1e-12)
    assert bias == pytest.approx(alone[1], rel=1e-9)
    exact_normal, exact_bias = exact_plane(X[:90], y[:90], X[:90] @ normal + bias)
    expected = X @ exact_normal + exact_bias
    np.testing.assert_allclose(X @ normal + bias, expected, rtol=0, atol=TOLERANCE)


def exact_plane(X, positive, decisions) -> tuple[np.ndarray, float]:
    """The plane of tolerance 1, by the equations of the rows that are on the margin.

    A row inside the margin has the weight 1, one outside 0, and these are the conditions of the
    best plane: they are asked again of the plane that is found.
    """
    signs = np.where(positive, 1.0, -1.0)
    middle = X.mean(axis=0)
    Z = signs[:, None] * (X - middle)
    inside = signs * decisions < 1 - 3e-4
    on = np.abs(signs * decisions - 1) <= 3e-4
    whole = Z[inside].sum(axis=0)
    top = np.column_stack([Z[on] @ Z[on].T, signs[on]])
    equations = np.vstack([top, np.append(signs[on], 0.0)])
    wanted = np.append(1 - Z[on] @ whole, -signs[inside].sum())
    *weights, bias = np.linalg.solve(equations, wanted)
    normal = whole + np.array(weights) @ Z[on]
    margins = Z @ normal + signs * bias
    assert min(weights) > 0
    assert max(weights) < 1
    assert (margins[inside] < 1).all()
    assert (margins[~inside & ~on] > 1).all()
    return normal, float(bias - normal @ middle)
