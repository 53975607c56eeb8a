"""`obygaze compare`: runs side by side, on the clips that all of them tested.

A comparison is a join of the predictions of runs. All sides are computed again on the clips that
all of them tested with the same class, as a run computes its own differences: films are drawn
together, and signs of films are changed.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from obygaze_features.core.console import MISSING, count, few, table, with_interval
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.outside import safe_text
from obygaze_features.core.written_tables import Columns, Listing
from obygaze_features.manifest.same_clip import Identity, compare_clips
from obygaze_models.evaluation.metrics import (
    METRICS,
    RANKING_METRICS,
    metric_name,
    ranking_metric,
)
from obygaze_models.protocols.schema import Protocol, ReportSettings
from obygaze_models.report.lookup import (
    ReportRun,
    explaining,
    grouped,
    pair_name,
)
from obygaze_models.report.tables import (
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
    difference_of,
)
from obygaze_models.runner.scores import Cell
from obygaze_models.runner.shared_clips import SharedTest, on_shared_clips
from obygaze_models.runner.summary import ALPHA, CellRows
from obygaze_models.runner.tables import ClipNumbers, Run, tested_cells

# What two runs of one experiment share, or what follows from the rest.
COMPARED = ("protocol", "manifest", "stores", "versions", "parts")
HASH_LETTERS = 12
MOST_SENTENCES = 6
MOST_DRAWS = 1_000_000  # of films, as in a protocol

# Training task, test task, model and store; a model or store that needs no name is "".
Key = tuple[str, str, str, str]
K = TypeVar("K")


@dataclass(frozen=True)
class Side:
    """A cell in one run, and its difference to the same cell in the first run.

    All sides of a cell are of the same clips: those that all runs which have the cell tested. `p`
    is corrected for all differences of the comparison. NaN and None: no value.
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
    sides: list[Side | None]
    store: str = ""
    is_model: bool = True

    @property
    def is_compared(self) -> bool:
        """Whether the cell is in two runs, with clips that both tested."""
        known = [side.value for side in self.sides if side is not None]
        return len(known) > 1 and all(map(math.isfinite, known))

    @property
    def n_clips(self) -> int:
        """The clips of all sides."""
        return next(side.n_clips for side in self.sides if side is not None)

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
        shown = self._shown
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
        yield from self._others()
        if not shown:
            return
        metric = metric_name(self.metric)
        headers = ["train", "test", "model", "clips"]
        headers += [f"{metric}, {number}" for number in numbers]
        for number in numbers[1:]:
            headers += [f"{number} - 1", "films", "p (all)"]
        yield ""
        yield table(headers, [self._line(cell) for cell in shown])
        yield (
            "All numbers of a line are on the clips that all of these runs tested. p (all) is "
            "corrected for all differences of the comparison. -o FILE.csv writes the baselines too."
        )

    @property
    def _shown(self) -> list[ComparedCell]:
        """The models that are compared; without any, the baselines."""
        compared = [cell for cell in self.cells if cell.is_compared]
        models = [cell for cell in compared if cell.is_model]
        has_models = any(cell.is_model for cell in self.cells)
        return models if has_models else compared

    def _others(self) -> Iterator[str]:
        """Yield a line for each run with the models that are in no other run."""
        for run, number in zip(self.runs, range(len(self.runs)), strict=True):
            alone = []
            for cell in self.cells:
                known = [side is not None for side in cell.sides]
                if cell.is_model and known[number] and sum(known) == 1:
                    alone.append(f"{cell.name}, {pair_name(cell.train, cell.test)}")
            if alone:
                yield safe_text(f"only in {run}: {few(alone)}", "terminal")

    def _sentences(self, cells: Sequence[ComparedCell]) -> Iterator[str]:
        """Yield who differs and by how much: a sentence for each difference to the first run."""
        metric = metric_name(self.metric)
        for cell in cells:
            name = f"{cell.name}, {pair_name(cell.train, cell.test)}"
            n_sides = sum(side is not None for side in cell.sides)
            all_of_them = "both" if n_sides == 2 else f"all {n_sides}"
            clips = f"on the {count(cell.n_clips, 'clip')} that {all_of_them} tested"
            for run, side in zip(self.runs[1:], cell.sides[1:], strict=True):
                if side is None or not math.isfinite(side.difference):
                    continue
                if side.difference == 0:
                    yield f"{name}: {metric} of {run} and {self.runs[0]} is the same {clips}."
                    continue
                way = "higher" if side.difference > 0 else "lower"
                yield (
                    f"{name}: {metric} of {run} is {abs(side.difference):.2f} {way} than that of "
                    f"{self.runs[0]} {clips}; {side.certainty}."
                )

    def _line(self, cell: ComparedCell) -> tuple[str, ...]:
        texts = [cell.train, cell.test, cell.name, str(cell.n_clips)]
        for side in cell.sides:
            texts.append(MISSING if side is None else _as_text(side.number))
        for side in cell.sides[1:]:
            if side is None or side.difference_n_films is None:
                texts += [MISSING] * 3
                continue
            texts += [
                _as_text(side.number_of_difference),
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
        compared = [cell for cell in self.cells if cell.is_compared]
        if not compared:
            return tables
        headers = ["model", "clips", *names]
        for number in numbers[1:]:
            headers += [f"run {number} minus run 1", "p (all)"]
        cells: list[Cells | Heading] = []
        by_pair = grouped(compared, lambda cell: (cell.train, cell.test))
        for pair, of_pair in by_pair.items():
            cells.append(Heading(pair_name(*pair)))
            for cell in of_pair:
                row: list[Any] = [cell.name, cell.n_clips]
                for side in cell.sides:
                    row.append(NO_NUMBER if side is None else side.number)
                for side in cell.sides[1:]:
                    if side is None:
                        row += [NO_NUMBER, PValue(math.nan)]
                        continue
                    row += [side.number_of_difference, PValue(side.difference_p)]
                cells.append(tuple(row))
        title = f"{metric_name(self.metric)} in each run, and differences to the first"
        note = (
            "All numbers of a row are on the clips that all of its runs tested with the same "
            "class; films are drawn together. p (all) is corrected for all differences here."
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
    clips = ClipNumbers.of(runs)
    opened = [OpenRun(ReportRun.of(run), naming, clips) for run in runs]
    draws = Draws(_evaluation(clips, runs[0], chosen))
    unknown = list(_not_the_same_for_sure(names, [run.run for run in opened]))
    cells = []
    found: list[tuple[ComparedCell, int, Difference]] = []
    shared_tests: dict[Key, SharedTest] = {}
    for key in _in_order([run.rows for run in opened]):
        rows = [run.rows.get(key) for run in opened]
        shared = _shared(opened, key)
        if shared is not None:
            shared_tests[key] = shared
        sides = _sides(rows, shared, chosen)
        train, test, _, store = key
        is_model = any(row is not None and row.is_model for row in rows)
        cell = ComparedCell(train, test, sides, store, is_model)
        cells.append(cell)
        if shared is None or shared.problem or not is_model or chosen not in METRICS:
            continue
        for number, item in _differences(sides, shared, chosen, draws):
            found.append((cell, number, item))
    add_p_of_all([item for _, _, item in found], ())
    for cell, number, item in found:
        side = cell.sides[number]
        if side is not None:
            p = item.row.get("p_all", math.nan)
            cell.sides[number] = replace(side, difference_p=p)
    warnings = [
        *unknown,
        *_warnings(names, opened, shared_tests, chosen),
        *_nothing_shared(names, opened, cells),
    ]
    return ComparedRuns(names, chosen, differing_settings(runs), cells, warnings)


def _shared(runs: Sequence[OpenRun], key: Key) -> SharedTest | None:
    """Return a cell of the runs that have it on the clips that all of them tested.

    None if fewer than two runs have it. A cell without predictions cannot be compared.
    """
    having = [run for run in runs if key in run.rows]
    if len(having) < 2:
        return None
    tested = [run.tested[key] for run in having if key in run.tested]
    if len(tested) < len(having):
        return SharedTest((), 0, "a run has no predictions of it")
    return on_shared_clips(tested)


def _sides(
    rows: Sequence[CellRows | None], shared: SharedTest | None, metric: str
) -> list[Side | None]:
    """Return the value of a cell in each run; NaN where the runs share too few clips."""
    sides: list[Side | None] = []
    shared_cells = iter(() if shared is None else shared.cells)
    for of_run in rows:
        if of_run is None:
            sides.append(None)
            continue
        value = of_run.value(metric)
        low, high = of_run.ends(metric)
        n_clips = of_run.n_clips
        if shared is not None and (shared.problem or shared.n_clips != n_clips):
            n_clips = shared.n_clips
            low = high = math.nan
            value = math.nan
        if shared is not None and not shared.problem:
            cell = next(shared_cells)
            if n_clips != of_run.n_clips:
                value = cell.value.get(metric, math.nan)
        sides.append(Side(of_run.model, of_run.store, value, low, high, n_clips))
    return sides


def _differences(
    sides: list[Side | None], shared: SharedTest, metric: str, draws: Draws
) -> Iterator[tuple[int, Difference]]:
    """Put the differences to the first run into sides; yield those that have a test.

    Only AP and AUC have one: at a threshold, another training could call many other clips positive.
    """
    first, *others = shared.cells
    numbers = [number for number, side in enumerate(sides) if side is not None]
    if numbers[0] != 0 or metric not in first.value:
        return
    n_films = len(np.unique(draws.evaluation.films[first.clips]))
    for number, cell in zip(numbers[1:], others, strict=True):
        side = sides[number]
        if side is None or metric not in cell.value:
            continue
        apart = float(difference_of(cell.value[metric], first.value[metric]))
        side = replace(
            side,
            difference=apart,
            difference_n_clips=shared.n_clips,
            difference_n_films=n_films,
        )
        if metric in RANKING_METRICS and math.isfinite(apart):
            item = difference(cell, first, draws)
            low = item.row["low"]
            high = item.row["high"]
            side = replace(side, difference_low=low, difference_high=high)
            yield number, item
        sides[number] = side


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


def _evaluation(clips: ClipNumbers, run: Run, metric: str) -> Evaluation:
    """Return what differences in a metric are computed with: the settings of a run."""
    settings = run.protocol["report"]
    if not 2 <= settings["replicates"] <= MOST_DRAWS:
        raise ValueError(f"report.replicates is {settings['replicates']}")
    report = ReportSettings(
        primary=ranking_metric(metric),
        replicates=settings["replicates"],
    )
    return Evaluation(Protocol("compare", report=report), clips.films, {}, {})


@dataclass(frozen=True)
class OpenRun:
    """A run whose cells are named as in the other runs."""

    run: ReportRun
    naming: Naming
    clips: ClipNumbers

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
        by_name = tested_cells(self.run, self.clips)
        tested = {}
        for cell in self.run.all_cells:
            if cell.name in by_name:
                tested[self._key(cell.facts)] = by_name[cell.name]
        return tested


# ---- what two runs do not share ----


def _not_the_same_for_sure(
    names: Sequence[str], runs: Sequence[ReportRun]
) -> Iterator[str]:
    """Yield a warning for each run of which only ids and films say that its clips are the first's.

    A clip that has other times in the two runs is an error. Clips of other films are no shared
    ones.
    """
    first, *others = runs
    for name, run in zip(names[1:], others, strict=True):
        if not {*_hashes_of_clips(first)}.isdisjoint(_hashes_of_clips(run)):
            continue
        if not first.clips or not run.clips:
            yield (
                f"{name}: only ids and films say that its clips are those of {names[0]}, as their"
                " manifests differ, and one was moved or changed after its run."
            )
            continue
        tested = {(row["movie_id"], row["clip_id"]) for row in run.predictions}
        for clip in run.clips.values():
            there = first.clips.get(clip.clip_id)
            is_tested = (clip.movie_id, clip.clip_id) in tested
            if there is None or there.movie_id != clip.movie_id or not is_tested:
                continue
            compared = compare_clips(Identity.of_clip(there), Identity.of_clip(clip))
            if compared.contradiction:
                raise FixInput(
                    f"clip {clip.clip_id!r} of {names[0]} is another one in {name}:"
                    f" {compared.contradiction}",
                    hint="runs whose manifests give the same id to the same clip",
                )


def _hashes_of_clips(run: Run) -> Iterator[str]:
    """Yield the hashes of the rows of a run's manifest, and of its clips with their places."""
    manifest = run.about["manifest"]
    yield manifest["sha256"]
    if "clips" in manifest.get("labels", {}):
        yield manifest["labels"]["clips"]


def _warnings(
    names: Sequence[str],
    runs: Sequence[OpenRun],
    shared_tests: Mapping[Key, SharedTest],
    metric: str,
) -> Iterator[str]:
    """Yield a warning for each run that tests other clips than the first, or in other folds."""
    first = runs[0].tested
    for name, run in zip(names[1:], runs[1:], strict=True):
        in_both = [key for key in run.tested if key in first]
        other_clips = []
        other_folds = []
        for key in in_both:
            ours = run.tested[key]
            has_same_clips = np.array_equal(ours.clips, first[key].clips)
            if not has_same_clips or not np.array_equal(ours.y, first[key].y):
                other_clips.append(key)
            of_both = on_shared_clips([ours, first[key]]).cells
            if of_both and _test_sets(of_both[0]) != _test_sets(of_both[1]):
                other_folds.append(key)
        n_cells = count(len(in_both), "cell")
        if other_clips:
            key = other_clips[0]
            yield (
                f"{name} does not test the clips of {names[0]} with the same classes in "
                f"{len(other_clips)} of {n_cells}: {run.rows[key].n_clips} clips of "
                f"{pair_name(*key[:2])}, {runs[0].rows[key].n_clips} in the first run. "
                f"All numbers are on the {shared_tests[key].n_clips} clips of one class in all."
            )
        if other_folds and metric in RANKING_METRICS:
            yield (
                f"{name} tests clips of {names[0]} in other folds in {len(other_folds)} of "
                f"{n_cells}: {metric_name(metric)} is computed within folds, so that neither "
                "values nor differences are of one quantity (docs/reports.md)."
            )
    for key, shared in shared_tests.items():
        if shared.problem and any(
            key in run.rows and run.rows[key].is_model for run in runs
        ):
            yield f"{pair_name(*key[:2])}: nothing is compared, as {shared.problem}."


def _test_sets(cell: Cell) -> set[bytes]:
    return {test.rows.tobytes() for test in cell.tested}


def _nothing_shared(
    names: Sequence[str], runs: Sequence[OpenRun], cells: Sequence[ComparedCell]
) -> Iterator[str]:
    """Yield a warning if no model is in two runs; of runs without models, no baseline."""
    models = [cell for cell in cells if cell.is_model]
    for cell in models or cells:
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


def _in_order(mappings: Iterable[Mapping[K, Any]]) -> list[K]:
    """Return the keys of all mappings, each once, in the order in which they first appear."""
    keys: dict[K, None] = {}
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
