"""Ranking metrics: average precision and AUC."""

from __future__ import annotations

import numpy as np

from obygaze_models.evaluation.arrays import FloatArray, divide
from obygaze_models.evaluation.predictions import Predictions


def average_precision(predictions: Predictions, weights: FloatArray) -> FloatArray:
    """Return the precision averaged over the steps of recall; tied scores are one step."""
    tp, fp = _ranking(predictions, weights)
    steps = np.diff(tp, axis=1, prepend=0.0)
    area = (steps * divide(tp, tp + fp, 0.0)).sum(axis=1)
    return divide(area, tp[:, -1], np.nan)


def roc_auc(predictions: Predictions, weights: FloatArray) -> FloatArray:
    """Return the probability that a positive clip scores above a negative one; ties count 0.5."""
    won, pairs = _won_pairs(predictions, weights)
    return divide(won, pairs, np.nan)


def roc_auc_within(predictions: Predictions, weights: FloatArray) -> FloatArray:
    """Return the AUC over pairs of clips that the same model scored.

    Pooled over folds of whole movies, AUC compares scores of models that were trained on different
    shares of positives; a movie with many positives is scored by a model trained on fewer, so on
    noise the AUC falls below 0.5. Here the pairs of each model are weighted by its number of clips
    (van Elteren's weights), so that a movie drawn twice counts twice.
    """
    won, pairs = np.zeros(len(weights)), np.zeros(len(weights))
    for model in np.unique(predictions.model):
        rows = predictions.model == model
        own = weights[:, rows]
        total = own.sum(axis=1)
        for sums, added in zip((won, pairs), _won_pairs(predictions.take(rows), own), strict=True):
            sums += divide(added, total, 0.0)
    return divide(won, pairs, np.nan)


def _won_pairs(predictions: Predictions, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the pairs of a positive and a negative clip: those ranked correctly, and all."""
    tp, fp = _ranking(predictions, weights)
    won = (np.diff(fp, axis=1, prepend=0.0) * (tp - np.diff(tp, axis=1, prepend=0.0) / 2)).sum(1)
    return won, tp[:, -1] * fp[:, -1]


def _ranking(predictions: Predictions, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return positives and negatives at or above each distinct score, from the highest down."""
    order = np.argsort(-predictions.score, kind="stable")
    ordered = predictions.score[order]
    ends = np.append(np.flatnonzero(np.diff(ordered)), ordered.size - 1)
    sorted_weights = weights[:, order]
    tp = np.cumsum(sorted_weights * predictions.y[order], axis=1)[:, ends]
    return tp, np.cumsum(sorted_weights, axis=1)[:, ends] - tp
