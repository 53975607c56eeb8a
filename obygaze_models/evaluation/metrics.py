"""How good a binary prediction is: every metric of the tables, for one weighting or thousands.

A metric takes `Predictions` (truth, score, decision) and a matrix of weights with one row for each
replicate, and yields one value for each row. A bootstrap over clips or movies, or a permutation, is
nothing but a matrix of weights, so no metric is written twice.

What happens at the edges is fixed here and never a warning: precision, recall and F1 are 0 where
their denominator is 0; AP without a positive and AUC without both classes are NaN, because a
ranking of one class has no quality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.arrays import FloatArray
from obygaze_models.evaluation.calibration import brier, ece_mass, ece_width
from obygaze_models.evaluation.decisions import DECISION_METRICS, confusion
from obygaze_models.evaluation.predictions import Predictions, as_weights
from obygaze_models.evaluation.ranking import average_precision, roc_auc, roc_auc_within
from obygaze_models.evaluation.thresholds import tune_threshold

__all__ = [
    "CALIBRATION_METRICS",
    "DECISION_METRICS",
    "MARGIN_METRICS",
    "METRICS",
    "RANKING_METRICS",
    "Metric",
    "Predictions",
    "confusion",
    "evaluate",
    "evaluate_groups",
    "replicate",
    "tune_threshold",
]

Metric = Callable[[Predictions, FloatArray], FloatArray]
RANKING_METRICS: dict[str, Metric] = {
    "ap": average_precision,
    "auc": roc_auc,
    "auc_within": roc_auc_within,
}
CALIBRATION_METRICS: dict[str, Metric] = {
    "brier": brier,
    "ece": ece_mass,
    "ece_width": ece_width,
}
METRICS = (*DECISION_METRICS, *RANKING_METRICS, *CALIBRATION_METRICS)
MARGIN_METRICS = (*DECISION_METRICS, *RANKING_METRICS)


def replicate(
    predictions: Predictions, weights: ArrayLike | None, names: Iterable[str] = METRICS
) -> dict[str, FloatArray]:
    """Each metric under each row of weights."""
    names = list(names)
    matrix = as_weights(weights, len(predictions))
    counts = confusion(predictions, matrix)
    scored = RANKING_METRICS | CALIBRATION_METRICS
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise FixInput(f"no metric {unknown[0]!r}", hint="one of " + ", ".join(METRICS))
    return {
        name: scored[name](predictions, matrix)
        if name in scored
        else DECISION_METRICS[name](counts)
        for name in names
    }


def evaluate(
    predictions: Predictions,
    names: Iterable[str] = METRICS,
    weights: ArrayLike | None = None,
) -> dict[str, float]:
    """Each metric, once: of the clips as they are or under one weighting."""
    return {k: float(v[0]) for k, v in replicate(predictions, weights, names).items()}


def evaluate_groups(
    predictions: Predictions, groups: ArrayLike, names: Iterable[str] = METRICS
) -> dict[str, dict[str, float]]:
    """Each metric for the clips of each movie alone."""
    labels = np.asarray(groups)
    names = list(names)
    return {
        str(label): evaluate(predictions.take(labels == label), names)
        for label in np.unique(labels)
    }
