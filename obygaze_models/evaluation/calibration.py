"""Metrics of probability: does .8 come true in eight of ten clips?"""

from __future__ import annotations

import numpy as np

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.arrays import FloatArray, IntArray, divide
from obygaze_models.evaluation.predictions import Predictions

N_BINS = 10


def brier(predictions: Predictions, weights: FloatArray) -> FloatArray:
    """Mean squared distance between probability and outcome."""
    error = (_probabilities(predictions) - predictions.y) ** 2
    return divide(weights @ error, weights.sum(axis=1), np.nan)


def ece_mass(predictions: Predictions, weights: FloatArray) -> FloatArray:
    """Expected calibration error over bins that hold equally many clips.

    The bins are those of the clips as given, whatever the weights; equal scores share a bin.
    """
    score = _probabilities(predictions)
    edges = np.quantile(score, np.arange(1, N_BINS) / N_BINS)
    return _calibration_error(predictions, weights, np.searchsorted(edges, score, side="left"))


def ece_width(predictions: Predictions, weights: FloatArray) -> FloatArray:
    """Expected calibration error over ten bins of equal width, each closed on its right."""
    edges = np.arange(1, N_BINS) / N_BINS
    bins = np.searchsorted(edges, _probabilities(predictions), side="left")
    return _calibration_error(predictions, weights, bins)


def _calibration_error(predictions: Predictions, weights: FloatArray, bins: IntArray) -> FloatArray:
    gap = predictions.score - predictions.y
    members = np.zeros((len(predictions), N_BINS))
    members[np.arange(len(predictions)), bins] = gap
    return divide(np.abs(weights @ members).sum(axis=1), weights.sum(axis=1), np.nan)


def _probabilities(predictions: Predictions) -> FloatArray:
    score = predictions.score
    if score.min() < 0 or score.max() > 1:
        raise FixInput(
            f"calibration needs probabilities, found scores from {score.min():g} to "
            f"{score.max():g}",
            hint="leave Brier and ECE out for models that yield margins",
        )
    return score
