"""Metrics of binary predictions, for one row of weights or for thousands.

Every metric is a function of sums over clips, and a resampling weights whole units (films or
clips). The sums of each unit are computed once; each row of weights has one entry for each unit, so
that many resamplings are one product of matrices.

Precision, recall and F1 are 0 where their denominator is 0. AP without a positive clip and AUC
without clips of both classes are NaN. There are no warnings.

Tied scores say nothing about the order of their clips. AP is its mean over all orders within ties,
and a tied pair counts one half in AUC: so the same scores for all clips have the AP of a random
order.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput, near
from obygaze_features.core.foreign import short_value
from obygaze_features.core.parts import Part, find_part, is_own_code
from obygaze_models.evaluation.predictions import (
    BoolArray,
    FloatArray,
    IntArray,
    Predictions,
)

Values = dict[str, FloatArray]


def divide(top: FloatArray, bottom: FloatArray, empty: float = np.nan) -> FloatArray:
    """Return `top / bottom`, and `empty` where `bottom` is 0."""
    out = np.full_like(top, empty, dtype=np.float64)  # in the memory order of `top`
    np.divide(top, bottom, out=out, where=bottom != 0)
    return out


def precision_of_ties(
    positive: FloatArray,
    total: FloatArray,
    n_clips: FloatArray,
    positive_above: FloatArray | float = 0.0,
    total_above: FloatArray | float = 0.0,
) -> FloatArray:
    """Return the sum of the precisions at the positive clips of a tie, the mean over its orders.

    It is the closed form of McSherry and Najork (2008). A clip that is drawn several times has one
    place. Where the clips of a tie have other weights than each other, each place has the mean.

    Args:
        positive: The weight of the positive clips of the tie.
        total: The weight of all its clips.
        n_clips: How many clips have a weight.
        positive_above: The weight of the positive clips with higher scores.
        total_above: The weight of all clips with higher scores.
    """
    from scipy.special import digamma  # takes longer to import than NumPy

    weight = divide(total, n_clips, 1.0)
    # Beside a positive clip, the share of positives among the other clips of the tie.
    share = (positive / weight - 1) / np.maximum(n_clips - 1, 1)
    share = np.clip(share, 0.0, 1.0)
    n_above = total_above / weight
    first_place = n_above + 1
    # The sum of 1 / place over the places of the tie.
    inverse_places = digamma(first_place + n_clips) - digamma(first_place)
    at_first_place = positive_above / weight + 1 - share * first_place
    precisions = share * n_clips + at_first_place * inverse_places
    return np.asarray(positive * precisions / np.maximum(n_clips, 1))


class Confusion(NamedTuple):
    """Weighted confusion counts, one entry for each row of weights."""

    tp: FloatArray
    fp: FloatArray
    fn: FloatArray
    tn: FloatArray

    @property
    def total(self) -> FloatArray:
        """The number of clips."""
        return self.tp + self.fp + self.fn + self.tn

    def swapped(self) -> Self:
        """Return the counts with the two classes exchanged."""
        return self._replace(tp=self.tn, fp=self.fn, fn=self.fp, tn=self.tp)


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


DecisionMetric = Callable[[Confusion], FloatArray]
DECISION_METRICS: dict[str, DecisionMetric] = {
    "f1_binary": f1_binary,
    "f1_weighted": f1_weighted,
    "f1_macro": f1_macro,
    "precision": precision,
    "recall": recall,
    "accuracy": accuracy,
    "prevalence": prevalence,
    "share_positive": share_positive,
}
RANKING_METRICS = ("ap", "auc")
MARGIN_METRICS = (*DECISION_METRICS, *RANKING_METRICS)
BRIER = "brier"  # the mean squared error of probabilities: smaller is better
METRIC_HINT = (
    "a metric is a function of one argument, the counts of decisions, with the arrays counts.tp, "
    "counts.fp, counts.fn and counts.tn, and returns an array: docs/own-parts.md"
)
METRICS = (*MARGIN_METRICS, BRIER)
# Of clips; no value of them is better than another.
COUNTS = ("prevalence", "share_positive")
# Units; of more, sums over the rows take less time than tables of units.
MOST_TABLED = 128
BLOCK_NUMBERS = 2_000_000


def ranking_metric(primary: str) -> str:
    """Return the metric that models are compared by: AUC if it is the primary one, else AP."""
    return primary if primary in RANKING_METRICS else "ap"


def own_metric(name: str) -> DecisionMetric:
    """Return a metric of own code; an error that names the shipped ones for another name."""
    if not is_own_code(name):
        raise FixInput(
            f"unknown metric {name!r}{near(name, METRICS)}",
            hint=f"one of {', '.join(METRICS)}, or FILE.py:NAME",
        )
    return _load_metric(find_part(name))


@cache
def _load_metric(part: Part) -> DecisionMetric:
    """Return the function of a part, after it was tried on the counts of two sets of clips."""
    function = part.load_function()

    def metric(counts: Confusion) -> FloatArray:
        return part.call(
            lambda: np.asarray(function(counts)), "does not work", METRIC_HINT
        )

    values = metric(Confusion(*np.array([[1.0, 2], [1, 0], [1, 1], [1, 1]])))
    if values.shape != (2,) or values.dtype.kind != "f":
        raise part.refuse(
            "must return one number for each entry of the counts, got "
            f"{short_value(values)}"
        )
    return metric


def decision_metrics(names: Iterable[str]) -> dict[str, DecisionMetric]:
    """Return the functions of those of some metrics that depend on the decisions alone."""
    functions: dict[str, DecisionMetric] = {}
    for name in names:
        if name in DECISION_METRICS:
            functions[name] = DECISION_METRICS[name]
        elif name not in METRICS:
            functions[name] = own_metric(name)
    return functions


def goodness(metric: str, value: float) -> float:
    """Return a number that is larger where a value of a metric is better."""
    return -value if metric == BRIER else value


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


def replicate(
    predictions: Predictions, weights: ArrayLike | None, names: Iterable[str] = METRICS
) -> Values:
    """Return each metric under each row of weights of clips; None weights each clip once."""
    names = list(names)
    n = len(predictions)
    matrix = (
        np.ones((1, n))
        if weights is None
        else np.atleast_2d(np.asarray(weights, float))
    )
    if matrix.shape[1:] != (n,) or not np.isfinite(matrix).all() or (matrix < 0).any():
        raise FixInput(
            f"weights must be finite and at least 0, one for each of {n} clips, "
            f"got shape {matrix.shape}"
        )
    for name in names:
        if name not in METRICS:
            own_metric(name)
    low = predictions.score.min()
    high = predictions.score.max()
    if not (low >= 0 and high <= 1) and BRIER in names:
        raise FixInput(
            f"brier requires probabilities, got scores from {low:g} to {high:g}",
            hint="use MARGIN_METRICS for models with margins",
        )
    return GroupedStats(predictions, np.arange(n)).metrics(matrix, names)


@dataclass(frozen=True, eq=False)
class GroupedStats:
    """The predictions of one model; `codes` is the number of each row's unit (film or clip)."""

    predictions: Predictions
    codes: IntArray

    @cached_property
    def units(self) -> IntArray:
        """The units that have rows here."""
        return np.unique(self.codes)

    @cached_property
    def at(self) -> IntArray:
        """The position of each row's unit in `units`."""
        return np.searchsorted(self.units, self.codes)

    def drawn(self, weights: FloatArray) -> FloatArray:
        """Return the summed weight of the rows under each row of weights."""
        return np.asarray(weights[:, self.units] @ self.sizes)

    @cached_property
    def outcomes(self) -> FloatArray:
        """True and false positives, false and true negatives of each unit."""
        y = self.predictions.y
        called = self.predictions.decision
        return self._by_unit(
            np.stack([y & called, ~y & called, y & ~called, ~y & ~called], axis=1)
        )

    @cached_property
    def order(self) -> tuple[IntArray, IntArray]:
        """The rows from the highest score down, and the last row of each distinct score."""
        score = self.predictions.score
        order = np.argsort(-score, kind="stable")
        return order, np.append(np.flatnonzero(np.diff(score[order])), len(order) - 1)

    @cached_property
    def is_tied(self) -> BoolArray:
        """Whether several rows have each distinct score."""
        _, ends = self.order
        return np.diff(ends, prepend=-1) > 1

    @property
    def has_tables(self) -> bool:
        """Whether tables of units take less time than sums over the rows.

        They grow with units times rows; both ways add whole numbers exactly.
        """
        return len(self.units) < min(len(self.codes) // 2, MOST_TABLED)

    @cached_property
    def ranks(self) -> tuple[FloatArray, FloatArray]:
        """Positives and negatives of each unit at or above each distinct score."""
        y = self.predictions.y
        (order, ends) = self.order
        tables = np.zeros((2, len(self.units), len(order)))
        tables[np.where(y[order], 0, 1), self.at[order], np.arange(len(order))] = 1.0
        positive, negative = np.cumsum(tables, axis=2)[:, :, ends]
        return positive, negative

    def at_or_above(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return weighted positives and negatives at or above each distinct score.

        Those of the last weights are kept: AP and AUC both ask for them.
        """
        if self._last_counts and self._last_counts[0][0] is weights:
            return self._last_counts[0][1]
        if self.has_tables:
            positive, negative = self.ranks
            unit_weights = weights[:, self.units]
            counts = (unit_weights @ positive, unit_weights @ negative)
        else:
            order, ends = self.order
            ordered_weights = weights[:, self.codes[order]]
            of_positives = ordered_weights * self.predictions.y[order]
            tp = np.cumsum(of_positives, axis=1)[:, ends]
            counts = (tp, np.cumsum(ordered_weights, axis=1)[:, ends] - tp)
        self._last_counts[:] = [(weights, counts)]
        return counts

    @cached_property
    def _last_counts(
        self,
    ) -> list[tuple[FloatArray, tuple[FloatArray, FloatArray]]]:
        """The last weights with their `at_or_above`, if there were any."""
        return []

    def _drawn_in_ties(self, weights: FloatArray) -> FloatArray:
        """Return how many rows of each tied score have a weight."""
        order, ends = self.order
        if self.has_tables:
            positive, negative = self.ranks
            rows = np.diff(positive + negative, axis=1, prepend=0.0)[:, self.is_tied]
            is_drawn = weights[:, self.units] > 0
            return np.asarray(is_drawn.astype(np.float64) @ rows)
        is_drawn = weights[:, self.codes[order]] > 0
        n_drawn = np.cumsum(is_drawn, axis=1, dtype=np.float64)[:, ends]
        return np.diff(n_drawn, axis=1, prepend=0.0)[:, self.is_tied]

    def average_precision(self, weights: FloatArray) -> FloatArray:
        """Return the mean precision at positive clips: the mean over all orders within ties."""
        tp, fp = self.at_or_above(weights)
        steps = np.diff(tp, axis=1, prepend=0.0)
        total = tp + fp
        areas = steps * divide(tp, total, 0.0)
        tied = self.is_tied
        if tied.any():
            sizes = np.diff(total, axis=1, prepend=0.0)[:, tied]
            areas[:, tied] = precision_of_ties(
                steps[:, tied],
                sizes,
                self._drawn_in_ties(weights),
                tp[:, tied] - steps[:, tied],
                total[:, tied] - sizes,
            )
        return divide(areas.sum(axis=1), tp[:, -1])

    def pairs(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the pairs of both classes: ranked correctly, where a tie counts 0.5, and all."""
        tp, fp = self.at_or_above(weights)
        steps = np.diff(tp, axis=1, prepend=0.0)
        won = (np.diff(fp, axis=1, prepend=0.0) * (tp - steps / 2)).sum(axis=1)
        return won, tp[:, -1] * fp[:, -1]

    @cached_property
    def squared_errors(self) -> FloatArray:
        """The sum of the squared errors of each unit, in one column."""
        p = self.predictions
        return self._by_unit((p.score - p.y) ** 2)

    def metrics(self, weights: FloatArray, names: Sequence[str]) -> Values:
        """Return some metrics under each row of weights."""
        values: Values = {}
        unit_weights = weights[:, self.units]
        of_decisions = decision_metrics(names)
        if of_decisions:
            counts = Confusion(*(unit_weights @ self.outcomes).T)
            values = {name: metric(counts) for name, metric in of_decisions.items()}
        if "ap" in names:
            values["ap"] = self.average_precision(weights)
        if "auc" in names:
            values["auc"] = divide(*self.pairs(weights))
        if BRIER in names:
            errors = (unit_weights @ self.squared_errors)[:, 0]
            values[BRIER] = divide(errors, self.drawn(weights))
        return {name: values[name] for name in names}

    def within_units(self, names: Sequence[str]) -> Values:
        """Return some metrics within each unit, to the bits of weights that draw it alone."""
        values: Values = {}
        of_decisions = decision_metrics(names)
        if of_decisions:
            counts = Confusion(*self.outcomes.T)
            values = {name: metric(counts) for name, metric in of_decisions.items()}
        if "ap" in names or "auc" in names:
            ap, won, pairs = self.orders_within_units()
            values |= {"ap": ap, "auc": divide(won, pairs)}
        if BRIER in names:
            values[BRIER] = divide(self.squared_errors[:, 0], self.sizes)
        return {name: values[name] for name in names}

    def orders_within_units(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the average precision and the `pairs` of each unit alone, from its own rows."""
        order, ends = self.order
        step_of_row = np.searchsorted(ends, np.arange(len(order)))
        n_positive = self._by_unit(self.predictions.y)[:, 0]
        pairs = n_positive * (self.sizes - n_positive)
        area = np.zeros(len(self.units))
        won = np.zeros(len(self.units))
        by_unit = np.argsort(self.at[order], kind="stable")
        bounds = np.append(0, np.cumsum(self.sizes)).astype(np.intp)
        n_together = max(1, BLOCK_NUMBERS // len(ends))
        for start in range(0, len(self.units), n_together):
            stop = min(start + n_together, len(self.units))
            # Sums run over the steps of all units, as with weights: zeros change their last bits.
            areas = np.zeros((stop - start, len(ends)))
            for unit in range(start, stop):
                rows = by_unit[bounds[unit] : bounds[unit + 1]]
                steps, row_steps = np.unique(step_of_row[rows], return_inverse=True)
                is_positive = self.predictions.y[order[rows]]
                ones = np.bincount(row_steps, weights=is_positive).astype(np.float64)
                zeros = np.bincount(row_steps, weights=~is_positive).astype(np.float64)
                tp = np.cumsum(ones)
                fp = np.cumsum(zeros)
                of_steps = ones * (tp / (tp + fp))
                tied = self.is_tied[steps]
                sizes = ones + zeros
                of_steps[tied] = precision_of_ties(
                    ones[tied],
                    sizes[tied],
                    sizes[tied],
                    (tp - ones)[tied],
                    (tp + fp - sizes)[tied],
                )
                areas[unit - start, steps] = of_steps
                won[unit] = (zeros * (tp - ones / 2)).sum()
            area[start:stop] = areas.sum(axis=1)
        return divide(area, n_positive), won, pairs

    @cached_property
    def sizes(self) -> FloatArray:
        """The number of rows of each unit."""
        return self._by_unit(np.ones(len(self.codes)))[:, 0]

    def _by_unit(self, values: NDArray[Any]) -> FloatArray:
        """Return sums over the rows of each unit, a column for each column of values."""
        columns = values.reshape(len(values), -1).astype(np.float64)
        summed = np.zeros((len(self.units), columns.shape[1]))
        np.add.at(summed, self.at, columns)
        return summed


def mean_over_folds(
    folds: Sequence[GroupedStats], names: Sequence[str], weights: FloatArray
) -> Values:
    """Return each metric averaged over folds, weighted by the drawn share of each fold."""
    drawn = [fold.drawn(weights) / len(fold.codes) for fold in folds]
    values_of_folds = []
    for fold in folds:
        if len(fold.units) > 1:
            values = fold.metrics(weights, names)
        else:  # The metrics of a single unit do not depend on its weight.
            once = np.zeros((1, weights.shape[1]))
            once[0, fold.units] = 1.0
            at_once = fold.metrics(once, names)
            values = {
                name: np.repeat(value, len(weights)) for name, value in at_once.items()
            }
        values_of_folds.append(values)
    means = {}
    for name in names:
        by_fold = [values[name] for values in values_of_folds]
        means[name] = weighted_mean(by_fold, drawn)
    return means


def means_within_units(
    folds: Sequence[GroupedStats], names: Sequence[str], n_units: int
) -> Values:
    """Return `mean_over_folds` within each of `n_units` units."""
    totals = {name: np.zeros(n_units) for name in names}
    weights = {name: np.zeros(n_units) for name in names}
    for fold in folds:
        shares = fold.sizes / len(fold.codes)
        for name, values in fold.within_units(names).items():
            is_finite = np.isfinite(values)
            units = fold.units[is_finite]
            totals[name][units] += shares[is_finite] * values[is_finite]
            weights[name][units] += shares[is_finite]
    return {name: divide(totals[name], weights[name]) for name in names}


def auc_within_units(folds: Sequence[GroupedStats], n_units: int) -> FloatArray:
    """Return `auc_within` within each of `n_units` units."""
    won = np.zeros(n_units)
    pairs = np.zeros(n_units)
    for fold in folds:
        _, won_in_fold, all_pairs = fold.orders_within_units()
        won[fold.units] += divide(won_in_fold, fold.sizes, 0.0)
        pairs[fold.units] += divide(all_pairs, fold.sizes, 0.0)
    return divide(won, pairs)


def weighted_mean(
    values: Sequence[FloatArray], weights: Sequence[FloatArray]
) -> FloatArray:
    """Return the weighted mean of values, entry by entry, without those that are not finite."""
    total = np.zeros_like(weights[0])
    weight = np.zeros_like(weights[0])
    for value, weight_of_value in zip(values, weights, strict=True):
        counts = np.where(np.isfinite(value), weight_of_value, 0.0)
        total += counts * np.where(counts > 0, value, 0.0)
        weight += counts
    return divide(total, weight)


def auc_within(folds: Sequence[GroupedStats], weights: FloatArray) -> FloatArray:
    """Return the AUC over pairs of clips of the same fold, which one model scored.

    Pooled over folds of whole films, AUC compares scores of models that were trained on different
    shares of positives; a film with many positives is scored by a model trained on fewer, so on
    noise the AUC falls below 0.5. Here the pairs of each fold are weighted by its number of clips
    (van Elteren's weights), so that a film drawn twice counts twice.
    """
    won = np.zeros(len(weights))
    pairs = np.zeros(len(weights))
    for fold in folds:
        won_in_fold, all_pairs = fold.pairs(weights)
        drawn = fold.drawn(weights)
        won += divide(won_in_fold, drawn, 0.0)
        pairs += divide(all_pairs, drawn, 0.0)
    return divide(won, pairs)
