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

from obygaze_features.core.console import count, few, plural
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.files import json_values, write_new
from obygaze_features.core.shell import shell_word
from obygaze_features.core.untrusted_text import safe_text
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.core.written_tables import Columns, Listing, check_table_name
from obygaze_features.manifest.clip_table import ClipTable
from obygaze_features.manifest.same_clips import same_clips
from obygaze_models.evaluation.basis import interval_is_of, weakest
from obygaze_models.evaluation.metrics import (
    AP,
    METRICS,
    RANKING_METRICS,
    metric_name,
)
from obygaze_models.evaluation.results import (
    RunSettings,
    results,
)
from obygaze_models.evaluation.tables import RESULTS, RunRow, rows_as_dicts
from obygaze_models.protocols.schema import Task
from obygaze_models.report.lookup import (
    explain_invalid_runs,
    find_task,
    open_runs,
    pair_name,
)
from obygaze_models.report.tables import (
    DASH,
    NO_NUMBER,
    DifferenceCell,
    NumberCell,
    PValueCell,
    ResultTable,
    render_template,
    result_table,
)
from obygaze_models.runner.answer import films_with_value
from obygaze_models.runner.files import ResultRows, Run
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
SideBySide = Mapping[int, ResultRows]


@dataclass(frozen=True)
class ComparedRuns(Listing):
    """Runs side by side.

    Attributes:
        runs: The names of the runs. All other runs are compared with the first.
        metric: The metric of values and differences.
        rows: Rows with the columns of results.csv, in which `store` is the name of the run: the
            values of each model in each run, and the differences from the first run. The column
            `why_not` states why a value is not compared.
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
        return {**vars(self), "rows": [json_values(row) for row in self.rows]}

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

        A row has the values of the first run and of another run, on the clips that both tested, and
        their difference. A model that cannot be compared has a row with its value in each run.
        """
        first = self.runs[0]
        metric = metric_name(self.metric)
        units = plural(self.unit)
        differences = [row for row in self.rows if row["against_model"]]
        compared = {_key_of(row) for row in differences}
        alone = [row for row in self.rows if row["why_not"]]
        for row in self.rows:
            if not row["why_not"] and _key_of(row) not in compared:
                alone.append(row)
        rows: list[RunRow | str] = []
        for row in [*differences, *alone]:
            is_alone = not row["against_model"]
            value = NumberCell(row["first"])
            if is_alone:
                value = NumberCell(row["value"], row["low"], row["high"])
            is_same = row["first"] == row["second"]
            shown = {
                "task": pair_name(row["train"], row["test"]),
                "model": row["model"],
                "run": row["store"],
                "clips": row["clips"],
                units: row["films"],
                f"{metric} of the run": value,
                f"{metric} of {first}": NumberCell(row["second"]),
                "difference": NO_NUMBER if is_alone else DifferenceCell.of(row),
                # The p of a value is of its best baseline, and not of another run.
                "p": PValueCell(math.nan if is_alone else row["p"]),
                "better?": "the same" if is_same else row["verdict"] or DASH,
            }
            if is_alone:
                shown["better?"] = "not compared"
            rows.append(shown)
        sentences = []
        for reason in dict.fromkeys(row["why_not"] for row in alone):
            if reason:
                sentences.append(
                    f"No difference, because {reason}: each value is on all clips of its run."
                )
        if differences:
            sentences.append(
                "The two values of a difference are on the clips that all runs with this model"
                " tested with the same class."
            )
            if self.metric in RANKING_METRICS:
                sentences.append(
                    f"On unseen {units}, the values are means over {units} with clips of both"
                    " classes. p is two-sided, and corrected for all differences of this table."
                )
        bases = [
            row["basis"] for row in [*differences, *alone] if row["low"] == row["low"]
        ]
        if bases:
            of_intervals = interval_is_of(weakest(bases), units)
            sentences.append(
                f"In brackets: intervals over {units}, which hold for {of_intervals}."
            )
        title = f"{metric} of each run, and its difference from {first}"
        return result_table("compared", title, rows, " ".join(sentences))


def compare(
    *runs: PathLike | Run,
    models: Sequence[str] = (),
    metric: str | None = None,
    workspace: PathLike | None = None,
) -> ComparedRuns:
    """Compare runs on their common clips and tasks.

    The table has the value of each model in each run and its difference from the first run, on the
    clips that all runs with this model tested. Runs of other folds have no difference: their values
    are of another kind, and the table says so. A difference of AP or AUC has an interval over films
    and a p that is corrected for all differences of the table. Runs must hold out the same units:
    films, or groups of one column. Models are matched by store only if a run has several stores,
    and by name only if a run has several models. The result can be written as
    CSV, .xlsx or LaTeX (.tex).

    Args:
        runs: Names of runs of the workspace, or their folders. The first run is the reference.
        models: The model to compare; or a model for each run.
        metric: The metric, such as ap or auc.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> compared = og.compare("first", "first")
        >>> compared.warnings
        []
    """
    place = Workspace.of(workspace)
    known = set(place.names("stores")) - set(place.names("runs"))
    if runs and all(isinstance(name, str) and name in known for name in runs):
        stores = " ".join(f"--store {shell_word(name)}" for name in runs)
        raise FixUsage(
            f"expected runs, got the stores {' and '.join(map(str, runs))}",
            hint=f"obygaze run honest {stores}",
        )
    return compare_runs(open_runs(runs, workspace), metric, models)


def check_compared(output: str | Path | None) -> None:
    """Raise an error unless a comparison can be written to the file that -o names, if any."""
    if output is not None and Path(output).suffix.lower() != LATEX:
        check_table_name(output)


# ---- values and differences ----


def _key_of(row: RunRow) -> tuple[str, str, str]:
    return row["model"], row["train"], row["test"]


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
        message = "expected two or more runs; the report of one run compares its models and stores"
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
    by_key = models_side_by_side(runs, models)
    warnings += _other_tasks(names, runs, by_key)
    # The number is limited, because an edited run.json may state any number.
    n_draws = min(runs[0].settings.replicates, MOST_DRAWS)
    settings = RunSettings(
        metric, replicates=n_draws, reference="0", sizes=runs[0].settings.sizes
    )
    _require_one_group(runs)
    rows: list[RunRow] = []
    tests: list[pd.DataFrame] = []
    n_other_clips = 0
    for key, of_runs in by_key.items():
        name = " / ".join(dict.fromkeys(of.model for of in of_runs.values()))
        if key[3]:
            name += f" ({key[3]})"
        of_tests = {number: runs[number].tests_of(of) for number, of in of_runs.items()}
        of_other_kind = _of_other_kind(names, of_runs, of_tests, metric)
        of_one_kind = {n: of for n, of in of_tests.items() if n not in of_other_kind}
        shared, problem = _on_shared_clips(of_one_kind)
        values = [of_runs[number].value(metric) for number in shared]
        if len(shared) > 1 and not problem and any(map(math.isnan, values)):
            problem = f"not all runs have a value of {metric_name(metric)}"
        if not problem and len(shared) > 1:
            unused = [n for n in shared if len(shared[n]) < len(of_tests[n])]
            n_other_clips += bool(unused)
        if problem and len(of_one_kind) > 1 and 0 in of_runs:
            tasks = pair_name(*key[:2])
            warnings.append(f"{tasks}: nothing is compared, because {problem}.")
        for number, of in of_runs.items():
            # Two runs may have one name, so a number stands for the run in the table of tests.
            of_run = {"store": str(number), "model": name}
            why_not = of_other_kind.get(number, problem)
            if number not in shared or problem or len(shared) < 2 or 0 not in shared:
                # The row of a run is no row of one results.csv.
                value = {name: of.row(metric)[name] for name in RESULTS}
                rows.append({**value, **of_run, "why_not": why_not})
            else:
                tests.append(shared[number].assign(**of_run, is_model=True))
    if tests:
        import pandas as pd

        made = rows_as_dicts(results(pd.concat(tests, ignore_index=True), settings))
        for row in made:
            if row["metric"] == metric and not row["film"]:
                rows.append({**row, "why_not": ""})
    for row in rows:
        row["store"] = names[int(row["store"])]
        row["against_store"] = row["against_model"] and names[0]
    if n_other_clips:
        warnings.append(
            f"Test clips of the runs, or classes of these clips, differ in {n_other_clips} of"
            f" {count(len(by_key), 'result')}: compared values are on the clips that all runs test"
            " with the same class."
        )
    if all(len(of_runs) == 1 for of_runs in by_key.values()):
        warnings.append(_why_no_cell(names, runs))
    counts = [
        (row["films_compared"], row["films"]) for row in rows if row["against_model"]
    ]
    known = films_with_value(counts, unit) if counts else ""
    if known and metric in RANKING_METRICS:
        warnings.append(f"For {metric_name(metric)}, {known}.")
    for name, run in zip(names, runs, strict=True):
        for limit in find_limits(run):
            if limit.name in ON_BOTH_SIDES:
                warnings.append(f"{name}: {limit.text}")
    return ComparedRuns(names, metric, rows, warnings, unit)


def _of_other_kind(
    names: Sequence[str],
    of_runs: SideBySide,
    tests: Mapping[int, pd.DataFrame],
    metric: str,
) -> dict[int, str]:
    """Return why values of runs are of another kind than the value of the first run.

    Such values are not subtracted. A value is of another kind if it is a mean over fits and the
    other is not, or if the shared clips are in other folds: the AP of a ranking of all films is not
    the mean AP of rankings of single films.
    """
    reasons: dict[int, str] = {}
    for number, of in of_runs.items():
        if number == 0 or 0 not in of_runs:
            continue
        shared, problem = _on_shared_clips({0: tests[0], number: tests[number]})
        if problem:
            continue
        folds = {_clips_of_folds(of_run) for of_run in shared.values()}
        # AP is a mean over folds in all runs. Other metrics may be means in one run only.
        are_both_means = metric == AP.name or of_runs[0].is_averaged == of.is_averaged
        if len(folds) > 1 or not are_both_means:
            name = metric_name(metric)
            first = _kind_of_value(of_runs[0], tests[0], metric)
            other = _kind_of_value(of, tests[number], metric)
            reason = f"{name} of {names[0]} is {first}, and {name} of {names[number]} is {other}"
            if first == other:
                reason += ", and these folds have other clips"
            reasons[number] = reason
    return reasons


def _clips_of_folds(tests: pd.DataFrame) -> frozenset[Any]:
    """Return the sets of clips that the fits of a model tested."""
    return frozenset(tests.groupby([*FOLDS])["clip_id"].agg(frozenset))


def _kind_of_value(of: ResultRows, tests: pd.DataFrame, metric: str) -> str:
    """Return what a value is computed from, as text."""
    if of.is_averaged:
        return f"a mean over {count(len(tests.groupby([*FOLDS])), 'fit')}"
    n_folds = tests["fold"].nunique()
    if metric in RANKING_METRICS and n_folds > 1:
        return f"a mean over {n_folds} folds"
    return "of all test clips together"


def _on_shared_clips(
    tests: Mapping[int, pd.DataFrame],
) -> tuple[dict[int, pd.DataFrame], str]:
    """Return the tests of each run on the clips that all of them test with the same class.

    The second result states why they cannot be compared; it is "" if they can.
    """
    classes = [of_run.groupby("clip_id")["y"].first() for of_run in tests.values()]
    known = classes[0]
    for others in classes[1:]:
        known = known[known.index.intersection(others.index)]
    problem = ""
    if known.empty:
        problem = "no clip is tested in all results"
    for others in classes[1:]:
        known = known[known == others[known.index]]
    if known.empty:
        problem = problem or "no clip is tested with the same class in all results"
    elif known.nunique() < 2:
        name = "positive" if known.iloc[0] else "negative"
        problem = (
            f"the {count(len(known), 'clip')} that all of them tested are all {name}"
        )
    of_shared = {}
    for number, of_run in tests.items():
        of_shared[number] = of_run[of_run["clip_id"].isin(known.index)]
    if len(tests) == 1:
        return of_shared, ""
    return of_shared, problem


# ---- which cells of runs stand side by side ----


def run_names(runs: Sequence[Run]) -> list[str]:
    """Return the names of the folders, or the paths of all folders if two names are equal."""
    names = [run.folder.name for run in runs]
    if len(set(names)) == len(names):
        return names
    return [str(run.folder) for run in runs]


def models_side_by_side(
    runs: Sequence[Run], models: Sequence[str] = ()
) -> dict[Key, SideBySide]:
    """Return for each model its results, by the number of the run that they are from.

    If a run has several stores, models with different stores are different models. If a run has
    several models and `models` does not select one of them, models with different names are
    different models. Runs without models are compared by their baselines.

    Args:
        runs: The runs.
        models: As in `compare_runs`.
    """
    of_runs = []
    for number, run in enumerate(runs):
        shown = run.models or run.cells
        if models:
            shown = _named_models(run, models[number % len(models)])
        of_runs.append(shown)
    by_store = any(len(run.about["stores"]) > 1 for run in runs)
    by_model = any(len({one.model for one in shown}) > 1 for shown in of_runs)
    by_key: dict[Key, dict[int, ResultRows]] = {}
    for number, shown in enumerate(of_runs):
        for one in shown:
            model = one.model if by_model else ""
            store = one.store if by_store else ""
            by_key.setdefault((*one.pair, model, store), {})[number] = one
    return {**by_key}


def _named_models(run: Run, name: str) -> list[ResultRows]:
    """Return the cells of the model called `name` in a run. Raise an error if there are none."""
    found = [cell for cell in run.models if cell.model == name]
    if not found:
        known = [*dict.fromkeys(cell.model for cell in run.models)]
        raise FixUsage(
            f"{run.folder.name} has no model {name!r}{near(name, known)}",
            hint=f"use one of {few(known)}",
        )
    return found


def _require_one_group(runs: Sequence[Run]) -> None:
    """Raise an error if a clip has different groups in two runs.

    This also holds for films that share a video file, and are one group in one of the runs only.
    """
    import pandas as pd

    tests = pd.concat([run.predictions for run in runs])
    groups = tests[tests["group"] != ""].drop_duplicates(["clip_id", "group"])
    is_other = groups["clip_id"].duplicated()
    if is_other.any():
        raise FixInput(
            f"the clip {groups['clip_id'][is_other].iloc[0]!r} has two groups in two runs",
            hint="compare runs whose manifests have the same groups, and whose stores have the same"
            " video files: films that share a file are one group",
        )


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


def _why_no_cell(names: Sequence[str], runs: Sequence[Run]) -> str:
    """Return why no model is in two runs: their tasks differ, or their models or stores do."""
    tested = []
    known: set[str] = set()
    for name, run in zip(names, runs, strict=True):
        tasks = dict.fromkeys(cell.tasks for cell in run.models or run.cells)
        if not known.isdisjoint(tasks):
            return NO_CELL
        known.update(tasks)
        tested.append(f"{name} tests {few([*tasks])}")
    return (
        f"nothing is compared, because these runs test different tasks: {', '.join(tested)}. Run"
        " one of them again with the --task of another."
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
