"""Every value of a run as a function of its table of tests: `results` is all that a report reads.

Intervals and tests are over films (docs/design/0018-calibration.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.basis import UNSEEN, has_interval, weakest
from obygaze_models.evaluation.bootstrap import (
    CONFIDENCE,
    LEAST_GROUPS,
    Interval,
    draw,
    interval_of,
    not_narrower_than_clips,
    resample,
    share_variance,
)
from obygaze_models.evaluation.cells import (
    NO_INTERVAL,
    Cell,
    cells_of,
    grouped_by,
    on_shared_clips,
)
from obygaze_models.evaluation.film_tests import (
    mean_over_films,
    p_alone,
    p_among_all,
    training_factor,
)
from obygaze_models.evaluation.metrics import (
    AP,
    PREVALENCE,
    RANKING_METRICS,
    GroupCount,
    ranking_metric,
)
from obygaze_models.evaluation.predictions import FloatArray, difference_of
from obygaze_models.evaluation.tables import (
    CHOSEN,
    RESULTS,
    ColumnArrays,
    RunRow,
    columns_of_rows,
    table_of_columns,
)

if TYPE_CHECKING:
    import pandas as pd

# Baselines that see no video: the best of them is what guessing has.
BLIND = ("random", "all_positive", "prevalence", "film_prior", "neighbour")
LEAST_CLIPS = 5  # of each class, for an interval

AskedQuestion = Mapping[str, str]
CellName = tuple[str, str, str, str]  # training task, test task, store and model
# What computes jobs, here or in several processes.
Jobs = Sequence[Callable[[], Any]]


def one_by_one(jobs: Jobs) -> Iterable[Any]:
    """Yield what each job returns."""
    return (job() for job in jobs)


@dataclass(frozen=True)
class RunSettings:
    """What values depend on beside the tests: settings of the protocol, and facts of its clips.

    Attributes:
        primary: The primary metric.
        replicates: The number of draws of films.
        seed: The seed of the draws.
        compares: Whether differences are computed.
        questions: The differences that the protocol asks for (`asks_for`).
        models: The models that `grid.models` lists.
        contrast: Two training tasks of which the same models are compared.
        starting_at_random: Models of which another start changes the scores.
        sizes: Of each task whose folds a published file draws, the clips and the positive clips of
            each film, tested or not.
        paper: The values that a paper prints.
        backbones: The backbone of each store that is of one.
    """

    primary: str = AP.name
    replicates: int = 2000
    seed: int = 0
    compares: bool = True
    questions: Sequence[AskedQuestion] = ()
    models: Sequence[str] = ()
    contrast: Sequence[str] = ()
    starting_at_random: Sequence[str] = ()
    sizes: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    paper: Sequence[Mapping[str, Any]] = ()
    backbones: Mapping[str, str] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """The metric that cells are compared by."""
        return ranking_metric(self.primary)


def results(
    tests: pd.DataFrame, settings: RunSettings, each: Callable[[Jobs], Any] = one_by_one
) -> pd.DataFrame:
    """Return all values of a table of tests: of cells, differences and contrasts.

    Args:
        tests: The table.
        settings: What values depend on beside it.
        each: Returns what jobs return, in their order.
    """
    cells = cells_of(tests)
    # Families of p join differences of several tasks: all are of the films of the whole table.
    values = ComparedValues(settings, np.unique(tests["group"].to_numpy()))
    of_tasks = []
    if settings.compares:
        of_tasks = [*grouped_by(cells, lambda cell: cell.pair).values()]
    jobs: list[Callable[[], Any]] = [
        *(partial(_rows_of_cell, cell, settings) for cell in cells),
        *(partial(_differences_of, of_task, values) for of_task in of_tasks),
        *(
            partial(_contrasts_of, *both, values)
            for both in _contrasts(cells, settings)
        ),
    ]
    made = iter(each(jobs))
    of_cells = [next(made) for _ in cells]
    differences = list(chain(*(next(made) for _ in of_tasks)))
    differences += chain(*made)
    rows = add_p(differences, cells, settings)
    return table_of_columns([*of_cells, columns_of_rows(rows, RESULTS)], RESULTS)


# ---- cells ----


def facts_of_cell(cell: Cell) -> RunRow:
    """Return what all rows of a cell over all films have in common."""
    return {
        "task": cell.test,
        "train": cell.train,
        "test": cell.test,
        "store": cell.store,
        "model": cell.model,
        "fits": len(cell.fits),
        "clips": cell.n_clips,
        "films": cell.n_films,
        "leaked": cell.leaked,
        "basis": cell.basis,
    }


def _rows_of_cell(cell: Cell, settings: RunSettings) -> ColumnArrays:
    """Return the rows of a cell: each metric over all films, then those within each film."""
    intervals = intervals_of(cell, settings)
    of_cell = facts_of_cell(cell)
    rows: list[RunRow] = []
    for metric, value in cell.values.items():
        interval = intervals.get(metric, NO_INTERVAL)
        of_metric = {"metric": metric, "value": value, "sd": cell.sd(metric)}
        rows.append(
            {**of_cell, **of_metric, "low": interval.low, "high": interval.high}
        )
    for row in rows:
        row["film"] = ""
    if cell.n_films:
        names, values = cell.by_film(cell.metrics)
        n_clips = dict(zip(*np.unique(cell.groups, return_counts=True), strict=True))
        deviations = cell.sd_of_films()
        for number, film in enumerate(names):
            of_film = {**of_cell, "film": film, "fits": cell.n_fits_of_films[film]}
            of_film |= {"clips": int(n_clips[film]), "films": 1, "leaked": math.nan}
            for metric, of_films in values.items():
                row = {**of_film, "metric": metric, "value": float(of_films[number])}
                row["sd"] = deviations.get((film, metric), math.nan)
                rows.append(row)
    printed = _printed_of(cell, settings)
    for row in rows:
        row |= printed.get((row["film"], row["metric"]), {})
    return columns_of_rows(rows, RESULTS)


def _printed_of(cell: Cell, settings: RunSettings) -> dict[tuple[str, str], RunRow]:
    """Return the first value that a paper prints, of each film and metric of a cell."""
    backbone = settings.backbones.get(cell.store)
    found: dict[tuple[str, str], RunRow] = {}
    for printed in settings.paper:
        if _is_about(printed, cell, backbone):
            sd = printed["sd"] if printed["sd"] >= 0 else math.nan
            row = {"paper": printed["mean"], "paper_sd": sd}
            found.setdefault((printed["film"], printed["metric"]), row)
    return found


def _is_about(printed: Mapping[str, Any], cell: Cell, backbone: str | None) -> bool:
    """Return whether a printed number is about a cell of this backbone.

    No pattern of backbones matches a cell without one, such as that of a join.
    """
    known = {
        "model": cell.model,
        "feature": cell.store,
        "train": cell.train,
        "test": cell.test,
    }
    for key, value in known.items():
        if printed[key] not in ("", value):
            return False
    if not printed["backbone"]:
        return True
    return backbone is not None and is_backbone(backbone, printed["backbone"])


def is_backbone(backbone: str, pattern: str) -> bool:
    """Return whether a pattern such as `xclip-*` matches the backbone of a store."""
    imported = " (imported)"
    return fnmatch(backbone.casefold().removesuffix(imported), pattern.casefold())


def intervals_of(cell: Cell, settings: RunSettings) -> dict[str, Interval]:
    """Return the intervals over films of AP and AUC; of what is not trained, of every metric.

    At a threshold, a model of other training films could call many other clips positive.
    """
    if not _has_enough(cell):
        return {}
    given = cell.metrics
    if cell.is_trained:
        given = (*RANKING_METRICS, PREVALENCE.name)
    drawn = resample(
        cell.statistics(given),
        np.array(cell.film_names),
        n_replicates=settings.replicates,
        seed=(settings.seed, 0),
        within_unit=True,
        inflation=cell.inflation,
        label_inflation=_label_inflation(cell, settings),
        counts={name: cell.groups_behind(name) for name in RANKING_METRICS},
    )
    intervals = {}
    for name, interval in drawn.items():
        if name in RANKING_METRICS:
            n_clips = RANKING_METRICS[name].n_behind(cell.y)
            interval = not_narrower_than_clips(interval, cell.values[name], n_clips)
        intervals[name] = interval
    return intervals


def _has_enough(cell: Cell) -> bool:
    """Return whether a test has enough clips of each class, and films, for an interval."""
    n_fewer = min(cell.n_positive, cell.n_clips - cell.n_positive)
    films = cell.groups_behind(AP.name)
    return n_fewer >= LEAST_CLIPS and films.number >= LEAST_GROUPS


def _label_inflation(cell: Cell, settings: RunSettings) -> float:
    """Return the factor of the variance that comes from the share of positives.

    A stratified test set has the share of all clips of the task. With other films that share
    varies as drawing films with all of their clips shows. Drawing films with their few test clips
    also shows chance among the clips of a film, which stratifying removes. Where films are tested
    with all of their clips, both are the same.
    """
    sizes = settings.sizes.get(cell.test)
    films, codes = np.unique(cell.groups, return_inverse=True)
    n_clips = np.bincount(codes)
    of_test = share_variance(n_clips, np.bincount(codes, weights=cell.y))
    if sizes is None or cell.n_test_sets > 1 or of_test == 0:
        return 1.0
    of_films = np.array([sizes[film] for film in films.tolist()])
    return share_variance(of_films[:, 0], of_films[:, 1]) / of_test


# ---- differences ----


@dataclass(frozen=True, eq=False)
class Difference:
    """A difference of two cells on the same clips.

    Attributes:
        row: Its row of results.csv.
        by_film: The difference in each film of the table; NaN for no value.
        factor: A factor of the variance of its mean that films do not show.
    """

    row: RunRow
    by_film: FloatArray
    factor: float


class ComparedValues:
    """The compared metric of cells: in each film, and if films are drawn. Each is computed once."""

    def __init__(self, settings: RunSettings, films: NDArray[np.str_]) -> None:
        self.settings = settings
        self.films = films
        self.metric = settings.metric
        # A cell is kept with its values, so that no other one gets its id.
        self._by_film: dict[int, tuple[Cell, FloatArray, FloatArray]] = {}
        self._draws: dict[int, tuple[Cell, FloatArray]] = {}

    def by_film(self, first: Cell, second: Cell) -> FloatArray:
        """Return by how much the first cell is better in each film: see `film_differences`."""
        ours, ours_reversed = self._values_of_films(first)
        if second.is_constant_in_films:
            return difference_of(ours, ours_reversed) / 2
        return difference_of(ours, self._values_of_films(second)[0])

    def draws(self, cell: Cell) -> FloatArray:
        """Return the metric of a cell if films are drawn, the same films for all cells."""
        if id(cell) not in self._draws:
            statistics = cell.statistics([self.metric])
            codes = np.arange(len(cell.film_names))
            seed = (self.settings.seed, 2)
            drawn = draw(statistics, codes, self.settings.replicates, seed)
            self._draws[id(cell)] = (cell, drawn[self.metric])
        return self._draws[id(cell)][1]

    def _values_of_films(self, cell: Cell) -> tuple[FloatArray, FloatArray]:
        """Return the metric within each film, by the scores of a cell and in reversed order."""
        if id(cell) not in self._by_film:
            both = []
            for ordered in (cell, cell.reversed()):
                values = ordered.value_of_two_classes(self.metric)
                by_film = np.full(len(self.films), np.nan)
                by_film[np.searchsorted(self.films, [*values])] = [*values.values()]
                both.append(by_film)
            self._by_film[id(cell)] = (cell, both[0], both[1])
        _, ours, ours_reversed = self._by_film[id(cell)]
        return ours, ours_reversed


def film_differences(first: Cell, second: Cell, metric: str) -> dict[str, float]:
    """Return by how much the first of two cells is better in each film with clips of both classes.

    Beside a guess that gives all clips of a film one score, it is half the difference between the
    order of the clips and the reversed order. Its mean is 0 for an order that means nothing, and
    that of AP minus a random order is not: AP is convex.
    """
    films = np.unique(first.groups)
    values = ComparedValues(RunSettings(metric), films)
    by_film = values.by_film(first, second)
    known = np.isfinite(by_film)
    return dict(zip(films[known].tolist(), by_film[known].tolist(), strict=True))


def values_of(cells: Iterable[Cell], settings: RunSettings) -> ComparedValues:
    """Return the values for differences of some cells."""
    films = np.unique(np.concatenate([cell.groups for cell in cells]))
    return ComparedValues(settings, films)


def _differences_of(cells: Sequence[Cell], values: ComparedValues) -> list[Difference]:
    """Return the differences of the cells of a training and a test task."""
    return [difference(*both, values) for both in comparable(cells)]


def comparable(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Cell]]:
    """Yield the pairs of a model and another model or a baseline, and of a model on two stores.

    All cells must have the same tasks. Both sides of a pair are of the clips that both tested.
    """
    for first, second in combinations(cells, 2):
        # Two baselines are no question, also where each store has baselines of its own.
        if not first.is_model:
            continue
        one_model = first.model == second.model and first.store != second.store
        one_store = second.store in (first.store, "")
        if not one_model and not one_store:
            continue
        shared = on_shared_clips([first, second])
        if not shared.problem:
            ours, theirs = shared.cells
            yield ours, theirs


def difference(
    first: Cell,
    second: Cell,
    values: ComparedValues,
    factor: float | None = None,
) -> Difference:
    """Return the difference of two cells of one test task, which tested the same clips.

    On unseen films, it is the mean over films with Student's interval. Where films are on both
    sides, it is that of the values over all films, with an interval of draws.

    Args:
        first: The first cell.
        second: The second cell.
        values: The values of both.
        factor: A factor of the variance that films do not show; the default is that of the design.
    """
    row = row_of_difference(first, second, values.metric)
    by_film = values.by_film(first, second)
    if row["basis"] == UNSEEN:
        if factor is None:
            n_films = int(np.isfinite(by_film).sum())
            factor = film_factor(first, second, n_films)
        most = 0.5 if second.is_constant_in_films else 1.0
        mean, interval = mean_over_films(by_film, factor, most)
        row |= {"over_films": mean, "low": interval.low, "high": interval.high}
        return Difference(row, by_film, factor)
    if factor is None:
        factor = max(first.inflation, second.inflation)
    interval = _interval_of_draws(first, second, values, factor)
    if p_alone(by_film[:, None], np.array([factor]))[0] > 1 - CONFIDENCE:
        # Draws of a dozen films are too narrow where films differ very much in their look.
        interval = Interval(min(interval.low, 0.0), max(interval.high, 0.0))
    row |= {"over_films": row["value"], "low": interval.low, "high": interval.high}
    return Difference(row, by_film, factor)


def film_factor(first: Cell, second: Cell, n_films: int) -> float:
    """Return the factor of the variance of a difference on unseen films that films do not show."""
    for cell in (first, second):
        if cell.is_trained and cell.n_test_sets > 1:
            return training_factor(n_films)
    return 1.0


def _interval_of_draws(
    first: Cell, second: Cell, values: ComparedValues, inflation: float
) -> Interval:
    """Return the interval of a difference of the values over all films, by drawing films."""
    ours = values.draws(first)
    theirs = values.draws(second)
    n_films = min(cell.groups_behind(values.metric).number for cell in (first, second))
    value = first.values[values.metric] - second.values[values.metric]
    interval = interval_of(
        ours - theirs, value, GroupCount(n_films, n_films), inflation=inflation
    )
    # The AUC of a constant is one half whatever films are drawn.
    low_of_first, high_of_first = _possible_values(ours)
    low_of_second, high_of_second = _possible_values(theirs)
    return interval.of_difference(
        low_of_first - high_of_second, high_of_first - low_of_second
    )


def row_of_difference(first: Cell, second: Cell, metric: str) -> RunRow:
    """Return the row of a difference, without interval and p."""
    leaked = np.union1d(first.leaked_clips, second.leaked_clips)
    return {
        **facts_of_cell(first),
        "metric": metric,
        "value": float(difference_of(first.values[metric], second.values[metric])),
        "against_train": second.train,
        "against_store": second.store,
        "against_model": second.model,
        **dict.fromkeys(("over_films", "low", "high", "p", "comparisons"), math.nan),
        "leaked": len(leaked),
        "basis": weakest([first.basis, second.basis]),
    }


def _possible_values(draws: FloatArray) -> tuple[float, float]:
    """Return the lowest and highest value of a metric: 0 and 1, or the one that it always has."""
    finite = draws[np.isfinite(draws)]
    # Draws of a perfect model are all 1, which shows too few clips, and not a sure value.
    if finite.size and np.ptp(finite) == 0 and 0 < finite[0] < 1:
        return float(finite[0]), float(finite[0])
    return 0.0, 1.0


# ---- what a run asks ----


def is_about_guessing(question: AskedQuestion) -> bool:
    """Return whether a question compares a model with a baseline that sees no video."""
    return question["first"] in BLIND or question["second"] in BLIND


def cells_asked_about(cells: Iterable[Cell], settings: RunSettings) -> list[Cell]:
    """Return the models that a run asks about, each on each store; never picked by a result.

    These are the models and tasks of the questions about guessing, or of all questions if none is
    about guessing. Where `grid.models` lists models, it is these, in its order. Without questions,
    or if none is about a model of the run, all models are asked about.
    """
    models = [cell for cell in cells if cell.is_model and cell.store != CHOSEN]
    listed = [*settings.models]
    if {cell.model for cell in models} <= {*listed}:
        models.sort(key=lambda cell: listed.index(cell.model))
    guessing = [*filter(is_about_guessing, settings.questions)]
    asked = []
    for cell in models:
        for question in guessing or settings.questions:
            if _is_on_tasks(question, cell) and (
                listed or _names_model(question, cell, with_store=bool(guessing))
            ):
                asked.append(cell)
                break
    return asked or models


def _is_on_tasks(question: AskedQuestion, cell: Cell) -> bool:
    tasks = {"train": cell.train, "test": cell.test}
    return all(question[key] in ("", name) for key, name in tasks.items())


def _names_model(question: AskedQuestion, cell: Cell, *, with_store: bool) -> bool:
    """Return whether a cell is a side of a question; an empty name is any."""
    for side in ("first", "second"):
        is_model = question[side] in ("", cell.model)
        is_store = question[f"{side}_store"] in ("", cell.store)
        if is_model and (is_store or not with_store):
            return True
    return False


# ---- p in families ----


def names_of_difference(row: RunRow) -> tuple[CellName, CellName]:
    """Return the names of both cells of a difference."""
    first = (row["train"], row["test"], row["store"], row["model"])
    second = (row["against_train"], row["test"])
    return first, (*second, row["against_store"], row["against_model"])


def add_p(
    differences: Sequence[Difference], cells: Iterable[Cell], settings: RunSettings
) -> list[RunRow]:
    """Return the rows of differences; those that the run asks for have a p among all of its family.

    There are two families: the models that are asked about beside guesses, and these models beside
    each other, with the differences of questions and contrasts. So a comparison has one p, wherever
    it stands. What nobody asked for has none, and neither has the store that training films choose.
    """
    asked = {cell.name for cell in cells_asked_about(cells, settings)}
    guesses = []
    models = []
    for item in differences:
        row = item.row
        first, second = names_of_difference(row)
        if CHOSEN in (row["store"], row["against_store"]):
            continue
        is_contrast = row["against_train"] != row["train"]
        is_of_question = any(asks_for(of, row) for of in settings.questions)
        if row["against_model"] in BLIND:
            if first in asked:
                guesses.append(item)
        elif is_contrast or is_of_question or {first, second} <= asked:
            models.append(item)
    add_p_of_family(guesses, greater=True)
    add_p_of_family(models)
    return [item.row for item in differences]


def add_p_of_family(family: Sequence[Difference], *, greater: bool = False) -> None:
    """Give each difference of a family its p among all, and their number.

    Guesses that give all clips of a film one score make one comparison, and not several.

    Args:
        family: The differences.
        greater: Whether p is one-sided: is the first side better?
    """
    if not family:
        return
    by_film = np.column_stack([item.by_film for item in family])
    factors = np.array([item.factor for item in family])
    has_value = np.isfinite(by_film).any(axis=1)
    p_values = p_among_all(by_film[has_value], factors, greater=greater)
    tested = by_film[:, np.isfinite(p_values)]
    n_comparisons = len(np.unique(np.nan_to_num(tested), axis=1).T)
    for item, p in zip(family, p_values.tolist(), strict=True):
        if math.isfinite(p):
            item.row.update(p=p, comparisons=n_comparisons)


def asks_for(question: AskedQuestion, row: RunRow) -> bool:
    """Return whether a question asks for a difference, of either sign; an empty name is any."""
    for name in ("train", "test"):
        if question[name] not in ("", row[name]):
            return False
    return _has_sides(question, row) or _has_sides(question, _with_sides_exchanged(row))


def as_asked(question: AskedQuestion, row: RunRow) -> RunRow:
    """Return a difference for which a question asks, with its sides in its order."""
    if _has_sides(question, row):
        return row
    exchanged = _with_sides_exchanged(row)
    for name in ("value", "over_films"):
        exchanged[name] = -row[name]
    return exchanged | {"low": -row["high"], "high": -row["low"]}


def _with_sides_exchanged(row: RunRow) -> RunRow:
    """Return a difference of two models of one training task, each in the other's place."""
    return {
        **row,
        "model": row["against_model"],
        "store": row["against_store"],
        "against_model": row["model"],
        "against_store": row["store"],
    }


def _has_sides(question: AskedQuestion, row: RunRow) -> bool:
    sides = {
        "first": row["model"],
        "first_store": row["store"],
        "second": row["against_model"],
        "second_store": row["against_store"],
    }
    return all(question[key] in ("", name) for key, name in sides.items())


# ---- contrasts, chosen stores ----


def _contrasts(
    cells: Sequence[Cell], settings: RunSettings
) -> Iterator[tuple[Cell, Cell]]:
    """Yield the same models trained on the two tasks of `report.contrast`, on common clips."""
    if not settings.contrast:
        return
    cell_of = {cell.name: cell for cell in cells}
    for (train, test, store, model), first in cell_of.items():
        second = cell_of.get((settings.contrast[1], test, store, model))
        if train != settings.contrast[0] or second is None:
            continue
        if not first.is_model or not first.is_trained:
            continue
        shared = on_shared_clips([first, second])
        if not shared.problem:
            ours, theirs = shared.cells
            yield ours, theirs


def _contrasts_of(
    first: Cell, second: Cell, values: ComparedValues
) -> list[Difference]:
    """Return the difference of a model that was trained on one task and on another.

    Where all runs share one test set, as in Table 2, a difference of AP or AUC has an interval over
    films and a p, unless the model starts at random: what another start changes is not known. Where
    each film is tested by models of the others, it has neither: how much the two training sets
    vary together depends on the data. Where test clips of either side leaked, it has neither.
    """
    settings = values.settings
    starts_at_random = first.model in settings.starting_at_random
    is_of_films = has_interval(weakest([first.basis, second.basis]))
    if is_of_films and first.n_test_sets == 1 and not starts_at_random:
        found = [difference(first, second, values, factor=1.0)]
    else:
        found = [_without_interval(first, second, settings.metric, values)]
    primary = settings.primary
    # Margins have no Brier score and no calibration error.
    has_primary = primary in first.values and primary in second.values
    if primary != settings.metric and has_primary:
        found.insert(0, _without_interval(first, second, primary, values))
    return found


def _without_interval(
    first: Cell, second: Cell, metric: str, values: ComparedValues
) -> Difference:
    """Return a difference that has no interval and no p."""
    row = row_of_difference(first, second, metric)
    row["over_films"] = row["value"]
    return Difference(row, np.full(len(values.films), np.nan), math.inf)


Fit = tuple[str, str, str, str, int]  # training and test task, model, fold, seed
FIT = ["train", "test", "model", "fold", "seed"]


def chosen_stores(tests: pd.DataFrame) -> dict[Fit, tuple[str, dict[str, float]]]:
    """Return the store that training films choose for each fit, and what each store has there.

    To name the best of several stores after the test is to choose it on test films. So it is chosen
    in each fold, as any setting is: fits without their film have scored training clips of every
    store, and the store with the highest average precision there is taken, of equal ones the first.
    A fit of which no store has such scores has no entry: there is nothing to choose by.
    """
    of_fits: dict[Fit, dict[str, float]] = {}
    of_stores = tests.drop_duplicates([*FIT, "store"])
    for row in of_stores.to_dict("records"):
        fit = (row["train"], row["test"], row["model"], row["fold"], row["seed"])
        of_fits.setdefault(fit, {})[row["store"]] = row["inner_ap"]
    found = {}
    for fit, of_fit in of_fits.items():
        known = {store: ap for store, ap in of_fit.items() if math.isfinite(ap)}
        if known:
            found[fit] = (max(known, key=known.__getitem__), of_fit)
    return found


def chosen(
    tests: pd.DataFrame, best: Mapping[Fit, tuple[str, dict[str, float]]], name: str
) -> pd.DataFrame:
    """Return the tests on the stores that `chosen_stores` names. Nothing is fitted again.

    Args:
        tests: The table, of several stores.
        best: The store of each fit.
        name: What the chosen store is called.
    """
    import pandas as pd

    keys = [(*fit, store) for fit, (store, _) in best.items()]
    order = pd.DataFrame(keys, columns=[*FIT, "store"])
    # A merge keeps the order of its left side.
    kept = order.merge(tests, on=[*FIT, "store"])[[*tests.columns]]
    # Training films choose the store, also for a model that is not trained.
    return kept.assign(store=name, is_trained=True)
