"""The tests of a cell, and its metrics: over all folds, by film, under resampling.

A cell is one model on one store, trained for one task and tested on one. Where each clip is tested
once, decisions are pooled over folds; AUC compares clips within folds only, and AP is averaged over
folds, because scores of different fits are on different scales. Where clips are tested several
times (runs that share a test fold), everything is averaged over runs. Resampling draws whole films
and computes the same value again.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.bootstrap import (
    BLOCK,
    Statistics,
    groups_behind,
    reuse_inflation,
)
from obygaze_models.evaluation.grouped_stats import (
    GroupedStats,
    divide,
    mean_over_folds,
    mean_within_units,
    weighted_mean,
)
from obygaze_models.evaluation.leakage import Leak
from obygaze_models.evaluation.metrics import (
    BRIER,
    MARGIN_METRICS,
    METRICS,
    PREVALENCE,
    GroupCount,
    MetricValues,
    RandomOrder,
    evaluate,
    find_metric,
)
from obygaze_models.evaluation.predictions import FloatArray, IntArray, Predictions
from obygaze_models.runner.basis import (
    LEAKED,
    has_interval,
)
from obygaze_models.runner.features import CHOSEN
from obygaze_models.zoo.seen import UNSEEN

K = TypeVar("K")
RANDOM = "random"  # the baseline with values in closed form
RANDOM_SHARE = 0.5  # of the clips that it calls positive
# Why a fold has no test on the store that training films choose.
NOT_CHOSEN = "there are no scores of held-out training clips to compare the stores by"
TUNED = [metric.name for metric in METRICS.values() if metric.is_tuned]


def number_of_groups(groups: NDArray[np.str_]) -> int:
    """Return how many films, or groups of a column, clips have; 0 without films."""
    return len(np.unique(groups[groups != ""]))


@dataclass(frozen=True, eq=False)
class ScoredFold:
    """The test of one fit: the test clips (rows of the clip table), their classes and scores.

    Attributes:
        fold: The name of the fold.
        seed: The seed of the fit.
        rows: The clips.
        predictions: Their classes, scores and decisions.
        n_train: How many clips trained.
        n_validation: How many validated.
        leak: What the clips share with those that trained.
        gives_probabilities: Whether scores are probabilities.
        tuned: The threshold that training clips chose by scores of fits without them.
        chosen: Settings that were chosen, and facts of the fit.
        inner_ap: The mean average precision of training clips by fits without them.
        recalibrated: Probabilities by Platt's method, fitted on the same scores.
    """

    fold: str
    seed: int
    rows: IntArray
    predictions: Predictions
    n_train: int
    n_validation: int
    leak: Leak
    gives_probabilities: bool = True
    tuned: float | None = None
    chosen: Mapping[str, Any] = field(default_factory=dict)
    inner_ap: float | None = None
    recalibrated: FloatArray | None = None

    def only(self, stays: NDArray[np.bool_]) -> "ScoredFold":
        """Return the test of some of its clips."""
        recalibrated = None if self.recalibrated is None else self.recalibrated[stays]
        return replace(
            self,
            rows=self.rows[stays],
            predictions=self.predictions.take(stays),
            recalibrated=recalibrated,
        )


@dataclass(frozen=True, eq=False)
class Cell:
    """One model on one store, trained for one task and tested on one: the tests of all folds.

    Attributes:
        train: The training task.
        test: The test task.
        model: The name of the model or baseline.
        store: The name of the store; empty where a baseline holds for every store.
        is_model: Whether it is a model, and no baseline.
        is_trained: Whether its scores depend on the training clips.
        tested: The tests.
        skipped: The folds without a test, and why.
        skipped_films: The films of these folds, where folds are of whole films.
        is_averaged: Whether values are means over folds; else they are pooled.
        basis_of_folds: What trained models of its folds know of the tested films
            (`heldout.basis_of`).
        share: The share that is called positive at random, for values in closed form.
        further_metrics: Metrics of own code.
    """

    train: str
    test: str
    model: str
    store: str
    is_model: bool
    tested: Sequence[ScoredFold]
    skipped: Mapping[str, str] = field(default_factory=dict)
    skipped_films: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_averaged: bool = False
    basis_of_folds: str = UNSEEN
    share: float | None = None
    further_metrics: Sequence[str] = ()
    is_trained: bool = True

    @cached_property
    def clips(self) -> IntArray:
        """Every clip that was tested, once."""
        return np.unique(np.concatenate([t.rows for t in self.tested]))

    @cached_property
    def y(self) -> NDArray[np.bool_]:
        """The class of each of `clips`."""
        y = np.zeros(len(self.clips), dtype=np.bool_)
        for t in self.tested:
            y[np.searchsorted(self.clips, t.rows)] = t.predictions.y
        return y

    @cached_property
    def n_test_sets(self) -> int:
        """The number of sets of test clips; models of one set were fitted on the others."""
        return len({t.rows.tobytes() for t in self.tested})

    @property
    def basis(self) -> str:
        """What its value is of (`runner.basis`)."""
        if not self.is_trained:
            return UNSEEN
        if any(t.leak.leaked for t in self.tested):
            return LEAKED
        return self.basis_of_folds

    @property
    def inflation(self) -> float:
        """The factor of the variance: clips of one test set trained the models of the others.

        It is infinite where a value has no interval (`runner.basis`). Runs that share one test set,
        and a single run that trains on other clips of the tested films, have a factor by the sizes
        of both sides.
        """
        if not self.is_trained:
            return 1
        if not has_interval(self.basis):
            return math.inf
        if self.n_test_sets > 1:
            factor = reuse_inflation(self.n_test_sets)
            # Where folds divide films, other clips of each tested film trained as well.
            return factor if self.basis == UNSEEN else 2 * factor - 1
        if not self.is_averaged and self.basis == UNSEEN:
            return 1
        most_clips = max(t.n_train + t.n_validation for t in self.tested)
        return 1 + len(self.clips) / most_clips

    def groups_behind(self, films: NDArray[np.str_], metric: str) -> GroupCount:
        """Return how many films, of those of all clips, are behind AP or AUC."""
        if not number_of_groups(films):
            return GroupCount(0, 0)
        folds = [np.searchsorted(self.clips, t.rows) for t in self.tested]
        return groups_behind(metric, self.y, films[self.clips], folds)

    def only(self, clips: IntArray) -> "Cell":
        """Return the cell with some of its test clips, without the folds that test none of them."""
        if len(clips) == len(self.clips):
            return self
        tested = []
        for t in self.tested:
            stays = np.isin(t.rows, clips)
            if stays.any():
                tested.append(t.only(stays))
        return replace(self, tested=tested)

    def within(self, films: NDArray[np.str_]) -> "Cell":
        """Return the cell with a fold for each film of each of its folds."""
        tested = []
        for t in self.tested:
            films_of_fold = films[t.rows]
            for film in np.unique(films_of_fold):
                tested.append(t.only(films_of_fold == film))
        return replace(self, tested=tested)

    @property
    def metrics(self) -> Sequence[str]:
        """The metrics that are defined for the scores of all folds."""
        are_probabilities = all(t.gives_probabilities for t in self.tested)
        metrics = tuple(METRICS) if are_probabilities else MARGIN_METRICS
        if self.share is not None:
            metrics = MARGIN_METRICS
        return (*metrics, *self.further_metrics)

    def statistics(self, units: NDArray[Any], metrics: Sequence[str]) -> Statistics:
        """Return the value of metrics as a function of the weights of units, in bounded memory.

        Args:
            units: The unit, such as the film, of each of `clips`; weights have a column for each
                distinct name, in order.
            metrics: The metrics.
        """
        codes = np.unique(units, return_inverse=True)[1].astype(np.intp)
        folds = [
            GroupedStats(t.predictions, self._codes_of(t, codes)) for t in self.tested
        ]
        if self.share is not None:
            whole = self._expected(folds, codes, self.share, metrics)
        elif self.is_averaged:
            whole = partial(_means, folds, metrics)
        else:
            whole = partial(_pooled, _by_seed(self.tested, folds), metrics)
        return _in_blocks(whole, len(self.clips))

    def _codes_of(self, t: ScoredFold, codes: IntArray) -> IntArray:
        return codes[np.searchsorted(self.clips, t.rows)]

    def _expected(
        self,
        folds: Sequence[GroupedStats],
        codes: IntArray,
        share: float,
        metrics: Sequence[str],
    ) -> Statistics:
        """Return the closed form, pooled or averaged over folds like the other cells."""
        n_units = int(codes.max()) + 1
        further = self.further_metrics
        pooled = expected_random(self.y, codes, n_units, share, further)
        by_fold = []
        for fold in folds:
            y = fold.predictions.y
            expected = expected_random(y, fold.codes, n_units, share, further)
            by_fold.append(expected)

        def compute(weights: FloatArray) -> MetricValues:
            values = pooled(weights)
            parts = [part(weights) for part in by_fold]
            drawn = [fold.under(weights).n / len(fold.codes) for fold in folds]
            for name in metrics:
                ranking = find_metric(name).ranking
                is_of_folds = ranking is not None and ranking.chance is None
                if self.is_averaged or is_of_folds:
                    of_folds = [part[name] for part in parts]
                    values[name] = weighted_mean(of_folds, drawn)
            return {name: values[name] for name in metrics}

        return compute

    @cached_property
    def value(self) -> dict[str, float]:
        """The value of every metric on all test clips."""
        one_unit = np.zeros(len(self.clips))
        return _at_weight_one(self.statistics(one_unit, self.metrics))

    def tuned(self) -> dict[str, float]:
        """Return the metrics of decisions at thresholds that training clips chose."""
        if self.share is not None or all(t.tuned is None for t in self.tested):
            return {}
        tested = []
        for t in self.tested:
            p = t.predictions
            if t.tuned is not None:
                p = Predictions.of(p.y, p.score, t.tuned)
            tested.append(replace(t, predictions=p))
        cell = replace(self, tested=tested)
        one_unit = np.zeros(len(self.clips))
        return _at_weight_one(cell.statistics(one_unit, TUNED))

    def recalibrated(self) -> dict[str, float]:
        """Return the errors of probabilities that training clips recalibrated.

        They are of all folds of a seed together, or means over runs, as those of the probabilities.
        """
        runs: dict[tuple[int, str], list[Predictions]] = {}
        for t in self.tested:
            if self.share is not None or t.recalibrated is None:
                return {}
            recalibrated = Predictions.of(t.predictions.y, t.recalibrated)
            run = (t.seed, t.fold if self.is_averaged else "")
            runs.setdefault(run, []).append(recalibrated)
        of_runs = []
        for of_run in runs.values():
            of_runs.append(evaluate(Predictions.join(of_run), [BRIER.name])[BRIER.name])
        return {BRIER.name: float(np.mean(of_runs))}

    @cached_property
    def fold_values(self) -> list[dict[str, float]]:
        """Every metric of each test, by the closed form if there is one."""
        if self.share is None:
            return [evaluate(t.predictions, self.metrics) for t in self.tested]
        values_of_tests = []
        for t in self.tested:
            one_unit = np.zeros(len(t.rows), dtype=np.intp)
            expected = expected_random(
                t.predictions.y,
                one_unit,
                1,
                self.share,
                self.further_metrics,
            )
            values_of_tests.append(_at_weight_one(expected))
        return values_of_tests

    def means(self, metric: str, key: Callable[[ScoredFold], K]) -> dict[K, float]:
        """Return the mean of a metric over the tests that have the same key, such as a fold."""
        by_key: dict[K, list[float]] = {}
        for t, values in zip(self.tested, self.fold_values, strict=True):
            by_key.setdefault(key(t), []).append(values[metric])
        return {test_key: float(np.mean(values)) for test_key, values in by_key.items()}

    def sd(self, metric: str) -> float:
        """Return the standard deviation of a metric over folds; NaN of a single one."""
        return deviation(list(self.means(metric, lambda t: t.fold).values()))

    @cached_property
    def mean_scores(self) -> FloatArray:
        """The score of each of `clips`, averaged over all fits that tested it."""
        total = np.zeros(len(self.clips))
        times = np.zeros(len(self.clips))
        for t in self.tested:
            at = np.searchsorted(self.clips, t.rows)
            total[at] += t.predictions.score
            times[at] += 1
        return total / times

    def by_film(
        self, films: NDArray[np.str_], metrics: Sequence[str]
    ) -> tuple[list[str], MetricValues]:
        """Return the films, and each metric within each film, NaN where it is not defined."""
        film_of_clip = films[self.clips]
        names, codes = np.unique(film_of_clip, return_inverse=True)
        codes = codes.astype(np.intp)
        values = self._within_units(codes, metrics)
        if values is None:
            # Each film drawn alone.
            statistics = self.statistics(film_of_clip, metrics)
            values = statistics(np.eye(len(names)))
        n_positive = np.bincount(codes, weights=self.y, minlength=len(names))
        for name in metrics:
            if find_metric(name).needs_positives:
                values[name] = np.where(n_positive == 0, np.nan, values[name])
            if name == PREVALENCE.name:
                # A count of clips, and no mean over the folds that test parts of a film.
                values[name] = n_positive / np.bincount(codes)
        return [str(name) for name in names], values

    def _within_units(
        self, codes: IntArray, metrics: Sequence[str]
    ) -> MetricValues | None:
        """Return each metric within each unit, to the bits of `statistics` with one unit drawn.

        None where a run tests only some of the units, and for a closed form.
        """
        if self.share is not None:
            return None
        n_units = int(codes.max()) + 1
        folds = [
            GroupedStats(t.predictions, self._codes_of(t, codes)) for t in self.tested
        ]
        if self.is_averaged:
            means = {}
            for name in metrics:
                function = find_metric(name).function
                means[name] = mean_within_units(folds, n_units, function)
            return means
        of_runs = []
        for joined, of_seed in _by_seed(self.tested, folds):
            if len(joined.units) < n_units:
                return None
            values = {}
            for name in metrics:
                values[name] = find_metric(name).within_units(joined, of_seed)
            of_runs.append(values)
        return _mean_of(of_runs, metrics)


def with_chosen_stores(cells: Sequence[Cell]) -> list[Cell]:
    """Return a cell for each model and pair of tasks, with the chosen store of each fold.

    To name the best of several stores after the test is to choose it on test films. So it is chosen
    in each fold, as any setting is: fits without their film have scored training clips of every
    store, and the store with the highest average precision there is taken. Nothing is fitted again.
    A fold in which no store has such scores, as of a perceptron without validation clips, is left
    out: there is nothing to choose by.
    """
    same_model: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        same_model.setdefault((cell.train, cell.test, cell.model), []).append(cell)
    chosen = []
    for on_stores in same_model.values():
        tests_of_folds: dict[tuple[str, int], dict[str, ScoredFold]] = {}
        for cell in on_stores:
            for t in cell.tested:
                tests_of_folds.setdefault((t.fold, t.seed), {})[cell.store] = t
        # A fold that only some stores lack is tested on the others.
        names = {fold for fold, _ in tests_of_folds}
        skipped = {
            fold: reason
            for fold, reason in on_stores[0].skipped.items()
            if fold not in names
        }
        tested = []
        for (fold, _), tests in tests_of_folds.items():
            test = _chosen_test(tests)
            if test is None:
                skipped[fold] = NOT_CHOSEN
            else:
                tested.append(test)
        if not tested:
            model = on_stores[0].model
            raise FixInput(
                f"training films cannot choose a store for {model} in any fold: {NOT_CHOSEN}",
                hint="splits with validation clips, grid.models without"
                f" {model}, or --set fit.choose_store=false",
            )
        # Training films choose the store, also for a model that is not trained.
        of_model = replace(
            on_stores[0], tested=tested, skipped=skipped, is_trained=True
        )
        chosen.append(replace(of_model, store=CHOSEN))
    return chosen


def _chosen_test(tests: Mapping[str, ScoredFold]) -> ScoredFold | None:
    """Return the test of the store with the best inner score, of equal ones the first; or None."""
    inner_ap = {store: t.inner_ap for store, t in tests.items()}
    known = {store: ap for store, ap in inner_ap.items() if ap is not None}
    if not known:
        return None
    best = max(known, key=known.__getitem__)
    facts = {**tests[best].chosen, "store": best, "inner_ap": inner_ap}
    return replace(tests[best], chosen=facts)


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of the values that are defined; NaN of fewer than two."""
    defined = np.array([value for value in values if np.isfinite(value)])
    return float(defined.std(ddof=1)) if len(defined) > 1 else math.nan


def _in_blocks(statistics: Statistics, n_clips: int) -> Statistics:
    """Return the same function, which computes few rows of weights at a time.

    A row takes some numbers for each clip: a thousand draws of 20,000 clips would take gigabytes.
    """
    step = max(1, BLOCK // max(n_clips, 1))

    def compute(weights: FloatArray) -> MetricValues:
        if len(weights) <= step:
            return statistics(weights)
        starts = range(0, len(weights), step)
        blocks = [statistics(weights[start : start + step]) for start in starts]
        joined = {}
        for name in blocks[0]:
            joined[name] = np.concatenate([block[name] for block in blocks])
        return joined

    return compute


def _at_weight_one(statistics: Statistics) -> dict[str, float]:
    """Return each metric of all clips, which are one unit, each drawn once."""
    values = statistics(np.ones((1, 1)))
    return {name: float(drawn[0]) for name, drawn in values.items()}


def _by_seed(
    tests: Sequence[ScoredFold], folds: Sequence[GroupedStats]
) -> list[tuple[GroupedStats, list[GroupedStats]]]:
    """Return the folds of each seed: joined, and one by one."""
    of_seeds: dict[int, list[GroupedStats]] = {}
    for t, fold in zip(tests, folds, strict=True):
        of_seeds.setdefault(t.seed, []).append(fold)
    runs = []
    for of_seed in of_seeds.values():
        predictions = Predictions.join([fold.predictions for fold in of_seed])
        codes = np.concatenate([fold.codes for fold in of_seed])
        runs.append((GroupedStats(predictions, codes), of_seed))
    return runs


def _pooled(
    runs: Sequence[tuple[GroupedStats, Sequence[GroupedStats]]],
    metrics: Sequence[str],
    weights: FloatArray,
) -> MetricValues:
    """Pool decisions over the folds of a seed, rank within folds, and average over seeds."""
    of_runs = []
    for joined, folds in runs:
        drawn = joined.under(weights)
        drawn_folds = [fold.under(weights) for fold in folds]
        values = {}
        for name in metrics:
            values[name] = find_metric(name).over_folds(drawn, drawn_folds)
        of_runs.append(values)
    return _mean_of(of_runs, metrics)


def _means(
    folds: Sequence[GroupedStats], metrics: Sequence[str], weights: FloatArray
) -> MetricValues:
    """Return the mean of each metric over folds."""
    drawn = [fold.under(weights) for fold in folds]
    means = {}
    for name in metrics:
        means[name] = mean_over_folds(drawn, find_metric(name).function)
    return means


def _mean_of(of_runs: Sequence[MetricValues], metrics: Sequence[str]) -> MetricValues:
    """Return the mean of each metric over runs."""
    means = {}
    for name in metrics:
        means[name] = np.mean([values[name] for values in of_runs], axis=0)
    return means


def expected_random(
    y: NDArray[np.bool_],
    codes: IntArray,
    n_units: int,
    share: float,
    further_metrics: Sequence[str] = (),
) -> Statistics:
    """Return the expected metrics of calling a random share positive, under weights of units.

    Metrics of own code are, as F1, those of the expected counts. AP is that of one score for all.
    """
    size = np.bincount(codes, minlength=n_units)
    positive = np.bincount(codes, weights=y, minlength=n_units)
    all_tied = GroupedStats(Predictions.of(y, np.zeros(len(y))), codes)

    def compute(weights: FloatArray) -> MetricValues:
        order = RandomOrder(
            prevalence=divide(weights @ positive, weights @ size),
            share=share,
            ap=all_tied.under(weights).average_precision,
        )
        values = {}
        for name in (*MARGIN_METRICS, *further_metrics):
            values[name] = find_metric(name).at_random(order)
        return values

    return compute
