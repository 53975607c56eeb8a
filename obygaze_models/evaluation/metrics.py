"""Metrics of binary predictions, for one row of weights or for thousands.

A metric takes `Predictions` (label, score, decision) and a matrix of weights with one row for each
replicate, and returns one value for each row. A bootstrap over clips or movies is such a matrix.

Precision, recall and F1 are 0 where their denominator is 0. AP without a positive clip and AUC
without clips of both classes are NaN. There are no warnings.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.arrays import FloatArray
from obygaze_models.evaluation.decisions import DECISION_METRICS
from obygaze_models.evaluation.grouped_stats import CALIBRATION_METRICS, GroupedStats, auc_within
from obygaze_models.evaluation.predictions import Predictions, as_weights

MARGIN_METRICS = (*DECISION_METRICS, "ap", "auc", "auc_within")
METRICS = (*MARGIN_METRICS, *CALIBRATION_METRICS)


def replicate(
    predictions: Predictions, weights: ArrayLike | None, names: Iterable[str] = METRICS
) -> dict[str, FloatArray]:
    """Return each metric under each row of weights."""
    names, matrix = list(names), as_weights(weights, len(predictions))
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise FixInput(f"unknown metric {unknown[0]!r}", hint="one of " + ", ".join(METRICS))
    low, high = predictions.score.min(), predictions.score.max()
    if not (low >= 0 and high <= 1) and not set(names).isdisjoint(CALIBRATION_METRICS):
        raise FixInput(
            f"calibration requires probabilities, got scores from {low:g} to {high:g}",
            hint="use MARGIN_METRICS for models with margins: without brier and ece",
        )
    clips = GroupedStats(predictions, np.arange(len(predictions)))
    found = clips.metrics(matrix, [name for name in names if name != "auc_within"])
    if "auc_within" in names:
        model = predictions.model
        by_model = [np.flatnonzero(model == number) for number in np.unique(model)]
        folds = [GroupedStats(predictions.take(rows), rows) for rows in by_model]
        found["auc_within"] = auc_within(folds, matrix)
    return {name: found[name] for name in names}


def evaluate(
    predictions: Predictions,
    names: Iterable[str] = METRICS,
    weights: ArrayLike | None = None,
) -> dict[str, float]:
    """Return each metric of the predictions.

    Args:
        predictions: Labels, scores and decisions.
        names: Names of metrics; the default is all.
        weights: A weight for each clip; the default is 1.
    """
    return {k: float(v[0]) for k, v in replicate(predictions, weights, names).items()}
