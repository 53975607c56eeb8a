"""Metrics of binary predictions: a record for each, which has all that is known of it.

Precision, recall and F1 are 0 where their denominator is 0. AP without a positive clip and AUC
without clips of both classes are NaN. There are no warnings. Another metric is one more record in
`METRICS`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from obygaze_features.core.errors import FixInput, near
from obygaze_models.evaluation.grouped_stats import (
    Confusion,
    DrawnSums,
    GroupedStats,
    auc_over_folds,
    divide,
    mean_over_folds,
)
from obygaze_models.evaluation.predictions import BoolArray, FloatArray, Predictions

MetricValues = dict[str, FloatArray]


class GroupCount(NamedTuple):
    """How many groups are behind a value, and how many of equal size tell as much."""

    number: int
    effective: float


@dataclass(frozen=True)
class Ranking:
    """What is known of a metric of the order of clips.

    Scores of different fits are on different scales, so it is computed within folds. It alone has
    an interval over films, and compares models.

    Attributes:
        over_folds: The metric of folds under weights of units.
        n_behind: The number of clips whose mean it is.
        n_groups: How many of some groups are behind it, by the number of clips and of positive
            clips of each.
    """

    over_folds: Callable[[Sequence[DrawnSums]], FloatArray]
    n_behind: Callable[[BoolArray], int]
    n_groups: Callable[[FloatArray, FloatArray], GroupCount]


@dataclass(frozen=True)
class Metric:
    """A metric, and all that is known of it.

    Attributes:
        name: Its name in protocols and tables.
        function: Its value by sums over clips, one for each resampling.
        title: Its name in texts, tables and figures; the default is `name`.
        direction: 1 if larger values are better, -1 if smaller ones are, 0 if neither is.
        ranking: What is known of a metric of the order of clips; None for other metrics.
        needs_probabilities: Whether margins have no value.
        needs_positives: Whether a film without positive clips has no value.
        is_on_card: Whether the card of a kept model has its value.
    """

    name: str
    function: Callable[[DrawnSums], FloatArray]
    title: str = ""
    direction: int = 1
    ranking: Ranking | None = None
    needs_probabilities: bool = False
    needs_positives: bool = False
    is_on_card: bool = False

    def over_folds(self, joined: DrawnSums, folds: Sequence[DrawnSums]) -> FloatArray:
        """Return the metric of folds, joined or one by one, under weights of units."""
        if self.ranking is None:
            return self.function(joined)
        return self.ranking.over_folds(folds)


# ---- metrics of decisions ----


def precision(c: Confusion) -> FloatArray:
    """Return the share of clips called positive that are positive."""
    return divide(c.tp, c.tp + c.fp, 0.0)


def recall(c: Confusion) -> FloatArray:
    """Return the share of positive clips that are called positive."""
    return divide(c.tp, c.tp + c.fn, 0.0)


def f1_binary(c: Confusion) -> FloatArray:
    """Return the F1 of the positive class."""
    return divide(2 * c.tp, 2 * c.tp + c.fp + c.fn, 0.0)


def f1_weighted(c: Confusion) -> FloatArray:
    """Return the mean F1 of both classes, weighted by their numbers of clips."""
    positive = c.tp + c.fn
    negative = c.tn + c.fp
    weighted = positive * f1_binary(c) + negative * f1_binary(c.swapped())
    return divide(weighted, positive + negative)


def f1_macro(c: Confusion) -> FloatArray:
    """Return the unweighted mean F1 of both classes; a class without clips counts as 0."""
    return (f1_binary(c) + f1_binary(c.swapped())) / 2


def accuracy(c: Confusion) -> FloatArray:
    """Return the share of correct decisions."""
    return divide(c.tp + c.tn, c.total)


def prevalence(c: Confusion) -> FloatArray:
    """Return the share of positive clips, which F1 and AP depend on."""
    return divide(c.tp + c.fn, c.total)


def share_positive(c: Confusion) -> FloatArray:
    """Return the share of clips called positive."""
    return divide(c.tp + c.fp, c.total)


def _of_decisions(of_counts: Callable[[Confusion], FloatArray], **facts: Any) -> Metric:
    """Return the record of a function of the counts of decisions, whose name it has."""
    return Metric(of_counts.__name__, lambda sums: of_counts(sums.counts), **facts)


# ---- metrics of the order ----


def _average_precision(sums: DrawnSums) -> FloatArray:
    return sums.average_precision


def _n_of_rarer_class(y: BoolArray) -> int:
    n_positive = int(y.sum())
    return min(n_positive, len(y) - n_positive)


def _groups_of_positives(sizes: FloatArray, n_positive: FloatArray) -> GroupCount:
    number = int(np.count_nonzero(n_positive))
    return GroupCount(number, effective_number(n_positive))


def _groups_of_both_classes(sizes: FloatArray, n_positive: FloatArray) -> GroupCount:
    n_with_positive = int(np.count_nonzero(n_positive))
    n_with_negative = int(np.count_nonzero(sizes > n_positive))
    number = min(n_with_positive, n_with_negative)
    share = number / len(sizes)
    effective = share * (len(sizes) * effective_number(sizes)) ** 0.5
    return GroupCount(number, float(effective))


def effective_number(sizes: ArrayLike) -> float:
    """Return how many parts of equal size have the same sum of squared shares."""
    values = np.asarray(sizes, dtype=np.float64)
    return float(values.sum() ** 2 / (values**2).sum())


# ---- the records ----

F1 = _of_decisions(
    f1_binary,
    title="F1 binary",
    needs_positives=True,
    is_on_card=True,
)
F1_WEIGHTED = _of_decisions(f1_weighted, title="F1 weighted", is_on_card=True)
F1_MACRO = _of_decisions(f1_macro, title="F1 macro")
PRECISION = _of_decisions(precision)
RECALL = _of_decisions(recall, needs_positives=True)
ACCURACY = _of_decisions(accuracy)
PREVALENCE = _of_decisions(prevalence, direction=0)
SHARE_POSITIVE = _of_decisions(share_positive, direction=0)
AP = Metric(
    "ap",
    _average_precision,
    title="AP",
    ranking=Ranking(
        partial(mean_over_folds, metric=_average_precision),
        n_behind=lambda y: int(y.sum()),
        n_groups=_groups_of_positives,
    ),
    is_on_card=True,
)
AUC = Metric(
    "auc",
    lambda sums: divide(*sums.pairs),
    title="AUC",
    ranking=Ranking(
        auc_over_folds,
        n_behind=_n_of_rarer_class,
        n_groups=_groups_of_both_classes,
    ),
    is_on_card=True,
)
BRIER = Metric(
    "brier",  # the mean squared error of probabilities
    lambda sums: divide(sums.squared_errors, sums.n),
    title="Brier",
    direction=-1,
    needs_probabilities=True,
    is_on_card=True,
)
METRICS = {
    metric.name: metric
    for metric in (
        *(F1, F1_WEIGHTED, F1_MACRO, PRECISION, RECALL, ACCURACY),
        *(PREVALENCE, SHARE_POSITIVE, AP, AUC, BRIER),
    )
}
RANKING_METRICS = {
    name: metric.ranking for name, metric in METRICS.items() if metric.ranking
}
MARGIN_METRICS = tuple(
    name for name, metric in METRICS.items() if not metric.needs_probabilities
)


def find_metric(name: str) -> Metric:
    """Return a metric; an error that names the known ones."""
    if name not in METRICS:
        raise FixInput(
            f"unknown metric {name!r}{near(name, METRICS)}",
            hint=f"one of {', '.join(METRICS)}",
        )
    return METRICS[name]


def metric_name(name: str) -> str:
    """Return the name of a metric for a text, a table or a figure."""
    return METRICS[name].title or name


def ranking_metric(primary: str) -> str:
    """Return the metric that models are compared by: the primary one if it ranks, else AP."""
    return primary if primary in RANKING_METRICS else AP.name


def goodness(name: str, value: float) -> float:
    """Return a number that is larger where a value of a metric is better."""
    return -value if METRICS[name].direction < 0 else value


def evaluate(
    predictions: Predictions, names: Iterable[str] = METRICS
) -> dict[str, float]:
    """Return each metric of the predictions, by default all.

    Each clip counts once.
    """
    once = np.ones(len(predictions))
    return {k: float(v[0]) for k, v in replicate(predictions, once, names).items()}


def average_precision(predictions: Predictions) -> float:
    """Return the metric by which settings, stores and tolerances are chosen."""
    return evaluate(predictions, [AP.name])[AP.name]


def replicate(
    predictions: Predictions, weights: ArrayLike, names: Iterable[str]
) -> MetricValues:
    """Return each metric under each row of weights of clips."""
    n = len(predictions)
    matrix = np.atleast_2d(np.asarray(weights, float))
    if matrix.shape[1:] != (n,) or not np.isfinite(matrix).all() or (matrix < 0).any():
        raise FixInput(
            f"weights must be finite and at least 0, one for each of {n} clips, "
            f"got shape {matrix.shape}"
        )
    metrics = [find_metric(name) for name in names]
    low = predictions.score.min()
    high = predictions.score.max()
    for metric in metrics:
        if metric.needs_probabilities and not (low >= 0 and high <= 1):
            raise FixInput(
                f"{metric.name} requires probabilities, got scores from {low:g} to {high:g}",
                hint="use MARGIN_METRICS for models with margins",
            )
    drawn = GroupedStats(predictions, np.arange(n)).under(matrix)
    return {metric.name: metric.function(drawn) for metric in metrics}
