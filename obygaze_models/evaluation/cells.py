"""A cell: the rows of the table of tests of one model, on one store and one pair of tasks.

If each clip is tested once, decisions are pooled over folds. AUC compares clips within folds only,
and AP is averaged over folds, because scores of different fits are on different scales. If clips
are tested several times (runs that share a test fold), all metrics are averaged over runs.
For intervals, whole films are drawn, and the metrics are computed in the same way for each draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.basis import (
    FILM_SEEN,
    FILM_UNKNOWN,
    LEAKED,
    UNSEEN,
    has_interval,
)
from obygaze_models.evaluation.bootstrap import (
    GroupCount,
    draw,
    groups_behind,
    reuse_inflation,
)
from obygaze_models.evaluation.metrics import (
    MARGIN_METRICS,
    METRICS,
    PREVALENCE,
    RANKING_METRICS,
    MetricValues,
    evaluate,
    values_under,
)
from obygaze_models.evaluation.predictions import (
    BoolArray,
    FloatArray,
    IntArray,
    Predictions,
)
from obygaze_models.evaluation.tables import (
    CELL,
    CLIP_WAS_SEEN,
    FILM_WAS_SEEN,
    NOT_KNOWN,
    Pair,
    number_of_groups,
)

if TYPE_CHECKING:
    import pandas as pd

# A metric by film, for the order of the scores and for the reversed order.
FilmValues = tuple[dict[str, float], dict[str, float]]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Cell:
    """One model on one store, trained for one task and tested on one task.

    Attributes:
        train: The training task.
        test: The test task.
        store: The store; empty for a baseline of all stores.
        model: The name of the model or baseline.
        is_model: Whether it is a model and not a baseline.
        is_trained: Whether its scores depend on the training clips.
        gives_probabilities: Whether scores are probabilities; only these have a Brier score.
        rows: Its rows of the table of tests, with the number of the clip in the column `clip`.
        is_averaged: Whether values are means over fits; if not, they are pooled over folds.
    """

    train: str
    test: str
    store: str
    model: str
    is_model: bool
    is_trained: bool
    gives_probabilities: bool
    rows: pd.DataFrame
    is_averaged: bool = False

    @property
    def name(self) -> tuple[str, str, str, str]:
        """The training task, the test task, the store and the model."""
        return self.train, self.test, self.store, self.model

    @property
    def pair(self) -> Pair:
        """The training and the test task."""
        return self.train, self.test

    # ---- its clips ----

    @cached_property
    def _clip(self) -> IntArray:
        clip: IntArray = self.rows["clip"].to_numpy(dtype=np.intp)
        return clip

    @cached_property
    def clips(self) -> IntArray:
        """The numbers of the tested clips, without duplicates."""
        return np.unique(self._clip)

    @cached_property
    def _at(self) -> IntArray:
        """For each row, the index of its clip in `clips`."""
        return np.searchsorted(self.clips, self._clip)

    def of_clips(self, column: str) -> NDArray[Any]:
        """Return a column of `rows` with one value for each of `clips`.

        All rows of a clip must have the same value.
        """
        values = self.rows[column].to_numpy()
        by_clip = np.empty(len(self.clips), dtype=values.dtype)
        by_clip[self._at] = values
        return by_clip

    @cached_property
    def y(self) -> BoolArray:
        """The class of each of `clips`."""
        return self.of_clips("y").astype(np.bool_)

    @cached_property
    def groups(self) -> NDArray[np.str_]:
        """The film of each of `clips`, or its group of films; "" if the film is unknown.

        Bootstrap draws take these groups.
        """
        return self.of_clips("group").astype(np.str_)

    @cached_property
    def coded_groups(self) -> tuple[NDArray[np.str_], IntArray]:
        """The distinct `groups`, sorted, and the index of the group of each of `clips`."""
        return np.unique(self.groups, return_inverse=True)

    @property
    def n_clips(self) -> int:
        """Number of tested clips."""
        return len(self.clips)

    @cached_property
    def n_films(self) -> int:
        """Number of films, or groups of films, of the tested clips."""
        return number_of_groups(self.coded_groups[0])

    @property
    def n_positive(self) -> int:
        """Number of tested clips of class 1."""
        return int(self.y.sum())

    # ---- overlap of tested clips and training ----

    @cached_property
    def basis(self) -> str:
        """The relation of tested clips and training (`evaluation.basis`)."""
        if not self.is_trained:
            return UNSEEN
        if self.rows["leaked"].any():
            return LEAKED
        seen = self.rows["seen"]
        # The training films of a received model may be unknown, even if the tested ones are known.
        if (self.rows["group"] == "").any() or (seen == NOT_KNOWN).any():
            return FILM_UNKNOWN
        # If all tested clips are copies, none of them is new.
        is_seen = (seen == FILM_WAS_SEEN).any() or (seen == CLIP_WAS_SEEN).all()
        return FILM_SEEN if is_seen else UNSEEN

    @cached_property
    def leaked_clips(self) -> IntArray:
        """Tested clips that were used in training or selection, by id or by equal features."""
        return np.unique(self._clip[self.rows["seen"] == CLIP_WAS_SEEN])

    @property
    def leaked(self) -> int:
        """Number of leaked tested clips."""
        return len(self.leaked_clips)

    @cached_property
    def copies(self) -> int:
        """Number of tested clips that training used under another id only, with equal features."""
        return self.leaked - len(np.unique(self._clip[self.rows["leaked"]]))

    @cached_property
    def same_film(self) -> int:
        """Number of tested clips that are not leaked, but whose films have training clips."""
        of_films = self._clip[self.rows["seen"] == FILM_WAS_SEEN]
        return len(np.setdiff1d(of_films, self.leaked_clips))

    # ---- its fits ----

    @cached_property
    def fits(self) -> list[tuple[str, int, IntArray]]:
        """The fold, the seed and the positions of the rows of each fit."""
        by_fit: Any = self.rows.groupby(["fold", "seed"], sort=False).indices
        return [(fold, int(seed), rows) for (fold, seed), rows in by_fit.items()]

    @cached_property
    def n_test_sets(self) -> int:
        """The number of different sets of test clips.

        If there are several sets, the clips of one set train the models that test the other sets.
        """
        return len({np.sort(self._clip[rows]).tobytes() for _, _, rows in self.fits})

    @cached_property
    def predictions(self) -> list[Predictions]:
        """Classes, scores, decisions and films of each fit."""
        whole = Predictions(
            self.rows["y"].to_numpy(dtype=np.bool_),
            self.rows["score"].to_numpy(),
            self.rows["decision"].to_numpy(),
            self.coded_groups[1][self._at],
        )
        return [whole.take(rows) for _, _, rows in self.fits]

    @property
    def inflation(self) -> float:
        """The true variance of a value, divided by its variance over draws of films.

        The true variance is larger, because test clips of one model train other models. The factor
        is infinite if the value can have no interval (`evaluation.basis`). For runs that
        share one test set, and for a single run that trains on other clips of the tested films, the
        factor depends on the numbers of test and training clips.
        """
        if not self.is_trained:
            return 1
        if not has_interval(self.basis):
            return math.inf
        if self.n_test_sets > 1:
            factor = reuse_inflation(self.n_test_sets)
            # If folds divide films, other clips of each tested film are also in the training.
            return factor if self.basis == UNSEEN else 2 * factor - 1
        if not self.is_averaged and self.basis == UNSEEN:
            return 1
        return 1 + self.n_clips / int(self.rows["n_seen"].max())

    def groups_behind(self, metric: str) -> GroupCount:
        """Return the number of films that contribute to AP or AUC, and their effective number."""
        if not self.n_films:
            return GroupCount(0, 0)
        folds = [self._at[rows] for _, _, rows in self.fits]
        return groups_behind(metric, self.y, self.coded_groups[1], folds)

    def film_counts(self, metric: str) -> tuple[int, int]:
        """Return how many films contribute to a metric, and how many films are tested."""
        if metric not in RANKING_METRICS:
            return self.n_films, self.n_films
        return self.groups_behind(metric).number, self.n_films

    # ---- parts of it ----

    def only(self, clips: IntArray) -> Cell:
        """Return the cell on some of its clips, without intervals.

        If `clips` are all clips of the cell, return this same object.
        """
        if len(clips) == len(self.clips):
            return self
        rows = self.rows[np.isin(self._clip, clips)]
        return replace(self, rows=rows)

    def in_random_order(self) -> Cell:
        """Return the cell as a random baseline: equal scores, and random decisions.

        Each random decision is 0.5: half positive and half negative.
        """
        return replace(
            self,
            rows=self.rows.assign(score=0.0, decision=0.5),
            is_model=False,
            is_trained=False,
            gives_probabilities=False,
        )

    # ---- values ----

    @property
    def metrics(self) -> Sequence[str]:
        """The names of the metrics: all, or those that need no probabilities."""
        return tuple(METRICS) if self.gives_probabilities else MARGIN_METRICS

    def under(self, weights: FloatArray, metrics: Sequence[str]) -> MetricValues:
        """Return the values of each metric, one for each row of weights (columns: films)."""
        runs: Sequence[Hashable] = range(len(self.fits))
        if not self.is_averaged:
            runs = [seed for _, seed, _ in self.fits]
        return values_under(weights, self.predictions, runs, metrics)

    @cached_property
    def values(self) -> dict[str, float]:
        """The value of every metric on all test clips."""
        once = np.ones((1, len(self.coded_groups[0])))
        values = self.under(once, self.metrics)
        return {name: float(value[0]) for name, value in values.items()}

    def value(self, metric: str) -> float:
        """Return a metric over all films, or NaN if undefined."""
        return self.values.get(metric, math.nan)

    @cached_property
    def values_of_fits(self) -> list[dict[str, float]]:
        """Every metric of each fit."""
        return [evaluate(of_fit, self.metrics) for of_fit in self.predictions]

    def sd(self, metric: str) -> float:
        """Return the standard deviation of a metric over folds; NaN for a single fold."""
        by_fold: dict[str, list[float]] = {}
        for (fold, _, _), values in zip(self.fits, self.values_of_fits, strict=True):
            by_fold.setdefault(fold, []).append(values[metric])
        return deviation([float(np.mean(values)) for values in by_fold.values()])

    @cached_property
    def fits_of_films(self) -> dict[str, list[tuple[int, dict[str, float]]]]:
        """For each film, a pair for each fit that tests it.

        The pair contains the number of films that the fit tests, and the metrics of the fit.
        """
        names, codes = self.coded_groups
        of_films: dict[str, list[tuple[int, dict[str, float]]]] = {}
        for (_, _, rows), values in zip(self.fits, self.values_of_fits, strict=True):
            tested = np.unique(codes[self._at[rows]])
            for film in names[tested].tolist():
                of_films.setdefault(film, []).append((len(tested), values))
        return of_films

    def sd_of_film(self, film: str, metric: str) -> float:
        """Return the standard deviation of a metric over the fits that test only this film."""
        fits = self.fits_of_films[film]
        return deviation([values[metric] for n_films, values in fits if n_films == 1])

    def by_film(self, metrics: Sequence[str]) -> tuple[list[str], MetricValues]:
        """Return the films, and the values of each metric within each film; NaN if undefined."""
        names, codes = self.coded_groups
        # Each film is drawn alone.
        values = self.under(np.eye(len(names)), metrics)
        n_positive = np.bincount(codes, weights=self.y)
        for name in metrics:
            if METRICS[name].needs_positives:
                values[name] = np.where(n_positive == 0, np.nan, values[name])
            if name == PREVALENCE.name:
                # Computed from all clips of a film, because folds may test parts of a film.
                values[name] = n_positive / np.bincount(codes)
        return names.tolist(), values

    def value_of_films(self, metric: str) -> dict[str, float]:
        """Return a metric within each film where it is defined; empty if no film is known."""
        if metric not in self.metrics or not self.n_films:
            return {}
        names, values = self.by_film([metric])
        of_films = zip(names, values[metric].tolist(), strict=True)
        return {name: value for name, value in of_films if math.isfinite(value)}

    def of_two_classes(self, metric: str) -> FilmValues:
        """Return a ranking metric within each film that has clips of both classes.

        The first result is for the scores. The second is for the negated scores, which rank the
        clips in the reversed order.
        """

        def find() -> FilmValues:
            both = {*self.groups[self.y].tolist()} & {*self.groups[~self.y].tolist()}
            values = []
            for scores in (self.rows["score"], -self.rows["score"]):
                ordered = replace(self, rows=self.rows.assign(score=scores))
                of_films = ordered.value_of_films(metric)
                values.append(
                    {film: of_films[film] for film in of_films if film in both}
                )
            return values[0], values[1]

        return self._cached(("films", metric), find)

    def drawn(self, metric: str, n_replicates: int, seed: int) -> FloatArray:
        """Return a metric for each draw of films; cells with the same films get the same draws."""

        def find() -> FloatArray:
            def under(weights: FloatArray) -> MetricValues:
                return self.under(weights, [metric])

            return draw(under, len(self.coded_groups[0]), n_replicates, (seed, 2))[
                metric
            ]

        return self._cached(("draws", metric, n_replicates, seed), find)

    @cached_property
    def _memo(self) -> dict[Hashable, Any]:
        return {}

    def _cached(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return the result under a key; compute it with `find` when it is needed first.

        Several differences read these results.
        """
        if key not in self._memo:
            self._memo[key] = find()
        found: T = self._memo[key]
        return found

    @cached_property
    def is_constant_in_films(self) -> bool:
        """Whether each fit gives all clips of a film the same score."""
        by_film = self.rows.groupby(["fold", "seed", "group"])["score"]
        return bool((by_film.nunique() == 1).all())


def cells_from_tests(tests: pd.DataFrame) -> list[Cell]:
    """Return the cells of a table of tests, in the order of the table.

    If one cell tests a clip in several folds, its values are means over fits. The values of all
    cells with the same training task and test task are then also means over fits, so that they are
    comparable.
    """
    _, numbers = np.unique(tests["clip_id"].to_numpy(), return_inverse=True)
    numbered = tests.assign(clip=numbers)
    cells = []
    averaged = set()
    for _, rows in numbered.groupby([*CELL], sort=False):
        facts: Any = rows.iloc[0]
        cell = Cell(
            facts["train"],
            facts["test"],
            facts["store"],
            facts["model"],
            bool(facts["is_model"]),
            bool(facts["is_trained"]),
            bool(rows["is_probability"].all()),
            rows,
        )
        if rows.duplicated(["clip", "seed"]).any():
            averaged.add(cell.pair)
        cells.append(cell)
    return [replace(cell, is_averaged=cell.pair in averaged) for cell in cells]


@dataclass(frozen=True, eq=False)
class Shared:
    """Cells on the clips that all of them tested with the same class.

    Attributes:
        cells: The cells on the shared clips, in the given order; empty if there are too few shared
            clips. A cell that tested no other clips is the same object as the given cell.
        n_clips: The number of shared clips.
        problem: Why there are too few shared clips; "" if there are enough.
    """

    cells: Sequence[Cell]
    n_clips: int
    problem: str = ""


def on_shared_clips(cells: Sequence[Cell]) -> Shared:
    """Return cells on the clips that all of them tested with the same class.

    Values are comparable on these clips only, and all comparisons use this function. The cells must
    be from one call of `cells_from_tests`. The class of a clip can differ between two runs if
    annotations were changed between them. If all shared clips have the same class, they count as
    too few, because AP and AUC need both classes.
    """
    tested = cells[0].clips
    for cell in cells[1:]:
        tested = np.intersect1d(tested, cell.clips, assume_unique=True)
    classes = [cell.y[np.searchsorted(cell.clips, tested)] for cell in cells]
    is_same = np.all(np.equal(classes, classes[0]), axis=0)
    shared = tested[is_same]
    y = classes[0][is_same]
    problem = ""
    if not len(tested):
        problem = "no clip is tested in all results"
    elif not len(shared):
        problem = "no clip is tested with the same class in all results"
    elif y.all() or not y.any():
        name = "positive" if y.all() else "negative"
        clips = "1 clip" if len(shared) == 1 else f"{len(shared)} clips"
        problem = f"the {clips} that all of them tested are all {name}"
    parts = [] if problem else [cell.only(shared) for cell in cells]
    return Shared(parts, len(shared), problem)


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of the finite values, or NaN for fewer than two."""
    defined = np.array([value for value in values if math.isfinite(value)])
    return float(defined.std(ddof=1)) if len(defined) > 1 else math.nan
