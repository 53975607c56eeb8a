"""Recalibrate probabilities: each film by the scores and labels of the other films."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.arrays import FloatArray, as_codes, as_scores, as_truth
from obygaze_models.evaluation.logistic import fit_logistic

NEXT_TO_ZERO = 1e-6


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
