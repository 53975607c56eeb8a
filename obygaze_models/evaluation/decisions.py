"""Metrics of decisions: what the four outcomes of yes and no add up to."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from obygaze_models.evaluation.arrays import FloatArray, divide
from obygaze_models.evaluation.predictions import Predictions, as_weights


class Confusion(NamedTuple):
    """Weighted counts of the four outcomes, one entry for each row of weights."""

    tp: FloatArray
    fp: FloatArray
    fn: FloatArray
    tn: FloatArray

    def swapped(self) -> Confusion:
        """The same outcomes seen from the negative class."""
        return Confusion(self.tn, self.fn, self.fp, self.tp)


def confusion(predictions: Predictions, weights: ArrayLike | None = None) -> Confusion:
    """Count the four outcomes under each row of weights (default: every clip once)."""
    y, d = predictions.y, predictions.decision
    cells = np.stack([y & d, ~y & d, y & ~d, ~y & ~d], axis=1).astype(np.float64)
    return Confusion(*(as_weights(weights, len(predictions)) @ cells).T)


def precision(c: Confusion) -> FloatArray:
    """Share of the clips called positive that are."""
    return divide(c.tp, c.tp + c.fp, 0.0)


def recall(c: Confusion) -> FloatArray:
    """Share of the positive clips that were called so."""
    return divide(c.tp, c.tp + c.fn, 0.0)


def f1_binary(c: Confusion) -> FloatArray:
    """F1 of the positive class."""
    return divide(2 * c.tp, 2 * c.tp + c.fp + c.fn, 0.0)


def f1_weighted(c: Confusion) -> FloatArray:
    """Mean of the two classes' F1, weighted by their true sizes."""
    positive, negative = c.tp + c.fn, c.tn + c.fp
    both = positive * f1_binary(c) + negative * f1_binary(c.swapped())
    return divide(both, positive + negative, np.nan)


def f1_macro(c: Confusion) -> FloatArray:
    """Plain mean of the two classes' F1; a class that is absent counts as 0."""
    return (f1_binary(c) + f1_binary(c.swapped())) / 2


def accuracy(c: Confusion) -> FloatArray:
    """Share of right decisions."""
    return divide(c.tp + c.tn, c.tp + c.fp + c.fn + c.tn, np.nan)


def prevalence(c: Confusion) -> FloatArray:
    """Share of positive clips: without it no F1 or AP can be read."""
    return divide(c.tp + c.fn, c.tp + c.fp + c.fn + c.tn, np.nan)


def share_positive(c: Confusion) -> FloatArray:
    """Share of clips called positive."""
    return divide(c.tp + c.fp, c.tp + c.fp + c.fn + c.tn, np.nan)


DECISION_METRICS: dict[str, Callable[[Confusion], FloatArray]] = {
    "f1_binary": f1_binary,
    "f1_weighted": f1_weighted,
    "f1_macro": f1_macro,
    "precision": precision,
    "recall": recall,
    "accuracy": accuracy,
    "prevalence": prevalence,
    "share_positive": share_positive,
}
