"""The rows of results.csv: values with their intervals, differences with their p.

Intervals draw films, and tests change the signs of films (docs/design/0018-calibration.md).
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

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
from obygaze_models.evaluation.metrics import (
    AP,
    PREVALENCE,
    RANKING_METRICS,
    GroupCount,
    ranking_metric,
)
from obygaze_models.evaluation.predictions import (
    FloatArray,
    difference_of,
)
from obygaze_models.evaluation.sign_flips import max_t_p, sign_flip_p
from obygaze_models.models.registry import BLIND, PERCEPTRON
from obygaze_models.protocols.schedule import split_kind
from obygaze_models.protocols.schema import PaperValue, Protocol, Question
from obygaze_models.runner.basis import has_interval, weakest
from obygaze_models.runner.features import is_backbone
from obygaze_models.runner.inputs import Inputs
from obygaze_models.runner.rows import ResultRow
from obygaze_models.runner.scores import Cell, deviation, number_of_groups
from obygaze_models.runner.shared_clips import on_shared_clips

LEAST_CLIPS = 5  # of each class, for an interval
FILMS_OF_A_TEST = 6  # no test over fewer films has a p below .05
GUESSES = "guesses"  # the family of differences of a model and a guess without video
TUNED = "_tuned"
RECALIBRATED = "_recalibrated"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What the values of all cells are computed with.

    Attributes:
        protocol: The protocol.
        films: What each clip of the table is drawn with: its film, or its group of films.
        labels: The class of each clip, by task.
        backbones: The backbone of each store; a joined one has several, and so none.
    """

    protocol: Protocol
    films: NDArray[np.str_]
    labels: dict[str, NDArray[np.int8]]
    backbones: dict[str, str]

    @classmethod
    def of(cls, inputs: Inputs) -> "Evaluation":
        """Return what the cells of a run are evaluated with."""
        table = inputs.table
        return cls(
            inputs.protocol,
            table.groups,
            dict(inputs.labels),
            {
                store.name: str(store.origin["backbone"])
                for store in inputs.stores
                if not store.parts
            },
        )

    @property
    def metric(self) -> str:
        """The metric that cells are compared by."""
        return ranking_metric(self.protocol.report.primary)


@dataclass(frozen=True, eq=False)
class CellResults:
    """The rows of a cell. Those within films are made when they are asked for.

    Of thousands of films they would take gigabytes.

    Attributes:
        over_films: The row of each metric over all films.
        of_film: What the rows of each film have in common; nothing without films.
        values: Each metric within each film, in the same order.
        deviations: The deviation of a metric over fits that test a film alone, by film and metric.
        printed: The values that a paper prints.
    """

    over_films: Sequence[ResultRow]
    of_film: Sequence[ResultRow]
    values: Mapping[str, FloatArray]
    deviations: Mapping[tuple[str, str], float]
    printed: Sequence[PaperValue]

    def __iter__(self) -> Iterator[ResultRow]:
        for of_all in self.over_films:
            yield {**of_all, **self._printed("", of_all["metric"])}
        for number, of_film in enumerate(self.of_film):
            film = of_film["film"]
            for metric, of_films in self.values.items():
                value = float(of_films[number])
                row: ResultRow = {**of_film, "metric": metric, "value": value}
                if (film, metric) in self.deviations:
                    row["sd"] = self.deviations[film, metric]
                yield {**row, **self._printed(film, metric)}

    def _printed(self, film: str, metric: str) -> ResultRow:
        """Return the first value that is printed for a row, as the protocol lists them."""
        for printed in self.printed:
            if (printed.film, printed.metric) == (film, metric):
                sd = printed.sd if printed.sd >= 0 else math.nan
                return {"paper": printed.mean, "paper_sd": sd}
        return {}


def cell_results(cell: Cell, evaluation: Evaluation) -> CellResults:
    """Return the results of a cell: each metric over all films, and within each film."""
    intervals = _intervals(cell, evaluation)
    of_cell = _facts(cell, evaluation)
    nowhere = Interval(math.nan, math.nan)
    rows: list[ResultRow] = []
    for metric, value in cell.value.items():
        interval = intervals.get(metric, nowhere)
        row: ResultRow = {
            **of_cell,
            "metric": metric,
            "value": value,
            "sd": cell.sd(metric),
            "low": interval.low,
            "high": interval.high,
        }
        rows.append(row)
    for name, value in cell.tuned().items():
        rows.append({**of_cell, "metric": name + TUNED, "value": value})
    if cell.is_model and of_cell["films"] > 2:
        for name, value in cell.recalibrated().items():
            rows.append({**of_cell, "metric": name + RECALIBRATED, "value": value})
    names, values = cell.by_film(evaluation.films, cell.metrics)
    n_clips = Counter(evaluation.films[cell.clips].tolist())
    n_fits, deviations = _fits_of_films(cell, evaluation)
    of_film: list[ResultRow] = [
        {
            **of_cell,
            "film": film,
            "fits": n_fits[film],
            "clips": n_clips[film],
            "films": 1,
            "leaked": None,
        }
        for film in names
        if film
    ]
    backbone = evaluation.backbones.get(cell.store)
    printed = [
        value for value in evaluation.protocol.paper if _is_about(value, cell, backbone)
    ]
    return CellResults(rows, of_film, values, deviations, printed)


def _facts(cell: Cell, evaluation: Evaluation) -> ResultRow:
    """Return what all rows of a cell over all films have in common."""
    return {
        "task": cell.test,
        "train": cell.train,
        "test": cell.test,
        "store": cell.store,
        "model": cell.model,
        "fits": len(cell.tested),
        "clips": len(cell.clips),
        "films": number_of_groups(evaluation.films[cell.clips]),
        "leaked": len(_leaked_clips(cell)),
        "basis": cell.basis,
    }


def _fits_of_films(
    cell: Cell, evaluation: Evaluation
) -> tuple[Counter[str], dict[tuple[str, str], float]]:
    """Return how many fits test each film, and the deviations over fits that test it alone."""
    n_fits: Counter[str] = Counter()
    alone: dict[str, list[dict[str, float]]] = {}
    for t, fold_values in zip(cell.tested, cell.fold_values, strict=True):
        films = np.unique(evaluation.films[t.rows]).tolist()
        n_fits.update(films)
        if len(films) == 1:
            alone.setdefault(films[0], []).append(fold_values)
    deviations = {}
    for film, runs in alone.items():
        if len(runs) < 2:
            continue
        for metric in cell.metrics:
            deviations[film, metric] = deviation([run[metric] for run in runs])
    return n_fits, deviations


def _is_about(printed: PaperValue, cell: Cell, backbone: str | None) -> bool:
    """Return whether a printed number is about a cell of this backbone.

    No pattern of backbones matches a cell without one, such as that of a joined store.
    """
    known = {
        "model": cell.model,
        "feature": cell.store,
        "train": cell.train,
        "test": cell.test,
    }
    for key, value in known.items():
        wanted = getattr(printed, key)
        if wanted and wanted != value:
            return False
    if not printed.backbone:
        return True
    return backbone is not None and is_backbone(backbone, printed.backbone)


def _intervals(cell: Cell, evaluation: Evaluation) -> dict[str, Interval]:
    """Return the intervals over films of AP and AUC; of what is not trained, of every metric.

    At a threshold, a model of other training films could call many other clips positive.
    """
    films = evaluation.films[cell.clips]
    if not _has_enough(cell, evaluation):
        return {}
    given = cell.metrics
    if cell.is_trained:
        given = (*RANKING_METRICS, PREVALENCE.name)
    drawn = resample(
        cell.statistics(films, given),
        np.unique(films),
        n_replicates=evaluation.protocol.report.replicates,
        seed=(evaluation.protocol.fit.seed, 0),
        within_unit=True,
        inflation=cell.inflation,
        label_inflation=_label_inflation(cell, evaluation),
        counts={
            name: cell.groups_behind(evaluation.films, name) for name in RANKING_METRICS
        },
    )
    intervals = {}
    for name, interval in drawn.items():
        if name in RANKING_METRICS:
            n_clips = RANKING_METRICS[name].n_behind(cell.y)
            value = cell.value[name]
            interval = not_narrower_than_clips(interval, value, n_clips)
        intervals[name] = interval
    return intervals


def _has_enough(cell: Cell, evaluation: Evaluation) -> bool:
    """Return whether a test has enough clips of each class, and films, for an interval."""
    n_positive = int(cell.y.sum())
    n_fewer = min(n_positive, len(cell.y) - n_positive)
    films = cell.groups_behind(evaluation.films, AP.name)
    return n_fewer >= LEAST_CLIPS and films.number >= LEAST_GROUPS


def _label_inflation(cell: Cell, evaluation: Evaluation) -> float:
    """Return the factor of the variance that comes from the share of positives.

    A stratified test set has the share of all clips of the task. With other films that share
    varies as drawing films with all of their clips shows. Drawing films with their few test clips
    also shows chance among the clips of a film, which stratifying removes. Where films are tested
    with all of their clips, both are the same.
    """
    has_own_folds = split_kind(evaluation.protocol.splits.kind).by_task
    films = evaluation.films[cell.clips]
    of_test = share_variance(cell.y, films)
    if not has_own_folds or cell.n_test_sets > 1 or of_test == 0:
        return 1.0
    labels = evaluation.labels[cell.test]
    is_of_films = (labels >= 0) & np.isin(evaluation.films, films)
    return share_variance(labels[is_of_films], evaluation.films[is_of_films]) / of_test


@dataclass(frozen=True, eq=False)
class Difference:
    """A difference of two cells on the same clips: its row, and what the p of many need."""

    row: ResultRow
    by_film: FloatArray  # NaN for a film without a value, in the order of all films
    inflation: float
    n_films: int  # behind both values


class Draws:
    """The values of cells if films are drawn, the same films for all; each is computed once."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        self.known: dict[int, tuple[Cell, FloatArray, FloatArray, int]] = {}

    def of(self, cell: Cell) -> tuple[FloatArray, FloatArray, int]:
        """Return the compared metric of a cell: draws, values of all films, films behind it."""
        if id(cell) not in self.known:
            evaluation = self.evaluation
            metric = evaluation.metric
            films = evaluation.films[cell.clips]
            statistics = cell.statistics(films, [metric])
            codes = np.arange(len(np.unique(films)))
            seed = (evaluation.protocol.fit.seed, 2)
            n_draws = evaluation.protocol.report.replicates
            drawn = draw(statistics, codes, n_draws, seed)[metric]
            names, values = cell.by_film(evaluation.films, [metric])
            every_film = np.unique(evaluation.films)
            by_film = np.full(len(every_film), np.nan)
            by_film[np.searchsorted(every_film, names)] = values[metric]
            behind = cell.groups_behind(evaluation.films, metric)
            # The cell is kept with its values, so that no other one gets its id.
            self.known[id(cell)] = (cell, drawn, by_film, behind.number)
        _, drawn, by_film, n_films = self.known[id(cell)]
        return drawn, by_film, n_films


def comparable(cells: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """Return the pairs of a model and another model or a baseline, and of a model on two stores.

    All cells must have the same tasks. Both sides of a pair are of the clips that both tested.
    """
    pairs = []
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
            pairs.append((ours, theirs))
    return pairs


def difference(
    first: Cell, second: Cell, draws: Draws, inflation: float | None = None
) -> Difference:
    """Return the difference of two cells of one test task.

    The default inflation is the larger one of the two cells.
    """
    if inflation is None:
        inflation = max(first.inflation, second.inflation)
    evaluation = draws.evaluation
    ours, ours_by_film, n_films_of_ours = draws.of(first)
    theirs, theirs_by_film, n_films_of_theirs = draws.of(second)
    n_films = min(n_films_of_ours, n_films_of_theirs)
    row = _row_of_difference(first, second, evaluation, evaluation.metric)
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


def _row_of_difference(
    first: Cell, second: Cell, evaluation: Evaluation, metric: str
) -> ResultRow:
    """Return the row of a difference, without interval and p."""
    return {
        **_facts(first, evaluation),
        "metric": metric,
        "value": float(difference_of(first.value[metric], second.value[metric])),
        "against_train": second.train,
        "against_store": second.store,
        "against_model": second.model,
        "leaked": len(_leaked_clips(first, second)),
        "basis": weakest([first.basis, second.basis]),
    }


def _leaked_clips(*cells: Cell) -> set[str]:
    leaked: set[str] = set()
    for cell in cells:
        for t in cell.tested:
            leaked.update(t.leak.clips)
    return leaked


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


def add_p_of_all(
    differences: Sequence[Difference], questions: Sequence[Question]
) -> list[ResultRow]:
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


def _kind_of_difference(row: ResultRow) -> str:
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


def asks_for(question: Question, row: ResultRow) -> bool:
    """Return whether a question asks for a difference, of either sign; an empty name is any."""
    if question.train not in ("", row["train"]) or question.test not in (
        "",
        row["test"],
    ):
        return False
    return _has_sides(question, row) or _has_sides(question, _with_sides_exchanged(row))


def as_asked(question: Question, row: ResultRow) -> ResultRow:
    """Return a difference for which a question asks, with its sides in its order."""
    if _has_sides(question, row):
        return row
    exchanged = _with_sides_exchanged(row)
    exchanged |= {"value": -row["value"], "low": -row["high"], "high": -row["low"]}
    return exchanged


def _with_sides_exchanged(row: ResultRow) -> ResultRow:
    """Return a difference of two models of one training task, each in the other's place."""
    return {
        **row,
        "model": row["against_model"],
        "store": row["against_store"],
        "against_model": row["model"],
        "against_store": row["store"],
    }


def _has_sides(question: Question, row: ResultRow) -> bool:
    first = (question.first, question.first_store)
    second = (question.second, question.second_store)
    ours = (row["model"], row["store"])
    theirs = (row["against_model"], row["against_store"])
    return _is_side(first, ours) and _is_side(second, theirs)


def _is_side(asked: tuple[str, str], side: tuple[str, str]) -> bool:
    model, store = asked
    return model in ("", side[0]) and store in ("", side[1])


def contrast_jobs(
    cells: Sequence[Cell], evaluation: Evaluation
) -> list[Callable[[], list[ResultRow]]]:
    """Return functions that compute the rows of the two training tasks of `report.contrast`."""
    contrast = evaluation.protocol.contrast
    if not contrast:
        return []
    cell_of = {(c.train, c.test, c.model, c.store): c for c in cells}
    jobs: list[Callable[[], list[ResultRow]]] = []
    for (train, test, model, store), first in cell_of.items():
        second = cell_of.get((contrast[1], test, model, store))
        if train != contrast[0] or second is None or not first.is_trained:
            continue
        shared = on_shared_clips([first, second])
        if not shared.problem:
            ours, theirs = shared.cells
            jobs.append(partial(_contrast_rows, ours, theirs, evaluation))
    return jobs


def _contrast_rows(
    first: Cell, second: Cell, evaluation: Evaluation
) -> list[ResultRow]:
    """Return the difference of a model that was trained on one task and on another.

    Where all runs share one test set, as in Table 2, a difference of AP or AUC has an interval over
    films and a p, unless the model starts at random: what another start changes is not known. Where
    each film is tested by models of the others, it has neither: how much the two training sets
    vary together depends on the data. Where test clips of either side leaked, it has neither.
    """
    protocol = evaluation.protocol
    row = _row_of_difference(first, second, evaluation, evaluation.metric)
    starts_at_random = protocol.models[first.model].kind == PERCEPTRON
    is_of_films = has_interval(row["basis"])
    if is_of_films and first.n_test_sets == 1 and not starts_at_random:
        row = difference(first, second, Draws(evaluation), inflation=1.0).row
    primary = protocol.report.primary
    # Margins have no Brier score and no calibration error.
    has_primary = primary in first.value and primary in second.value
    if primary == evaluation.metric or not has_primary:
        return [row]
    return [_row_of_difference(first, second, evaluation, primary), row]


def learning_rows(
    points: Mapping[int, Cell], evaluation: Evaluation
) -> list[ResultRow]:
    """Return the primary metric of a learning curve, on the clips that all points tested.

    Where these are too few, the points have no value.

    Args:
        points: The cell of each number of training films.
        evaluation: What values are computed with.
    """
    metric = evaluation.protocol.report.primary
    shared = on_shared_clips([*points.values()])
    rows: list[ResultRow] = []
    for number, n_films in enumerate(points):
        cell = points[n_films]
        if metric not in cell.metrics:
            continue
        if not shared.problem:
            cell = shared.cells[number]
        row = _facts(cell, evaluation)
        row |= {"metric": metric, "value": math.nan, "train_films": n_films}
        if shared.problem:
            row |= {"clips": shared.n_clips, "films": 0}
        else:
            row["value"] = cell.value[metric]
        rows.append(row)
    return rows
