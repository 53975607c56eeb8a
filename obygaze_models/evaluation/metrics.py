"""Metrics of binary predictions, for one row of weights or for thousands.

A metric takes `Predictions` (label, score, decision) and a matrix of weights with one row for each
replicate, and returns one value for each row. A bootstrap over clips or movies is such a matrix.

Precision, recall and F1 are 0 where their denominator is 0. AP without a positive clip and AUC
without clips of both classes are NaN. There are no warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from numpy.typing import ArrayLike

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.arrays import FloatArray
from obygaze_models.evaluation.calibration import brier, ece_mass, ece_width
from obygaze_models.evaluation.decisions import DECISION_METRICS, confusion
from obygaze_models.evaluation.predictions import Predictions, as_weights
from obygaze_models.evaluation.ranking import average_precision, roc_auc, roc_auc_within

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
    """Return each metric under each row of weights."""
    names = list(names)
    matrix = as_weights(weights, len(predictions))
    counts = confusion(predictions, matrix)
    scored = RANKING_METRICS | CALIBRATION_METRICS
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise FixInput(f"unknown metric {unknown[0]!r}", hint="one of " + ", ".join(METRICS))
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
    """Return each metric of the predictions.

    Args:
        predictions: Labels, scores and decisions.
        names: Names of metrics; the default is all.
        weights: A weight for each clip; the default is 1.
    """
    return {k: float(v[0]) for k, v in replicate(predictions, weights, names).items()}
