"""Choose a decision threshold on validation clips."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.arrays import BoolArray, FloatArray, as_scores, as_truth
from obygaze_models.evaluation.decisions import DECISION_METRICS, Confusion


def tune_threshold(
    *, validation_y: ArrayLike, validation_score: ArrayLike, metric: str = "f1_binary"
) -> float:
    """Return the threshold with the largest metric on validation clips.

    All thresholds between two neighbouring scores are equivalent: the middle is taken, and of
    equally good middles the one nearest to 0.5. With a single class the threshold is 0.5.

    Args:
        validation_y: The labels, 0 or 1.
        validation_score: The scores.
        metric: One of DECISION_METRICS.
    """
    if metric not in DECISION_METRICS:
        raise FixInput(
            f"unknown metric {metric!r} for a threshold",
            hint="one of " + ", ".join(DECISION_METRICS),
        )
    y = as_truth(validation_y)
    score = as_scores(validation_score, y.size)
    if y.all() or not y.any():
        return 0.5
    thresholds = _thresholds(np.unique(score))
    value = DECISION_METRICS[metric](_counts_above(y, score, thresholds))
    best = thresholds[value >= value.max() - 1e-12]
    return float(best[np.argmin(np.abs(best - 0.5))])


def _thresholds(distinct: FloatArray) -> FloatArray:
    """Return one threshold between each two of the sorted distinct scores, and 0.5."""
    middle = (distinct[:-1] + distinct[1:]) / 2
    # The middle of two adjacent floats rounds to one of them; only the lower one separates them.
    middle = np.where(middle < distinct[1:], middle, distinct[:-1])
    below = np.nextafter(distinct[0], -np.inf)
    return np.unique(np.concatenate([[below], middle, [distinct[-1], 0.5]]))


def _counts_above(y: BoolArray, score: FloatArray, thresholds: FloatArray) -> Confusion:
    """Return the confusion counts at each threshold, from one sort."""
    order = np.argsort(score, kind="stable")
    positives_below = np.concatenate([[0.0], np.cumsum(y[order], dtype=np.float64)])
    n_below = np.searchsorted(score[order], thresholds, side="right")
    fn = positives_below[n_below]
    tp = positives_below[-1] - fn
    tn = n_below - fn
    return Confusion(tp, y.size - n_below - tp, fn, tn)
