"""The text of a run for the terminal: the answer, its tables, and what limits it."""

import math
from collections.abc import Sequence

from obygaze_features.core.console import MISSING, few, table
from obygaze_features.core.notebook import html_repr
from obygaze_features.core.untrusted_text import safe_text
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_models.evaluation.metrics import metric_name
from obygaze_models.protocols.schema import Task
from obygaze_models.runner.answer import (
    about_sides,
    answers,
    array_text,
    asked_differences,
    asked_results,
    clips_text,
    compared_metric,
    films_text,
    has_values_of_table,
    held_out_text,
    model_name,
    question,
    short,
    short_p,
    shown_metrics,
    side_names,
    value_text,
    with_ends,
)
from obygaze_models.runner.files import ResultRows, Run, read_folder
from obygaze_models.runner.limits import ON_FIRST_SCREEN, find_limits

MOST_LIMITS = 3  # a report has all
MOST_ROWS = 12  # of a table; results.csv has all


class PrintedRun(Run):
    """A finished run that prints the output of `obygaze run`."""

    def __str__(self) -> str:
        return result_text(self)

    def _repr_html_(self) -> str:
        limits = [one.text for one in find_limits(self) if one.name in ON_FIRST_SCREEN]
        facts = {
            "clips": _clips(self),
            "limits": " ".join(limits),
            "folder": self.folder,
        }
        return html_repr(question(self), facts, answers(self))


def printable_run(run: Run) -> PrintedRun:
    """Return a run that prints the output of `obygaze run`."""
    return PrintedRun(run.folder, run.about, run.known)


def read_run(run: PathLike | Run, *, workspace: PathLike | None = None) -> Run:
    """Read a finished run: its tables and run.json.

    `results` has a row for each value and each difference, and `predictions` a row for each test
    of each clip. Both are pandas tables. `print(run)` gives the output of the command `run`.

    Args:
        run: The name of a run of the workspace, or its folder.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> found = og.read_run("first")
        >>> found.results["model"][0]
        'ridge'
    """
    if isinstance(run, Run):
        return run
    return printable_run(read_folder(Workspace.of(workspace).existing("runs", run)))


def result_text(run: Run) -> str:
    """Return the output of `obygaze run`."""
    limits = [one.text for one in find_limits(run) if one.name in ON_FIRST_SCREEN]
    below = [f"! {text}" for text in limits[:MOST_LIMITS]]
    n_more = len(limits) - MOST_LIMITS
    if n_more > 0:
        below.append(f"further limits in the report: {n_more}")
    blocks = [
        _safe_lines([question(run), _clips(run), _tasks(run)]),
        _safe_lines(answers(run)),
        _table_of_values(run),
        _table_of_differences(run),
        _safe_lines(below),
    ]
    text = "\n\n".join(filter(None, blocks))
    return f"{text}\n{run.folder}  ({run.about['seconds']:.1f} s)"


def _safe_lines(lines: Sequence[str]) -> str:
    return "\n".join(safe_text(line, "terminal") for line in lines if line)


def _clips(run: Run) -> str:
    """Return the line about the clips, films and arrays of a run, and how films are tested."""
    clips = ", ".join(filter(None, (clips_text(run), array_text(run))))
    return "; ".join(filter(None, (clips, held_out_text(run))))


def _tasks(run: Run) -> str:
    """Return the meaning of each tested task."""
    tasks = []
    for name, facts in run.protocol["tasks"].items():
        words = Task(**facts).in_words(name)
        if words and any(name in cell.pair for cell in run.cells):
            tasks.append(f"{name}: {words}")
    if any(cell.train != cell.test for cell in run.models):
        tasks.append("A -> B: trained on A, tested on B")
    return "; ".join(tasks)


def _table_of_values(run: Run) -> str:
    """Return the table with a row for each model, or for each baseline of a run without models."""
    asked = asked_results(run)
    cells = [*asked, *(cell for cell in run.models if cell not in asked)] or run.cells
    rows = [_row_of_values(run, cell) for cell in cells[:MOST_ROWS]]
    # A column in which all rows agree is not shown.
    headers = []
    for name in rows[0]:
        is_fact = name in ("task", "clips", "positive")
        if not is_fact or len({row[name] for row in rows}) > 1:
            headers.append(name)
    text = table(headers, [[row[name] for name in headers] for row in rows])
    n_more = len(cells) - MOST_ROWS
    if n_more > 0:
        text += f"\nfurther rows in results.csv: {n_more}"
    return "\n".join(filter(None, (text, _safe_lines([_what_has_a_p(run)]))))


def _row_of_values(run: Run, cell: ResultRows) -> dict[str, str]:
    values = {"task": cell.tasks, "model": model_name(run, cell)}
    values |= {"clips": str(cell.clips), "positive": str(cell.positive)}
    for metric in shown_metrics(run):
        values[metric_name(metric)] = value_text(cell, metric)
        row = cell.row(metric)
        if not run.models:
            continue
        baseline = MISSING
        if row["baseline"]:
            baseline = f"{short(row['baseline_value'])} ({row['baseline']})"
        if metric == compared_metric(run):
            values["best baseline"] = baseline
            values[f"better in {run.units}"] = films_text(row)
            values["p"] = short_p(row["p"])
        elif metric == run.settings.primary:
            values[f"best baseline of {metric_name(metric)}"] = baseline
    return values


def _what_has_a_p(run: Run) -> str:
    """Return which results have a p, or "" if all models have one or none has one."""
    asked = asked_results(run)
    metric = compared_metric(run)
    has_p = any(math.isfinite(cell.row(metric)["p"]) for cell in asked)
    if not has_p or len(asked) == len(run.models):
        return ""
    names = [model_name(run, cell) for cell in asked]
    if len({cell.pair for cell in run.models}) > 1:
        names = [f"{model_name(run, cell)} in {cell.tasks}" for cell in asked]
    return f"p is only for what the run asks about: {few(names)}."


def _table_of_differences(run: Run) -> str:
    """Return the table with a row for each difference that the run asks for, with its sides."""
    differences = asked_differences(run)
    if not differences:
        return ""
    metric = metric_name(compared_metric(run))
    rows = []
    for row in differences[:MOST_ROWS]:
        first, second = side_names(run, row)
        apart = with_ends(row["value"], row["low"], row["high"])
        sides = [short(row["first"]), short(row["second"])]
        rows.append([f"{first} - {second}", *sides, apart, short_p(row["p"])])
    headers = ["", f"{metric} of first", "of second", "difference", "p"]
    if any(row["train"] != row["test"] for row in differences):
        headers[0] = "first - second"
    text = table(headers, rows)
    if not all(has_values_of_table(run, row) for row in differences):
        text += f"\nof first, of second: {about_sides(run)}"
    return text
