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
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    as_scores,
    as_truth,
    divide,
)

N_BINS = 10


@dataclass(frozen=True, eq=False)
class Predictions:
    """Truth, score and decision of the same clips, checked once."""

    y: BoolArray
    score: FloatArray
    decision: BoolArray

    @classmethod
    def of(cls, y: ArrayLike, score: ArrayLike, threshold: ArrayLike = 0.5) -> Predictions:
        """Decide "positive" where the score is above the threshold (one, or one for each row).

        Above, not at: a tie of two class probabilities is "negative", as an argmax has it.
        """
        truth = as_truth(y)
        scores = as_scores(score, truth.size)
        return cls(truth, scores, scores > np.asarray(threshold, dtype=np.float64))

    def take(self, rows: IntArray | BoolArray) -> Predictions:
        """The predictions of some rows."""
        return Predictions(self.y[rows], self.score[rows], self.decision[rows])

    def __len__(self) -> int:
        return int(self.y.size)


class Confusion(NamedTuple):
    """Weighted counts of the four outcomes, one entry for each row of weights."""

    tp: FloatArray
    fp: FloatArray
    fn: FloatArray
    tn: FloatArray

    def swapped(self) -> Confusion:
        """The same outcomes seen from the negative class."""
        return Confusion(self.tn, self.fn, self.fp, self.tp)


def confusion(predictions: Predictions, weights: ArrayLike | None = None) -> Confusion:
    """Count the four outcomes under each row of weights (default: every clip once)."""
    y, d = predictions.y, predictions.decision
    cells = np.stack([y & d, ~y & d, y & ~d, ~y & ~d], axis=1).astype(np.float64)
    return Confusion(*(as_weights(weights, len(predictions)) @ cells).T)


def precision(c: Confusion) -> FloatArray:
    """Share of the clips called positive that are."""
    return divide(c.tp, c.tp + c.fp, 0.0)


def recall(c: Confusion) -> FloatArray:
    """Share of the positive clips that were called so."""
    return divide(c.tp, c.tp + c.fn, 0.0)


def f1_binary(c: Confusion) -> FloatArray:
    """F1 of the positive class."""
    return divide(2 * c.tp, 2 * c.tp + c.fp + c.fn, 0.0)


def f1_weighted(c: Confusion) -> FloatArray:
    """Mean of the two classes' F1, weighted by their true sizes."""
    positive, negative = c.tp + c.fn, c.tn + c.fp
    both = positive * f1_binary(c) + negative * f1_binary(c.swapped())
    return divide(both, positive + negative, np.nan)


def f1_macro(c: Confusion) -> FloatArray:
    """Plain mean of the two classes' F1; a class that is absent counts as 0."""
    return (f1_binary(c) + f1_binary(c.swapped())) / 2


def accuracy(c: Confusion) -> FloatArray:
    """Share of right decisions."""
    return divide(c.tp + c.tn, c.tp + c.fp + c.fn + c.tn, np.nan)


def prevalence(c: Confusion) -> FloatArray:
    """Share of positive clips: without it no F1 or AP can be read."""
    return divide(c.tp + c.fn, c.tp + c.fp + c.fn + c.tn, np.nan)


def share_positive(c: Confusion) -> FloatArray:
    """Share of clips called positive."""
    return divide(c.tp + c.fp, c.tp + c.fp + c.fn + c.tn, np.nan)


def average_precision(predictions: Predictions, weights: FloatArray) -> FloatArray:
    """Precision averaged over the steps of recall; tied scores are one step."""
    tp, fp = _ranking(predictions, weights)
    steps = np.diff(tp, axis=1, prepend=0.0)
    area = (steps * divide(tp, tp + fp, 0.0)).sum(axis=1)
    return divide(area, tp[:, -1], np.nan)


def roc_auc(predictions: Predictions, weights: FloatArray) -> FloatArray:
    """Chance that a positive clip scores above a negative one; ties count one half."""
    tp, fp = _ranking(predictions, weights)
    area = (np.diff(fp, axis=1, prepend=0.0) * (tp - np.diff(tp, axis=1, prepend=0.0) / 2)).sum(1)
    return divide(area, tp[:, -1] * fp[:, -1], np.nan)


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


def _ranking(predictions: Predictions, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Positives and negatives at or above each distinct score, from the highest down."""
    order = np.argsort(-predictions.score, kind="stable")
    ordered = predictions.score[order]
    ends = np.append(np.flatnonzero(np.diff(ordered)), ordered.size - 1)
    sorted_weights = weights[:, order]
    tp = np.cumsum(sorted_weights * predictions.y[order], axis=1)[:, ends]
    return tp, np.cumsum(sorted_weights, axis=1)[:, ends] - tp


Metric = Callable[[Predictions, FloatArray], FloatArray]
DECISION_METRICS: dict[str, Callable[[Confusion], FloatArray]] = {
    "f1_binary": f1_binary,
    "f1_weighted": f1_weighted,
    "f1_macro": f1_macro,
    "precision": precision,
    "recall": recall,
    "accuracy": accuracy,
    "prevalence": prevalence,
    "share_positive": share_positive,
}
RANKING_METRICS: dict[str, Metric] = {"ap": average_precision, "auc": roc_auc}
CALIBRATION_METRICS: dict[str, Metric] = {
    "brier": brier,
    "ece": ece_mass,
    "ece_width": ece_width,
}
METRICS = (*DECISION_METRICS, *RANKING_METRICS, *CALIBRATION_METRICS)
MARGIN_METRICS = (*DECISION_METRICS, *RANKING_METRICS)


def as_weights(weights: ArrayLike | None, n_rows: int) -> FloatArray:
    """Weights as a matrix (replicates, clips)."""
    if weights is None:
        return np.ones((1, n_rows))
    matrix = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    if matrix.ndim != 2 or matrix.shape[1] != n_rows or not np.isfinite(matrix).all():
        raise FixInput(f"{n_rows} clips but weights of shape {matrix.shape}, or not finite")
    if matrix.size and matrix.min() < 0:
        raise FixInput("weights must not be negative")
    return matrix


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


def tune_threshold(
    *, validation_y: ArrayLike, validation_score: ArrayLike, metric: str = "f1_binary"
) -> float:
    """The threshold that is best on validation clips; it never sees a test clip.

    Thresholds between two neighbouring scores are all as good as another: the middle is taken, and
    of equally good middles the one nearest to .5. Without both classes the answer is .5.
    """
    if metric not in DECISION_METRICS:
        raise FixInput(
            f"a threshold cannot be tuned for {metric!r}",
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
    """One threshold for each way to cut sorted distinct scores, and .5 itself."""
    middle = (distinct[:-1] + distinct[1:]) / 2
    # Between two neighbouring floats the middle rounds to one of them; the lower one still cuts.
    middle = np.where(middle < distinct[1:], middle, distinct[:-1])
    below = np.nextafter(distinct[0], -np.inf)
    return np.unique(np.concatenate([[below], middle, [distinct[-1], 0.5]]))


def _counts_above(y: BoolArray, score: FloatArray, thresholds: FloatArray) -> Confusion:
    """The four outcomes for each threshold, from one sort."""
    order = np.argsort(score, kind="stable")
    positives_below = np.concatenate([[0.0], np.cumsum(y[order], dtype=np.float64)])
    n_below = np.searchsorted(score[order], thresholds, side="right")
    fn = positives_below[n_below]
    tp = positives_below[-1] - fn
    tn = n_below - fn
    return Confusion(tp, y.size - n_below - tp, fn, tn)
