"""Metrics of order: are the positive clips scored above the others?"""

from __future__ import annotations

import numpy as np

from obygaze_models.evaluation.arrays import FloatArray, divide
from obygaze_models.evaluation.predictions import Predictions


def average_precision(predictions: Predictions, weights: FloatArray) -> FloatArray:
    """Precision averaged over the steps of recall; tied scores are one step."""
    tp, fp = _ranking(predictions, weights)
    steps = np.diff(tp, axis=1, prepend=0.0)
    area = (steps * divide(tp, tp + fp, 0.0)).sum(axis=1)
    return divide(area, tp[:, -1], np.nan)


def roc_auc(predictions: Predictions, weights: FloatArray) -> FloatArray:
    """Chance that a positive clip scores above a negative one; ties count one half."""
    won, pairs = _won_pairs(predictions, weights)
    return divide(won, pairs, np.nan)


def roc_auc_within(predictions: Predictions, weights: FloatArray) -> FloatArray:
    """The same chance for two clips that one model scored.

    Pooled over folds of whole movies, AUC compares scores of models with other training shares, and
    a movie rich in positives meets the model that was trained on few: on noise it falls below one
    half. Here each model's pairs count by its clips (van Elteren's weights), so that a movie drawn
    twice counts twice.
    """
    won, pairs = np.zeros(len(weights)), np.zeros(len(weights))
    for model in np.unique(predictions.model):
        rows = predictions.model == model
        own = weights[:, rows]
        total = own.sum(axis=1)
        for sums, part in zip((won, pairs), _won_pairs(predictions.take(rows), own), strict=True):
            sums += divide(part, total, 0.0)
    return divide(won, pairs, np.nan)


def _won_pairs(predictions: Predictions, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Pairs of a positive and a negative clip: won by the positive, and all."""
    tp, fp = _ranking(predictions, weights)
    won = (np.diff(fp, axis=1, prepend=0.0) * (tp - np.diff(tp, axis=1, prepend=0.0) / 2)).sum(1)
    return won, tp[:, -1] * fp[:, -1]


def _ranking(predictions: Predictions, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Positives and negatives at or above each distinct score, from the highest down."""
    order = np.argsort(-predictions.score, kind="stable")
    ordered = predictions.score[order]
    ends = np.append(np.flatnonzero(np.diff(ordered)), ordered.size - 1)
    sorted_weights = weights[:, order]
    tp = np.cumsum(sorted_weights * predictions.y[order], axis=1)[:, ends]
    return tp, np.cumsum(sorted_weights, axis=1)[:, ends] - tp
