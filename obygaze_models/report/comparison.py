"""`obygaze compare`: several runs as one table of tests, side by side on the clips that all tested.

Values and differences are computed as those of one run: films are drawn together, and signs of
films are changed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from obygaze_features.core.console import MISSING, count, few, listed, plural
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
from obygaze_models.report.lookup import explaining, pair_name
from obygaze_models.report.tables import (
    DifferenceCell,
    NumberCell,
    PValueCell,
    ResultTable,
)
from obygaze_models.runner.answer import (
    films_with_value,
    questions_of_models,
    verdict,
)
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
# What two runs of one experiment share, or what follows from the rest.
COMPARED = ("protocol", "manifest", "texts", "versions")
# The lists of a grid that mean all where they are empty.
ALL_OF = {"models": "models", "train": "tasks", "test": "tasks"}
# Of a model, a task, a question and a store.
SAYS_WHICH = ("kind", "title", "text", "location")
RECIPE = ("fingerprint", "array", "rule", "reduce")
HASH_LETTERS = 12
MOST_DRAWS = 1_000_000  # of films, as in a protocol
BY_FOLD = ("fold", "seed")
BY_FILM = (*BY_FOLD, "movie_id")
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
        """Return the output of `obygaze compare`: the runs, and both tables."""
        lines = [f"{number}: {name}" for number, name in enumerate(self.runs, start=1)]
        lines = [safe_text(line, "terminal") for line in lines]
        if not self.settings:
            lines += ["", "the settings and inputs are the same"]
        for shown in self.tables():
            lines += ["", *filter(None, (shown.as_text(), shown.note))]
        return "\n".join(lines)

    def tables(self) -> list[ResultTable]:
        """Return what differs in the settings, and the models: the tables of a text and a page."""
        tables = []
        if self.settings:
            title = "Settings and inputs that are not the same in all runs"
            numbers = map(str, range(1, len(self.runs) + 1))
            rows = [(key, *values) for key, values in self.settings.items()]
            tables.append(
                ResultTable("settings", title, ("what differs", *numbers), rows)
            )
        first = self.runs[0]
        metric = metric_name(self.metric)
        title = f"{metric} of each run, and its difference to {first}"
        headers = ["task", "model", "run", "clips", plural(self.unit)]
        headers += [f"{metric} of {first}", metric]
        headers += [f"minus {first}", "p (all)", "better?"]
        shown = [*self._shown_rows()]
        tables.append(ResultTable("compared", title, headers, shown, self._note()))
        return tables

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
    warnings = [*_not_the_same_for_sure(names, runs)]
    units = [run.unit for run in runs if run.holds_out_groups]
    unit = units[0] if units else "film"
    by_key = cells_side_by_side(runs)
    # Folds of one film, of groups of films, and of all films are one thing within films.
    hold_out_other = 0 < len(units) < len(runs)
    are_equal_within = not _have_other_folds(by_key, BY_FILM)
    has_other_folds = are_equal_within and _have_other_folds(by_key, BY_FOLD)
    within_films = hold_out_other or has_other_folds
    # A run.json that was edited may ask for any number.
    n_draws = min(runs[0].settings.replicates, MOST_DRAWS)
    settings = RunSettings(ranking_metric(metric), replicates=n_draws)
    draws = draws_of(chain(*(cells.values() for cells in by_key.values())), settings)
    compared = []
    differences: list[Difference] = []
    for key, cells in by_key.items():
        within = within_films and len(cells) > 1
        compared.append(
            _compared_cell(
                key, cells, names, metric, draws, differences, within_films=within
            )
        )
    for apart, p in zip(differences, p_of_family(differences), strict=True):
        apart.row["p_all"] = p
    counts = [(apart.n_films, apart.row["films"]) for apart in differences]
    known = films_with_value(counts, unit)
    if known:
        warnings.append(f"In {metric_name(metric)}, {known}.")
    if has_other_folds and not hold_out_other:
        warnings.append(
            "Some of these runs test several films in one fold, and others do not: AP and AUC are"
            " those within films."
        )
    if hold_out_other:
        warnings.append(
            f"Some of these runs hold out whole {plural(unit)}, while others may train on other"
            f" clips of a tested {unit}: AP and AUC are those within films, and differences are"
            f" drawn over {plural(unit)}."
        )
    warnings += _other_tests(names, by_key, metric, within_films=within_films)
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
    settings_apart = differing_settings(runs)
    return ComparedRuns(names, metric, settings_apart, compared, warnings, unit)


def _compared_cell(
    key: Key,
    cells: Mapping[int, Cell],
    names: Sequence[str],
    metric: str,
    draws: Draws,
    tested: list[Difference],
    *,
    within_films: bool,
) -> ComparedCell:
    """Return a cell on the clips that all runs which have it tested.

    A value is NaN where the runs share too few clips, and its interval where they do not share all.

    Args:
        key: What it is called in all runs.
        cells: The cell in each run that has it, by the number of the run.
        names: The names of the runs.
        metric: The metric.
        draws: The draws for differences.
        tested: Takes each difference of AP or AUC, which waits for its p.
        within_films: Whether values are those within films.
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
    wholes = shared.cells or of_runs
    compared = [cell.within_films() for cell in wholes] if within_films else wholes
    first = compared[0]
    rows: dict[int, RunRow] = {}
    differences: dict[int, RunRow] = {}
    for number, cell, whole in zip(cells, compared, wholes, strict=True):
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
                inflation = max(wholes[0].inflation, whole.inflation)
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
    """Return the tests of runs in one table, in which a clip has one group.

    It is that of a run that holds out groups, else its film. What is of unknown films stays so.
    """
    import pandas as pd

    tests = pd.concat([run.predictions for run in runs], keys=range(len(runs)))
    of_groups = [number for number, run in enumerate(runs) if run.holds_out_groups]
    groups = tests.loc[of_groups].drop_duplicates(["clip_id", "group"])
    is_other = groups["clip_id"].duplicated()
    if is_other.any():
        raise FixInput(
            f"the clip {groups['clip_id'][is_other].iloc[0]!r} is of other groups in two runs:"
            " differences are drawn over one kind of group",
            hint="each run alone, or beside one that holds out films",
        )
    group_of = dict(zip(groups["clip_id"], groups["group"], strict=True))
    whole = zip(tests["clip_id"], tests["group"], strict=True)
    tests["group"] = [own and group_of.get(clip_id, own) for clip_id, own in whole]
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


def _folds_of(cell: Cell, by: Sequence[str]) -> frozenset[Any]:
    """Return the clips of each fold of a cell, or of each film of it."""
    return frozenset(cell.rows.groupby([*by])["clip"].agg(frozenset))


def _have_other_folds(
    by_key: Mapping[Key, Mapping[int, Cell]], by: Sequence[str]
) -> bool:
    """Return whether some run tests the clips that all share in other folds than another."""
    for cells in by_key.values():
        shared = on_shared_clips([*cells.values()])
        if len({_folds_of(cell, by) for cell in shared.cells}) > 1:
            return True
    return False


def _other_tests(
    names: Sequence[str],
    by_key: Mapping[Key, Mapping[int, Cell]],
    metric: str,
    *,
    within_films: bool,
) -> Iterator[str]:
    """Yield a warning for each run that tests other clips than the first, or has other folds."""
    by = BY_FILM if within_films else BY_FOLD
    for number, name in enumerate(names[1:], start=1):
        n_cells = n_other_clips = n_other_folds = 0
        for cells in by_key.values():
            if not {0, number} <= cells.keys():
                continue
            pair = (cells[0], cells[number])
            shared = on_shared_clips(pair)
            folds = {_folds_of(cell, by) for cell in shared.cells}
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
                " that neither values nor differences are of one quantity (docs/reports.md)."
            )


# ---- what differs in their settings ----


def differing_settings(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Return each setting or input that is not the same in all runs, with its value in each.

    Models that no run trains are left out, and questions about models that a run does not train.
    """
    trained: set[str] = set()
    for run in runs:
        trained.update(run.protocol["grid"]["models"] or run.protocol["models"])
    has_one_store = all(len(run.about["stores"]) == 1 for run in runs)
    settings_of_runs = []
    for run in runs:
        settings = deepcopy({key: run.about[key] for key in COMPARED})
        protocol = settings["protocol"]
        for key, of_all in ALL_OF.items():
            protocol["grid"][key] = protocol["grid"][key] or [*protocol[of_all]]
        for name in protocol["models"].keys() - trained:
            del protocol["models"][name]
        questions = enumerate(questions_of_models(run), start=1)
        protocol["report"]["questions"] = {str(number): q for number, q in questions}
        name_of = _names_in(runs[0], run)
        for name, facts in run.about["stores"].items():
            place = "store" if has_one_store else f"stores.{name_of.get(name, name)}"
            missing = [*facts["missing"]]
            settings[place] = {"name": name, **facts, "missing": missing}
            if facts["seal"]:
                # It says of the whole store what the other hash says of the clips of the run.
                del settings[place]["sha256"]
        settings_of_runs.append(settings)
    return dict(_differing("", settings_of_runs))


def _differing(key: str, values: Sequence[Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield what is not the same in all of some nested tables, by its keys joined by dots.

    What a run does not have is shown in one line, and then what differs in the others. None: a line
    has said already that this run does not have it.
    """
    stated = [value for value in values if value is not None]
    tables = [value for value in stated if isinstance(value, Mapping)]
    if len(tables) < len(stated) and any(value != stated[0] for value in stated):
        yield key, [MISSING if value is None else _shown(value) for value in values]
    for name in dict.fromkeys(chain(*tables)):
        below = []
        for value in values:
            is_table = isinstance(value, Mapping)
            below.append(value.get(name, MISSING) if is_table else None)
        yield from _differing(f"{key}.{name}".lstrip("."), below)


def _shown(value: Any) -> str:
    """Return a value in one line; of a table, what says which it is, else all that it says."""
    if isinstance(value, Mapping):
        for key in SAYS_WHICH:
            if value.get(key):
                return str(value[key])
        value = [f"{name} {_shown(item)}" for name, item in value.items() if item != ""]
    if isinstance(value, list):
        return few([*map(_shown, value)]) or "none"
    text = str(value) or MISSING
    is_hash = re.fullmatch("[0-9a-f]{64}", text)
    return f"{text[:HASH_LETTERS]}..." if is_hash else text
