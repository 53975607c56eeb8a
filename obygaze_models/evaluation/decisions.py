"""Decision metrics: functions of the confusion counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from obygaze_models.evaluation.arrays import FloatArray, divide


class Confusion(NamedTuple):
    """Weighted confusion counts, one entry for each row of weights."""

    tp: FloatArray
    fp: FloatArray
    fn: FloatArray
    tn: FloatArray

    def swapped(self) -> Confusion:
        """Return the counts with the two classes exchanged."""
        return Confusion(self.tn, self.fn, self.fp, self.tp)


def precision(c: Confusion) -> FloatArray:
    """Return the share of clips called positive that are positive."""
    return divide(c.tp, c.tp + c.fp, 0.0)


def recall(c: Confusion) -> FloatArray:
    """Return the share of positive clips that are called positive."""
    return divide(c.tp, c.tp + c.fn, 0.0)


def f1_binary(c: Confusion) -> FloatArray:
    """Return the F1 of the positive class."""
    return divide(2 * c.tp, 2 * c.tp + c.fp + c.fn, 0.0)


def f1_weighted(c: Confusion) -> FloatArray:
    """Return the mean F1 of both classes, weighted by their numbers of clips."""
    positive, negative = c.tp + c.fn, c.tn + c.fp
    both = positive * f1_binary(c) + negative * f1_binary(c.swapped())
    return divide(both, positive + negative, np.nan)


def f1_macro(c: Confusion) -> FloatArray:
    """Return the unweighted mean F1 of both classes; a class without clips counts as 0."""
    return (f1_binary(c) + f1_binary(c.swapped())) / 2


def accuracy(c: Confusion) -> FloatArray:
    """Return the share of correct decisions."""
    return divide(c.tp + c.tn, c.tp + c.fp + c.fn + c.tn, np.nan)


def prevalence(c: Confusion) -> FloatArray:
    """Return the share of positive clips, which F1 and AP depend on."""
    return divide(c.tp + c.fn, c.tp + c.fp + c.fn + c.tn, np.nan)


def share_positive(c: Confusion) -> FloatArray:
    """Return the share of clips called positive."""
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
