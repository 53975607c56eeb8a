"""`obygaze compare`: runs side by side, on the clips that each of them and the first one tested.

A comparison is a join of the predictions of two runs. Both sides are computed again on the clips
that both tested with the same class, as a run computes its own differences: films are drawn
together, and signs of films are changed.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.console import MISSING, count, table, with_interval
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.outside import safe_text
from obygaze_features.core.schema_rules import near
from obygaze_features.core.written_tables import Columns, Listing
from obygaze_models.evaluation.leakage import Leak
from obygaze_models.evaluation.metrics import METRICS, RANKING_METRICS, ranking_metric
from obygaze_models.evaluation.predictions import IntArray, Predictions
from obygaze_models.protocols.schema import Protocol, ReportSettings
from obygaze_models.report.lookup import (
    ReportRun,
    explaining,
    grouped,
    metric_name,
    pair_name,
)
from obygaze_models.report.tables import (
    DASH,
    NO_NUMBER,
    Cells,
    Heading,
    Number,
    PValue,
    ResultTable,
)
from obygaze_models.runner.results import (
    Difference,
    Draws,
    Evaluation,
    add_p_of_all,
    difference,
)
from obygaze_models.runner.scores import Cell, ScoredFold
from obygaze_models.runner.summary import ALPHA, CellRows
from obygaze_models.runner.tables import Run

# What two runs of one experiment share, or what follows from the rest.
COMPARED = ("protocol", "manifest", "stores", "versions", "parts")
HASH_LETTERS = 12
MOST_SENTENCES = 6
MOST_DRAWS = 1_000_000  # of films, as in a protocol
NO_LEAK = Leak(
    cell="",
    n_test=0,
    in_train=0,
    in_validation=0,
    in_concepts=0,
    leaked=0,
    same_film=0,
    clips=(),
)

# Training task, test task, model and store; a model or store that needs no name is "".
Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Side:
    """A cell in one run, and its difference to the same cell in the first run.

    `p` is corrected for all differences of the comparison. NaN and None: no value.
    """

    model: str
    store: str
    value: float
    low: float
    high: float
    n_clips: int
    difference: float = math.nan
    difference_low: float = math.nan
    difference_high: float = math.nan
    difference_p: float = math.nan
    difference_n_clips: int | None = None
    difference_n_films: int | None = None

    @property
    def certainty(self) -> str:
        """Whether the difference can be chance, in words."""
        if math.isnan(self.difference_p):
            return "whether this is chance is not tested"
        if (
            self.difference_p > ALPHA
            or self.difference_low <= 0 <= self.difference_high
        ):
            return "this can be chance"
        return "this is more than chance"

    @property
    def number(self) -> Number:
        """The value with its interval."""
        return Number(self.value, self.low, self.high)

    @property
    def number_of_difference(self) -> Number:
        """The difference with its interval."""
        return Number(self.difference, self.difference_low, self.difference_high)


@dataclass(frozen=True)
class ComparedCell:
    """A training and a test task, and a model in each run; None in a run without it.

    `store` is "" where no run has several stores.
    """

    train: str
    test: str
    sides: Sequence[Side | None]
    store: str = ""
    is_model: bool = True

    @property
    def name(self) -> str:
        """The name of the model; where runs differ, each name. The store, if a run has several."""
        names: dict[str, None] = {}
        for side in self.sides:
            if side is not None:
                names[side.model] = None
        name = " / ".join(names)
        return f"{name} ({self.store})" if self.store else name


@dataclass(frozen=True)
class ComparedRuns(Listing):
    """Runs side by side.

    Attributes:
        runs: Their names; the first is what the others are compared with.
        metric: The metric of values and differences.
        settings: Each setting or input that is not the same in all runs, with its value in each.
        cells: The models and baselines.
        warnings: Where runs do not test the same clips in the same folds, or share nothing.
    """

    runs: Sequence[str]
    metric: str
    settings: Mapping[str, Sequence[str]]
    cells: Sequence[ComparedCell]
    warnings: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the output of `obygaze compare --json`."""
        return {
            "runs": list(self.runs),
            "metric": self.metric,
            "settings": {key: list(values) for key, values in self.settings.items()},
            "cells": self._rows(),
            "warnings": list(self.warnings),
        }

    def table(self) -> Columns:
        """Return a row for each cell and run, with the difference to the first run."""
        rows = self._rows()
        columns: dict[str, list[Any]] = {}
        for row in rows:
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
        return columns

    def _rows(self) -> list[dict[str, Any]]:
        rows = []
        for cell in self.cells:
            for run, side in zip(self.runs, cell.sides, strict=True):
                if side is None:
                    continue
                row: dict[str, Any] = {
                    "train": cell.train,
                    "test": cell.test,
                    "model": side.model,
                    "store": side.store,
                    "run": run,
                    "metric": self.metric,
                }
                for name, value in vars(side).items():
                    is_missing = isinstance(value, float) and math.isnan(value)
                    row[name] = None if is_missing else value
                rows.append(row)
        return rows

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        """Yield the output of `obygaze compare`: runs, differences in words, settings, models."""
        numbers = [str(number) for number in range(1, len(self.runs) + 1)]
        for number, name in zip(numbers, self.runs, strict=True):
            yield f"{number}: {safe_text(name, 'terminal')}"
        yield ""
        models = [cell for cell in self.cells if cell.is_model]
        shown = models or self.cells
        sentences = list(self._sentences(shown))
        for sentence in sentences[:MOST_SENTENCES]:
            yield safe_text(sentence, "terminal")
        if sentences:
            yield ""
        if self.settings:
            settings = [(key, *values) for key, values in self.settings.items()]
            yield table(("what differs", *numbers), settings)
        else:
            yield "the settings and inputs are the same"
        headers = ["train", "test", "model"]
        headers += [f"{metric_name(self.metric)}, {number}" for number in numbers]
        for number in numbers[1:]:
            headers += [f"{number} - 1", "clips", "films", "p (all)"]
        yield ""
        yield table(headers, [self._line(cell) for cell in shown])
        yield (
            "Differences are on the clips that both runs tested. p (all) is corrected for all "
            "differences of the comparison. -o FILE.csv writes the baselines too."
        )

    def _sentences(self, cells: Sequence[ComparedCell]) -> Iterator[str]:
        """Yield who differs and by how much: a sentence for each difference to the first run."""
        metric = metric_name(self.metric)
        for cell in cells:
            name = f"{cell.name}, {pair_name(cell.train, cell.test)}"
            for run, side in zip(self.runs[1:], cell.sides[1:], strict=True):
                if side is None or side.difference_n_clips is None:
                    continue
                clips = (
                    f"on the {count(side.difference_n_clips, 'clip')} that both tested"
                )
                if side.difference == 0:
                    yield f"{name}: {metric} of {run} and {self.runs[0]} is the same {clips}."
                    continue
                way = "higher" if side.difference > 0 else "lower"
                yield (
                    f"{name}: {metric} of {run} is {abs(side.difference):.2f} {way} than that of "
                    f"{self.runs[0]} {clips}; {side.certainty}."
                )

    def _line(self, cell: ComparedCell) -> tuple[str, ...]:
        texts = [cell.train, cell.test, cell.name]
        for side in cell.sides:
            texts.append(MISSING if side is None else _as_text(side.number))
        for side in cell.sides[1:]:
            if side is None or side.difference_n_clips is None:
                texts += [MISSING] * 4
                continue
            texts += [
                _as_text(side.number_of_difference),
                str(side.difference_n_clips),
                str(side.difference_n_films),
                str(PValue(side.difference_p)),
            ]
        return tuple(texts)

    def page_tables(self) -> list[ResultTable]:
        """Return what differs and the cells as tables of a page."""
        numbers = range(1, len(self.runs) + 1)
        names = [f"run {number}" for number in numbers]
        tables = []
        if self.settings:
            rows = [(key, *values) for key, values in self.settings.items()]
            title = "Settings and inputs that are not the same in all runs"
            tables.append(ResultTable("settings", title, ("setting", *names), rows))
        headers = ["model", *names]
        for number in numbers[1:]:
            headers += [f"run {number} minus run 1", "p (all)", "clips"]
        cells: list[Cells | Heading] = []
        by_pair = grouped(self.cells, lambda cell: (cell.train, cell.test))
        for pair, of_pair in by_pair.items():
            cells.append(Heading(pair_name(*pair)))
            for cell in of_pair:
                row: list[Any] = [cell.name]
                for side in cell.sides:
                    row.append(NO_NUMBER if side is None else side.number)
                for side in cell.sides[1:]:
                    if side is None or side.difference_n_clips is None:
                        row += [NO_NUMBER, PValue(math.nan), DASH]
                        continue
                    p = PValue(side.difference_p)
                    row += [side.number_of_difference, p, side.difference_n_clips]
                cells.append(tuple(row))
        title = f"{metric_name(self.metric)} in each run, and differences to the first"
        note = (
            "Differences are computed on the clips that both runs tested with the same class, with "
            "films drawn together. p (all) is corrected for all differences of the table."
        )
        tables.append(ResultTable("compared", title, headers, cells, note))
        return tables


def _as_text(number: Number) -> str:
    return with_interval(number.value, *_ends(number))


def _ends(number: Number) -> tuple[float | None, float | None]:
    if math.isnan(number.low):
        return None, None
    return number.low, number.high


def compare_runs(runs: Sequence[Run], metric: str | None = None) -> ComparedRuns:
    """Return runs side by side, with the differences of each to the first.

    Args:
        runs: Two or more runs.
        metric: A metric; the default is the primary one of the first run.
    """
    if len(runs) < 2:
        message = "a comparison needs two runs or more; the report of a run compares its models"
        hint = None
        if runs:
            hint = f"obygaze report {shlex.quote(str(runs[0].folder))}"
        raise FixUsage(message, hint=hint)
    with explaining(*runs):
        return _compared(runs, metric)


def _compared(runs: Sequence[Run], metric: str | None) -> ComparedRuns:
    chosen = _chosen_metric(runs, metric)
    names = names_of(runs)
    naming = Naming.of(runs)
    clips = Clips.of(runs)
    opened = [OpenRun(ReportRun.of(run), naming, clips) for run in runs]
    evaluation = clips.evaluation(runs[0], chosen)
    draws = Draws(evaluation)
    sides: dict[Key, list[Side | None]] = {}
    are_models: dict[Key, bool] = {}
    found: list[tuple[Key, int, Difference]] = []
    for number, run in enumerate(opened):
        for key, rows in run.rows.items():
            of_key = sides.setdefault(key, [None] * len(runs))
            side = _side(rows, chosen)
            first = opened[0].tested.get(key)
            pair = _on_same_clips(run.tested.get(key), first)
            is_compared = number > 0 and rows.is_model and chosen in METRICS
            if is_compared and pair is not None:
                side, item = _with_difference(side, pair, chosen, draws)
                if item is not None:
                    found.append((key, number, item))
            of_key[number] = side
            are_models[key] = rows.is_model
    add_p_of_all([item for _, _, item in found], ())
    for key, number, item in found:
        tested = sides[key][number]
        if tested is not None:
            p = item.row.get("p_all", math.nan)
            sides[key][number] = replace(tested, difference_p=p)
    cells = []
    for key, of_key in sides.items():
        train, test, _, store = key
        cells.append(ComparedCell(train, test, of_key, store, are_models[key]))
    warnings = [
        *_warnings(names, opened, chosen),
        *_nothing_shared(names, opened, cells),
    ]
    return ComparedRuns(names, chosen, differing_settings(runs), cells, warnings)


def _chosen_metric(runs: Sequence[Run], metric: str | None) -> str:
    """Return the metric to compare by; the default is the primary one of the first run."""
    if metric is None:
        primary = str(runs[0].protocol["report"]["primary"])
        return primary if primary in METRICS else ranking_metric(primary)
    known = dict.fromkeys(METRICS)
    for run in runs:
        report = run.protocol["report"]
        known |= dict.fromkeys((report["primary"], *report["metrics"]))
    if metric not in known:
        meant = near(metric, [*known])
        raise FixUsage(
            f"unknown metric {metric!r}{meant}", hint=f"one of {', '.join(known)}"
        )
    return metric


def names_of(runs: Sequence[Run]) -> list[str]:
    """Return the names of the folders; the whole paths, where two have one name."""
    names = [run.folder.name for run in runs]
    if len(set(names)) == len(names):
        return names
    return [str(run.folder) for run in runs]


@dataclass(frozen=True)
class Naming:
    """Which names tell the cells of runs apart.

    Where no run has several stores, the names of stores do not matter. Where no run has several
    models, neither do the names of models.
    """

    by_store: bool
    by_model: bool

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Naming:
        """Return what tells the cells of these runs apart."""
        by_store = False
        by_model = False
        for run in runs:
            by_store = by_store or len(run.about["stores"]) > 1
            models = {fit["model"] for fit in run.about["fits"] if fit["is_model"]}
            by_model = by_model or len(models) != 1
        return cls(by_store, by_model)

    def key(
        self, train: str, test: str, model: str, store: str, *, is_model: bool
    ) -> Key:
        """Return the name by which a cell is found in other runs."""
        model_name = model if self.by_model or not is_model else ""
        return train, test, model_name, store if self.by_store else ""


@dataclass(frozen=True)
class Clips:
    """The clips that some runs tested: a number for each, and its film.

    A clip has the ids of its film and its own. Other data may have clips of the same name.
    """

    number_of: Mapping[tuple[str, str], int]
    films: NDArray[np.str_]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Clips:
        """Return the numbers of all clips with a prediction, in the order of their ids."""
        names: set[tuple[str, str]] = set()
        for run in runs:
            names.update(map(_clip_of, run.predictions))
        ordered = sorted(names)
        films = np.array([film for film, _ in ordered], dtype=np.str_)
        return cls({name: number for number, name in enumerate(ordered)}, films)

    def evaluation(self, run: Run, metric: str) -> Evaluation:
        """Return what differences in a metric are computed with: the settings of a run."""
        settings = run.protocol["report"]
        if not 2 <= settings["replicates"] <= MOST_DRAWS:
            raise ValueError(f"report.replicates is {settings['replicates']}")
        report = ReportSettings(
            primary=metric if metric in RANKING_METRICS else "ap",
            replicates=settings["replicates"],
        )
        return Evaluation(Protocol("compare", report=report), self.films, {}, {})


def _clip_of(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["movie_id"], row["clip_id"]


@dataclass(frozen=True)
class OpenRun:
    """A run whose cells are named as in the other runs."""

    run: ReportRun
    naming: Naming
    clips: Clips

    def _key(self, facts: Mapping[str, Any]) -> Key:
        names = (facts["train"], facts["test"], facts["model"], facts["store"])
        return self.naming.key(*names, is_model=facts["is_model"])

    @cached_property
    def rows(self) -> dict[Key, CellRows]:
        """The rows of results.csv of each cell."""
        return {self._key(cell.facts): cell for cell in self.run.all_cells}

    @cached_property
    def tested(self) -> dict[Key, Cell]:
        """The cells that have predictions; clips are numbered."""
        of_cell: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
        for row in self.run.predictions:
            name = (row["train"], row["test"], row["store"], row["model"])
            of_cell.setdefault(name, []).append(row)
        tested = {}
        for cell in self.run.all_cells:
            name = (cell.train, cell.test, cell.store, cell.model)
            if name in of_cell:
                tested[self._key(cell.facts)] = self._cell(cell, of_cell[name])
        return tested

    def _cell(self, cell: CellRows, rows: Sequence[Mapping[str, Any]]) -> Cell:
        facts = cell.facts
        fits = {}
        for fold in facts["folds"]:
            fits[fold["fold"], fold["seed"]] = fold
        tested = []
        for fit, of_fit in grouped(rows, lambda r: (r["fold"], r["seed"])).items():
            numbers = np.array([self.clips.number_of[_clip_of(row)] for row in of_fit])
            order = np.argsort(numbers)
            predictions = Predictions(
                np.array([row["y"] for row in of_fit], dtype=np.bool_),
                np.array([row["score"] for row in of_fit], dtype=np.float64),
                np.array([row["decision"] for row in of_fit], dtype=np.bool_),
            )
            fold = ScoredFold(
                fit[0],
                fit[1],
                numbers[order],
                predictions.take(order),
                fits[fit]["n_train"],
                fits[fit]["n_validation"],
                NO_LEAK,
                gives_probabilities="brier" in cell.of_metric,
            )
            tested.append(fold)
        return Cell(
            cell.train,
            cell.test,
            cell.model,
            cell.store,
            cell.is_model,
            tested,
            is_averaged=facts["is_averaged"],
            shares_films=facts["shares_films"],
        )


def _side(rows: CellRows, metric: str) -> Side:
    return Side(
        rows.model, rows.store, rows.value(metric), *rows.ends(metric), rows.n_clips
    )


def _on_same_clips(ours: Cell | None, theirs: Cell | None) -> tuple[Cell, Cell] | None:
    """Return two cells on the clips that both tested, with the same class; None without one.

    The classes of two runs differ where the annotations were changed between them.
    """
    if ours is None or theirs is None:
        return None
    shared = np.intersect1d(ours.clips, theirs.clips)
    ours_y = ours.y[np.searchsorted(ours.clips, shared)]
    theirs_y = theirs.y[np.searchsorted(theirs.clips, shared)]
    shared = shared[ours_y == theirs_y]
    if not len(shared):
        return None
    return _only(ours, shared), _only(theirs, shared)


def _only(cell: Cell, clips: IntArray) -> Cell:
    return cell.without(np.setdiff1d(cell.clips, clips))


def _with_difference(
    side: Side, pair: tuple[Cell, Cell], metric: str, draws: Draws
) -> tuple[Side, Difference | None]:
    """Return a side with its difference to the first run, and the difference if it has a test.

    Only AP and AUC have one: at a threshold, another training could call many other clips positive.
    """
    ours, theirs = pair
    if metric not in ours.value or metric not in theirs.value:
        return side, None
    films = draws.evaluation.films[ours.clips]
    side = replace(
        side,
        difference=ours.value[metric] - theirs.value[metric],
        difference_n_clips=len(ours.clips),
        difference_n_films=len(np.unique(films)),
    )
    if metric not in RANKING_METRICS or not math.isfinite(side.difference):
        return side, None
    item = difference(ours, theirs, draws)
    ends = {"difference_low": item.row["low"], "difference_high": item.row["high"]}
    return replace(side, **ends), item


# ---- what two runs do not share ----


def _warnings(
    names: Sequence[str], runs: Sequence[OpenRun], metric: str
) -> Iterator[str]:
    """Yield a warning for each run that tests other clips than the first, or in other folds."""
    first = runs[0].tested
    for name, run in zip(names[1:], runs[1:], strict=True):
        shared = [key for key in run.tested if key in first]
        other_clips = []
        other_folds = []
        for key in shared:
            ours = run.tested[key]
            has_same_clips = np.array_equal(ours.clips, first[key].clips)
            if not has_same_clips or not np.array_equal(ours.y, first[key].y):
                other_clips.append(key)
            pair = _on_same_clips(ours, first[key])
            if pair is not None and _test_sets(pair[0]) != _test_sets(pair[1]):
                other_folds.append(key)
        n_cells = count(len(shared), "cell")
        if other_clips:
            key = other_clips[0]
            pair = _on_same_clips(run.tested[key], first[key])
            n_shared = 0 if pair is None else len(pair[0].clips)
            yield (
                f"{name} does not test the clips of {names[0]} with the same classes in "
                f"{len(other_clips)} of {n_cells}: {run.rows[key].n_clips} clips of "
                f"{pair_name(*key[:2])}, {runs[0].rows[key].n_clips} in the first run, and "
                f"{n_shared} of one class in both. "
                "Differences are on the clips that both tested; values are not."
            )
        if other_folds and metric in RANKING_METRICS:
            yield (
                f"{name} tests clips of {names[0]} in other folds in {len(other_folds)} of "
                f"{n_cells}: {metric_name(metric)} is computed within folds, so that neither "
                "values nor differences are of one quantity (docs/reports.md)."
            )


def _test_sets(cell: Cell) -> set[bytes]:
    return {test.rows.tobytes() for test in cell.tested}


def _nothing_shared(
    names: Sequence[str], runs: Sequence[OpenRun], cells: Sequence[ComparedCell]
) -> Iterator[str]:
    """Yield a warning if no cell is in two runs."""
    for cell in cells:
        if sum(side is not None for side in cell.sides) > 1:
            return
    tasks = []
    for name, run in zip(names, runs, strict=True):
        tested = dict.fromkeys(cell.test for cell in run.run.cells)
        tasks.append(f"{', '.join(tested) or 'none'} in {name}")
    yield (
        "no cell (train, test and model) is in two of these runs, so nothing is compared; their "
        f"test tasks: {'; '.join(tasks)}"
    )


def differing_settings(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Return each setting or input that is not the same in all runs, with its value in each.

    Of a model, a task or a store that a run lacks there is one line, without its settings.
    """
    have_one_store_each = all(len(run.about["stores"]) == 1 for run in runs)
    settings_of_runs = []
    parts_of_runs = []
    for run in runs:
        known = {key: run.about[key] for key in COMPARED}
        if have_one_store_each:
            ((name, store),) = known.pop("stores").items()
            known["store"] = {"name": name, **store}
        settings_of_runs.append(dict(_leaves(known)))
        parts_of_runs.append(_parts(run))
    parts = sorted(_in_order(parts_of_runs), key=len, reverse=True)
    differing: dict[str, list[str]] = {}
    for key in _in_order(settings_of_runs):
        part = next((name for name in parts if key.startswith(f"{name}.")), None)
        if part and not all(part in of_run for of_run in parts_of_runs):
            differing[part] = [of_run.get(part, MISSING) for of_run in parts_of_runs]
            continue
        values = [settings.get(key, MISSING) for settings in settings_of_runs]
        if len(set(values)) > 1:
            differing[key] = values
    return differing


def _in_order(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the keys of all mappings, each once, in the order in which they first appear."""
    keys: dict[str, None] = {}
    for mapping in mappings:
        keys |= dict.fromkeys(mapping)
    return list(keys)


def _parts(run: Run) -> dict[str, str]:
    """Return the models, with their kind, the tasks and the stores of a run, by their keys."""
    parts = {}
    for name, model in run.protocol["models"].items():
        parts[f"protocol.models.{name}"] = str(model["kind"])
    for name in run.protocol["tasks"]:
        parts[f"protocol.tasks.{name}"] = "yes"
    for name in run.about["stores"]:
        parts[f"stores.{name}"] = "yes"
    return parts


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of nested tables, each with its keys joined by dots."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{key}[{number}]")
    else:
        yield key, _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "none"
    text = str(value)
    if re.fullmatch("[0-9a-f]{64}", text):
        return f"{text[:HASH_LETTERS]}..."
    return text
