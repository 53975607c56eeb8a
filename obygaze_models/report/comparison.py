"""`obygaze compare`: differences of runs from the first run, on the clips that all of them tested.

The difference of two runs is computed like the difference of two models of one run. Each p is
corrected for all differences of the comparison, so each further run makes every p larger.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from obygaze_features.core.console import count, few, join_names, plural
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.files import json_values, write_new
from obygaze_features.core.shell import shell_word
from obygaze_features.core.untrusted_text import safe_text
from obygaze_features.core.written_tables import Columns, Listing
from obygaze_features.manifest.clip_table import ClipTable
from obygaze_features.manifest.same_clips import same_clips
from obygaze_models.evaluation.basis import UNSEEN, interval_is_of, weakest
from obygaze_models.evaluation.cells import Cell, Shared, on_shared_clips
from obygaze_models.evaluation.metrics import (
    AP,
    METRICS,
    RANKING_METRICS,
    metric_name,
    ranking_metric,
)
from obygaze_models.evaluation.results import (
    RunSettings,
    add_p_of_family,
    difference,
    row_of_difference,
)
from obygaze_models.evaluation.tables import CHOSEN, RunRow
from obygaze_models.protocols.schema import Task
from obygaze_models.report.lookup import explain_invalid_runs, find_task, pair_name
from obygaze_models.report.tables import (
    NumberCell,
    PValueCell,
    ResultTable,
    render_template,
    result_table,
)
from obygaze_models.runner.answer import films_with_value, verdict
from obygaze_models.runner.files import Run
from obygaze_models.runner.labels import current_labels
from obygaze_models.runner.limits import ON_BOTH_SIDES, find_limits

if TYPE_CHECKING:
    import pandas as pd

LATEX = ".tex"
MOST_DRAWS = 1_000_000  # draws of films, as in a protocol
FOLDS = ("fold", "seed")  # columns of predictions.csv that name a fit
NO_CELL = (
    "nothing is compared, because no model is in two of these runs. Models are matched by their"
    " tasks, by name if a run has several models, and by store if a run has several stores. Use"
    " --model NAME to select one model of each run, or obygaze run --store NAME=STORE to name a"
    " store."
)

# Training task, test task, model and store. The model or store is "" if no run has several.
Key = tuple[str, str, str, str]
# The cell of each run that has the model, by the number of the run from 0.
SideBySide = Mapping[int, Cell]


@dataclass(frozen=True)
class ComparedRuns(Listing):
    """Runs side by side.

    Attributes:
        runs: The names of the runs. All other runs are compared with the first.
        metric: The metric of values and differences.
        rows: A row for each model and run: the value of the model in this run, and the difference
            of this value from the value in the first run.
        warnings: Sentences on differences in tasks, clips and folds, on limits of the runs, and on
            runs without a common model.
        unit: What is resampled for the intervals of differences: film, or the group that runs hold
            out.
    """

    runs: Sequence[str]
    metric: str
    rows: Sequence[RunRow]
    warnings: Sequence[str] = ()
    unit: str = "film"

    def to_json(self) -> dict[str, Any]:
        """Return the output of `obygaze compare --json`."""
        facts = {key: value for key, value in vars(self).items() if key != "rows"}
        return {**facts, "cells": [json_values(row) for row in self.rows]}

    def table(self) -> Columns:
        """Return the columns of `rows`, by name."""
        columns: dict[str, list[Any]] = {}
        for row in self.rows:
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
        return columns

    def write(
        self, output: str | Path | None = None, *, force: bool = False
    ) -> list[Path]:
        """Write the table to a .csv, .xlsx or .tex file, and return the files that were written."""
        if output is None or Path(output).suffix.lower() != LATEX:
            return super().write(output, force=force)
        label = "-".join(Path(name).name for name in self.runs)
        text = render_template("table.tex", table=self.shown(), run=label)
        write_new(Path(output), text.encode("utf-8"), force=force)
        return [Path(output)]

    def __str__(self) -> str:
        """Return the output of `obygaze compare`: the runs, and their differences."""
        lines = [f"{number}: {name}" for number, name in enumerate(self.runs, start=1)]
        lines = [safe_text(line, "terminal") for line in lines]
        shown = self.shown()
        lines += ["", *filter(None, (shown.as_text(), shown.note))]
        return "\n".join(lines)

    def shown(self) -> ResultTable:
        """Return the table that the terminal and the page show.

        It has a row for each model of each further run, with the value of the first run beside it.
        """
        first = self.runs[0]
        metric = metric_name(self.metric)
        rows: list[RunRow | str] = []
        bases: list[str] = []
        others: dict[str, list[str]] = {}
        compared = {row["name"] for row in self.rows if _is_compared(row)}
        for row in self.rows:
            if not _is_compared(row):
                if row["name"] not in compared:
                    name = f"{row['name']} for {pair_name(row['train'], row['test'])}"
                    others.setdefault(name, []).append(row["run"])
                continue
            ends = (row["difference_low"], row["difference_high"])
            apart = {"over_films": row["difference"], "p": row["difference_p"]}
            shown = {
                "task": pair_name(row["train"], row["test"]),
                "model": row["name"],
                "run": row["run"],
                "clips": row["difference_n_clips"],
                plural(self.unit): row["difference_n_films"],
                f"{metric} of {first}": NumberCell(row["value_of_first"]),
                metric: NumberCell(row["value"], row["low"], row["high"]),
                f"minus {first}": NumberCell(row["difference"], *ends),
                "p": PValueCell(row["difference_p"]),
                "better?": verdict(apart | {"basis": row["difference_basis"]}),
            }
            if row["value"] == row["value_of_first"]:
                shown["better?"] = "the same"
            rows.append(shown)
            for part in ("", "difference_"):
                if math.isfinite(row[f"{part}low"]):
                    bases.append(row[f"{part}basis"])
        sentences = []
        units = plural(self.unit)
        if rows:
            sentences.append(
                "All values of a row are on the clips that all runs with this model tested, with"
                " the same class."
            )
            if self.metric in RANKING_METRICS:
                sentences.append(
                    f"On unseen {units}, the difference is the mean over {units}. p is two-sided,"
                    " and corrected for all differences of this table."
                )
            sentences.append(
                f"The last column shows whether the run is better than {first}."
            )
        if bases:
            of_intervals = interval_is_of(weakest(bases), units)
            sentences.append(
                f"In brackets: intervals over {units}, which hold for {of_intervals}."
            )
        if others:
            named = [f"{name} in {join_names(runs)}" for name, runs in others.items()]
            sentences.append(f"Without a difference from {first}: {few(named)}.")
        title = f"{metric} of each run, and its difference from {first}"
        return result_table("compared", title, rows, " ".join(sentences))


def _is_compared(row: RunRow) -> bool:
    return bool(math.isfinite(row["difference"]))


# ---- values and differences ----


def compare_runs(
    runs: Sequence[Run], metric: str | None = None, models: Sequence[str] = ()
) -> ComparedRuns:
    """Compare runs with the first run.

    Args:
        runs: Two or more runs.
        metric: A metric. The default is the primary metric of the first run.
        models: One model for all runs, or one for each run. Empty: models of the same name.
    """
    if len(runs) < 2:
        message = (
            "expected two or more runs; the report of one run compares the models that"
            " report.questions names"
        )
        names = " ".join(shell_word(run.folder.name) for run in runs) or "RUN"
        raise FixUsage(message, hint=f"obygaze report {names}")
    if metric is not None and metric not in METRICS:
        raise FixUsage(
            f"unknown metric {metric!r}{near(metric, METRICS)}",
            hint=f"use one of {', '.join(METRICS)}",
        )
    if len(models) not in (0, 1, len(runs)):
        raise FixUsage(
            f"expected one --model, or one for each of {len(runs)} runs, got {len(models)}"
        )
    with explain_invalid_runs(*runs):
        return _compared(runs, metric or runs[0].settings.primary, models)


def _compared(runs: Sequence[Run], metric: str, models: Sequence[str]) -> ComparedRuns:
    names = run_names(runs)
    _require_one_unit(names, runs)
    warnings = [*_not_the_same_for_sure(names, runs)]
    unit = runs[0].unit if runs[0].holds_out_groups else "film"
    by_key = cells_side_by_side(runs, models)
    warnings += _other_tasks(names, runs, by_key)
    # The number is limited, because an edited run.json may state any number.
    n_draws = min(runs[0].settings.replicates, MOST_DRAWS)
    settings = RunSettings(ranking_metric(metric), replicates=n_draws)
    rows: list[RunRow] = []
    # The row of each compared cell, and the row of its difference.
    found: list[tuple[RunRow, RunRow]] = []
    tested = []
    for key, cells in by_key.items():
        shared, problem = _on_shared_clips(cells, metric)
        compared = dict(zip(cells, shared.cells or cells.values(), strict=True))
        first = compared.get(0)
        for number, cell in compared.items():
            row = _make_row(key, cells, cell, metric)
            row |= {"run": names[number], "n_clips": shared.n_clips}
            rows.append(row)
            if problem:
                row |= dict.fromkeys(("value", "low", "high"), math.nan)
            if problem or first is None or number == 0:
                continue
            row["value_of_first"] = first.value(metric)
            if math.isnan(row["value"] - row["value_of_first"]):
                problem = f"not all runs have a value of {metric_name(metric)}"
                continue
            apart = row_of_difference(cell, first, metric)
            apart["over_films"] = apart["value"]
            # Only ranking metrics have an interval and a p. Other metrics depend on a threshold,
            # which a different training could move.
            if metric in RANKING_METRICS:
                # Values that are computed in different folds cannot be compared.
                factor = None if _are_of_one_quantity(first, cell) else math.inf
                tested.append(difference(cell, first, settings, factor))
                apart = tested[-1].row
            found.append((row, apart))
        if problem and len(cells) > 1 and 0 in cells:
            tasks = pair_name(*key[:2])
            warnings.append(f"{tasks}: nothing is compared, because {problem}.")
    # The store that is chosen on training films has an interval and no p.
    add_p_of_family([item for item in tested if item.row["store"] != CHOSEN])
    for row, apart in found:
        row["difference"] = apart["over_films"]
        for name in ("low", "high", "p", "basis"):
            row[f"difference_{name}"] = apart[name]
        for name in ("clips", "films"):
            row[f"difference_n_{name}"] = apart[name]
    counts = [(len(item.by_film), item.row["films"]) for item in tested]
    known = films_with_value(counts, unit)
    if known:
        warnings.append(f"For {metric_name(metric)}, {known}.")
    warnings += _other_tests(names, by_key, metric)
    if all(len(cells) == 1 for cells in by_key.values()):
        warnings.append(NO_CELL)
    for name, run in zip(names, runs, strict=True):
        for limit in find_limits(run):
            if limit.name in ON_BOTH_SIDES:
                warnings.append(f"{name}: {limit.text}")
    return ComparedRuns(names, metric, rows, warnings, unit)


def _on_shared_clips(cells: SideBySide, metric: str) -> tuple[Shared, str]:
    """Return the cells restricted to their common clips, and why they cannot be compared.

    The reason is "" if they can be compared.
    """
    of_runs = [*cells.values()]
    if len(of_runs) == 1:
        return Shared(of_runs, of_runs[0].n_clips), ""
    shared = on_shared_clips(of_runs)
    # AP is a mean over folds in all cells. Other metrics may be means in one cell, and pooled in
    # another.
    if metric != AP.name and len({cell.is_averaged for cell in of_runs}) > 1:
        other = (
            "one value is a mean over fits, and the other is over the clips of all fits"
        )
        return shared, shared.problem or other
    return shared, shared.problem


def _make_row(key: Key, cells: SideBySide, cell: Cell, metric: str) -> RunRow:
    """Return the row of a cell in the table of a comparison; its difference is missing (NaN).

    The column `name` contains all names that the model has in the runs.
    """
    name = " / ".join(dict.fromkeys(of.model for of in cells.values()))
    if key[3]:
        name += f" ({key[3]})"
    low, high = cell.ends(metric)
    row: RunRow = {
        "name": name,
        "train": cell.train,
        "test": cell.test,
        "model": cell.model,
        "store": cell.store,
        "run": "",
        "metric": metric,
        "value": cell.value(metric),
        "low": low,
        "high": high,
        "n_clips": 0,
        "basis": cell.basis,
        "value_of_first": math.nan,
    }
    for part in ("", "_low", "_high", "_p", "_n_clips", "_n_films"):
        row[f"difference{part}"] = math.nan
    return {**row, "difference_basis": ""}


# ---- which cells of runs stand side by side ----


def run_names(runs: Sequence[Run]) -> list[str]:
    """Return the names of the folders, or the paths of all folders if two names are equal."""
    names = [run.folder.name for run in runs]
    if len(set(names)) == len(names):
        return names
    return [str(run.folder) for run in runs]


def cells_side_by_side(
    runs: Sequence[Run], models: Sequence[str] = ()
) -> dict[Key, SideBySide]:
    """Return for each model its cells, by the number of the run that they are from.

    A clip has the same number in all cells. If a run has several stores, models with different
    stores are different models. If a run has several models and `models` does not select one of
    them, models with different names are different models. Runs without models are compared by
    their baselines.

    Args:
        runs: The runs.
        models: As in `compare_runs`.
    """
    tests = _join_tests(runs)
    ids, tests["clip"] = np.unique(tests["clip_id"].to_numpy(), return_inverse=True)
    of_runs = []
    for number, run in enumerate(runs):
        cells = run.models or run.cells
        if models:
            cells = _named_models(run, models[number % len(models)])
        of_runs.append(cells)
    by_store = any(len(run.about["stores"]) > 1 for run in runs)
    by_model = False
    for cells in of_runs:
        by_model |= len({cell.model for cell in cells}) > 1
    by_key: dict[Key, dict[int, Cell]] = {}
    for number, cells in enumerate(of_runs):
        rows: Any = tests.loc[number]
        for cell in cells:
            model = cell.model if by_model else ""
            store = cell.store if by_store else ""
            by_key.setdefault((*cell.pair, model, store), {})[number] = replace(
                cell, rows=rows.loc[cell.rows.index], ids=ids
            )
    return {**by_key}


def _named_models(run: Run, name: str) -> list[Cell]:
    """Return the cells of the model called `name` in a run. Raise an error if there are none."""
    found = [cell for cell in run.models if cell.model == name]
    if not found:
        known = [*dict.fromkeys(cell.model for cell in run.models)]
        raise FixUsage(
            f"{run.folder.name} has no model {name!r}{near(name, known)}",
            hint=f"use one of {few(known)}",
        )
    return found


def _join_tests(runs: Sequence[Run]) -> pd.DataFrame:
    """Return the tests of runs in one table.

    Raise an error if a clip has different groups in two runs, also if films that share a video file
    are one group in one of the runs only.
    """
    import pandas as pd

    tests = pd.concat([run.predictions for run in runs], keys=range(len(runs)))
    groups = tests[tests["group"] != ""].drop_duplicates(["clip_id", "group"])
    is_other = groups["clip_id"].duplicated()
    if is_other.any():
        raise FixInput(
            f"the clip {groups['clip_id'][is_other].iloc[0]!r} has two groups in two runs",
            hint="compare runs whose manifests have the same groups, and whose stores have the same"
            " video files: films that share a file are one group",
        )
    return tests


# ---- what two runs do not share ----


def _require_one_unit(names: Sequence[str], runs: Sequence[Run]) -> None:
    """Raise an error if one run holds out other units than another, such as films and directors."""
    name_of_column: dict[str, str] = {}
    for name, run in zip(names, runs, strict=True):
        name_of_column.setdefault(run.about["manifest"]["group_column"], name)
    if len(name_of_column) > 1:
        held_out = [f"{name}: {column}" for column, name in name_of_column.items()]
        raise FixInput(
            f"these runs hold out different groups of clips ({', '.join(held_out)}), so their"
            " scores cannot be paired",
            hint="use runs with the same splits.column, or report each run alone",
        )


def _other_tasks(
    names: Sequence[str], runs: Sequence[Run], by_key: Mapping[Key, SideBySide]
) -> Iterator[str]:
    """Yield a warning for each task that a run and the first run define differently."""
    for number, (name, run) in enumerate(zip(names, runs, strict=True)):
        tasks: dict[str, None] = {}
        for key, cells in by_key.items():
            if {0, number} <= cells.keys():
                tasks |= dict.fromkeys(key[:2])
        for task in tasks:
            if _defined_classes(runs[0], task) != _defined_classes(run, task):
                yield f"{name}: its task {task} has different classes than in {names[0]}."


def _defined_classes(run: Run, name: str) -> Task:
    """Return the task without its title and other fields that do not define its classes."""
    return replace(find_task(run, name), title="", folds="", row="", series="")


def _not_the_same_for_sure(names: Sequence[str], runs: Sequence[Run]) -> Iterator[str]:
    """Yield a warning for each two runs whose clips are matched by their ids only.

    Raise an error if a clip has different films or times in two runs. Times are read from the
    manifests, unless a manifest was changed after its run.
    """
    for (one, first), (name, run) in combinations(zip(names, runs, strict=True), 2):
        ours = first.about["manifest"]
        theirs = run.about["manifest"]
        if ours["sha256"] == theirs["sha256"]:
            continue
        facts_of_first, is_first_lost = _facts_of_tested(first)
        facts, is_lost = _facts_of_tested(run)
        found = same_clips(facts_of_first, facts)
        found.require(
            (one, name),
            tell=False,
            hint="compare runs whose manifests give the same id to the same clip",
        )
        are_same = ours["labels"]["clips"] == theirs["labels"]["clips"]
        if found.n_by_ids or ((is_first_lost or is_lost) and not are_same):
            yield (
                f"{name}: clips with the same id as in {one} count as the same clips. Their times"
                " are not compared, because a manifest was moved or changed after the run, or has"
                " neither films nor times."
            )


def _facts_of_tested(run: Run) -> tuple[ClipTable, bool]:
    """Return the facts of the tested clips of a run, and whether their times cannot be read."""
    tested = ClipTable.of(run.film_of_clip, run.film_of_clip.values())
    labels = current_labels(run)
    if labels.manifest is None or labels.changed:
        return tested, True
    clips = ClipTable.of_clips(labels.manifest.clips)
    return tested.filled(clips, same_clips(tested, clips).places_of_same), False


def _are_of_one_quantity(first: Cell, second: Cell) -> bool:
    """Return whether two cells tested the same sets of clips, so that their values can be compared.

    If both cells tested unseen films, their difference is computed within each film. In this case
    only the clips of each film in a fold need to be the same, and not all clips of the fold.
    """
    by = [*FOLDS]
    if weakest([first.basis, second.basis]) == UNSEEN:
        by.append("group")
    return _clips_of_folds(first, by) == _clips_of_folds(second, by)


def _clips_of_folds(cell: Cell, by: Sequence[str]) -> frozenset[Any]:
    """Return the sets of clips of a cell that have equal values in the columns `by`."""
    return frozenset(cell.rows.groupby([*by])["clip"].agg(frozenset))


def _other_tests(
    names: Sequence[str], by_key: Mapping[Key, SideBySide], metric: str
) -> Iterator[str]:
    """Yield a warning for each run with different test clips or folds than the first run."""
    for number, name in enumerate(names[1:], start=1):
        n_cells = n_other_clips = n_other_folds = 0
        for cells in by_key.values():
            if not {0, number} <= cells.keys():
                continue
            pair = (cells[0], cells[number])
            shared = on_shared_clips(pair)
            if shared.problem:
                continue  # A warning says that nothing is compared.
            folds = {_clips_of_folds(cell, FOLDS) for cell in shared.cells}
            n_cells += 1
            n_other_clips += any(cell.n_clips > shared.n_clips for cell in pair)
            n_other_folds += len(folds) > 1
        if n_other_clips:
            yield (
                f"Test clips of the runs {name} and {names[0]}, or classes of these clips, differ"
                f" in {n_other_clips} of {count(n_cells, 'result')}: all values are on the clips"
                " that all runs test with the same class."
            )
        if n_other_folds and metric in RANKING_METRICS:
            yield (
                f"Test folds of the runs {name} and {names[0]} differ in {n_other_folds} of"
                f" {count(n_cells, 'result')}: {metric_name(metric)} is computed within folds, so"
                " the values cannot be compared. On unseen films, the difference is computed within"
                " films; other differences have no interval (docs/reports.md)."
            )
