"""Erasers: no covariance with the concepts is left, and what a plain second program computes."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import sqrtm
from sklearn.covariance import LedoitWolf
from sklearn.linear_model import LogisticRegression

from obygaze_models.models.common import FixTraining
from obygaze_models.models.erasure import Leace, fit_eraser

Floats = NDArray[np.float64]


def rows_with_concepts(n_rows: int, width: int) -> tuple[Floats, NDArray[np.int64]]:
    """Correlated features of unequal scales, in which three concepts are planted."""
    rng = np.random.default_rng(n_rows + width)
    Z = (rng.random((n_rows, 3)) < [0.3, 0.5, 0.15]).astype(np.int64)
    mixing = rng.normal(size=(width, width)) / np.sqrt(width)
    X = rng.normal(size=(n_rows, width)) @ mixing + Z @ rng.normal(size=(3, width))
    return X * rng.uniform(0.5, 3, width) + 5, Z


@pytest.mark.parametrize(("n_rows", "width"), [(400, 12), (60, 150)])
def test_no_covariance_with_the_concepts_is_left(n_rows: int, width: int) -> None:
    X, Z = rows_with_concepts(n_rows, width)
    erased = Leace().fit(X, Z).transform(X)
    centred = erased - erased.mean(axis=0)
    assert np.abs(centred.T @ (Z - Z.mean(axis=0)) / n_rows).max() < 1e-10
    assert np.abs(erased - X).max() > 0.1
    for concept in Z.T:
        probe = LogisticRegression(class_weight="balanced", max_iter=1000)
        probe.fit(erased, concept)
        assert np.abs(probe.coef_).max() < 1e-6


@pytest.mark.parametrize(("n_rows", "width"), [(400, 12), (60, 150)])
def test_leace_is_the_oblique_projection_of_whitened_features(
    n_rows: int, width: int
) -> None:
    X, Z = rows_with_concepts(n_rows, width)
    covariance = LedoitWolf().fit(X).covariance_
    whiten = np.linalg.inv(np.real(sqrtm(covariance)))
    of_concepts = np.cov(X.T, Z.T, bias=True)[:width, width:]
    whitened = whiten @ of_concepts
    onto_concepts = whitened @ np.linalg.pinv(whitened)
    projection = np.linalg.inv(whiten) @ onto_concepts @ whiten
    expected = X - (X - X.mean(axis=0)) @ projection.T
    np.testing.assert_allclose(
        Leace().fit(X, Z).transform(X), expected, rtol=0, atol=1e-8
    )


def test_a_concept_that_follows_from_others_adds_no_direction() -> None:
    X, Z = rows_with_concepts(300, 10)
    twice = np.column_stack([Z, 1 - Z[:, 0]])
    eraser = Leace().fit(X, twice)
    assert eraser.read_.shape == (3, 10)
    np.testing.assert_allclose(
        eraser.transform(X), Leace().fit(X, Z).transform(X), atol=1e-8
    )


def test_constant_features_stay_as_they_are() -> None:
    X, Z = rows_with_concepts(50, 4)
    X[:, 2] = 7.0
    np.testing.assert_allclose(Leace().fit(X, Z).transform(X)[:, 2], 7.0)
    constant = np.ones((50, 4))
    assert np.array_equal(Leace().fit(constant, Z).transform(constant), constant)


def test_rows_without_a_label_are_not_fitted_on_and_rare_concepts_are_errors() -> None:
    X, Z = rows_with_concepts(100, 5)
    targets = Z[:, :1].copy()
    targets[60:] = -1
    erased = fit_eraser(X, targets, ["Look"]).transform(X)
    expected = Leace().fit(X[:60], Z[:60, 0]).transform(X)
    assert np.array_equal(erased, expected)
    targets[:] = 0
    targets[:2] = 1
    with pytest.raises(FixTraining, match="got 2 and 98") as error:
        fit_eraser(X, targets, ["Look"])
    assert error.value.where == "Look"
