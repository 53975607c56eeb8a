"""Choose decision thresholds and recalibrate probabilities, on clips that are not evaluated."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.logistic import fit_logistic
from obygaze_models.evaluation.metrics import DECISION_METRICS, Confusion
from obygaze_models.evaluation.predictions import FloatArray, as_codes, as_scores, as_truth

NEXT_TO_ZERO = 1e-6


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
    distinct = np.unique(score)
    middle = (distinct[:-1] + distinct[1:]) / 2
    # The middle of two adjacent floats rounds to one of them; only the lower one separates them.
    middle = np.where(middle < distinct[1:], middle, distinct[:-1])
    below = np.nextafter(distinct[0], -np.inf)
    thresholds = np.unique(np.concatenate([[below], middle, [distinct[-1], 0.5]]))
    # The confusion counts at each threshold, from one sort.
    order = np.argsort(score, kind="stable")
    positives_below = np.concatenate([[0.0], np.cumsum(y[order], dtype=np.float64)])
    n_below = np.searchsorted(score[order], thresholds, side="right")
    fn = positives_below[n_below]
    tp = positives_below[-1] - fn
    value = DECISION_METRICS[metric](Confusion(tp, y.size - n_below - tp, fn, n_below - fn))
    best = thresholds[value >= value.max() - 1e-12]
    return float(best[np.argmin(np.abs(best - 0.5))])


def recalibrate(score: ArrayLike, y: ArrayLike, movies: ArrayLike) -> FloatArray:
    """Return probabilities by Platt's method: logistic regression on the log odds of the scores.

    The regression for a film is fitted on all other films, so that no clip changes its own
    probability. Where it does not exist (a perfect order, one class), the scores stay as they are.

    Args:
        score: The probability of each clip.
        y: The label of each clip, 0 or 1.
        movies: The film of each clip.
    """
    truth = as_truth(y)
    scores = as_scores(score, truth.size)
    names, codes = as_codes(movies, truth.size)
    odds = np.asarray(logit(np.clip(scores, NEXT_TO_ZERO, 1 - NEXT_TO_ZERO)), dtype=np.float64)
    found = scores.copy()
    for film in range(len(names)):
        inside = codes == film
        try:
            fit = fit_logistic(odds[~inside, None], truth[~inside], method="ml")
        except FixInput:
            continue
        found[inside] = expit(fit.beta[0] + fit.beta[1] * odds[inside])
    return found
