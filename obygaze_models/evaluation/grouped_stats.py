"""Metrics from sums by unit (a film or a clip), so that many resamplings are one matrix product.

Every metric is a function of sums over clips, and a resampling weights whole units. The sums of
each unit are computed once; each row of weights has one entry for each unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.arrays import divide
from obygaze_models.evaluation.decisions import DECISION_METRICS, Confusion
from obygaze_models.evaluation.predictions import Predictions

Floats = NDArray[np.float64]
Values = dict[str, Floats]

CALIBRATION_METRICS = ("brier", "ece", "ece_width")
N_BINS = 10


@dataclass(frozen=True, eq=False)
class GroupedStats:
    """The predictions of one model; `codes` is the number of each row's unit (film or clip)."""

    predictions: Predictions
    codes: NDArray[np.intp]

    @cached_property
    def units(self) -> NDArray[np.intp]:
        """The units that have rows here."""
        return np.unique(self.codes)

    @cached_property
    def at(self) -> NDArray[np.intp]:
        """The position of each row's unit in `units`."""
        return np.searchsorted(self.units, self.codes)

    def drawn(self, weights: Floats) -> Floats:
        """Return the summed weight of the rows under each row of weights."""
        return np.asarray(weights[:, self.units] @ self._by_unit(np.ones(len(self.codes)))[:, 0])

    @cached_property
    def outcomes(self) -> Floats:
        """True and false positives, false and true negatives of each unit."""
        y, said = self.predictions.y, self.predictions.decision
        return self._by_unit(np.stack([y & said, ~y & said, y & ~said, ~y & ~said], axis=1))

    def confusion(self, weights: Floats) -> Confusion:
        """Return the confusion counts under each row of weights."""
        return Confusion(*(weights[:, self.units] @ self.outcomes).T)

    @cached_property
    def order(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The rows from the highest score down, and the last row of each distinct score."""
        score = self.predictions.score
        order = np.argsort(-score, kind="stable")
        return order, np.append(np.flatnonzero(np.diff(score[order])), len(order) - 1)

    @cached_property
    def ranks(self) -> tuple[Floats, Floats]:
        """Positives and negatives of each unit at or above each distinct score."""
        y, (order, ends) = self.predictions.y, self.order
        tables = np.zeros((2, len(self.units), len(order)))
        tables[np.where(y[order], 0, 1), self.at[order], np.arange(len(order))] = 1.0
        positive, negative = np.cumsum(tables, axis=2)[:, :, ends]
        return positive, negative

    def _at_or_above(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return weighted positives and negatives at or above each distinct score."""
        if len(self.units) < len(self.codes) // 2:
            positive, negative = (weights[:, self.units] @ table for table in self.ranks)
            return positive, negative
        # With few rows per unit the tables of `ranks` are mostly zeros.
        order, ends = self.order
        own = weights[:, self.codes[order]]
        tp = np.cumsum(own * self.predictions.y[order], axis=1)[:, ends]
        return tp, np.cumsum(own, axis=1)[:, ends] - tp

    def order_metrics(self, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """Return average precision, and pairs of both classes: ranked correctly, and all.

        Average precision is the mean over the steps of recall; tied scores are one step, and a tied
        pair counts 0.5.
        """
        tp, fp = self._at_or_above(weights)
        steps = np.diff(tp, axis=1, prepend=0.0)
        area = (steps * divide(tp, tp + fp, 0.0)).sum(axis=1)
        won = (np.diff(fp, axis=1, prepend=0.0) * (tp - steps / 2)).sum(axis=1)
        return ratio(area, tp[:, -1]), won, tp[:, -1] * fp[:, -1]

    @cached_property
    def errors(self) -> dict[str, Floats]:
        """The squared error of each unit, and its sum of score minus label in each of ten bins.

        The bins of "ece" have equal numbers of clips (equal scores share a bin), those of
        "ece_width" equal widths, closed on the right.
        """
        p = self.predictions
        gap = p.score - p.y
        steps = np.arange(1, N_BINS) / N_BINS
        edges = {"ece": np.quantile(p.score, steps), "ece_width": steps}
        tables = {}
        for name, edge in edges.items():
            own = np.searchsorted(edge, p.score, side="left")
            tables[name] = self._by_unit(np.eye(N_BINS)[own] * gap[:, None])
        return {"brier": self._by_unit(gap**2), **tables}

    def calibration(self, weights: Floats) -> Values:
        """Return Brier score and expected calibration errors under each row of weights."""
        own, total = weights[:, self.units], self.drawn(weights)
        return {
            name: ratio(np.abs(own @ table).sum(axis=1), total)
            for name, table in self.errors.items()
        }

    def metrics(self, weights: Floats, names: Sequence[str]) -> Values:
        """Return metrics under each row of weights: any of `metrics.METRICS` but "auc_within"."""
        found: Values = {}
        decided = [name for name in names if name in DECISION_METRICS]
        if decided:
            counts = self.confusion(weights)
            found = {name: DECISION_METRICS[name](counts) for name in decided}
        if "ap" in names or "auc" in names:
            precision, won, pairs = self.order_metrics(weights)
            found |= {"ap": precision, "auc": ratio(won, pairs)}
        if not set(names).isdisjoint(CALIBRATION_METRICS):
            found |= self.calibration(weights)
        return {name: found[name] for name in names}

    def _by_unit(self, values: NDArray[np.generic]) -> Floats:
        """Return sums over the rows of each unit, a column for each column of values."""
        columns = values.reshape(len(values), -1).astype(np.float64)
        summed = np.zeros((len(self.units), columns.shape[1]))
        np.add.at(summed, self.at, columns)
        return summed


def mean_over_folds(folds: Sequence[GroupedStats], names: Sequence[str], weights: Floats) -> Values:
    """Return each metric averaged over folds, weighted by the drawn share of each fold."""
    drawn = [fold.drawn(weights) / len(fold.codes) for fold in folds]
    found = [_fold_metrics(fold, names, weights) for fold in folds]
    return {name: weighted_mean([one[name] for one in found], drawn) for name in names}


def _fold_metrics(fold: GroupedStats, names: Sequence[str], weights: Floats) -> Values:
    """Return the metrics of one fold; for a single unit they do not depend on its weight."""
    if len(fold.units) > 1:
        return fold.metrics(weights, names)
    once = np.zeros((1, weights.shape[1]))
    once[0, fold.units] = 1.0
    found = fold.metrics(once, names)
    return {name: np.repeat(values, len(weights)) for name, values in found.items()}


def weighted_mean(values: Sequence[Floats], weights: Sequence[Floats]) -> Floats:
    """Return the weighted mean of values, entry by entry, without those that are not finite."""
    total, weight = np.zeros_like(weights[0]), np.zeros_like(weights[0])
    for value, own in zip(values, weights, strict=True):
        counts = np.where(np.isfinite(value), own, 0.0)
        total += counts * np.where(counts > 0, value, 0.0)
        weight += counts
    return ratio(total, weight)


def auc_within(folds: Sequence[GroupedStats], weights: Floats) -> Floats:
    """Return the AUC over pairs of clips of the same fold, which one model scored.

    Pooled over folds of whole movies, AUC compares scores of models that were trained on different
    shares of positives; a movie with many positives is scored by a model trained on fewer, so on
    noise the AUC falls below 0.5. Here the pairs of each fold are weighted by its number of clips
    (van Elteren's weights), so that a movie drawn twice counts twice.
    """
    won, pairs = np.zeros(len(weights)), np.zeros(len(weights))
    for fold in folds:
        _, own, all_pairs = fold.order_metrics(weights)
        drawn = fold.drawn(weights)
        won += divide(own, drawn, 0.0)
        pairs += divide(all_pairs, drawn, 0.0)
    return ratio(won, pairs)


def ratio(top: Floats, bottom: Floats) -> Floats:
    """Return `top / bottom`, NaN where `bottom` is 0."""
    return divide(top, bottom, np.nan)
