"""Compute all values of a run from its table of tests.

`results` returns the values as one table, and reports read only this table. Intervals and
significance tests are over films (docs/design/0007-calibration.md).
"""

from __future__ import annotations

import math
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from obygaze_models.evaluation.basis import LEAKED, UNSEEN, has_interval, weakest
from obygaze_models.evaluation.bootstrap import (
    CONFIDENCE,
    LEAST_GROUPS,
    NO_INTERVAL,
    GroupCount,
    Interval,
    interval_from_draws,
    resample,
    share_variance,
)
from obygaze_models.evaluation.cells import (
    Cell,
    cells_from_tests,
    on_shared_clips,
)
from obygaze_models.evaluation.film_tests import (
    mean_over_films,
    p_alone,
    p_among_all,
    training_factor,
)
from obygaze_models.evaluation.group_tests import ALPHA
from obygaze_models.evaluation.metrics import (
    AP,
    PREVALENCE,
    RANKING_METRICS,
    goodness,
    ranking_metric,
)
from obygaze_models.evaluation.predictions import (
    ROUNDING,
    FloatArray,
    rounded_difference,
)
from obygaze_models.evaluation.tables import (
    RESULTS,
    Pair,
    RunRow,
    columns_of_rows,
    group_by,
    table_of_columns,
)

if TYPE_CHECKING:
    import pandas as pd

# Baselines without video.
BLIND = ("random", "all_positive", "prevalence", "film_prior", "neighbour")
# The words of tables for whether the first of two models is better.
BETTER = "yes"
NOT_SHOWN = "not shown"
WORSE = "no, worse"
NO_VERDICT = "–"
DIGITS = 12  # values are compared after rounding to this many decimals
LEAST_CLIPS = 5  # smallest number of clips of each class, for an interval

CellName = tuple[str, str, str, str]  # training task, test task, store and model
ResultColumns = dict[str, list[Any]]  # all columns of results.csv
# Functions without arguments, which run in one process or in several.
Jobs = Sequence[Callable[[], Any]]


def one_by_one(jobs: Jobs) -> Iterable[Any]:
    """Run the jobs one after the other, and yield their results."""
    return (job() for job in jobs)


@dataclass(frozen=True)
class RunSettings:
    """The input of `results` besides the table of tests: settings and facts of clips.

    Attributes:
        primary: The primary metric.
        replicates: The number of draws of films.
        seed: The seed of the draws.
        compares: Whether differences are computed.
        lead: The model that the run is about (`report.lead`). Empty: all models.
        against: The model that `lead` is compared with (`report.against`), or "".
        asked_pair: The training and test task that the run is about. None: all pairs.
        models: The models in `grid.models`.
        contrast: Two training tasks (`report.contrast`). Each model that was trained on both tasks
            is compared between the two.
        starting_at_random: Models whose scores depend on a random start.
        sizes: For each task with folds of a published file, two numbers for each film: all of its
            clips, and all of its positive clips, whether they are tested or not.
        paper: The published values of the protocol (`[[paper]]`).
        backbones: The backbone of each store that has one.
        parts: The stores of which each joined store consists.
        reference: The store that all others are compared with. Empty: all are compared with all.
    """

    primary: str = AP.name
    replicates: int = 2000
    seed: int = 0
    compares: bool = True
    lead: str = ""
    against: str = ""
    asked_pair: Pair | None = None
    models: Sequence[str] = ()
    contrast: Sequence[str] = ()
    starting_at_random: Sequence[str] = ()
    sizes: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    paper: Sequence[Mapping[str, Any]] = ()
    backbones: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reference: str = ""

    @property
    def metric(self) -> str:
        """The metric by which cells are compared."""
        return ranking_metric(self.primary)

    def is_about(self, pair: Pair) -> bool:
        """Return whether the run is about a training and a test task."""
        return self.asked_pair in (None, pair)


def results(
    tests: pd.DataFrame, settings: RunSettings, each: Callable[[Jobs], Any] = one_by_one
) -> pd.DataFrame:
    """Return all values of a table of tests: of cells, of their differences, and of contrasts.

    A contrast is a difference of one model that was trained on two tasks.

    Args:
        tests: The table of tests.
        settings: Settings of the protocol and facts of the clips.
        each: A function that runs jobs and returns their results in the order of the jobs.
    """
    cells = cells_from_tests(tests)
    of_pairs = group_by(cells, lambda cell: cell.pair)
    asked = [cell.name for cell in asked_cells(cells, settings)]
    test_sets: dict[bytes, int] = {}
    jobs: list[Callable[[], Any]] = []
    for cell in cells:
        place = asked.index(cell.name) + 1 if cell.name in asked else math.nan
        clips = cell.clips.tobytes()
        test_set = test_sets.setdefault(clips, len(test_sets) + 1)
        facts = {"asked": place, "test_set": test_set}
        jobs.append(partial(_rows_of_cell, cell, settings, of_pairs[cell.pair], facts))
    if settings.compares:
        for of_pair in of_pairs.values():
            jobs.append(partial(_compute_differences, of_pair, settings))
    for both in _contrasts(cells, settings):
        jobs.append(partial(_compute_contrasts, *both, settings))
    made = iter(each(jobs))
    of_cells: list[ResultColumns] = [next(made) for _ in cells]
    differences: list[Difference] = [*chain.from_iterable(made)]
    add_p(differences, asked, settings)
    for item in differences:
        item.row["verdict"] = verdict(item.row)
    of_model = group_by(differences, lambda item: names_of_difference(item.row)[0])
    for cell, columns in zip(cells, of_cells, strict=True):
        if cell.is_model:
            at = [*cell.values].index(settings.metric)
            rows = [item.row for item in of_model.get(cell.name, ())]
            for name, value in judgement(columns["baseline"][at], rows).items():
                columns[name][at] = value
    rows = [item.row for item in differences]
    return table_of_columns([*of_cells, columns_of_rows(rows, RESULTS)], RESULTS)


# ---- cells ----


def facts_of_cell(cell: Cell) -> RunRow:
    """Return the columns that are equal in all rows of a cell that are over all films."""
    return {
        "task": cell.test,
        "train": cell.train,
        "test": cell.test,
        "store": cell.store,
        "model": cell.model,
        "kind": _kind(cell),
        "fits": len(cell.fits),
        "clips": cell.n_clips,
        "positive": cell.n_positive,
        "films": cell.n_films,
        "leaked": cell.leaked,
        "copies": cell.copies,
        "same_film": cell.same_film,
        "basis": cell.basis,
        "averaged": int(cell.is_averaged),
    }


def _kind(cell: Cell) -> str:
    """Return whether a cell is of a model or a baseline, and whether it is trained."""
    kind = "model" if cell.is_model else "baseline"
    return kind if cell.is_trained else f"untrained {kind}"


def _rows_of_cell(
    cell: Cell, settings: RunSettings, of_pair: Sequence[Cell], facts: RunRow
) -> ResultColumns:
    """Return the rows of a cell: each metric over all films, then each metric within each film.

    Args:
        cell: The cell.
        settings: Settings of the protocol and facts of the clips.
        of_pair: All cells with the tasks of the cell.
        facts: The columns that depend on other cells and are equal in all rows.
    """
    of_cell = {**facts_of_cell(cell), **facts}
    baselines = [*_blind_on_clips(cell, of_pair)] if cell.is_model else []
    # Other metrics are shown without a baseline.
    beside = {}
    for metric in (settings.metric, settings.primary):
        if metric in cell.values:
            beside[metric] = _beside_baseline(cell, baselines, metric)
    intervals = compute_intervals(cell, settings)
    once = np.ones((1, len(cell.coded_groups[0])))
    at_random = cell.in_random_order().under(once, RANKING_METRICS)
    rows: list[RunRow] = []
    for metric, value in cell.values.items():
        low, high = intervals.get(metric, NO_INTERVAL)
        row = {**of_cell, "film": "", "metric": metric, "value": value}
        row |= {"sd": cell.sd(metric), "low": low, "high": high}
        row["films_with_value"] = cell.film_counts(metric)[0]
        if metric in RANKING_METRICS:
            row["random"] = float(at_random[metric][0])
        if metric in beside:
            row |= beside[metric].whole
        rows.append(row)
    of_cell |= dict.fromkeys(("leaked", "copies", "same_film", "positive"), math.nan)
    names, values = cell.by_film(cell.metrics) if cell.n_films else ([], {})
    n_clips = dict(zip(*np.unique(cell.groups, return_counts=True), strict=True))
    for number, film in enumerate(names):
        of_film = {**of_cell, "film": film, "fits": len(cell.fits_of_films[film])}
        of_film |= {"clips": int(n_clips[film]), "films": 1}
        for metric, of_films in values.items():
            row = {**of_film, "metric": metric, "value": float(of_films[number])}
            row["sd"] = cell.sd_of_film(film, metric)
            if metric in beside:
                row |= beside[metric].of_films.get(film, {})
            rows.append(row)
    published = _published_values(cell, settings)
    for row in rows:
        row |= published.get((row["film"], row["metric"]), {})
    return columns_of_rows(rows, RESULTS)


@dataclass(frozen=True)
class BesideBaseline:
    """What stands beside a value of a model: its best baseline, and films in which it is better.

    Attributes:
        whole: The columns of the row over all films.
        of_films: The columns of the row of each film in which both values are defined.
    """

    whole: RunRow
    of_films: Mapping[str, RunRow]


def _beside_baseline(
    cell: Cell, baselines: Sequence[Cell], metric: str
) -> BesideBaseline:
    """Compare a model with its best baseline, over all films and in each film.

    For AP and AUC, a film counts as better by the difference that p is of (`film_differences`).
    """
    baseline = _best(baselines, metric)
    if baseline is None:
        return BesideBaseline({}, {})
    whole = {"baseline": baseline.model, "baseline_value": baseline.values[metric]}
    if not cell.n_films:
        return BesideBaseline(whole, {})
    names, ours = cell.by_film([metric])
    _, theirs = baseline.by_film([metric])
    compared: Mapping[str, float] = {}
    if metric in RANKING_METRICS:
        compared = film_differences(cell, baseline, metric)
        whole |= count_films(compared.values())
    of_films: dict[str, RunRow] = {}
    for film, our, their in zip(names, ours[metric], theirs[metric], strict=True):
        if not math.isfinite(our + their):
            continue
        of_films[film] = {"baseline_value": float(their)}
        if film in compared:
            of_films[film]["tested"] = compared[film]
            of_films[film]["films_better"] = int(compared[film] > ROUNDING)
        elif metric not in RANKING_METRICS:
            is_better = goodness(metric, our) > goodness(metric, their)
            of_films[film]["films_better"] = int(is_better)
    return BesideBaseline(whole, of_films)


def _blind_on_clips(cell: Cell, of_pair: Sequence[Cell]) -> Iterator[Cell]:
    """Yield the baselines without video that tested all clips of a cell, on these clips."""
    for other in of_pair:
        is_blind = other.model in BLIND and other.store in ("", cell.store)
        if is_blind and not other.is_model:
            shared = on_shared_clips([cell, other])
            if not shared.problem and shared.n_clips == cell.n_clips:
                yield shared.cells[1]


def _best(baselines: Sequence[Cell], metric: str) -> Cell | None:
    """Return the best baseline; of baselines that differ only by rounding, the first."""

    def rounded_goodness(baseline: Cell) -> float:
        return round(goodness(metric, baseline.value(metric)), DIGITS)

    known = [one for one in baselines if math.isfinite(one.value(metric))]
    return max(known, key=rounded_goodness, default=None)


def count_films(differences: Iterable[float]) -> RunRow:
    """Return in how many films a difference is above 0, is 0, and is defined."""
    of_films = np.array([*differences])
    return {
        "films_better": int((of_films > ROUNDING).sum()),
        "films_equal": int((np.abs(of_films) <= ROUNDING).sum()),
        "films_compared": len(of_films),
    }


def verdict(row: RunRow) -> str:
    """Return the word for whether the first side of a difference is better; its p decides."""
    if row["basis"] == LEAKED:
        return LEAKED
    if math.isnan(row["p"]):
        return NO_VERDICT
    if row["p"] > ALPHA:
        return NOT_SHOWN
    return BETTER if row["tested"] > 0 else WORSE


def judgement(baseline: str, differences: Sequence[RunRow]) -> RunRow:
    """Return p and verdict of a model against its best baseline, as columns of its row.

    The p is the largest p of all differences between the model and a baseline without video.

    Args:
        baseline: The name of the best baseline, or "".
        differences: The rows of the differences of the model.
    """
    found: RunRow = {}
    p_values = []
    for row in differences:
        if row["against_model"] in BLIND and row["against_store"] in ("", row["store"]):
            p_values.append(row["p"])
            if row["against_model"] == baseline:
                found = {**row}
    if not found:
        return {"verdict": NO_VERDICT}
    if not math.isnan(found["p"]):
        found["p"] = max(p for p in p_values if math.isfinite(p))
    found["verdict"] = verdict(found)
    return {name: found[name] for name in ("tested", "p", "comparisons", "verdict")}


def _published_values(
    cell: Cell, settings: RunSettings
) -> dict[tuple[str, str], RunRow]:
    """Return for each film and metric the first published value that matches the cell.

    A published value with a pattern of backbones does not match a cell without a backbone, such as
    a cell of joined features.
    """
    backbone = settings.backbones.get(cell.store)
    names = {"model": cell.model, "feature": cell.store}
    names |= {"train": cell.train, "test": cell.test}
    found: dict[tuple[str, str], RunRow] = {}
    for printed in settings.paper:
        pattern = printed["backbone"]
        if pattern and not (backbone and is_backbone(backbone, pattern)):
            continue
        if all(printed[key] in ("", value) for key, value in names.items()):
            sd = printed["sd"] if printed["sd"] >= 0 else math.nan
            row = {"paper": printed["mean"], "paper_sd": sd}
            found.setdefault((printed["film"], printed["metric"]), row)
    return found


def is_backbone(backbone: str, pattern: str) -> bool:
    """Return whether a pattern such as `xclip-*` matches the backbone of a store."""
    imported = " (imported)"
    return fnmatch(backbone.casefold().removesuffix(imported), pattern.casefold())


def compute_intervals(cell: Cell, settings: RunSettings) -> dict[str, Interval]:
    """Return the intervals over films of the metrics of a cell.

    If nothing is trained, all metrics have an interval. If a model is trained, only AP, AUC and
    prevalence have one, because a model with different training films may classify many clips
    differently.
    """
    if not _has_enough(cell):
        return {}
    given = cell.metrics
    if cell.is_trained:
        given = (*RANKING_METRICS, PREVALENCE.name)
    return resample(
        lambda weights: cell.under(weights, given),
        len(cell.coded_groups[0]),
        n_replicates=settings.replicates,
        seed=(settings.seed, 0),
        within_unit=True,
        inflation=cell.inflation,
        label_inflation=_label_inflation(cell, settings),
        counts={name: cell.groups_behind(name) for name in RANKING_METRICS},
    )


def _has_enough(cell: Cell) -> bool:
    """Return whether a cell has enough clips of each class and enough films for an interval."""
    n_fewer = min(cell.n_positive, cell.n_clips - cell.n_positive)
    films = cell.groups_behind(AP.name)
    return n_fewer >= LEAST_CLIPS and films.number >= LEAST_GROUPS


def _label_inflation(cell: Cell, settings: RunSettings) -> float:
    """Return a factor for the part of the variance that comes from the share of positive clips.

    A stratified test set has the same share of positive clips as all clips of the task. With other
    films, this share would vary as it varies between draws of films with all their clips. It varies
    more between draws of films with only their test clips, because these differ by chance within
    films; stratification removes this part. The factor is the first variance, divided by the
    second. If films are tested with all their clips, the factor is 1.
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
        row: The row of results.csv.
        by_film: The difference in each film in which it is defined.
        factor: The true variance of the mean over films, divided by the variance that is estimated
            from the spread of the films.
    """

    row: RunRow
    by_film: Mapping[str, float]
    factor: float


def film_differences(first: Cell, second: Cell, metric: str) -> dict[str, float]:
    """Return the difference of two cells in each film with clips of both classes.

    If the second cell gives all clips of a film one score, its scores are not used. The difference
    is then the metric of the first cell, minus the metric of its negated scores, divided by 2. If a
    ranking and its reverse are equally likely, the mean of this difference is 0. The mean of AP
    minus the AP of equal scores can differ from 0, because AP is convex. Exchanged cells have the
    negative difference.
    """
    if first.is_constant_in_films and not second.is_constant_in_films:
        exchanged = film_differences(second, first, metric)
        return {film: -difference for film, difference in exchanged.items()}
    ours, theirs = first.of_two_classes(metric)
    parts = 2
    if not second.is_constant_in_films:
        theirs, _ = second.of_two_classes(metric)
        parts = 1
    by_film = {}
    for film in ours.keys() & theirs.keys():
        by_film[film] = float(rounded_difference(ours[film], theirs[film])) / parts
    return dict(sorted(by_film.items()))


def _compute_differences(
    cells: Sequence[Cell], settings: RunSettings
) -> list[Difference]:
    """Return the differences between the cells with one training task and one test task."""
    found = []
    if not settings.reference:
        for first, second in comparable(cells):
            if _is_turned(first, second, settings):
                first, second = second, first
            found.append(difference(first, second, settings))
        return found
    for of_model in group_by(cells, lambda cell: cell.model).values():
        (first,) = (cell for cell in of_model if cell.store == settings.reference)
        for cell in of_model:
            if cell is first:
                continue
            if settings.primary == settings.metric:
                found.append(difference(cell, first, settings))
            else:
                found.append(_without_interval(cell, first, settings.primary))
    return found


def _is_turned(first: Cell, second: Cell, settings: RunSettings) -> bool:
    """Return whether a difference is shown as the second cell minus the first.

    The model `lead` stands before the model `against`, and a joined store before its parts.
    """
    if first.model != second.model:
        return (second.model, first.model) == (settings.lead, settings.against)
    return first.store in settings.parts.get(second.store, ())


def comparable(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Cell]]:
    """Yield pairs of cells: two models, a model and a baseline, or a model on two stores.

    All cells must have the same training task and test task. Both cells of a pair are restricted to
    the clips that both cells tested with the same class.
    """
    for first, second in combinations(cells, 2):
        one_model = first.model == second.model and first.store != second.store
        one_store = second.store in (first.store, "")
        # Two baselines are not compared, even if each store has its own baselines.
        if first.is_model and (one_model or one_store):
            yield from _on_one_set(first, second)


def _on_one_set(first: Cell, second: Cell) -> Iterator[tuple[Cell, Cell]]:
    """Yield two cells on the clips that both tested; yield nothing if there are too few clips."""
    shared = on_shared_clips([first, second])
    if not shared.problem:
        ours, theirs = shared.cells
        yield ours, theirs


def difference(
    first: Cell, second: Cell, settings: RunSettings, factor: float | None = None
) -> Difference:
    """Return the difference of two cells of one test task that tested the same clips.

    On unseen films, the difference is the mean over films, with Student's interval. If films have
    clips in training and in test, it is the difference of the values over all films, with a
    bootstrap interval.

    Args:
        first: The first cell.
        second: The second cell.
        settings: Settings of the protocol and facts of the clips.
        factor: The true variance, divided by the variance that is estimated from films; None: it is
            computed from the splits.
    """
    row = row_of_difference(first, second, settings.metric)
    of_films = film_differences(first, second, settings.metric)
    by_film = np.array([*of_films.values()])
    if row["basis"] == UNSEEN:
        if factor is None:
            factor = film_factor(first, second, len(by_film))
        is_half = first.is_constant_in_films or second.is_constant_in_films
        most = 0.5 if is_half else 1.0
        mean, interval = mean_over_films(by_film, factor, most)
        row |= dict.fromkeys(("value", "first", "second"), math.nan)
        row["tested"] = mean
        if not is_half:
            row["value"] = mean
            for side, cell in (("first", first), ("second", second)):
                in_films, _ = cell.of_two_classes(settings.metric)
                row[side] = _mean([in_films[film] for film in of_films])
    else:
        if factor is None:
            factor = max(first.inflation, second.inflation)
        interval = _interval_of_draws(first, second, settings, factor)
        if p_alone(by_film[:, None], np.array([factor]))[0] > 1 - CONFIDENCE:
            # Bootstrap intervals of a dozen films are too narrow if films differ very much.
            interval = Interval(min(interval.low, 0.0), max(interval.high, 0.0))
        if by_film.sum() * row["value"] < 0:
            # The films and all clips together show the opposite, so there is no p.
            factor = math.inf
    row |= {"low": interval.low, "high": interval.high}
    return Difference(row, of_films, factor)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def film_factor(first: Cell, second: Cell, n_films: int) -> float:
    """Return the true variance of a mean over unseen films, divided by the estimated variance.

    The variance is estimated from the spread of the films.
    """
    for cell in (first, second):
        if cell.is_trained and cell.n_test_sets > 1:
            return training_factor(n_films)
    return 1.0


def _interval_of_draws(
    first: Cell, second: Cell, settings: RunSettings, inflation: float
) -> Interval:
    """Return the bootstrap interval over films of a difference of values over all films.

    If one of the values has no interval because there are too few clips or films, the difference
    has no interval either.
    """
    if not (_has_enough(first) and _has_enough(second)):
        return NO_INTERVAL
    metric = settings.metric
    of_draws = (metric, settings.replicates, settings.seed)
    ours = first.drawn(*of_draws)
    theirs = second.drawn(*of_draws)
    n_films = min(cell.groups_behind(metric).number for cell in (first, second))
    value = first.values[metric] - second.values[metric]
    interval = interval_from_draws(
        ours - theirs, value, GroupCount(n_films, n_films), inflation=inflation
    )
    # Equal scores have an AUC of one half in every draw, which limits the difference.
    low_of_first, high_of_first = _possible_values(ours)
    low_of_second, high_of_second = _possible_values(theirs)
    most = (low_of_first - high_of_second, high_of_first - low_of_second)
    return Interval(*np.clip(interval, *most).tolist())


def row_of_difference(first: Cell, second: Cell, metric: str) -> RunRow:
    """Return the row of a difference, without interval and p."""
    leaked = np.union1d(first.leaked_clips, second.leaked_clips)
    ours, theirs = first.values[metric], second.values[metric]
    value = float(rounded_difference(ours, theirs))
    of_films: RunRow = dict.fromkeys(
        ("films_better", "films_equal", "films_compared"), 0
    )
    if metric in RANKING_METRICS and first.n_films:
        of_films = count_films(film_differences(first, second, metric).values())
    return {
        **facts_of_cell(first),
        **dict.fromkeys(("copies", "same_film"), math.nan),
        **of_films,
        "metric": metric,
        **dict.fromkeys(("value", "tested"), value),
        "first": ours,
        "second": theirs,
        "against_train": second.train,
        "against_store": second.store,
        "against_model": second.model,
        **dict.fromkeys(("low", "high", "p", "comparisons"), math.nan),
        "leaked": len(leaked),
        "basis": weakest([first.basis, second.basis]),
    }


def _possible_values(draws: FloatArray) -> tuple[float, float]:
    """Return the lowest and the highest value that a metric can have.

    They are 0 and 1. If all draws have the same value between 0 and 1, they are this value.
    """
    finite = draws[np.isfinite(draws)]
    # All draws of a perfect model are 1; this shows too few clips, not a certain value.
    if finite.size and np.ptp(finite) == 0 and 0 < finite[0] < 1:
        return float(finite[0]), float(finite[0])
    return 0.0, 1.0


# ---- what a run asks for ----


def asked_cells(cells: Iterable[Cell], settings: RunSettings) -> list[Cell]:
    """Return the cells of the models that a run is about; the choice ignores the results.

    These are the cells of the lead model, or of all models in `grid.models`, on the tasks that the
    run is about. Without a lead, or without such a cell, they are the cells of all models. If
    `grid.models` lists all models, the cells are in the order of this list.
    """
    models = [cell for cell in cells if cell.is_model]
    listed = [*settings.models]
    if {cell.model for cell in models} <= {*listed}:
        models.sort(key=lambda cell: listed.index(cell.model))
    if not settings.lead:
        return models
    asked = []
    for cell in models:
        is_listed = bool(listed) or cell.model == settings.lead
        if is_listed and settings.is_about(cell.pair):
            asked.append(cell)
    return asked or models


def is_asked_difference(
    row: RunRow, asked: Collection[CellName], settings: RunSettings
) -> bool:
    """Return whether a run asks for the difference of two models.

    These are the differences of two models that the run is about, of `report.lead` and
    `report.against`, and of `report.contrast`.
    """
    if row["against_train"] != row["train"]:
        return True
    sides = (row["model"], row["against_model"])
    is_of_lead = sides == (settings.lead, settings.against)
    if is_of_lead and settings.is_about((row["train"], row["test"])):
        return True
    return {*names_of_difference(row)} <= {*asked}


# ---- p in families ----


def names_of_difference(row: RunRow) -> tuple[CellName, CellName]:
    """Return the names of the two cells of a difference."""
    first = (row["train"], row["test"], row["store"], row["model"])
    second = (row["against_train"], row["test"])
    return first, (*second, row["against_store"], row["against_model"])


def add_p(
    differences: Sequence[Difference],
    asked: Collection[CellName],
    settings: RunSettings,
) -> None:
    """Add a p to each difference that the run asks for, corrected in its family.

    The first family is the models that the run is about against baselines without video. The second
    is the differences of two models (`is_asked_difference`). Except for contrasts, these get their
    place in the column `asked`. A comparison has the same p in all tables. Other differences have
    no p.

    Args:
        differences: The differences. Their rows are changed.
        asked: The names of the cells that the run is about.
        settings: Settings of the protocol and facts of the clips.
    """
    baselines = []
    models = []
    for item in differences:
        row = item.row
        if row["against_model"] in BLIND:
            if names_of_difference(row)[0] in asked:
                baselines.append(item)
        elif is_asked_difference(row, asked, settings):
            models.append(item)
    add_p_of_family(baselines, greater=True)
    add_p_of_family(models)
    # Contrasts have a table of their own.
    asked_rows = [
        item.row for item in models if item.row["against_train"] == item.row["train"]
    ]
    asked_rows.sort(key=lambda row: _rank_of_difference(row, settings))
    for number, row in enumerate(asked_rows, 1):
        row["asked"] = number


def _rank_of_difference(row: RunRow, settings: RunSettings) -> int:
    """Return the place: the lead against its model, joined stores against parts, then others."""
    if (row["model"], row["against_model"]) == (settings.lead, settings.against):
        return 0
    return 1 if row["against_store"] in settings.parts.get(row["store"], ()) else 2


def add_p_of_family(family: Sequence[Difference], *, greater: bool = False) -> None:
    """Set the corrected p and the number of comparisons of each difference of a family.

    Differences that have equal values in each film count as one comparison. For example, this holds
    for the differences of a model from several baselines that give all clips of a film one score.

    Args:
        family: The differences.
        greater: Whether p is one-sided, for the alternative that the first side is better.
    """
    films = sorted({film for item in family for film in item.by_film})
    if not films:
        return
    by_film = np.full((len(films), len(family)), np.nan)
    for column, item in enumerate(family):
        by_film[np.searchsorted(films, [*item.by_film]), column] = [
            *item.by_film.values()
        ]
    factors = np.array([item.factor for item in family])
    p_values = p_among_all(by_film, factors, greater=greater)
    tested = by_film[:, np.isfinite(p_values)]
    n_comparisons = len(np.unique(np.nan_to_num(tested), axis=1).T)
    for item, p in zip(family, p_values.tolist(), strict=True):
        if math.isfinite(p):
            item.row.update(p=p, comparisons=n_comparisons)


# ---- contrasts ----


def _contrasts(
    cells: Sequence[Cell], settings: RunSettings
) -> Iterator[tuple[Cell, Cell]]:
    """Yield two cells for each model that was trained on both tasks of `report.contrast`.

    The cells are restricted to the clips that both tested.
    """
    if not settings.contrast:
        return
    ours, theirs = settings.contrast
    cell_of = {cell.name: cell for cell in cells}
    for first in cells:
        second = cell_of.get((theirs, *first.name[1:]))
        if first.train == ours and second and first.is_model and first.is_trained:
            yield from _on_one_set(first, second)


def _compute_contrasts(
    first: Cell, second: Cell, settings: RunSettings
) -> list[Difference]:
    """Return the differences of a model that was trained on two tasks.

    If all runs share one test set, as in Table 2 of the ObyGaze12 paper, a difference of AP or AUC
    has an interval over films and a p. A difference has no interval and no p in three cases. If the
    model starts at random, the effect of a different start is unknown. If each film is tested by
    models that were trained on the other films, the covariance of the two training sets depends on
    the data. If test clips leaked or films are unknown, no value can have an interval.
    """
    starts_at_random = first.model in settings.starting_at_random
    is_of_films = has_interval(weakest([first.basis, second.basis]))
    if is_of_films and first.n_test_sets == 1 and not starts_at_random:
        found = [difference(first, second, settings, factor=1.0)]
    else:
        found = [_without_interval(first, second, settings.metric)]
    primary = settings.primary
    # Margins have no Brier score.
    has_primary = primary in first.values and primary in second.values
    if primary != settings.metric and has_primary:
        found.insert(0, _without_interval(first, second, primary))
    return found


def _without_interval(first: Cell, second: Cell, metric: str) -> Difference:
    """Return a difference without interval and p."""
    return Difference(row_of_difference(first, second, metric), {}, math.inf)
