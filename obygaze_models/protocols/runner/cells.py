"""The tests of a cell, and its metrics: by fold, over all folds, by film, under resampling.

The value of a cell depends on how its folds test. Where each clip is tested once,
decisions are pooled over folds; AUC compares clips within folds only and AP is averaged over folds,
because scores of different fits are on different scales. Where clips are tested several times
(runs that share a test fold), everything is averaged over runs. Resampling draws whole films and
computes the same value again.
"""

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.bootstrap import BLOCK, Statistics, draw, reuse_inflation
from obygaze_models.evaluation.leakage import Leak
from obygaze_models.evaluation.metrics import (
    MARGIN_METRICS,
    METRICS,
    RANKING_METRICS,
    Confusion,
    GroupedStats,
    Values,
    auc_within,
    auc_within_units,
    decision_metrics,
    divide,
    evaluate,
    mean_over_folds,
    means_within_units,
    weighted_mean,
)
from obygaze_models.evaluation.predictions import FloatArray, Predictions
from obygaze_models.models.baselines import random_ap
from obygaze_models.models.registry import UNTRAINED
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.results.cells import SkippedFold

K = TypeVar("K")
COLUMNS = (
    "clip_id",
    "movie_id",
    "task",
    "train",
    "test",
    "model",
    "feature",
    "fold",
    "seed",
    "y",
    "score",
    "decision",
)
TUNED = ("f1_binary", "f1_weighted", "f1_macro")


@dataclass(frozen=True, eq=False)
class TestedFold:
    """The test of one fit of one fold: the test clips, their truth and scores.

    `tuned` is the threshold that other clips chose; `chosen` are settings and facts of the fit.
    `inner_ap` is the mean average precision of training clips by fits without them; None where no
    such fit has clips of both classes.
    """

    fold: str
    seed: int
    rows: NDArray[np.intp]
    predictions: Predictions
    n_train: int
    n_validation: int
    leak: Leak
    are_probabilities: bool = True
    tuned: float | None = None
    chosen: Mapping[str, Any] = field(default_factory=dict)
    inner_ap: float | None = None

    def values(self, further: Sequence[str] = ()) -> dict[str, float]:
        """Return every metric of this fold that is defined for its scores, and further ones."""
        metrics = METRICS if self.are_probabilities else MARGIN_METRICS
        return evaluate(self.predictions, (*metrics, *further))


@dataclass(frozen=True, eq=False)
class Cell:
    """One model, trained for one task and tested on one: all of its folds."""

    train: str
    test: str
    model: str
    feature: str
    tested: Sequence[TestedFold]
    skipped: Sequence[SkippedFold] = ()
    averaged: bool = False  # over folds; else pooled
    shares_films: bool = False  # see Schedule.shares_films
    share: float | None = None  # a closed form: this share is called positive at random
    further_metrics: Sequence[str] = ()  # of own code

    @cached_property
    def universe(self) -> NDArray[np.intp]:
        """Every clip that was tested, once."""
        return np.unique(np.concatenate([t.rows for t in self.tested]))

    @cached_property
    def y(self) -> NDArray[np.bool_]:
        """The truth of each clip of the universe."""
        truth = np.zeros(len(self.universe), dtype=np.bool_)
        for t in self.tested:
            truth[np.searchsorted(self.universe, t.rows)] = t.predictions.y
        return truth

    @cached_property
    def seeds(self) -> list[int]:
        """The seeds, in order."""
        return sorted({t.seed for t in self.tested})

    @cached_property
    def n_test_sets(self) -> int:
        """The number of sets of test clips; models of one set were fitted on the others."""
        return len({t.rows.tobytes() for t in self.tested})

    @property
    def inflation(self) -> float:
        """The factor of the variance: clips of one test set trained the models of the others.

        If test sets share films, or a single fit knows films of its test clips, no factor is right:
        it is infinite, and there is no interval. Runs that share one test set are trained on other
        clips of its films.
        """
        if self.model in UNTRAINED:
            return 1
        if self.shares_films:
            return math.inf
        if self.n_test_sets > 1:
            return reuse_inflation(self.n_test_sets)
        if not self.averaged:
            return 1
        most_clips = max(t.n_train + t.n_validation for t in self.tested)
        return 1 + len(self.universe) / most_clips

    def first_seeds(self, n: int) -> Self:
        """Return the cell of the first n seeds alone."""
        seeds = self.seeds[:n]
        return replace(self, tested=[t for t in self.tested if t.seed in seeds])

    def without(self, rows: NDArray[np.intp]) -> Self:
        """Return the cell without some test clips, and without the folds that test no other."""
        tested = []
        for t in self.tested:
            stays = ~np.isin(t.rows, rows)
            if not stays.any():
                continue
            predictions = t.predictions.take(stays)
            tested.append(replace(t, rows=t.rows[stays], predictions=predictions))
        return replace(self, tested=tested)

    def statistics(
        self,
        units: NDArray[Any],
        seeds: Sequence[int] | None = None,
        *,
        tuned: bool = False,
        only: Sequence[str] | None = None,
    ) -> Statistics:
        """Return the value of every metric (or `only` some) as a function of the weights of units.

        `units` names the unit (such as the film) of each clip of the universe; weights have a
        column for each distinct name, in order.
        """
        codes = np.unique(units, return_inverse=True)[1].astype(np.intp)
        metrics = only or (TUNED if tuned else self._metrics)
        folds = self._folds(codes, seeds, tuned=tuned)
        if self.share is not None:
            return self._expected([fold for _, fold in folds], codes, self.share)
        if self.averaged:
            return partial(mean_over_folds, [fold for _, fold in folds], metrics)
        return partial(_pooled, _runs(folds), metrics)

    @property
    def _metrics(self) -> Sequence[str]:
        """The metrics that are defined for the scores of all folds."""
        every = all(t.are_probabilities for t in self.tested)
        metrics = METRICS if every else MARGIN_METRICS
        return (*metrics, *self.further_metrics)

    def _folds(
        self,
        codes: NDArray[np.intp],
        seeds: Sequence[int] | None = None,
        *,
        tuned: bool = False,
    ) -> list[tuple[int, GroupedStats]]:
        """Return each test with its seed; `codes` is the unit of each clip of the universe."""
        folds = []
        for t in self.tested:
            if seeds is not None and t.seed not in seeds:
                continue
            p = t.predictions
            if tuned and t.tuned is not None:
                p = Predictions.of(p.y, p.score, t.tuned)
            own_codes = codes[np.searchsorted(self.universe, t.rows)]
            folds.append((t.seed, GroupedStats(p, own_codes)))
        return folds

    def draws(
        self,
        groups: NDArray[np.str_],
        metric: str,
        n_replicates: int,
        seed: tuple[int, ...],
    ) -> FloatArray:
        """Return the value of a metric in each replicate; films are drawn alike for all cells."""
        key = (metric, n_replicates, seed)
        if key not in self._known:
            films = groups[self.universe]
            codes = np.arange(len(np.unique(films)))
            statistics = self.statistics(films, only=[metric])
            replicates = draw(statistics, codes, n_replicates, seed)
            self._known[key] = replicates[metric]
        return self._known[key]

    def by_film(self, groups: NDArray[np.str_], metric: str) -> FloatArray:
        """Return a metric within each film, as `by_group`."""
        if metric not in self._known:
            _, values = self.by_group(groups, [metric])
            self._known[metric] = values[metric]
        return self._known[metric]

    @cached_property
    def _known(self) -> dict[Any, FloatArray]:
        """What several comparisons of this cell need."""
        return {}

    def _expected(
        self, folds: Sequence[GroupedStats], codes: NDArray[np.intp], share: float
    ) -> Statistics:
        """Return the closed form, pooled or averaged over folds like the other cells."""
        n_units = int(codes.max()) + 1
        further = self.further_metrics
        pooled = expected_random(self.y, codes, n_units, share, further)
        by_fold = []
        for fold in folds:
            y = fold.predictions.y
            by_fold.append(expected_random(y, fold.codes, n_units, share, further))

        def compute(weights: FloatArray) -> Values:
            values = pooled(weights)
            parts = [part(weights) for part in by_fold]
            names = list(values) if self.averaged else ["ap"]
            for name in names:
                drawn = [fold.drawn(weights) / len(fold.codes) for fold in folds]
                values[name] = weighted_mean([part[name] for part in parts], drawn)
            return values

        return compute

    def values(
        self, seeds: Sequence[int] | None = None, *, tuned: bool = False
    ) -> dict[str, float]:
        """Return the value of every metric on all test clips, of all seeds or some."""
        statistics = self.statistics(np.zeros(len(self.universe)), seeds, tuned=tuned)
        return _at_weight_one(statistics)

    @cached_property
    def value(self) -> dict[str, float]:
        """The value of every metric on all test clips."""
        return self.values()

    @cached_property
    def predictions(self) -> Predictions:
        """The predictions of all folds and seeds, one after the other."""
        return Predictions.join([t.predictions for t in self.tested])

    @cached_property
    def mean_scores(self) -> FloatArray:
        """The score of each clip of the universe, averaged over all fits that tested it."""
        total = np.zeros(len(self.universe))
        times = np.zeros(len(self.universe))
        for t in self.tested:
            at = np.searchsorted(self.universe, t.rows)
            total[at] += t.predictions.score
            times[at] += 1
        return np.asarray(total / times)

    def by_group(
        self, groups: NDArray[np.str_], only: Sequence[str] | None = None
    ) -> tuple[list[str], Values]:
        """Return the films, and each metric within each film, NaN where it is not defined."""
        units = groups[self.universe]
        names, codes = np.unique(units, return_inverse=True)
        values = self._within_units(codes.astype(np.intp), only)
        if values is None:
            values = self._drawn_alone(units, len(names), only)
        without = np.bincount(codes, weights=self.y, minlength=len(names)) == 0
        for name in ("f1_binary", "recall"):
            if name in values:
                values[name] = np.where(without, np.nan, values[name])
        return [str(name) for name in names], values

    def _drawn_alone(
        self, units: NDArray[Any], n_units: int, only: Sequence[str] | None
    ) -> Values:
        """Return each metric within each unit, by weights that draw one unit alone."""
        statistics = self.statistics(units, only=only)
        # Blocks of units limit the memory: a whole table has units x clips numbers.
        step = max(1, BLOCK // max(n_units, len(units)))
        blocks = []
        for start in range(0, n_units, step):
            drawn = np.arange(start, min(start + step, n_units))
            weights = np.zeros((len(drawn), n_units))
            weights[np.arange(len(drawn)), drawn] = 1.0
            blocks.append(statistics(weights))
        values = {}
        for name in blocks[0]:
            values[name] = np.concatenate([block[name] for block in blocks])
        return values

    def _within_units(
        self, codes: NDArray[np.intp], only: Sequence[str] | None
    ) -> Values | None:
        """Return each metric within each unit, to the bits of `statistics` with one unit drawn.

        None where a run tests only some of the units, and for a closed form.
        """
        metrics = list(only or self._metrics)
        n_units = int(codes.max()) + 1
        folds = self._folds(codes)
        if self.share is not None:
            return None
        if self.averaged:
            return means_within_units([fold for _, fold in folds], metrics, n_units)
        together = [name for name in metrics if name not in RANKING_METRICS]
        of_runs = []
        for joined, run_folds in _runs(folds):
            if len(joined.units) < n_units:
                return None
            values = joined.within_units(together)
            if "ap" in metrics:
                values |= means_within_units(run_folds, ["ap"], n_units)
            if "auc" in metrics:
                values["auc"] = auc_within_units(run_folds, n_units)
            of_runs.append(values)
        return _mean_of_runs(of_runs, metrics)

    def means(self, metric: str, key: Callable[[TestedFold], K]) -> dict[K, float]:
        """Return the mean of a metric over the tests that have the same key, such as a fold."""
        by_key: dict[K, list[float]] = {}
        for t, values in zip(self.tested, self.fold_values, strict=True):
            by_key.setdefault(key(t), []).append(values[metric])
        return {test_key: float(np.mean(values)) for test_key, values in by_key.items()}

    @cached_property
    def fold_values(self) -> list[dict[str, float]]:
        """Every metric of each test, by the closed form if there is one."""
        if self.share is None:
            return [t.values(self.further_metrics) for t in self.tested]
        values_of_tests = []
        for t in self.tested:
            one_unit = np.zeros(len(t.rows), dtype=np.intp)
            expected = expected_random(
                t.predictions.y, one_unit, 1, self.share, self.further_metrics
            )
            values_of_tests.append(_at_weight_one(expected))
        return values_of_tests


def _at_weight_one(statistics: Statistics) -> dict[str, float]:
    """Return each metric of all clips, which are one unit, each drawn once."""
    values = statistics(np.ones((1, 1)))
    return {name: float(drawn[0]) for name, drawn in values.items()}


def _mean_of_runs(of_runs: Sequence[Values], names: Sequence[str]) -> Values:
    """Return the mean of each metric over runs."""
    means = {}
    for name in names:
        means[name] = np.mean([values[name] for values in of_runs], axis=0)
    return means


def expected_random(
    y: NDArray[np.bool_],
    codes: NDArray[np.intp],
    n_units: int,
    share: float,
    further_metrics: Sequence[str] = (),
) -> Statistics:
    """Return the expected metrics of calling a random share positive, under weights of units.

    A clip that is drawn twice has one rank, so the average precision is that of the distinct ones.
    Metrics of own code are, as F1, those of the expected counts.
    """
    size = np.bincount(codes, minlength=n_units)
    positive = np.bincount(codes, weights=y, minlength=n_units)

    def f1(f: FloatArray, share: float) -> FloatArray:
        return np.where(f > 0, divide(2 * f * share, f + share), 0.0)

    def compute(weights: FloatArray) -> Values:
        f = divide(weights @ positive, weights @ size)
        ones = f1(f, share)
        zeros = f1(1 - f, 1 - share)
        distinct = np.maximum((weights > 0) @ size, 1).astype(np.float64)
        counts = Confusion(
            tp=f * share,
            fp=(1 - f) * share,
            fn=f * (1 - share),
            tn=(1 - f) * (1 - share),
        )
        further = decision_metrics(further_metrics)
        return {
            "f1_binary": ones,
            "f1_weighted": f * ones + (1 - f) * zeros,
            "f1_macro": (ones + zeros) / 2,
            "precision": f,
            "recall": np.where(f > 0, share, 0.0),
            "accuracy": f * share + (1 - f) * (1 - share),
            "prevalence": f,
            "share_positive": np.where(np.isnan(f), np.nan, share),
            "ap": random_ap(f, distinct),
            "auc": np.where((f > 0) & (f < 1), 0.5, np.nan),
            **{name: metric(counts) for name, metric in further.items()},
        }

    return compute


def _runs(
    folds: Sequence[tuple[int, GroupedStats]],
) -> list[tuple[GroupedStats, list[GroupedStats]]]:
    """Return the tests of each seed: joined, and one by one."""
    by_seed: dict[int, list[GroupedStats]] = {}
    for seed, fold in folds:
        by_seed.setdefault(seed, []).append(fold)
    runs = []
    for run_folds in by_seed.values():
        predictions = Predictions.join([fold.predictions for fold in run_folds])
        codes = np.concatenate([fold.codes for fold in run_folds])
        runs.append((GroupedStats(predictions, codes), run_folds))
    return runs


def _pooled(
    runs: Sequence[tuple[GroupedStats, Sequence[GroupedStats]]],
    names: Sequence[str],
    weights: FloatArray,
) -> Values:
    """Pool decisions over the folds of a seed, rank within folds, and average over seeds."""
    together = [name for name in names if name not in RANKING_METRICS]
    of_runs = []
    for joined, folds in runs:
        values = joined.metrics(weights, together)
        if "ap" in names:
            values |= mean_over_folds(folds, ["ap"], weights)
        if "auc" in names:
            values["auc"] = auc_within(folds, weights)
        of_runs.append(values)
    return _mean_of_runs(of_runs, names)


def predictions_csv(cells: Sequence[Cell], table: ClipTable) -> bytes:
    """Return predictions.csv: every test of every clip, without baselines in closed form."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for cell in cells:
        if cell.share is not None:
            continue
        of_cell = (cell.test, cell.train, cell.test, cell.model, cell.feature)
        for t in cell.tested:
            p = t.predictions
            values = (
                t.rows.tolist(),
                p.y.tolist(),
                p.score.tolist(),
                p.decision.tolist(),
            )
            for row, y, score, decision in zip(*values, strict=True):
                clip = table.clips[row]
                fold = (t.fold, t.seed, int(y), repr(score), int(decision))
                writer.writerow((clip.clip_id, clip.movie_id, *of_cell, *fold))
    return stream.getvalue().encode("utf-8")
