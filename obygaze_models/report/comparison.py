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
    RunSettings,
    add_p_of_family,
    difference,
    row_of_difference,
)
from obygaze_models.evaluation.tables import CHOSEN, RunRow
from obygaze_models.protocols.schema import Task
from obygaze_models.report.lookup import explain_invalid_runs, find_task, pair_name
from obygaze_models.report.tables import (
    DASH,
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
        shown = self.shown()
        # A table in a paper needs the warnings that the terminal prints.
        shown = replace(
            shown, note=" ".join(filter(None, (shown.note, *self.warnings)))
        )
        text = render_template("table.tex", table=shown, run=label)
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
        reasons: dict[str, None] = {}
        n_compared = 0
        compared = {row["name"] for row in self.rows if _is_shown(row)}
        for row in self.rows:
            if not _is_shown(row):
                if row["name"] not in compared:
                    name = f"{row['name']} for {pair_name(row['train'], row['test'])}"
                    others.setdefault(name, []).append(row["run"])
                continue
            ends = (row["difference_low"], row["difference_high"])
            apart = {"over_films": row["difference"], "p": row["difference_p"]}
            n_clips = row["difference_n_clips"]
            n_units = row["difference_n_films"]
            if row["why_not"]:
                n_clips = f"{row['n_clips_of_first']} / {row['n_clips']}"
                n_units = DASH
                reasons.setdefault(row["why_not"], None)
            else:
                n_compared += 1
            shown = {
                "task": pair_name(row["train"], row["test"]),
                "model": row["name"],
                "run": row["run"],
                "clips": n_clips,
                plural(self.unit): n_units,
                f"{metric} of {first}": NumberCell(row["value_of_first"]),
                metric: NumberCell(row["value"], row["low"], row["high"]),
                f"minus {first}": NumberCell(row["difference"], *ends),
                "p": PValueCell(row["difference_p"]),
                "better?": verdict(apart | {"basis": row["difference_basis"]}),
            }
            if row["value"] == row["value_of_first"] and not row["why_not"]:
                shown["better?"] = "the same"
            rows.append(shown)
            for part in ("", "difference_"):
                if math.isfinite(row[f"{part}low"]):
                    bases.append(row[f"{part}basis"])
        sentences = []
        units = plural(self.unit)
        for reason in reasons:
            sentences.append(
                f"No difference, because {reason}: each value is on all clips of its run."
            )
        if n_compared:
            of_rows = "a row with a difference" if reasons else "a row"
            sentences.append(
                f"All values of {of_rows} are on the clips that all runs with this model tested,"
                " with the same class."
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


def _is_shown(row: RunRow) -> bool:
    """Return whether a row has a value beside the value of the first run."""
    return bool(math.isfinite(row["value"] + row["value_of_first"]))


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
        of_other_kind = _cells_of_other_kind(names, cells, metric)
        of_one_kind = {n: cell for n, cell in cells.items() if n not in of_other_kind}
        shared = _on_shared_clips(of_one_kind)
        problem = shared.problem
        parts = shared.cells or of_one_kind.values()
        compared = dict(zip(of_one_kind, parts, strict=True))
        first = compared.get(0)
        for number, own in cells.items():
            cell = compared.get(number, own)
            row = _make_row(key, cells, cell, metric)
            row |= {"run": names[number], "n_clips": shared.n_clips}
            rows.append(row)
            if number in of_other_kind:
                # Its value is on all its clips, and so is the value of the first run beside it.
                row |= {"n_clips": own.n_clips, "why_not": of_other_kind[number]}
                row["value_of_first"] = cells[0].value(metric)
                row["n_clips_of_first"] = cells[0].n_clips
                continue
            if problem:
                row |= dict.fromkeys(("value", "low", "high"), math.nan)
                row["why_not"] = problem
            if problem or first is None or number == 0:
                continue
            row["value_of_first"] = first.value(metric)
            row["n_clips_of_first"] = first.n_clips
            if math.isnan(row["value"] - row["value_of_first"]):
                problem = f"not all runs have a value of {metric_name(metric)}"
                row["why_not"] = problem
                continue
            apart = row_of_difference(cell, first, metric)
            apart["over_films"] = apart["value"]
            # Only ranking metrics have an interval and a p. Other metrics depend on a threshold,
            # which a different training could move.
            if metric in RANKING_METRICS:
                tested.append(difference(cell, first, settings))
                apart = tested[-1].row
            found.append((row, apart))
        if problem and len(of_one_kind) > 1 and 0 in cells:
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
    warnings += _other_clips(names, by_key, metric)
    if all(len(cells) == 1 for cells in by_key.values()):
        warnings.append(NO_CELL)
    for name, run in zip(names, runs, strict=True):
        for limit in find_limits(run):
            if limit.name in ON_BOTH_SIDES:
                warnings.append(f"{name}: {limit.text}")
    return ComparedRuns(names, metric, rows, warnings, unit)


def _cells_of_other_kind(
    names: Sequence[str], cells: SideBySide, metric: str
) -> dict[int, str]:
    """Return why values of runs are of another kind than the value of the first run.

    Such values are not subtracted. A value is of another kind if it is a mean over fits and the
    other is not, or if the shared clips are in other folds: the AP of a ranking of all films is not
    the mean AP of rankings of single films.
    """
    reasons: dict[int, str] = {}
    first = cells.get(0)
    for number, cell in cells.items():
        if first is None or number == 0:
            continue
        shared = on_shared_clips((first, cell))
        folds = {_clips_of_folds(one) for one in shared.cells}
        # AP is a mean over folds in all cells. Other metrics may be means in one cell only.
        are_both_means = metric == AP.name or first.is_averaged == cell.is_averaged
        if len(folds) > 1 or (shared.cells and not are_both_means):
            name = metric_name(metric)
            kinds = [_kind_of_value(one, metric) for one in (first, cell)]
            reason = f"{name} of {names[0]} is {kinds[0]}, and {name} of"
            reason += f" {names[number]} is {kinds[1]}"
            if kinds[0] == kinds[1]:
                reason += ", and these folds have other clips"
            reasons[number] = reason
    return reasons


def _kind_of_value(cell: Cell, metric: str) -> str:
    """Return what a value is computed from, as text."""
    if cell.is_averaged:
        return f"a mean over {count(len(cell.fits), 'fit')}"
    if metric in RANKING_METRICS and len(cell.folds) > 1:
        return f"a mean over {len(cell.folds)} folds"
    return "of all test clips together"


def _on_shared_clips(cells: SideBySide) -> Shared:
    """Return the cells on their common clips, or a single cell as it is."""
    of_runs = [*cells.values()]
    if len(of_runs) == 1:
        return Shared(of_runs, of_runs[0].n_clips)
    return on_shared_clips(of_runs)


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
        "n_clips_of_first": math.nan,
    }
    for part in ("", "_low", "_high", "_p", "_n_clips", "_n_films"):
        row[f"difference{part}"] = math.nan
    return {**row, "difference_basis": "", "why_not": ""}


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


def _clips_of_folds(cell: Cell) -> frozenset[Any]:
    """Return the sets of clips that the fits of a cell tested."""
    return frozenset(cell.rows.groupby([*FOLDS])["clip"].agg(frozenset))


def _other_clips(
    names: Sequence[str], by_key: Mapping[Key, SideBySide], metric: str
) -> Iterator[str]:
    """Yield a warning for each run with different test clips than the first run."""
    for number, name in enumerate(names[1:], start=1):
        n_cells = n_other_clips = 0
        for cells in by_key.values():
            if not {0, number} <= cells.keys():
                continue
            pair = (cells[0], cells[number])
            shared = on_shared_clips(pair)
            if shared.problem or number in _cells_of_other_kind(names, cells, metric):
                continue  # Nothing is compared, which is stated elsewhere.
            n_cells += 1
            n_other_clips += any(cell.n_clips > shared.n_clips for cell in pair)
        if n_other_clips:
            yield (
                f"Test clips of the runs {name} and {names[0]}, or classes of these clips, differ"
                f" in {n_other_clips} of {count(n_cells, 'result')}: all values are on the clips"
                " that all runs test with the same class."
            )
