"""Judges a cell: each fold, the whole with its intervals, each film; and compares two cells.

What the value of a cell is depends on how its folds tested. Where each clip was tested once,
decisions are pooled over folds; AUC compares clips within folds only and AP is averaged over folds,
because scores of different fits are on different scales. Where clips were tested several times
(runs that share a test fold), everything is averaged over runs. Resampling draws whole films and
computes the same value again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.leakage import Leak
from obygaze_models.evaluation.metrics import MARGIN_METRICS, METRICS, evaluate, replicate
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.evaluation.thresholds import tune_threshold

Floats = NDArray[np.float64]
Values = dict[str, Floats]
Statistics = Callable[[Floats], Values]
TUNED = ("f1_binary", "f1_weighted", "f1_macro")
WITHIN = "auc_within"
PROBABILITY_NAMES = tuple(name for name in METRICS if name != WITHIN)
MARGIN_NAMES = tuple(name for name in MARGIN_METRICS if name != WITHIN)


@dataclass(frozen=True, eq=False)
class Tested:
    """One fit of one fold: the clips it was tested on, their truth and scores."""

    fold: str
    seed: int
    rows: NDArray[np.intp]
    predictions: Predictions
    n_train: int
    n_validation: int
    leak: Leak
    are_probabilities: bool = True
    tuned: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The metrics that make sense here."""
        return PROBABILITY_NAMES if self.are_probabilities else MARGIN_NAMES

    @cached_property
    def values(self) -> dict[str, float]:
        """Every metric of this fold."""
        return evaluate(self.predictions, self.names)

    @cached_property
    def at_tuned(self) -> Predictions | None:
        """The same scores, decided at the threshold that validation clips chose."""
        if self.tuned is None:
            return None
        return Predictions.of(self.predictions.y, self.predictions.score, self.tuned)


@dataclass(frozen=True, eq=False)
class Cell:
    """One model, trained for one task and tested on one: all of its folds."""

    task: str
    train: str
    test: str
    model: str
    feature: str
    tested: Sequence[Tested]
    skipped: Sequence[Mapping[str, str]] = ()
    expected: Statistics | None = None

    @cached_property
    def universe(self) -> NDArray[np.intp]:
        """Every clip that was tested, once."""
        return np.unique(np.concatenate([t.rows for t in self.tested]))

    @cached_property
    def y(self) -> NDArray[np.bool_]:
        """The truth of the universe."""
        truth = np.zeros(len(self.universe), dtype=np.bool_)
        for t in self.tested:
            truth[np.searchsorted(self.universe, t.rows)] = t.predictions.y
        return truth

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The metrics that every fold has."""
        every = all(t.are_probabilities for t in self.tested)
        return PROBABILITY_NAMES if every else MARGIN_NAMES

    @cached_property
    def seeds(self) -> list[int]:
        """The seeds, in order."""
        return sorted({t.seed for t in self.tested})

    @cached_property
    def is_repeated(self) -> bool:
        """Whether some clip was tested by more than one fold of a seed."""
        n_tests = sum(len(t.rows) for t in self.tested if t.seed == self.seeds[0])
        return n_tests > len(self.universe)

    def statistics(self, seeds: Sequence[int] | None = None, *, tuned: bool = False) -> Statistics:
        """The value of every metric as a function of the weights of the universe's clips."""
        if self.expected is not None:
            return self.expected
        tests = [t for t in self.tested if seeds is None or t.seed in seeds]
        parts = [(np.searchsorted(self.universe, t.rows), _seen(t, tuned)) for t in tests]
        names = TUNED if tuned else self.names
        by_fold = names if self.is_repeated else [n for n in names if n == "ap"]
        pooled = (
            [] if self.is_repeated else [WITHIN if n == "auc" else n for n in names if n != "ap"]
        )
        wholes = [] if self.is_repeated else self._pooled(tests, tuned)

        def compute(weights: Floats) -> Values:
            values = _mean_over_folds(parts, by_fold, weights)
            for whole, rows in wholes:
                for name, found in replicate(whole, weights[:, rows], pooled).items():
                    name = "auc" if name == WITHIN else name
                    values[name] = values.get(name, 0.0) + found / len(wholes)
            empty = weights.sum(axis=1) == 0
            return {n: np.where(empty, np.nan, values[n]) for n in names}

        return compute

    def _pooled(
        self, tests: Sequence[Tested], tuned: bool
    ) -> list[tuple[Predictions, NDArray[np.intp]]]:
        """The predictions of all folds of a seed as one, for each seed."""
        wholes = []
        for seed in sorted({t.seed for t in tests}):
            own = [t for t in tests if t.seed == seed]
            seen = [_seen(t, tuned) for t in own]
            rows = np.concatenate([np.searchsorted(self.universe, t.rows) for t in own])
            joined = reduce(Predictions.beside, seen)
            wholes.append((joined, rows))
        return wholes

    @cached_property
    def value(self) -> dict[str, float]:
        """The value of every metric on the clips as they are."""
        found = self.statistics()(np.ones((1, len(self.universe))))
        return {name: float(values[0]) for name, values in found.items()}

    def by_group(self, groups: NDArray[np.str_]) -> tuple[list[str], Values]:
        """The value within each film; NaN where the metric has none there."""
        names, codes = np.unique(groups[self.universe], return_inverse=True)
        weights = (codes[None, :] == np.arange(len(names))[:, None]).astype(np.float64)
        values = self.statistics()(weights)
        without = weights @ self.y == 0
        for name in ("f1_binary", "recall"):
            if name in values:
                values[name] = np.where(without, np.nan, values[name])
        return [str(name) for name in names], values

    def fold_values(self, metric: str) -> dict[str, float]:
        """The metric in each fold, averaged over seeds."""
        if self.expected is not None:
            found: dict[str, list[float]] = {}
            for t in self.tested:
                weights = np.isin(self.universe, t.rows)[None, :].astype(np.float64)
                found.setdefault(t.fold, []).append(float(self.expected(weights)[metric][0]))
        else:
            found = {}
            for t in self.tested:
                found.setdefault(t.fold, []).append(t.values[metric])
        return {fold: float(np.mean(values)) for fold, values in found.items()}


def tune(y: NDArray[np.bool_], scores: Floats) -> float | None:
    """A threshold for weighted F1 on the clips that choose; None where they lack a class."""
    if not len(y) or y.all() or not y.any():
        return None
    found: float = tune_threshold(validation_y=y, validation_score=scores, metric="f1_binary")
    return found


def expected_random(y: NDArray[np.bool_], share: float = 0.5) -> Statistics:
    """What calling a random share positive scores in the long run, under any weights."""

    def compute(weights: Floats) -> Values:
        total = weights.sum(axis=1)
        f = np.divide(weights @ y, total, out=np.full(len(total), np.nan), where=total > 0)
        positive, negative = _blind(f, share), _blind(1 - f, 1 - share)
        return {
            "f1_binary": positive,
            "f1_weighted": f * positive + (1 - f) * negative,
            "f1_macro": (positive + negative) / 2,
            "precision": f,
            "recall": np.where(f > 0, share, 0.0),
            "accuracy": f * share + (1 - f) * (1 - share),
            "prevalence": f,
            "share_positive": np.where(np.isnan(f), np.nan, share),
            "ap": f,
            "auc": np.where((f > 0) & (f < 1), 0.5, np.nan),
        }

    return compute


def _blind(f: Floats, share: float) -> Floats:
    total = f + share
    return np.divide(2 * f * share, total, out=np.zeros_like(f), where=~(total <= 0))


def _seen(t: Tested, tuned: bool) -> Predictions:
    return t.at_tuned or t.predictions if tuned else t.predictions


def _mean_over_folds(
    parts: Sequence[tuple[NDArray[np.intp], Predictions]],
    names: Sequence[str],
    weights: Floats,
) -> Values:
    """Each metric averaged over folds; a fold counts by how much of it was drawn."""
    total = {name: np.zeros(len(weights)) for name in names}
    weight = {name: np.zeros(len(weights)) for name in names}
    for rows, predictions in parts if names else ():
        inside = weights[:, rows]
        drawn = inside.sum(axis=1) / len(rows)
        for name, values in replicate(predictions, inside, names).items():
            counts = np.where(np.isfinite(values), drawn, 0.0)
            total[name] += counts * np.where(counts > 0, values, 0.0)
            weight[name] += counts
    nothing = np.full(len(weights), np.nan)
    return {
        n: np.divide(total[n], weight[n], out=nothing.copy(), where=weight[n] > 0) for n in names
    }
