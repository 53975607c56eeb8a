"""`obygaze compare`: the differences of runs to the first, on the clips that all of them tested.

Values and differences are computed as those of one run: films are drawn together, and signs of
films are changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from obygaze_features.core.console import count, few, listed, plural
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.files import json_values
from obygaze_features.core.outside import safe_text
from obygaze_features.core.shell import shell_word
from obygaze_features.core.written_tables import Columns, Listing
from obygaze_features.manifest.clip_facts import (
    ClipFacts,
    completed,
    require_same_shared,
)
from obygaze_models.evaluation.basis import interval_is_of, weakest
from obygaze_models.evaluation.cells import Cell, Shared, on_shared_clips
from obygaze_models.evaluation.metrics import (
    AP,
    METRICS,
    RANKING_METRICS,
    metric_name,
    ranking_metric,
)
from obygaze_models.evaluation.results import (
    Difference,
    Draws,
    RunSettings,
    difference,
    draws_of,
    p_of_family,
    row_of_difference,
)
from obygaze_models.evaluation.tables import RunRow
from obygaze_models.protocols.schema import Task
from obygaze_models.report.lookup import explaining, pair_name, task_of
from obygaze_models.report.tables import (
    DifferenceCell,
    NumberCell,
    PValueCell,
    ResultTable,
)
from obygaze_models.runner.answer import films_with_value, verdict
from obygaze_models.runner.files import Run
from obygaze_models.runner.labels import labels_since
from obygaze_models.runner.limits import ON_BOTH_SIDES, limits_of

if TYPE_CHECKING:
    import pandas as pd

# Of each column of a difference to the first run, that of results.csv.
OF_DIFFERENCE = {
    "difference": "value",
    "difference_low": "low",
    "difference_high": "high",
    "difference_p": "p_all",
    "difference_n_clips": "clips",
    "difference_n_films": "films",
}
NOTHING: RunRow = dict.fromkeys(OF_DIFFERENCE.values(), math.nan)
RECIPE = ("fingerprint", "array", "rule", "reduce")
MOST_DRAWS = 1_000_000  # of films, as in a protocol
NO_CELL = (
    "no cell is in two of these runs, so nothing is compared: cells are the same if their tasks"
    " are, and, where a run has several, the names of their models, and the recipes or the names of"
    " their stores (obygaze run --store NAME=STORE gives stores of other recipes one name, and"
    " --set 'grid.models=[\"ridge\"]' makes a run of one model)."
)

# Training task, test task, model and store; a model or store that needs no name is "".
Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class ComparedCell:
    """A model or baseline, trained for one task and tested on one, in the runs that have it.

    Attributes:
        name: Its name; where runs differ, each name. With its store, if a run has several.
        tasks: The training and the test task.
        is_model: Whether it is a model, and no baseline.
        rows: Its value in each run, by the number of the run, which begins with 0.
        differences: The row of its difference to the first run, by the number of the run.
        problem: Why nothing is compared.
    """

    name: str
    tasks: str
    is_model: bool
    rows: Mapping[int, RunRow]
    differences: Mapping[int, RunRow]
    problem: str = ""


@dataclass(frozen=True)
class ComparedRuns(Listing):
    """Runs side by side.

    Attributes:
        runs: Their names; the first is what the others are compared with.
        metric: The metric of values and differences.
        cells: The models and baselines.
        warnings: Where runs do not have the same tasks, clips and folds, or share nothing.
        unit: What differences are drawn over: films, or the groups of films that a run holds out.
    """

    runs: Sequence[str]
    metric: str
    cells: Sequence[ComparedCell]
    warnings: Sequence[str] = ()
    unit: str = "film"

    def to_json(self) -> dict[str, Any]:
        """Return the output of `obygaze compare --json`."""
        return {**vars(self), "cells": self._rows()}

    def table(self) -> Columns:
        """Return a row for each cell and run, with the difference to the first run."""
        rows = self._rows()
        columns: dict[str, list[Any]] = {}
        for row in rows:
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
        return columns

    def _rows(self) -> list[RunRow]:
        rows = []
        for cell in self.cells:
            for number, row in cell.rows.items():
                apart = cell.differences.get(number, NOTHING)
                difference = {name: apart[key] for name, key in OF_DIFFERENCE.items()}
                rows.append(json_values({**row, **difference}))
        return rows

    def __str__(self) -> str:
        """Return the output of `obygaze compare`: the runs, and their differences."""
        lines = [f"{number}: {name}" for number, name in enumerate(self.runs, start=1)]
        lines = [safe_text(line, "terminal") for line in lines]
        shown = self.shown()
        lines += ["", *filter(None, (shown.as_text(), shown.note))]
        return "\n".join(lines)

    def shown(self) -> ResultTable:
        """Return the table of a text and a page: the models of each run beside the first."""
        first = self.runs[0]
        metric = metric_name(self.metric)
        title = f"{metric} of each run, and its difference to {first}"
        headers = ["task", "model", "run", "clips", plural(self.unit)]
        headers += [f"{metric} of {first}", metric]
        headers += [f"minus {first}", "p (all)", "better?"]
        rows = [*self._shown_rows()]
        return ResultTable("compared", title, headers, rows, self._note())

    def _shown_rows(self) -> Iterator[tuple[Any, ...]]:
        for cell in self.cells:
            for number, row in cell.differences.items():
                yield (
                    cell.tasks,
                    cell.name,
                    self.runs[number],
                    row["clips"],
                    row["films"],
                    NumberCell.of(cell.rows[0]),
                    NumberCell.of(cell.rows[number]),
                    DifferenceCell.of(row),
                    PValueCell(row["p_all"]),
                    "the same" if row["value"] == 0 else verdict(row),
                )

    def _note(self) -> str:
        """Return what the numbers of the table are of, and the models that have no difference."""
        sentences = []
        if any(cell.differences for cell in self.cells):
            sentences.append(
                "The numbers of a line are on the clips that all runs with this model tested with"
                " the same class. p (all) is corrected for all differences of the comparison; the"
                f" last column says whether the run is better than {self.runs[0]}."
            )
        bases = []
        others = []
        for cell in self.cells:
            if cell.is_model and not cell.differences:
                runs = listed([self.runs[number] for number in cell.rows])
                others.append(f"{cell.name} for {cell.tasks} ({runs})")
            for row in cell.differences.values():
                if math.isfinite(row["low"]):
                    bases.append(row["basis"])
        if bases:
            units = plural(self.unit)
            of_intervals = interval_is_of(weakest(bases), units)
            sentences.append(f"In brackets: intervals over {units}, of {of_intervals}.")
        if others:
            sentences.append(f"Without a difference to {self.runs[0]}: {few(others)}.")
        return " ".join(sentences)


# ---- values and differences ----


def compare_runs(runs: Sequence[Run], metric: str | None = None) -> ComparedRuns:
    """Return runs side by side, with the differences of each to the first.

    Args:
        runs: Two or more runs.
        metric: A metric of obygaze; the default is the primary one of the first run.
    """
    if len(runs) < 2:
        message = (
            "a comparison needs two runs or more; of two models of one run, the report has the"
            " difference if the run has report.questions"
        )
        names = " ".join(shell_word(run.folder.name) for run in runs) or "RUN"
        raise FixUsage(message, hint=f"obygaze report {names}")
    if metric is not None and metric not in METRICS:
        raise FixUsage(
            f"unknown metric {metric!r}{near(metric, METRICS)}",
            hint=f"one of {', '.join(METRICS)}",
        )
    with explaining(*runs):
        return _compared(runs, metric or runs[0].settings.primary)


def _compared(runs: Sequence[Run], metric: str) -> ComparedRuns:
    names = names_of(runs)
    _require_one_unit(names, runs)
    warnings = [*_not_the_same_for_sure(names, runs)]
    unit = runs[0].unit if runs[0].holds_out_groups else "film"
    by_key = cells_side_by_side(runs)
    warnings += _other_tasks(names, runs, by_key)
    # A run.json that was edited may ask for any number.
    n_draws = min(runs[0].settings.replicates, MOST_DRAWS)
    settings = RunSettings(ranking_metric(metric), replicates=n_draws)
    draws = draws_of(chain(*(cells.values() for cells in by_key.values())), settings)
    compared = []
    differences: list[Difference] = []
    for key, cells in by_key.items():
        compared.append(_compared_cell(key, cells, names, metric, draws, differences))
    for apart, p in zip(differences, p_of_family(differences), strict=True):
        apart.row["p_all"] = p
    counts = [(apart.n_films, apart.row["films"]) for apart in differences]
    known = films_with_value(counts, unit)
    if known:
        warnings.append(f"In {metric_name(metric)}, {known}.")
    warnings += _other_tests(names, by_key, metric)
    models = [cell for cell in compared if cell.is_model]
    for cell in models:
        if len(cell.rows) > 1 and 0 in cell.rows and not cell.differences:
            no_value = f"not all of them have a value of {metric_name(metric)}"
            problem = cell.problem or no_value
            warnings.append(f"{cell.tasks}: nothing is compared, as {problem}.")
    if all(len(cell.rows) == 1 for cell in models or compared):
        warnings.append(NO_CELL)
    for name, run in zip(names, runs, strict=True):
        for limit in limits_of(run):
            if limit.name in ON_BOTH_SIDES:
                warnings.append(f"{name}: {limit.text}")
    return ComparedRuns(names, metric, compared, warnings, unit)


def _compared_cell(
    key: Key,
    cells: Mapping[int, Cell],
    names: Sequence[str],
    metric: str,
    draws: Draws,
    tested: list[Difference],
) -> ComparedCell:
    """Return a cell on the clips that all runs which have it tested.

    A value is NaN where the runs share too few clips, and its interval where they do not share all.
    Values of other folds are of another quantity, so that their difference has no interval and p.

    Args:
        key: What it is called in all runs.
        cells: The cell in each run that has it, by the number of the run.
        names: The names of the runs.
        metric: The metric.
        draws: The draws for differences.
        tested: Takes each difference of AP or AUC, which waits for its p.
    """
    of_runs = [*cells.values()]
    shared = Shared(of_runs, of_runs[0].n_clips)
    if len(cells) > 1:
        shared = on_shared_clips(of_runs)
    problem = shared.problem
    # AP is a mean over folds in both.
    if metric != AP.name and len({cell.is_averaged for cell in of_runs}) > 1:
        problem = (
            problem or "one is a mean over its fits, and another pools their clips"
        )
    compared = shared.cells or of_runs
    first = compared[0]
    rows: dict[int, RunRow] = {}
    differences: dict[int, RunRow] = {}
    for number, cell in zip(cells, compared, strict=True):
        low, high = cell.ends(metric)
        rows[number] = {
            "train": cell.train,
            "test": cell.test,
            "model": cell.model,
            "store": cell.store,
            "run": names[number],
            "metric": metric,
            "value": cell.value(metric),
            "low": low,
            "high": high,
            "n_clips": shared.n_clips,
            "basis": cell.basis,
        }
        if problem:
            rows[number] |= dict.fromkeys(("value", "low", "high"), math.nan)
        elif number > 0 and 0 in cells and cell.is_model:
            if math.isnan(cell.value(metric) - first.value(metric)):
                continue
            differences[number] = {**NOTHING, **row_of_difference(cell, first, metric)}
            # At a threshold, another training could call many other clips positive.
            if metric in RANKING_METRICS:
                inflation = max(first.inflation, cell.inflation)
                if _folds_of(first) != _folds_of(cell):
                    inflation = math.inf
                tested.append(difference(cell, first, draws, inflation))
                differences[number] = tested[-1].row
    name = " / ".join(dict.fromkeys(cell.model for cell in of_runs))
    if key[3]:
        name += f" ({' / '.join(dict.fromkeys(cell.store for cell in of_runs))})"
    tasks = pair_name(*key[:2])
    is_model = of_runs[0].is_model
    return ComparedCell(name, tasks, is_model, rows, differences, problem)


# ---- which cells of runs stand side by side ----


def names_of(runs: Sequence[Run]) -> list[str]:
    """Return the names of the folders; the whole paths, where two have one name."""
    names = [run.folder.name for run in runs]
    if len(set(names)) == len(names):
        return names
    return [str(run.folder) for run in runs]


def cells_side_by_side(runs: Sequence[Run]) -> dict[Key, dict[int, Cell]]:
    """Return each cell in the runs that have it, by the number of the run.

    A clip has one number and one group in all of them. Where no run has several stores, the names
    of stores do not matter. Where no run has several models, neither do the names of models.
    """
    tests = _tests_of(runs)
    ids, tests["clip"] = np.unique(tests["clip_id"].to_numpy(), return_inverse=True)
    by_store = any(len(run.about["stores"]) > 1 for run in runs)
    by_model = False
    for run in runs:
        models = {cell.model for cell in run.models}
        by_model = by_model or len(models) != 1
    by_key: dict[Key, dict[int, Cell]] = {}
    for number, run in enumerate(runs):
        rows: Any = tests.loc[number]
        store_of = _names_in(runs[0], run)
        for cell in run.cells:
            model = cell.model if by_model or not cell.is_model else ""
            store = store_of.get(cell.store, cell.store) if by_store else ""
            by_key.setdefault((*cell.pair, model, store), {})[number] = replace(
                cell, rows=rows.loc[cell.rows.index], ids=ids
            )
    return by_key


def _tests_of(runs: Sequence[Run]) -> pd.DataFrame:
    """Return the tests of runs in one table, in which a clip has one group."""
    import pandas as pd

    tests = pd.concat([run.predictions for run in runs], keys=range(len(runs)))
    if runs[0].holds_out_groups:
        groups = tests.drop_duplicates(["clip_id", "group"])
        is_other = groups["clip_id"].duplicated()
        if is_other.any():
            raise FixInput(
                f"the clip {groups['clip_id'][is_other].iloc[0]!r} is of other groups in two runs",
                hint="runs whose manifests have the same groups",
            )
    return tests


def _names_in(first: Run, run: Run) -> dict[str, str]:
    """Return the name in the first run of each store of a run that has another name in this one.

    A recipe and an array say what was computed. Of several stores of one recipe, the last is meant.
    """
    ours = _stores_by_recipe(first, run)
    theirs = _stores_by_recipe(run, first)
    return {theirs[recipe]: ours[recipe] for recipe in theirs.keys() & ours.keys()}


def _stores_by_recipe(run: Run, other: Run) -> dict[tuple[Any, ...], str]:
    """Return the names of the stores that another run does not have."""
    names = {}
    for name, facts in run.about["stores"].items():
        if name not in other.about["stores"]:
            names[tuple(map(facts.get, RECIPE))] = name
    return names


# ---- what two runs do not share ----


def _require_one_unit(names: Sequence[str], runs: Sequence[Run]) -> None:
    """Raise an error where runs hold out different things, such as films and directors."""
    name_of_column: dict[str, str] = {}
    for name, run in zip(names, runs, strict=True):
        name_of_column.setdefault(run.about["manifest"]["group_column"], name)
    if len(name_of_column) > 1:
        held_out = [f"{name}: {column}" for column, name in name_of_column.items()]
        raise FixInput(
            f"these runs hold out different groups of clips ({', '.join(held_out)}), and a"
            " difference is drawn over one kind of group",
            hint="each run alone, or runs with the same splits.column",
        )


def _other_tasks(
    names: Sequence[str],
    runs: Sequence[Run],
    by_key: Mapping[Key, Mapping[int, Cell]],
) -> Iterator[str]:
    """Yield a warning for each task of a run that the first run defines in another way."""
    for number, (name, run) in enumerate(zip(names, runs, strict=True)):
        tasks: dict[str, None] = {}
        for key, cells in by_key.items():
            if {0, number} <= cells.keys():
                tasks |= dict.fromkeys(key[:2])
        for task in tasks:
            if _classes_of(runs[0], task) != _classes_of(run, task):
                yield f"{name}: its task {task} has other classes than that of {names[0]}."


def _classes_of(run: Run, name: str) -> Task:
    """Return what says which clips are positive and which are negative in a task."""
    return replace(task_of(run, name), title="", folds="", row="", series="")


def _not_the_same_for_sure(names: Sequence[str], runs: Sequence[Run]) -> Iterator[str]:
    """Yield a warning for two runs of which less than films and times say that clips are the same.

    A clip that has another film or other times in two runs is an error. The times are those of the
    manifests, as far as these are as the runs have read them.
    """
    for (one, first), (name, run) in combinations(zip(names, runs, strict=True), 2):
        ours = first.about["manifest"]
        theirs = run.about["manifest"]
        if ours["sha256"] == theirs["sha256"]:
            continue
        facts_of_first, is_first_lost = _facts_of_tested(first)
        facts, is_lost = _facts_of_tested(run)
        n_by_id = require_same_shared(
            facts_of_first,
            facts,
            (one, name),
            hint="runs whose manifests give the same id to the same clip",
        )
        are_same = ours["labels"]["clips"] == theirs["labels"]["clips"]
        if n_by_id or ((is_first_lost or is_lost) and not are_same):
            yield (
                f"{name}: clips with the id of a clip of {one} count as this clip. Their times are"
                " not compared: a manifest is not where it was, was changed after the run, or"
                " states neither films nor times."
            )


def _facts_of_tested(run: Run) -> tuple[ClipFacts, bool]:
    """Return what a run states of the clips that it tested, and whether it has no times of them."""
    tested = ClipFacts.of(run.film_of_clip, run.film_of_clip.values())
    labels = labels_since(run)
    if labels.manifest is None or labels.changed:
        return tested, True
    return completed(tested, ClipFacts.of_clips(labels.manifest.clips)), False


def _folds_of(cell: Cell) -> frozenset[Any]:
    """Return the clips of each fold of a cell."""
    return frozenset(cell.rows.groupby(["fold", "seed"])["clip"].agg(frozenset))


def _other_tests(
    names: Sequence[str], by_key: Mapping[Key, Mapping[int, Cell]], metric: str
) -> Iterator[str]:
    """Yield a warning for each run that tests other clips than the first, or has other folds."""
    for number, name in enumerate(names[1:], start=1):
        n_cells = n_other_clips = n_other_folds = 0
        for cells in by_key.values():
            if not {0, number} <= cells.keys():
                continue
            pair = (cells[0], cells[number])
            shared = on_shared_clips(pair)
            folds = {_folds_of(cell) for cell in shared.cells}
            n_cells += 1
            n_other_clips += any(cell.n_clips > shared.n_clips for cell in pair)
            n_other_folds += len(folds) > 1
        if n_other_clips:
            yield (
                f"{name} tests other clips than {names[0]}, or has other classes of them, in"
                f" {n_other_clips} of {count(n_cells, 'cell')}: all numbers are on the clips that"
                " all runs test with the same class."
            )
        if n_other_folds and metric in RANKING_METRICS:
            yield (
                f"{name} tests clips of {names[0]} in other folds in {n_other_folds} of"
                f" {count(n_cells, 'cell')}: {metric_name(metric)} is computed within folds, so"
                " that the values are not of one quantity, and their difference has no interval"
                " (docs/reports.md)."
            )
