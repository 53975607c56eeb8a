"""`obygaze compare`: runs side by side, on the clips that all of them tested.

A comparison is a join of the predictions of runs. All sides are computed again on the clips that
all of them tested with the same class, as a run computes its own differences: films are drawn
together, and signs of films are changed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from obygaze_features.core.console import MISSING, count, digits_of, few, listed, plural
from obygaze_features.core.errors import FixUsage, near
from obygaze_features.core.outside import safe_text
from obygaze_features.core.shell import shell_word
from obygaze_features.core.written_tables import Columns, Listing
from obygaze_features.manifest.clip_facts import ClipFacts, require_same_shared
from obygaze_features.manifest.model import Clip
from obygaze_models.evaluation.metrics import (
    METRICS,
    RANKING_METRICS,
    goodness,
    metric_name,
    ranking_metric,
)
from obygaze_models.evaluation.predictions import difference_of
from obygaze_models.protocols.schema import Protocol, ReportSettings
from obygaze_models.report.lookup import (
    ReportRun,
    explaining,
    grouped_by,
    pair_name,
)
from obygaze_models.report.tables import NO_NUMBER, NumberCell, PValueCell, ResultTable
from obygaze_models.evaluation.basis import (
    has_interval,
    interval_is_of,
    weakest,
)
from obygaze_models.runner.limits import ON_BOTH_SIDES, warnings_of
from obygaze_models.runner.results import (
    Difference,
    Draws,
    Evaluation,
    difference,
    p_of_family,
)
from obygaze_models.runner.scores import Cell, number_of_groups
from obygaze_models.runner.shared_clips import on_shared_clips
from obygaze_models.runner.summary import (
    CellRows,
    films_with_value,
    has_levels,
    in_sentence,
    questions_of_models,
    verdict,
)
from obygaze_models.runner.tables import ClipNumbers, Run, tested_cells

# What two runs of one experiment share, or what follows from the rest.
COMPARED = ("protocol", "manifest", "stores", "texts", "versions", "parts")
# Of a model, a task, a question and a store.
SAYS_WHICH = ("kind", "title", "text", "location")
HASH_LETTERS = 12
MOST_SENTENCES = 6
IS_THE_SAME = "is the same"
MOST_DRAWS = 1_000_000  # of films, as in a protocol

# Training task, test task, model and store; a model or store that needs no name is "".
Key = tuple[str, str, str, str]
K = TypeVar("K")
# A difference that has a test waits for its p, which is corrected for all of them.
Tested = tuple["Side", Difference]


@dataclass
class Side:
    """A cell in one run, and its difference to the same cell in the first run.

    All sides of a cell are of the same clips: those that all runs which have the cell tested. `p`
    is corrected for all differences of the comparison. `basis` is what its value is of
    (`evaluation.basis`). NaN and None: no value.
    """

    model: str
    store: str
    value: float
    low: float
    high: float
    n_clips: int
    basis: str
    difference: float = math.nan
    difference_low: float = math.nan
    difference_high: float = math.nan
    difference_p: float = math.nan
    difference_n_clips: int | None = None
    difference_n_films: int | None = None

    def verdict(self, metric: str, first: Side) -> str:
        """Return whether it is better than the first run, in the words of the report of a run."""
        basis = weakest([first.basis, self.basis])
        ends = (self.difference_low, self.difference_high)
        low, high = sorted(goodness(metric, end) for end in ends)
        p = self.difference_p
        found = verdict({"low": low, "high": high, "p_all": p, "basis": basis})
        return in_sentence(found)


@dataclass(frozen=True)
class ComparedCell:
    """A training and a test task, and a model in each run; None in a run without it.

    `store` is "" where no run has several stores. `problem` is why nothing is compared.
    """

    train: str
    test: str
    sides: list[Side | None]
    store: str = ""
    is_model: bool = True
    problem: str = ""

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
        models = dict.fromkeys(side.model for side in self.sides if side is not None)
        name = " / ".join(models)
        if not self.store:
            return name
        stores = dict.fromkeys(side.store for side in self.sides if side is not None)
        return f"{name} ({' / '.join(filter(None, stores)) or self.store})"


@dataclass(frozen=True)
class ComparedRuns(Listing):
    """Runs side by side.

    Attributes:
        runs: Their names; the first is what the others are compared with.
        metric: The metric of values and differences.
        settings: Each setting or input that is not the same in all runs, with its value in each.
        cells: The models and baselines.
        warnings: Where runs do not test the same clips in the same folds, or share nothing.
        unit: What differences are drawn over: films, or the groups of films that a run holds out.
    """

    runs: Sequence[str]
    metric: str
    settings: Mapping[str, Sequence[str]]
    cells: Sequence[ComparedCell]
    warnings: Sequence[str] = ()
    unit: str = "film"

    def to_json(self) -> dict[str, Any]:
        """Return the output of `obygaze compare --json`."""
        return {**vars(self), "cells": self._rows()}

    def table(self) -> Columns:
        """Return a row for each cell and run, with the difference to the first run."""
        rows = self._rows()
        names = rows[0] if rows else ()
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for row in rows:
            for name in names:
                columns[name].append(row[name])
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
        """Return the output of `obygaze compare`: runs, differences in words, both tables."""
        lines = [f"{number}: {name}" for number, name in enumerate(self.runs, start=1)]
        lines += ["", *self._shown_sentences(), ""]
        if not self.settings:
            lines += ["the settings and inputs are the same", ""]
        safe = [safe_text(line, "terminal") for line in lines]
        for shown in self.tables():
            safe += filter(None, [shown.as_text(), shown.note])
            safe.append("")
        safe += [safe_text(line, "terminal") for line in self._others()]
        return "\n".join(safe).rstrip()

    def tables(self) -> list[ResultTable]:
        """Return what differs in the settings, and the cells: the tables of a text and a page."""
        numbers = [str(number) for number in range(1, len(self.runs) + 1)]
        tables = []
        if self.settings:
            rows = [(key, *values) for key, values in self.settings.items()]
            title = "Settings and inputs that are not the same in all runs"
            headers = ("what differs", *numbers)
            tables.append(ResultTable("settings", title, headers, rows))
        metric = metric_name(self.metric)
        headers = ("task", "model", "clips", plural(self.unit))
        headers += tuple(f"{metric}, {number}" for number in numbers)
        for number in numbers[1:]:
            headers += (f"{number} - 1", f"p (all), {number}")
        rows = [self._row(cell) for cell in self._shown]
        if rows:
            title = f"{metric} in each run, and differences to the first"
            note = (
                "All numbers of a line are on the clips that all of these runs tested"
                " with the same class. p (all) is corrected for all differences of the comparison. "
                "obygaze compare -o FILE.csv writes the baselines too."
            )
            of_intervals = self._intervals_are_of()
            if of_intervals:
                note += f" In brackets: intervals over {plural(self.unit)}, of {of_intervals}."
            tables.append(ResultTable("compared", title, headers, rows, note))
        return tables

    def _row(self, cell: ComparedCell) -> tuple[Any, ...]:
        sides = [side for side in cell.sides if side is not None]
        films = [side.difference_n_films for side in sides if side.difference_n_films]
        task = pair_name(cell.train, cell.test)
        row: list[Any] = [task, cell.name, cell.n_clips, films[0] if films else MISSING]
        for side in cell.sides:
            number = NO_NUMBER
            if side is not None:
                number = NumberCell(side.value, side.low, side.high)
            row.append(number)
        for side in cell.sides[1:]:
            if side is None:
                row += [NO_NUMBER, PValueCell(math.nan)]
                continue
            ends = (side.difference_low, side.difference_high)
            row += [NumberCell(side.difference, *ends), PValueCell(side.difference_p)]
        return tuple(row)

    def _intervals_are_of(self) -> str:
        """Return what the intervals of the table are of, by the weakest side; "" without one."""
        bases = []
        ends = []
        for cell in self._shown:
            for side in cell.sides:
                if side is not None and has_interval(side.basis):
                    bases.append(side.basis)
                    ends += [side.low, side.difference_low]
        if not any(map(math.isfinite, ends)):
            return ""
        return interval_is_of(weakest(bases), plural(self.unit))

    @property
    def _shown(self) -> list[ComparedCell]:
        """The models that are compared; without any, the baselines."""
        compared = [cell for cell in self.cells if cell.is_compared]
        models = [cell for cell in compared if cell.is_model]
        has_models = any(cell.is_model for cell in self.cells)
        return models if has_models else compared

    def _others(self) -> Iterator[str]:
        """Yield a line for each run with the models that are in no other run."""
        for number, run in enumerate(self.runs):
            alone = []
            for cell in self.cells:
                has_it = [side is not None for side in cell.sides]
                if cell.is_model and has_it[number] and sum(has_it) == 1:
                    alone.append(f"{cell.name}, {pair_name(cell.train, cell.test)}")
            if alone:
                yield f"only in {run}: {few(alone)}"

    def _shown_sentences(self) -> list[str]:
        """Return the first sentences, differences before equal values, and how many more rows.

        A row that no sentence is about is in the table.
        """
        sentences = sorted(self._sentences(), key=lambda said: IS_THE_SAME in said)
        n_more = len(sentences) - MOST_SENTENCES
        if n_more <= 0:
            return sentences
        kinds = [IS_THE_SAME in said for said in sentences[MOST_SENTENCES:]]
        what = "the same, too" if all(kinds) else "in the table below"
        be = "is" if n_more == 1 else "are"
        return [
            *sentences[:MOST_SENTENCES],
            f"{count(n_more, 'more row')} {be} {what}.",
        ]

    def _sentences(self) -> Iterator[str]:
        """Yield who differs and by how much: a sentence for each difference to the first run."""
        metric = metric_name(self.metric)
        for cell in self._shown:
            name = f"{cell.name}, {pair_name(cell.train, cell.test)}"
            n_sides = sum(side is not None for side in cell.sides)
            all_of_them = "both" if n_sides == 2 else f"all {n_sides}"
            clips = f"on the {count(cell.n_clips, 'clip')} that {all_of_them} tested"
            first = cell.sides[0]
            for run, side in zip(self.runs[1:], cell.sides[1:], strict=True):
                if first is None or side is None or not math.isfinite(side.difference):
                    continue
                if side.difference == 0:
                    both = f"{run} and {self.runs[0]}"
                    yield f"{name}: {metric} of {both} {IS_THE_SAME} {clips}."
                    continue
                way = "higher" if side.difference > 0 else "lower"
                apart = abs(side.difference)
                apart_text = f"{apart:.{digits_of(0.0, apart)}f}"
                verdict = side.verdict(self.metric, first)
                yield (
                    f"{name}: {metric} of {run} is {apart_text} {way} than that of"
                    f" {self.runs[0]} {clips} (whether {run} is better: {verdict})."
                )


def compare_runs(runs: Sequence[Run], metric: str | None = None) -> ComparedRuns:
    """Return runs side by side, with the differences of each to the first.

    Args:
        runs: Two or more runs.
        metric: A metric; the default is the primary one of the first run.
    """
    if len(runs) < 2:
        message = (
            "a comparison needs two runs or more; of two models of one run, the report has the"
            " difference if the run has report.questions"
        )
        hint = None
        if runs:
            hint = f"obygaze report {shell_word(runs[0].folder)}"
        raise FixUsage(message, hint=hint)
    with explaining(*runs):
        chosen = _chosen_metric(runs, metric)
        names = names_of(runs)
        opened = opened_side_by_side(runs)
        warnings = [*_not_the_same_for_sure(names, [run.run for run in opened])]
        draws = Draws(_evaluation(opened[0].clips, runs[0], chosen))
        tested: list[Tested] = []
        cells: dict[Key, ComparedCell] = {}
        hold_out_other = len({bool(run.group_of_clip) for run in runs}) > 1
        within_films = hold_out_other and all(run.has_films for run in runs)
        for key in _in_order([run.rows for run in opened]):
            cells[key] = _compared_cell(
                opened, key, chosen, draws, tested, within_films=within_films
            )
        p_values = p_of_family([item for _, item in tested])
        for (side, _), p in zip(tested, p_values, strict=True):
            side.difference_p = p
        counts = [(item.n_films, item.row["films"]) for _, item in tested]
        known = films_with_value(counts, _unit_of(runs))
        if known:
            warnings.append(f"In {metric_name(chosen)}, {known}.")
        if hold_out_other:
            warnings.append(_held_out(names, runs, chosen, within_films=within_films))
        warnings += _warnings(names, opened, cells, chosen, within_films=within_films)
        warnings += _nothing_shared(names, opened, [*cells.values()])
        for name, run in zip(names, runs, strict=True):
            for warning in warnings_of(run):
                if warning.about in ON_BOTH_SIDES:
                    warnings.append(f"{name}: {warning.text}")
        settings = differing_settings(runs)
    unit = _unit_of(runs)
    return ComparedRuns(names, chosen, settings, [*cells.values()], warnings, unit)


def _unit_of(runs: Sequence[Run]) -> str:
    """Return the largest that a run holds out: groups of films, where any does."""
    return next((run.unit for run in runs if run.group_of_clip), "film")


def _held_out(
    names: Sequence[str], runs: Sequence[Run], metric: str, *, within_films: bool
) -> str:
    """Return how runs differ in what they hold out, and what that means for their numbers."""
    of_groups = [
        name for name, run in zip(names, runs, strict=True) if run.group_of_clip
    ]
    others = [name for name in names if name not in of_groups]
    unit = _unit_of(runs)
    text = (
        f"held out are whole {plural(unit)} in {listed(of_groups)}, while {listed(others)} may"
        f" train on other clips of a tested {unit}"
    )
    if within_films and metric in RANKING_METRICS:
        text += (
            f"; {metric_name(metric)} is that within films, and differences are drawn over"
            f" {plural(unit)}"
        )
    return f"{text}."


def _compared_cell(
    runs: Sequence[OpenRun],
    key: Key,
    metric: str,
    draws: Draws,
    tested: list[Tested],
    *,
    within_films: bool,
) -> ComparedCell:
    """Return a cell in each run, on the clips that all runs which have it tested.

    Only AP and AUC have a test: at a threshold, another training could call many other clips
    positive. A value is NaN where the runs share too few clips, and its interval where they do not
    share all. Runs that hold out films and groups of films have other folds: they are compared
    within films.
    """
    sides: list[Side | None] = []
    for run in runs:
        rows = run.rows.get(key)
        side = None
        if rows is not None:
            value = rows.value(metric)
            low, high = rows.ends(metric)
            n_clips = rows.n_clips
            side = Side(rows.model, rows.store, value, low, high, n_clips, rows.basis)
        sides.append(side)
    having = [run for run in runs if key in run.rows]
    is_model = any(run.rows[key].is_model for run in having)
    train, test, _, store = key
    known = [side for side in sides if side is not None]
    if len(known) < 2:
        return ComparedCell(train, test, sides, store, is_model)
    cells = [run.tested[key] for run in having if key in run.tested]
    n_clips = 0
    problem = "a run has no predictions of it"
    if len(cells) == len(having):
        shared = on_shared_clips(cells)
        cells = list(shared.cells)
        n_clips = shared.n_clips
        problem = shared.problem
    inflations = [cell.inflation for cell in cells]
    if within_films:
        cells = [cell.within(runs[0].clips.films) for cell in cells]
    for number, side in enumerate(known):
        if problem or within_films or n_clips != side.n_clips:
            side.value = side.low = side.high = math.nan
            side.n_clips = n_clips
            if not problem:
                side.value = cells[number].value.get(metric, math.nan)
    compared = ComparedCell(train, test, sides, store, is_model, problem)
    if problem or not is_model or sides[0] is None or metric not in METRICS:
        return compared
    first = cells[0]
    for number, side in enumerate(known[1:], start=1):
        cell = cells[number]
        if metric not in first.value or metric not in cell.value:
            continue
        apart = float(difference_of(cell.value[metric], first.value[metric]))
        side.difference = apart
        side.difference_n_clips = n_clips
        groups = draws.evaluation.films[first.clips]
        side.difference_n_films = number_of_groups(groups)
        if metric in RANKING_METRICS and math.isfinite(apart):
            inflation = max(inflations[0], inflations[number])
            item = difference(cell, first, draws, inflation)
            side.difference_low = item.row["low"]
            side.difference_high = item.row["high"]
            tested.append((side, item))
    return compared


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


def _evaluation(clips: ClipNumbers, run: Run, metric: str) -> Evaluation:
    """Return what differences in a metric are computed with: the settings of a run."""
    settings = run.protocol["report"]
    if not 2 <= settings["replicates"] <= MOST_DRAWS:
        raise ValueError(f"report.replicates is {settings['replicates']}")
    report = ReportSettings(
        primary=ranking_metric(metric),
        replicates=settings["replicates"],
    )
    return Evaluation(Protocol("compare", report=report), clips.groups, {}, {})


@dataclass(frozen=True)
class OpenRun:
    """A run whose cells are named as in the other runs.

    Where no run has several stores, the names of stores do not matter. Where no run has several
    models, neither do the names of models. `stores` has the name in the first run of each store
    that has another name here, and the same recipe.
    """

    run: ReportRun
    clips: ClipNumbers
    by_store: bool
    by_model: bool
    stores: Mapping[str, str]

    @cached_property
    def rows(self) -> dict[Key, CellRows]:
        """The rows of results.csv of each cell."""
        rows = {}
        for cell in self.run.all_cells:
            model = cell.model if self.by_model or not cell.is_model else ""
            store = ""
            if self.by_store:
                store = self.stores.get(cell.store, cell.store)
            rows[cell.train, cell.test, model, store] = cell
        return rows

    def names_of(self, part: str) -> list[str]:
        """Return each task, model or store of the models once; without models, of the baselines."""
        names: dict[str, None] = {}
        keys = [key for key, cell in self.rows.items() if cell.is_model]
        for train, test, model, store in keys or self.rows:
            parts = {"task": pair_name(train, test), "model": model, "store": store}
            names[parts[part]] = None
        return [*names]

    @cached_property
    def tested(self) -> dict[Key, Cell]:
        """The cells that have predictions; clips are numbered."""
        by_name = tested_cells(self.run, self.clips)
        tested = {}
        for key, cell in self.rows.items():
            if cell.name in by_name:
                tested[key] = by_name[cell.name]
        return tested


def opened_side_by_side(runs: Sequence[Run]) -> list[OpenRun]:
    """Return runs with one name for the cells that are compared."""
    by_store = False
    by_model = False
    for run in runs:
        by_store = by_store or len(run.about["stores"]) > 1
        models = {fit["model"] for fit in run.about["fits"] if fit["is_model"]}
        by_model = by_model or len(models) != 1
    reports = [ReportRun.of(run) for run in runs]
    clips = ClipNumbers.of(reports)
    return [
        OpenRun(report, clips, by_store, by_model, _names_in(reports[0], report))
        for report in reports
    ]


def _names_in(first: Run, run: Run) -> dict[str, str]:
    """Return the name in the first run of each store of a run that has another name in this one.

    A recipe and an array say what was computed. Of several stores of one recipe, none is meant.
    """
    here = _by_recipe(run, first)
    there = _by_recipe(first, run)
    names = {}
    for recipe, of_recipe in here.items():
        if len(of_recipe) == 1 and len(there.get(recipe, ())) == 1:
            names[of_recipe[0]] = there[recipe][0]
    return names


def _by_recipe(run: Run, other: Run) -> dict[Any, list[str]]:
    """Return the names of stores that another run does not have, by what was computed."""
    stores = run.about["stores"]
    others = [name for name in stores if name not in other.about["stores"]]
    keys = ("fingerprint", "array", "rule", "reduce")
    return grouped_by(others, lambda name: tuple(map(stores[name].get, keys)))


# ---- what two runs do not share ----


def _not_the_same_for_sure(
    names: Sequence[str], runs: Sequence[ReportRun]
) -> Iterator[str]:
    """Yield a warning for two runs of which less than films and times say that clips are the same.

    A clip that has another film or other times in two runs is an error. The times are those of the
    manifests, as far as these are as the runs have read them.
    """
    facts = {name: _facts_of_tested(run) for name, run in zip(names, runs, strict=True)}
    for (one, first), (name, run) in combinations(zip(names, runs, strict=True), 2):
        of_first = first.about["manifest"]
        of_run = run.about["manifest"]
        if of_first["sha256"] == of_run["sha256"]:
            continue
        n_by_id = require_same_shared(
            facts[one],
            facts[name],
            (one, name),
            hint="runs whose manifests give the same id to the same clip",
        )
        clips_of_run = {one: first.clips, name: run.clips}
        lost = [of_name for of_name, clips in clips_of_run.items() if not clips]
        if lost:
            if of_first["labels"]["clips"] != of_run["labels"]["clips"]:
                yield (
                    f"{name}: clips with the id of a clip of {one} count as this clip, and"
                    f" their times are not compared, because the manifest of {listed(lost)} is not"
                    " where it was, or was changed after the run."
                )
        elif n_by_id:
            clips_by_id = count(n_by_id, "clip")
            yield (
                f"{name}: {clips_by_id} taken for those of {one} by their ids alone: neither"
                " films nor times are known on both sides."
            )


def _facts_of_tested(run: ReportRun) -> ClipFacts:
    """Return what a run states of the clips that it tested: films, and times of its manifest."""
    start_s = []
    end_s = []
    for clip_id, film in run.film_of_clip.items():
        clip = run.clips.get(clip_id, Clip(clip_id, film))
        start_s.append(clip.start_s)
        end_s.append(clip.end_s)
    return ClipFacts.of(run.film_of_clip, run.film_of_clip.values(), start_s, end_s)


def _warnings(
    names: Sequence[str],
    runs: Sequence[OpenRun],
    cells: Mapping[Key, ComparedCell],
    metric: str,
    *,
    within_films: bool,
) -> Iterator[str]:
    """Yield a warning for each run that tests other clips than the first, or in other folds."""
    first = runs[0].tested
    for name, run in zip(names[1:], runs[1:], strict=True):
        in_both = [key for key in run.tested if key in first]
        other_clips = []
        other_classes = []
        other_folds = []
        for key in in_both:
            ours = run.tested[key]
            shared = on_shared_clips([ours, first[key]])
            n_in_both = len(np.intersect1d(ours.clips, first[key].clips))
            if not np.array_equal(ours.clips, first[key].clips):
                other_clips.append(key)
            if shared.n_clips < n_in_both:
                other_classes.append(key)
            of_both = shared.cells
            if within_films:
                of_both = [cell.within(run.clips.films) for cell in of_both]
            if of_both and _test_sets(of_both[0]) != _test_sets(of_both[1]):
                other_folds.append(key)
        n_cells = count(len(in_both), "cell")
        problems = {
            f"{name} tests other clips than {names[0]}": other_clips,
            f"{name} has other classes of clips than {names[0]}": other_classes,
        }
        for problem, keys in problems.items():
            if not keys:
                continue
            key = keys[0]
            yield (
                f"{problem} in {len(keys)} of {n_cells}: {run.rows[key].n_clips} clips of "
                f"{pair_name(*key[:2])}, {runs[0].rows[key].n_clips} in the first run. "
                f"All numbers are on the {cells[key].n_clips} clips that all runs test with the "
                "same class."
            )
        if other_folds and metric in RANKING_METRICS:
            yield (
                f"{name} tests clips of {names[0]} in other folds in {len(other_folds)} of "
                f"{n_cells}: {metric_name(metric)} is computed within folds, so that neither "
                "values nor differences are of one quantity (docs/reports.md)."
            )
    for cell in cells.values():
        n_sides = sum(side is not None for side in cell.sides)
        if not cell.is_model or cell.is_compared or n_sides < 2:
            continue
        no_value = f"not all of them have a value of {metric_name(metric)}"
        name = pair_name(cell.train, cell.test)
        yield f"{name}: nothing is compared, as {cell.problem or no_value}."


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
    reasons = {}
    for part in ("task", "model", "store"):
        of_runs = [run.names_of(part) for run in runs]
        if len(set().union(*of_runs)) < sum(map(len, of_runs)):
            continue
        named = []
        for name, of_run in zip(names, of_runs, strict=True):
            named.append(f"{few(of_run) or 'none'} in {name}")
        reasons[part] = f"no {part} is in two of them ({'; '.join(named)})"
    why = listed([*reasons.values()])
    if not reasons:
        why = "no task has the same model and store in two of them"
    warning = f"no cell is in two of these runs, so nothing is compared: {why}."
    if "store" in reasons:
        warning += (
            " Stores are the same if their recipe or their name is: obygaze run --store NAME=STORE"
            " gives stores of other recipes one name."
        )
    yield warning


def differing_settings(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Return each setting or input that is not the same in all runs, with its value in each.

    Models that no run trains, and tables of concepts that no run has, are of no use to any of them.
    """
    trained: set[str] = set()
    for run in runs:
        trained.update(run.protocol["grid"]["models"] or run.protocol["models"])
    none_has_concepts = not any("concepts.csv" in run.tables_with_rows for run in runs)
    have_one_store_each = all(len(run.about["stores"]) == 1 for run in runs)
    none_has_levels = not any(map(has_levels, runs))
    settings_of_runs = []
    for run in runs:
        known = {key: run.about[key] for key in COMPARED}
        models = {}
        for name, model in run.protocol["models"].items():
            if name in trained:
                models[name] = model
        report = {**run.protocol["report"], "questions": questions_of_models(run)}
        if none_has_concepts:
            del report["concepts"]
        known["manifest"] = {**run.about["manifest"]}
        # It follows from the clips, the classes and the splits.
        known["manifest"].pop("positive_films", None)
        grid = dict(run.protocol["grid"])
        # An empty list means all.
        grid["models"] = grid["models"] or [*run.protocol["models"]]
        for key in ("train", "test"):
            grid[key] = grid[key] or [*run.protocol["tasks"]]
        of_run = {"models": models, "grid": grid, "report": report}
        known["protocol"] = {**run.protocol, **of_run}
        known["stores"] = {}
        names = _names_in(runs[0], run)
        for name, facts in run.about["stores"].items():
            missing = [*facts["missing"]]
            words = f"{len(missing)}: {few(missing, 3)}" if missing else "none"
            of_store = {"name": name, **facts, "missing": words}
            known["stores"][names.get(name, name)] = of_store
        if none_has_levels:
            # This hash is then one of the ids alone, as is that of the clips.
            labels = dict(known["manifest"]["labels"])
            del labels["levels"]
            known["manifest"] = {**known["manifest"], "labels": labels}
        if have_one_store_each:
            (known["store"],) = known.pop("stores").values()
        settings_of_runs.append(known)
    return dict(_differing("", settings_of_runs))


def _differing(key: str, values: Sequence[Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield what is not the same in all of some nested tables, by its keys joined by dots.

    What a run does not have is shown in one line, and then what differs in the others.
    """
    tables = [_as_table(value) for value in values]
    known = [table for table in tables if table is not None]
    if len(known) == len(tables):
        seals = {str(table.get("seal", "")) for table in known}
        for name in _in_order(known):
            if name == "sha256" and len(seals) == 1 and "" not in seals:
                # That of the features of the clips: the store is the same, and so is each clip.
                continue
            below = [table.get(name, MISSING) for table in known]
            yield from _differing(f"{key}.{name}".lstrip("."), below)
        return
    shown = [_shown(value) for value in values]
    if len(set(shown)) > 1:
        yield key, shown
    for name, of_known in _differing(key, known):
        cells = iter(of_known)
        yield name, [MISSING if table is None else next(cells) for table in tables]


def _as_table(value: Any) -> Mapping[str, Any] | None:
    """Return a table, or the tables of a list by their numbers; None for another value."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, list) and all(isinstance(item, Mapping) for item in value):
        return {str(number): item for number, item in enumerate(value, start=1)}
    return None


def _in_order(mappings: Iterable[Mapping[K, Any]]) -> list[K]:
    """Return the keys of all mappings, each once, in the order in which they first appear."""
    keys: dict[K, None] = {}
    for mapping in mappings:
        keys |= dict.fromkeys(mapping)
    return list(keys)


def _shown(value: Any) -> str:
    """Return a value in one line; of a table, what says which it is, else all that it says."""
    if isinstance(value, Mapping):
        for key in SAYS_WHICH:
            if value.get(key):
                return str(value[key])
        parts = [f"{name} {_shown(item)}" for name, item in value.items() if item != ""]
        return ", ".join(parts) or "none"
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "none"
    text = str(value) or MISSING
    if re.fullmatch("[0-9a-f]{64}", text):
        return f"{text[:HASH_LETTERS]}..."
    return text
