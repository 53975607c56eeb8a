"""Sums over clips, which every metric is a function of, for one row of weights or for thousands.

A resampling weights whole units (films or clips). The sums of each unit are computed once; each row
of weights has one entry for each unit, so that many resamplings are one product of matrices.

Tied scores say nothing about the order of their clips. AP is its mean over all orders within ties,
and a tied pair counts one half in AUC: so the same scores for all clips have the AP of a random
order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.predictions import (
    BoolArray,
    FloatArray,
    IntArray,
    Predictions,
)

# Units; of more, sums over the rows take less time than tables of units.
MOST_TABLED = 128


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

    It is the closed form of McSherry and Najork (2008). A clip that is drawn several times has
    one place. Where the clips of a tie have other weights than each other, each place has the mean.

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


# The two classes, by which clips are counted.
POSITIVE, NEGATIVE = range(2)


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

    def under(self, weights: FloatArray) -> "DrawnSums":
        """Return the sums under rows of weights of units."""
        return DrawnSums(self, weights)

    @cached_property
    def outcomes(self) -> FloatArray:
        """True and false positives, false and true negatives of each unit."""
        y = self.predictions.y
        called = self.predictions.decision.astype(np.float64)
        missed = 1 - called
        return self._by_unit(
            np.stack([y * called, ~y * called, y * missed, ~y * missed], axis=1)
        )

    @cached_property
    def is_of_class(self) -> FloatArray:
        """Whether each clip is positive, and whether it is negative: a row for each class."""
        y = self.predictions.y
        return np.stack([y, ~y]).astype(np.float64)

    @cached_property
    def order(self) -> tuple[IntArray, IntArray]:
        """The clips from the highest score down, and the last place of each distinct score."""
        score = self.predictions.score
        order = np.argsort(-score, kind="stable")
        return order, np.append(np.flatnonzero(np.diff(score[order])), len(order) - 1)

    @cached_property
    def is_tied(self) -> BoolArray:
        """Whether several clips have each distinct score."""
        _, ends = self.order
        return np.diff(ends, prepend=-1) > 1

    @property
    def has_tables(self) -> bool:
        """Whether tables of units take less time than sums over the rows.

        They grow with units times rows; both ways add whole numbers exactly.
        """
        return len(self.units) < min(len(self.codes) // 2, MOST_TABLED)

    @cached_property
    def known_ranks(self) -> dict[int, FloatArray]:
        """What `ranks` has returned so far."""
        return {}

    def ranks(self, of_class: int) -> FloatArray:
        """Return how many clips of a class each unit has at or above each distinct score."""
        if of_class not in self.known_ranks:
            order, ends = self.order
            table = np.zeros((len(self.units), len(order)))
            table[self.at[order], np.arange(len(order))] = self.is_of_class[
                of_class, order
            ]
            self.known_ranks[of_class] = np.cumsum(table, axis=1)[:, ends]
        return self.known_ranks[of_class]

    @cached_property
    def squared_errors(self) -> FloatArray:
        """The sum of the squared errors of each unit, in one column."""
        p = self.predictions
        return self._by_unit((p.score - p.y) ** 2)

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


@dataclass(frozen=True, eq=False)
class DrawnSums:
    """Sums under rows of weights of units."""

    stats: GroupedStats
    weights: FloatArray

    @cached_property
    def unit_weights(self) -> FloatArray:
        """The weights of the units that have rows here."""
        return self.weights[:, self.stats.units]

    @cached_property
    def n(self) -> FloatArray:
        """The number of clips."""
        return np.asarray(self.unit_weights @ self.stats.sizes)

    @cached_property
    def counts(self) -> Confusion:
        """The counts of decisions."""
        return Confusion(*(self.unit_weights @ self.stats.outcomes).T)

    @cached_property
    def squared_errors(self) -> FloatArray:
        """The sum of the squared errors of probabilities."""
        return np.asarray((self.unit_weights @ self.stats.squared_errors)[:, 0])

    @cached_property
    def at_or_above(self) -> tuple[FloatArray, FloatArray]:
        """Weighted positives and negatives at or above each distinct score."""
        tp = self._sums_by_rank(self.weights, POSITIVE)
        return tp, self._sums_by_rank(self.weights, NEGATIVE)

    def _sums_by_rank(self, weights: FloatArray, of_class: int) -> FloatArray:
        """Return the weighted sums over the clips of a class at or above each distinct score."""
        stats = self.stats
        if stats.has_tables:
            return np.asarray(weights[:, stats.units] @ stats.ranks(of_class))
        order, ends = stats.order
        weighted = weights[:, stats.codes[order]] * stats.is_of_class[of_class, order]
        return np.asarray(np.cumsum(weighted, axis=1)[:, ends])

    @cached_property
    def average_precision(self) -> FloatArray:
        """The mean precision at positive clips: the mean over all orders within ties."""
        tp, fp = self.at_or_above
        steps = np.diff(tp, axis=1, prepend=0.0)
        total = tp + fp
        areas = steps * divide(tp, total, 0.0)
        tied = self.stats.is_tied
        if tied.any():
            sizes = np.diff(total, axis=1, prepend=0.0)[:, tied]
            is_drawn = (self.weights > 0).astype(np.float64)
            n_drawn = self._sums_by_rank(is_drawn, POSITIVE)
            n_drawn = n_drawn + self._sums_by_rank(is_drawn, NEGATIVE)
            areas[:, tied] = precision_of_ties(
                steps[:, tied],
                sizes,
                np.diff(n_drawn, axis=1, prepend=0.0)[:, tied],
                tp[:, tied] - steps[:, tied],
                total[:, tied] - sizes,
            )
        return divide(areas.sum(axis=1), tp[:, -1])

    @cached_property
    def pairs(self) -> tuple[FloatArray, FloatArray]:
        """The pairs of both classes: ranked correctly, where a tie counts 0.5, and all."""
        tp, fp = self.at_or_above
        steps = np.diff(tp, axis=1, prepend=0.0)
        won = (np.diff(fp, axis=1, prepend=0.0) * (tp - steps / 2)).sum(axis=1)
        return won, tp[:, -1] * fp[:, -1]


def mean_over_folds(
    folds: Sequence[DrawnSums], metric: Callable[[DrawnSums], FloatArray]
) -> FloatArray:
    """Return a metric averaged over folds, weighted by the drawn share of each fold."""
    drawn = [fold.n / len(fold.stats.codes) for fold in folds]
    by_fold = []
    for fold in folds:
        units = fold.stats.units
        if len(units) > 1:
            by_fold.append(metric(fold))
        else:  # The metrics of a single unit do not depend on its weight.
            once = np.zeros((1, fold.weights.shape[1]))
            once[0, units] = 1.0
            value = metric(fold.stats.under(once))
            by_fold.append(np.repeat(value, len(fold.weights)))
    return weighted_mean(by_fold, drawn)


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


def auc_over_folds(folds: Sequence[DrawnSums]) -> FloatArray:
    """Return the AUC over pairs of clips of the same fold, which one model scored.

    Pooled over folds of whole films, AUC compares scores of models that were trained on different
    shares of positives; a film with many positives is scored by a model trained on fewer, so on
    noise the AUC falls below 0.5. Here the pairs of each fold are weighted by its number of clips
    (van Elteren's weights), so that a film drawn twice counts twice.
    """
    won = np.zeros_like(folds[0].n)
    pairs = np.zeros_like(folds[0].n)
    for fold in folds:
        won_in_fold, all_pairs = fold.pairs
        won += divide(won_in_fold, fold.n, 0.0)
        pairs += divide(all_pairs, fold.n, 0.0)
    return divide(won, pairs)
