"""A head that fits on a card: a cut for each concept, a whole number of points, a sum."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from obygaze_models.models.ground import FixTraining, Floats, Ints
from obygaze_models.models.heads import Head


class ScorecardHead(Head):
    """Points for each concept that is there, added up; the sum is turned into a probability.

    A concept is there where its margin is above its cut, the one that best tells the classes apart.
    The points are a logistic regression's weights, scaled and rounded so that the log loss of the
    rounded card is least; none is above `max_points`.
    """

    fitted: ClassVar[tuple[str, ...]] = (
        *("classes_", "cuts_", "points_", "slope_", "offset_", "rates_"),
    )

    def __init__(self, max_points: int = 5, *, C: float = 1.0) -> None:
        self.max_points = max_points
        self.C = C

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        if self.max_points < 1:
            raise FixTraining("max_points is at least 1")
        self.cuts_ = np.array([best_cut(column, codes) for column in X.T])
        there = (self.cuts_ < X).astype(np.float64)
        self.rates_ = there.mean(axis=0)
        weights = LogisticRegression(C=self.C, max_iter=1000).fit(there, codes).coef_[0]
        cards = [_calibrated(there, codes, points) for points in _cards(weights, self.max_points)]
        _, self.points_, self.slope_, self.offset_ = min(cards, key=lambda card: card[0])

    def total(self, X: Any) -> Ints:
        """The sum of points of each row."""
        points: Ints = (self._check(X) > self.cuts_).astype(np.int64) @ self.points_
        return points

    def decision_function(self, X: Any) -> Floats:
        """The logit of the second class for each row."""
        total = self.total(X)
        return self.slope_ * total.astype(np.float64) + self.offset_

    def predict_proba(self, X: Any) -> Floats:
        """The probability of both classes for each row."""
        logit = self.decision_function(X)
        return np.stack([expit(-logit), expit(logit)], axis=1)

    def contributions(self, X: Any) -> tuple[float, Floats]:
        """The logit at the training rates of concepts, and what having or lacking each adds."""
        each = self.slope_ * self.points_
        there = (self._check(X) > self.cuts_).astype(np.float64)
        return float(self.rates_ @ each + self.offset_), (there - self.rates_) * each

    def card(self) -> list[tuple[int, float]]:
        """Every sum that can come out, and its probability of the second class."""
        sums = np.arange(
            self.points_[self.points_ < 0].sum(), self.points_[self.points_ > 0].sum() + 1
        )
        return [(int(s), float(expit(self.slope_ * s + self.offset_))) for s in sums]


def best_cut(margins: Floats, codes: Ints) -> float:
    """The middle between two margins where the shares of the two classes above it differ most."""
    order = np.argsort(margins, kind="stable")
    values, positive = margins[order], codes[order] == 1
    below = np.cumsum(positive) / positive.sum() - np.cumsum(~positive) / (~positive).sum()
    gaps = np.flatnonzero(np.diff(values) > 0)
    if not len(gaps):
        return float(values[0])  # one value only: it tells nothing, and is never above itself
    best = gaps[np.argmax(np.abs(below[gaps]))]
    middle = (values[best] + values[best + 1]) / 2
    return float(middle if middle < values[best + 1] else values[best])


def _cards(weights: Floats, max_points: int) -> list[Ints]:
    """Roundings of the weights at scales from one point to the most for the heaviest concept."""
    heaviest = np.abs(weights).max()
    if heaviest == 0:
        return [np.zeros(len(weights), dtype=np.int64)]
    scales = np.arange(4, 4 * max_points + 1) / 4 / heaviest
    cards = {tuple(np.rint(weights * scale).astype(int)) for scale in scales}
    small_first = sorted(cards, key=lambda card: (sum(map(abs, card)), card))
    return [np.array(card, dtype=np.int64) for card in small_first]


def _calibrated(there: Floats, codes: Ints, points: Ints) -> tuple[float, Ints, float, float]:
    sums = (there @ points)[:, None]
    model = LogisticRegression(C=1e4, max_iter=1000).fit(sums, codes)
    loss = float(log_loss(codes, model.predict_proba(sums), labels=[0, 1]))
    return loss, points, float(model.coef_[0, 0]), float(model.intercept_[0])
