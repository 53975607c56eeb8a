"""A head for the levels in their order, EN < HN < NS < S: one severity, three thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from obygaze_models.models.ground import (
    FixTraining,
    Floats,
    Ints,
    encode_classes,
    one_thread,
    spreads,
)
from obygaze_models.models.state import Savable


class OrdinalHead(Savable, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Proportional odds: P(level at most k) = sigmoid(threshold k - severity).

    The severity is a weighted sum of margins, with an L2 penalty of inverse strength C. `order`
    names the levels from low to high; without it they are taken in sorted order. With `scaled` it
    learns from margins in units of their spread, whatever the length of the features.
    """

    fitted: ClassVar[tuple[str, ...]] = ("classes_", "coef_", "thresholds_", "mean_", "rank_")

    def __init__(
        self, C: float = 1.0, *, order: Sequence[Any] | None = None, scaled: bool = False
    ) -> None:
        self.C = C
        self.order = order
        self.scaled = scaled

    def fit(self, X: Any, y: Any, groups: Any = None) -> OrdinalHead:
        """Learn the severity and the thresholds from margins."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = encode_classes(y)
        self.rank_ = self._ranks()
        self.mean_ = X.mean(axis=0)
        with one_thread():
            scale = spreads(X) if self.scaled else np.ones(X.shape[1])
            coef, self.thresholds_ = proportional_odds(
                (X - self.mean_) / scale, self.rank_[codes], len(self.classes_), self.C
            )
            self.coef_ = coef / scale
        return self

    def severity(self, X: Any) -> Floats:
        """How high each row stands, in logits; the training mean is 0."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        severity: Floats = (X - self.mean_) @ self.coef_
        return severity

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each level, in the order of `classes_`."""
        severity = self.severity(X)
        at_most = expit(self.thresholds_ - severity[:, None])
        edges = np.pad(at_most, ((0, 0), (1, 1)), constant_values=((0, 0), (0.0, 1.0)))
        by_rank: Floats = np.diff(edges, axis=1)
        return by_rank[:, self.rank_]

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable level of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        chosen: NDArray[Any] = self.classes_[best]
        return chosen

    def contributions(self, X: Any) -> tuple[float, Floats]:
        """0, and what each margin's distance from the training mean adds to the severity."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return 0.0, (X - self.mean_) * self.coef_

    def _ranks(self) -> Ints:
        if self.order is None:
            return np.arange(len(self.classes_))
        places = {name: i for i, name in enumerate(self.order)}
        unplaced = [name for name in self.classes_.tolist() if name not in places]
        if unplaced:
            raise FixTraining(f"the order of levels does not place {unplaced[0]!r}")
        return np.argsort(np.argsort([places[name] for name in self.classes_.tolist()]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # classes without an order are not what it is for
        return tags


def proportional_odds(Z: Floats, ranks: Ints, n_levels: int, C: float) -> tuple[Floats, Floats]:
    """Coefficients and thresholds of the penalised likelihood, which has one maximum."""
    width = Z.shape[1]
    shares = np.cumsum(np.bincount(ranks, minlength=n_levels))[:-1] / len(ranks)
    logits = np.log(shares / (1 - shares))
    start = np.concatenate([np.zeros(width), logits[:1], np.log(np.diff(logits))])

    def loss(free: Floats) -> tuple[float, Floats]:
        coef, thresholds = free[:width], _thresholds(free[width:])
        edges = np.concatenate([[-np.inf], thresholds, [np.inf]])
        severity = Z @ coef
        high, low = expit(edges[ranks + 1] - severity), expit(edges[ranks] - severity)
        p = np.maximum(high - low, 1e-300)
        to_high, to_low = high * (1 - high) / p, low * (1 - low) / p
        by_threshold = np.zeros(n_levels - 1)
        upper, lower = ranks < n_levels - 1, ranks > 0
        np.add.at(by_threshold, ranks[upper], -to_high[upper])
        np.add.at(by_threshold, ranks[lower] - 1, to_low[lower])
        slope = np.concatenate(
            [Z.T @ (to_high - to_low) + coef / C, _back(by_threshold, free[width:])]
        )
        return float(-np.log(p).sum() + coef @ coef / (2 * C)), slope

    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-13}
    )
    return found.x[:width], _thresholds(found.x[width:])


def _thresholds(free: Floats) -> Floats:
    """Thresholds that rise, from a first one and the logarithms of their steps."""
    return np.cumsum(np.concatenate([free[:1], np.exp(free[1:])]))


def _back(by_threshold: Floats, free: Floats) -> Floats:
    """The slope in those free numbers from the slope in the thresholds."""
    tails = np.cumsum(by_threshold[::-1])[::-1]
    return np.concatenate([tails[:1], tails[1:] * np.exp(free[1:])])
