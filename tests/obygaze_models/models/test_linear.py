"""Linear probes against scikit-learn and against refitting without each film."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC
from sklearn.utils.class_weight import compute_sample_weight

from obygaze_models.models.common import FixTraining, total_variance
from obygaze_models.models.linear import (
    ALPHAS,
    LogisticProbe,
    RidgePath,
    RidgeProbe,
    SVMProbe,
)
from obygaze_models.models.linear_solvers import Gram


def clips(n: int = 240, width: int = 40) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(1)
    y = rng.choice(np.array(["EN", "HN"]), n, p=[0.7, 0.3])
    X = rng.normal(size=(n, width))
    X[:, 0] += 1.5 * (y == "HN")
    return X, y


@pytest.mark.parametrize("C", [0.001, 0.01, 0.05, 1.0])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_support_vectors_on_products_are_those_of_libsvm(C, class_weight) -> None:
    X, y = clips()
    ours = SVMProbe(C, class_weight=class_weight).fit(X, y)
    theirs = SVC(C=C, kernel="linear", class_weight=class_weight).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=0, atol=1e-8)
    is_called = ours.decision_function(X) > 0
    np.testing.assert_array_equal(is_called, theirs.decision_function(X) > 0)


def test_a_tolerance_that_rounding_does_not_allow_ends() -> None:
    """No weights and a small C: all decisions are nearly equal, however long it runs."""
    rng, C = np.random.default_rng(0), 1e-3
    X, positive = rng.normal(size=(600, 64)) * 0.1, np.arange(600) < 180
    signs = np.where(positive, 1.0, -1.0)

    def loss(normal: np.ndarray, bias: float) -> float:
        hinge = np.maximum(1 - signs * (X @ normal + bias), 0)
        return float(normal @ normal / 2 + C * hinge.sum())

    gram, rows = Gram(X), np.arange(600)
    first, exact = (gram.svm(rows, positive, C, exact=exact) for exact in (False, True))
    best = loss(np.zeros(64), -1.0)  # all rows negative: 180 rows with a loss of 2
    assert best == pytest.approx(2 * 180 * C)
    assert loss(*exact) <= loss(*first)
    assert loss(*exact) == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_logistic_probe_is_that_of_sklearn(class_weight: Any) -> None:
    X, y = clips()
    ours = LogisticProbe(C=0.1, class_weight=class_weight).fit(X, y)
    theirs = LogisticRegression(
        C=0.1, class_weight=class_weight, max_iter=5000, tol=1e-10
    ).fit(X, y)
    np.testing.assert_allclose(
        ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6
    )


@pytest.mark.parametrize("alpha", [0.1, 3.0, 1000.0])
def test_the_ridge_path_is_ridge_at_each_strength(alpha: float) -> None:
    rng = np.random.default_rng(0)
    for n, width in ((50, 20), (20, 50)):
        X, targets = rng.normal(size=(n, width)) + 3, rng.normal(size=(n, 2))
        coef, intercept = RidgePath(X, targets).plane(alpha)
        theirs = Ridge(alpha=alpha).fit(X, targets)
        np.testing.assert_allclose(coef, theirs.coef_, atol=1e-10)
        np.testing.assert_allclose(intercept, theirs.intercept_, atol=1e-10)


@pytest.mark.parametrize("by_film", [True, False])
def test_ridge_with_class_weights_is_that_of_sklearn(by_film: bool) -> None:
    X, y = clips(n=96)
    y, films = np.where(np.arange(96) % 5 == 0, y, "HN"), np.arange(96) % 12
    weights = compute_sample_weight("balanced", y)
    probe = RidgeProbe(class_weight="balanced").fit(X, y, films if by_film else None)
    alpha = probe.alpha_
    signs = np.where(y == probe.classes_[1], 1.0, -1.0)
    theirs = Ridge(alpha=alpha).fit(X, signs, sample_weight=weights)
    np.testing.assert_allclose(probe.coef_[0], theirs.coef_, rtol=1e-9)
    np.testing.assert_allclose(probe.intercept_, theirs.intercept_, rtol=1e-9)
    expected = np.empty(96)
    for group in range(12) if by_film else range(96):
        out = films == group if by_film else np.arange(96) == group
        rest = Ridge(alpha=alpha).fit(X[~out], signs[~out], sample_weight=weights[~out])
        expected[out] = rest.predict(X[out])
    error = (weights * (signs - expected) ** 2).sum() / weights.sum()
    assert probe.errors_.min() == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_of_strengths_with_one_error_the_first_is_taken(seed: int) -> None:
    """Without one of two films, all labels are the other one: rounding chose the strength."""
    X, _ = clips()
    X = X + np.random.default_rng(seed).normal(size=X.shape)
    films = np.arange(len(X)) % 2
    probe = RidgeProbe().fit(X, films, groups=films)
    assert probe.errors_ == pytest.approx(4)
    assert probe.alpha_ == ALPHAS[0] * total_variance(X)


def test_leaving_out_the_only_film_is_refused() -> None:
    X, y = clips()
    with pytest.raises(FixTraining, match="at least two"):
        RidgeProbe().fit(X, y, groups=np.zeros(240))


def test_a_machine_whose_rows_all_have_the_largest_weight_is_that_of_libsvm() -> None:
    # 40 random rows in 60 dimensions; at C = .002 libsvm has every dual variable at its bound.
    rng = np.random.default_rng(3)
    X, rows = rng.normal(size=(50, 60)), np.arange(5, 45)
    positive = np.arange(40) % 4 == 0
    weight = np.where(positive, 40 / 20, 40 / 60)
    reference = SVC(kernel="linear", C=0.002)
    reference.fit(X[rows], positive, sample_weight=weight)
    assert len(reference.support_) == 40
    assert np.allclose(np.abs(reference.dual_coef_), 0.002 * weight[reference.support_])
    normal, bias = Gram(X).svm(rows, positive, 0.002, weight, exact=True)
    assert np.allclose(normal, reference.coef_[0], rtol=1e-12, atol=0)
    signs = np.where(positive, 1, -1)
    ours, theirs = (
        weight @ np.maximum(1 - signs * decisions, 0)
        for decisions in (X[rows] @ normal + bias, reference.decision_function(X[rows]))
    )
    assert ours == pytest.approx(theirs, rel=1e-9)
    # At C = 1 rows are inside the margin, and with unequal sides there is no such solution.
    for C, own in ((1.0, weight), (0.002, None)):
        reference = SVC(kernel="linear", C=C, tol=1e-6)
        reference.fit(X[rows], positive, sample_weight=own)
        normal, _ = Gram(X).svm(rows, positive, C, own, exact=True)
        assert np.allclose(normal, reference.coef_[0], atol=2e-3)


@pytest.mark.parametrize(
    ("millimetres", "weights", "by_hand"),
    [
        # Two of three positive rows have weight 1: (-2, 5) + (2, 4) - (-7, -1) - (8, 15).
        ([(-10, -2), (-2, 5), (2, 4), (-7, -1), (8, 15)], (1, 1), [-0.001, -0.005]),
        # 4 (-5, 14) + 4 (2, -19) + (10, 9) - 3 (-24, 2); a bound is C times the weight.
        (
            [(-5, 14), (2, -19), (10, 9), (13, -13), (-17, 14), (-20, 1)],
            (4, 3),
            [0.07, -0.017],
        ),
    ],
)
def test_short_features_get_the_exact_machine_where_the_sides_are_unequal(
    millimetres, weights, by_hand
):
    X = np.array(millimetres) / 1000
    rows = np.arange(len(X))
    positive = rows < 3
    weight = np.where(positive, *np.array(weights, dtype=np.float64))
    reference = SVC(kernel="linear", C=1.0, tol=1e-10)
    reference.fit(X, positive, sample_weight=weight)
    normal, _ = Gram(X).svm(rows, positive, 1.0, weight, exact=True)
    np.testing.assert_allclose(normal, reference.coef_[0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(normal, by_hand, rtol=0, atol=1e-9)
