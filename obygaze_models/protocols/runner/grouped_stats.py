"""Predictions as sums by film (or clip), so that a thousand resamplings are one matrix product.

Every metric is a function of sums over clips, and a resampling weighs whole films. The sums of each
film are taken once; what `evaluation.metrics` computes from weights of clips follows from weights
of films, to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.calibration import N_BINS
from obygaze_models.evaluation.decisions import DECISION_METRICS, Confusion
from obygaze_models.evaluation.predictions import Predictions

Floats = NDArray[np.float64]
Values = dict[str, Floats]


@dataclass(frozen=True, eq=False)
class GroupedStats:
    """The predictions of one model by unit: `codes` numbers the unit (film, clip) of each row."""

    predictions: Predictions
    codes: NDArray[np.intp]

    @cached_property
    def units(self) -> NDArray[np.intp]:
        """The units that have rows here."""
        return np.unique(self.codes)

    @cached_property
    def at(self) -> NDArray[np.intp]:
        """The place of each row's unit in `units`."""
        return np.searchsorted(self.units, self.codes)

    def drawn(self, weights: Floats) -> Floats:
        """How much of these rows was drawn; 1 where each unit is drawn once."""
        return np.asarray(weights[:, self.units] @ self._by_unit(np.ones(len(self.codes)))[:, 0])

    @cached_property
    def outcomes(self) -> Floats:
        """True and false positives, false and true negatives of each unit."""
        y, said = self.predictions.y, self.predictions.decision
        return self._by_unit(np.stack([y & said, ~y & said, y & ~said, ~y & ~said], axis=1))

    def confusion(self, weights: Floats) -> Confusion:
        """The four outcomes under each row of weights."""
        return Confusion(*(weights[:, self.units] @ self.outcomes).T)

    @cached_property
    def order(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The rows from the highest score down, and where in them each distinct score ends."""
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
        """Weighted positives and negatives at or above each distinct score."""
        if len(self.units) < len(self.codes) // 2:
            positive, negative = (weights[:, self.units] @ table for table in self.ranks)
            return positive, negative
        # With hardly more rows than units a product of matrices is mostly zeros.
        order, ends = self.order
        own = weights[:, self.codes[order]]
        tp = np.cumsum(own * self.predictions.y[order], axis=1)[:, ends]
        return tp, np.cumsum(own, axis=1)[:, ends] - tp

    def order_metrics(self, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """Average precision, and pairs of a positive and a negative clip: won, and all."""
        tp, fp = self._at_or_above(weights)
        steps = np.diff(tp, axis=1, prepend=0.0)
        called = tp + fp
        precision = np.divide(tp, called, out=np.zeros_like(tp), where=called > 0)
        area = (steps * precision).sum(axis=1)
        won = (np.diff(fp, axis=1, prepend=0.0) * (tp - steps / 2)).sum(axis=1)
        return ratio(area, tp[:, -1]), won, tp[:, -1] * fp[:, -1]

    @cached_property
    def errors(self) -> dict[str, Floats]:
        """Squared error of each unit, and its gap of score and truth in each bin."""
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
        """Brier score and calibration errors under each row of weights."""
        own, total = weights[:, self.units], self.drawn(weights)
        return {
            name: ratio(np.abs(own @ table).sum(axis=1), total)
            for name, table in self.errors.items()
        }

    def metrics(self, weights: Floats, names: Sequence[str]) -> Values:
        """Any of the metrics of `evaluation.metrics`."""
        found: Values = {}
        decided = [name for name in names if name in DECISION_METRICS]
        if decided:
            counts = self.confusion(weights)
            found = {name: DECISION_METRICS[name](counts) for name in decided}
        if "ap" in names or "auc" in names:
            precision, won, pairs = self.order_metrics(weights)
            found |= {"ap": precision, "auc": ratio(won, pairs)}
        if "brier" in names:
            found |= self.calibration(weights)
        return {name: found[name] for name in names}

    def _by_unit(self, values: NDArray[np.generic]) -> Floats:
        """GroupedStats over the rows of each unit, a column for each column of values."""
        columns = values.reshape(len(values), -1).astype(np.float64)
        summed = np.zeros((len(self.units), columns.shape[1]))
        np.add.at(summed, self.at, columns)
        return summed


def mean_over_folds(folds: Sequence[GroupedStats], names: Sequence[str], weights: Floats) -> Values:
    """Each metric averaged over folds; a fold counts by how much of it was drawn."""
    drawn = [fold.drawn(weights) / len(fold.codes) for fold in folds]
    found = [_fold_metrics(fold, names, weights) for fold in folds]
    return {name: weighted_mean([one[name] for one in found], drawn) for name in names}


def _fold_metrics(fold: GroupedStats, names: Sequence[str], weights: Floats) -> Values:
    """The metrics of one fold; those of one film do not depend on how often it is drawn."""
    if len(fold.units) > 1:
        return fold.metrics(weights, names)
    once = np.zeros((1, weights.shape[1]))
    once[0, fold.units] = 1.0
    found = fold.metrics(once, names)
    return {name: np.repeat(values, len(weights)) for name, values in found.items()}


def weighted_mean(values: Sequence[Floats], weights: Sequence[Floats]) -> Floats:
    """The mean of what is defined, entry by entry."""
    total, weight = np.zeros_like(weights[0]), np.zeros_like(weights[0])
    for value, own in zip(values, weights, strict=True):
        counts = np.where(np.isfinite(value), own, 0.0)
        total += counts * np.where(counts > 0, value, 0.0)
        weight += counts
    return ratio(total, weight)


def auc_within(folds: Sequence[GroupedStats], weights: Floats) -> Floats:
    """Chance that a positive clip scores above a negative one of its fold, as `roc_auc_within`."""
    won, pairs = np.zeros(len(weights)), np.zeros(len(weights))
    for fold in folds:
        _, own, all_pairs = fold.order_metrics(weights)
        drawn = fold.drawn(weights)
        won += np.divide(own, drawn, out=np.zeros_like(own), where=drawn > 0)
        pairs += np.divide(all_pairs, drawn, out=np.zeros_like(own), where=drawn > 0)
    return ratio(won, pairs)


def ratio(top: Floats, bottom: Floats) -> Floats:
    """`top / bottom`, NaN where there is nothing to divide by."""
    nothing = np.full(np.shape(bottom), np.nan)
    return np.asarray(np.divide(top, bottom, out=nothing, where=bottom > 0))
