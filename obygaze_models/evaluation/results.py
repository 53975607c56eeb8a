"""Every value of a run as a function of its table of tests: `results` is all that a report reads.

Intervals draw films, and tests change the signs of films (docs/design/0018-calibration.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import partial
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.basis import has_interval, weakest
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
from obygaze_models.evaluation.metrics import (
    AP,
    PREVALENCE,
    RANKING_METRICS,
    GroupCount,
    ranking_metric,
)
from obygaze_models.evaluation.predictions import FloatArray, difference_of
from obygaze_models.evaluation.sign_flips import max_t_p, sign_flip_p
from obygaze_models.evaluation.tables import (
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
FILMS_OF_A_TEST = 6  # no test over fewer films has a p below .05
GUESSES = "guesses"  # the family of differences of a model and a guess without video

AskedQuestion = Mapping[str, str]
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
    draws = Draws(settings, np.unique(tests["group"].to_numpy()))
    of_tasks = []
    if settings.compares:
        of_tasks = [*grouped_by(cells, lambda cell: cell.pair).values()]
    jobs: list[Callable[[], Any]] = [
        *(partial(_rows_of_cell, cell, settings) for cell in cells),
        *(partial(_differences_of, of_task, draws) for of_task in of_tasks),
        *(
            partial(_contrast_rows, *both, settings)
            for both in _contrasts(cells, settings)
        ),
    ]
    made = iter(each(jobs))
    of_cells = [next(made) for _ in cells]
    differences = list(chain(*(next(made) for _ in of_tasks)))
    rows = add_p_of_all(differences, settings.questions)
    rows += chain(*made)
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
    """A difference of two cells on the same clips: its row, and what the p of many need.

    `by_film` has the difference in each film of the table, NaN where it has no value; `n_films` is
    the number of films behind both values.
    """

    row: RunRow
    by_film: FloatArray
    inflation: float
    n_films: int


class Draws:
    """The values of cells if films are drawn, the same films for all; each is computed once."""

    def __init__(self, settings: RunSettings, films: NDArray[np.str_]) -> None:
        self.settings = settings
        self.films = films
        self.metric = settings.metric
        self.known: dict[int, tuple[Cell, FloatArray, FloatArray, int]] = {}

    def of(self, cell: Cell) -> tuple[FloatArray, FloatArray, int]:
        """Return the compared metric of a cell: draws, values of all films, films behind it."""
        metric = self.metric
        if id(cell) not in self.known:
            statistics = cell.statistics([metric])
            codes = np.arange(len(cell.film_names))
            seed = (self.settings.seed, 2)
            drawn = draw(statistics, codes, self.settings.replicates, seed)[metric]
            names, values = cell.by_film([metric])
            by_film = np.full(len(self.films), np.nan)
            by_film[np.searchsorted(self.films, names)] = values[metric]
            n_films = cell.groups_behind(metric).number
            # The cell is kept with its values, so that no other one gets its id.
            self.known[id(cell)] = (cell, drawn, by_film, n_films)
        _, drawn, by_film, n_films = self.known[id(cell)]
        return drawn, by_film, n_films


def draws_of(cells: Iterable[Cell], settings: RunSettings) -> Draws:
    """Return the draws for differences of some cells."""
    films = np.unique(np.concatenate([cell.groups for cell in cells]))
    return Draws(settings, films)


def _differences_of(cells: Sequence[Cell], draws: Draws) -> list[Difference]:
    """Return the differences of the cells of a training and a test task."""
    return [difference(*both, draws) for both in comparable(cells)]


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
    first: Cell, second: Cell, draws: Draws, inflation: float | None = None
) -> Difference:
    """Return the difference of two cells of one test task, which tested the same clips.

    The default inflation is the larger one of the two cells.
    """
    if inflation is None:
        inflation = max(first.inflation, second.inflation)
    metric = draws.metric
    ours, ours_by_film, n_films_of_ours = draws.of(first)
    theirs, theirs_by_film, n_films_of_theirs = draws.of(second)
    n_films = min(n_films_of_ours, n_films_of_theirs)
    row = row_of_difference(first, second, metric)
    interval = interval_of(
        ours - theirs, row["value"], GroupCount(n_films, n_films), inflation=inflation
    )
    # The AUC of a constant is one half whatever films are drawn.
    low_of_first, high_of_first = _possible_values(ours)
    low_of_second, high_of_second = _possible_values(theirs)
    interval = interval.of_difference(
        low_of_first - high_of_second, high_of_first - low_of_second
    )
    by_film = difference_of(ours_by_film, theirs_by_film)
    p = _p_by_film(first, by_film) if np.isfinite(inflation) else math.nan
    interval = as_sure_as(p, interval)
    row |= {"low": interval.low, "high": interval.high, "p": p}
    return Difference(row, by_film, inflation, n_films)


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


def _p_by_film(cell: Cell, by_film: FloatArray) -> float:
    """Return the p of a difference by films, where all runs test one set of clips; else NaN.

    Changing the signs of films assumes that they are independent, but where each film is tested by
    models of the others, it also trained these.
    """
    n_films = int(np.isfinite(by_film).sum())
    if cell.n_test_sets > 1 or n_films < FILMS_OF_A_TEST:
        return math.nan
    p, _ = sign_flip_p(by_film)
    return p


def as_sure_as(p: float, interval: Interval) -> Interval:
    """Return the interval, reaching to 0 if the p by films says that the difference may be 0.

    Draws of a dozen films are narrower than sign flips allow if films differ very much in their
    look (docs/design/0018-calibration.md). A p that is NaN says nothing.
    """
    if not p > 1 - CONFIDENCE or interval.ends == (None, None):
        return interval
    return replace(interval, low=min(interval.low, 0.0), high=max(interval.high, 0.0))


# ---- p in families ----


def add_p_of_all(
    differences: Sequence[Difference], questions: Sequence[AskedQuestion]
) -> list[RunRow]:
    """Return the rows of differences, each with its p among all of its family.

    A family is what one table of a report shows: the differences that the questions of the protocol
    ask for; those of a model and a guess without video; those of one model on two stores. A
    difference to a guess that is asked for is in two tables, and has `p_guesses` for the second.
    All other differences, which no table shows, are one more family.
    """
    families: dict[str, list[Difference]] = {}
    asked = []
    for item in differences:
        is_asked = any(asks_for(question, item.row) for question in questions)
        kind = _kind_of_difference(item.row)
        if is_asked:
            asked.append(item)
        if kind == GUESSES or not is_asked:
            families.setdefault(kind, []).append(item)
    for kind, family in families.items():
        for item, p in zip(family, p_of_family(family), strict=True):
            item.row["p_all"] = p
            if kind == GUESSES:
                item.row["p_guesses"] = p
    for item, p in zip(asked, p_of_family(asked), strict=True):
        item.row["p_all"] = p
    return [item.row for item in differences]


def _kind_of_difference(row: RunRow) -> str:
    if row["against_model"] in BLIND:
        return GUESSES
    return "stores" if row["against_model"] == row["model"] else "models"


def p_of_family(family: Sequence[Difference]) -> list[float]:
    """Return the p of each difference among all of a family; NaN for fewer than six films."""
    p_values = [math.nan] * len(family)
    tested = []
    for number, item in enumerate(family):
        if np.isfinite(item.by_film).sum() >= FILMS_OF_A_TEST:
            tested.append(number)
    if not tested:
        return p_values
    by_film = np.column_stack([family[number].by_film for number in tested])
    has_value = np.isfinite(by_film).any(axis=1)
    inflations = [family[number].inflation for number in tested]
    p_of_tested = max_t_p(by_film[has_value], inflations)
    for number, p in zip(tested, p_of_tested, strict=True):
        p_values[number] = float(p)
    return p_values


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
    exchanged |= {"value": -row["value"], "low": -row["high"], "high": -row["low"]}
    return exchanged


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


def _contrast_rows(first: Cell, second: Cell, settings: RunSettings) -> list[RunRow]:
    """Return the difference of a model that was trained on one task and on another.

    Where all runs share one test set, as in Table 2, a difference of AP or AUC has an interval over
    films and a p, unless the model starts at random: what another start changes is not known. Where
    each film is tested by models of the others, it has neither: how much the two training sets
    vary together depends on the data. Where test clips of either side leaked, it has neither.
    """
    row = row_of_difference(first, second, settings.metric)
    starts_at_random = first.model in settings.starting_at_random
    is_of_films = has_interval(row["basis"])
    if is_of_films and first.n_test_sets == 1 and not starts_at_random:
        draws = draws_of([first, second], settings)
        row = difference(first, second, draws, inflation=1.0).row
    primary = settings.primary
    # Margins have no Brier score and no calibration error.
    has_primary = primary in first.values and primary in second.values
    if primary == settings.metric or not has_primary:
        return [row]
    return [row_of_difference(first, second, primary), row]


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
