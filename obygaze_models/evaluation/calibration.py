"""Calibration metrics: whether probabilities agree with the share of positive clips."""

from __future__ import annotations

import numpy as np

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.arrays import FloatArray, IntArray, divide
from obygaze_models.evaluation.predictions import Predictions

N_BINS = 10


def brier(predictions: Predictions, weights: FloatArray) -> FloatArray:
    """Return the mean squared difference of probability and label."""
    error = (_probabilities(predictions) - predictions.y) ** 2
    return divide(weights @ error, weights.sum(axis=1), np.nan)


def ece_mass(predictions: Predictions, weights: FloatArray) -> FloatArray:
    """Return the expected calibration error over ten bins with equal numbers of clips.

    Bins are made from unweighted clips; equal scores share a bin.
    """
    score = _probabilities(predictions)
    edges = np.quantile(score, np.arange(1, N_BINS) / N_BINS)
    return _calibration_error(predictions, weights, np.searchsorted(edges, score, side="left"))


def ece_width(predictions: Predictions, weights: FloatArray) -> FloatArray:
    """Return the expected calibration error over ten bins of equal width, closed on the right."""
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
            f"calibration requires probabilities, got scores from {score.min():g} to "
            f"{score.max():g}",
            hint="use MARGIN_METRICS for models with margins: without brier and ece",
        )
    return score
