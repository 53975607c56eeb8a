"""The text of a run for the terminal: tasks, answers, a table, and limits."""

from collections.abc import Sequence

from obygaze_features.core.console import MISSING, table
from obygaze_features.core.notebook import html_repr
from obygaze_features.core.untrusted_text import safe_text
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_models.evaluation.bootstrap import CONFIDENCE
from obygaze_models.evaluation.cells import Cell
from obygaze_models.evaluation.metrics import RANKING_METRICS, metric_name
from obygaze_models.protocols.schema import Task
from obygaze_models.runner.answer import (
    about_p,
    answers,
    array_text,
    best_baseline,
    clips_text,
    compared_metric,
    films_with_value,
    intervals_hold_for,
    model_name,
    number_range,
    short,
    shown_metrics,
    value_text,
)
from obygaze_models.runner.files import Run, read_folder
from obygaze_models.runner.limits import ON_FIRST_SCREEN, find_limits

MOST_OTHERS = 3  # further limits; a report has all


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
        return html_repr(_title(self), facts, answers(self))


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
    shown = run.models or run.cells
    tasks = []
    for name, facts in run.protocol["tasks"].items():
        words = Task(**facts).in_words(name)
        if words and any(name in cell.pair for cell in run.cells):
            tasks.append(f"{name}: {words}")
    if any(cell.train != cell.test for cell in shown):
        tasks.append("A -> B: trained on A, tested on B")
    above = [_title(run), _clips(run), "; ".join(tasks), *answers(run)]
    below = [_about_values(run, shown), about_p(run)]
    others: list[str] = []
    for limit in find_limits(run):
        lines = below if limit.name in ON_FIRST_SCREEN else others
        lines.append(f"! {limit.text}")
    below += others[:MOST_OTHERS]
    n_more = len(others) - MOST_OTHERS
    if n_more > 0:
        below.append(f"further limits in the report: {n_more}")
    lines = [
        *(safe_text(line, "terminal") for line in above if line),
        _table(run, shown, shown_metrics(run)),
        *(safe_text(line, "terminal") for line in below if line),
        f"{run.folder}  ({run.about['seconds']:.1f} s)",
    ]
    return "\n".join(lines)


def _title(run: Run) -> str:
    title = str(run.protocol["report"]["title"] or run.protocol["name"])
    # Titles of shipped protocols describe unseen films, with intervals over films.
    is_of_unseen = run.unit == "film" and not any(
        cell.knows_films for cell in run.cells
    )
    if not is_of_unseen and not run.is_of_saved_model:
        title = str(run.protocol["name"])
    stores = ", ".join(run.about["stores"])
    return f"{title} ({stores})" if stores else title


def _clips(run: Run) -> str:
    """Return the line about the clips, films and arrays of a run."""
    return ", ".join(filter(None, (clips_text(run), array_text(run))))


def _table(run: Run, cells: Sequence[Cell], metrics: Sequence[str]) -> str:
    """Return the table: a row for each model with its best baseline, or a row for each baseline."""
    rows = []
    for cell in cells:
        values = [value_text(cell, metric) for metric in metrics]
        if cell.is_model:
            baseline = best_baseline(run, cell, metrics[0])
            of_baseline = MISSING
            if baseline is not None:
                of_baseline = f"{short(baseline.value(metrics[0]))} ({baseline.model})"
            values.append(of_baseline)
        name = model_name(run, cell)
        rows.append([cell.tasks, name, *values, cell.n_clips, cell.n_positive])
    headers = ["task", "model", *map(metric_name, metrics)]
    if cells[0].is_model:
        headers.append(f"best baseline ({metric_name(metrics[0])})")
    return table([*headers, "clips", "positive"], rows)


def _about_values(run: Run, cells: Sequence[Cell]) -> str:
    """Return the line about how the values of the table and their intervals are computed."""
    metric = compared_metric(run)
    text = f"{metric_name(metric)} is computed over all folds together"
    if run.is_of_saved_model:
        text = f"{metric_name(metric)} is computed over all test clips together"
    elif metric in RANKING_METRICS:
        text = f"{metric_name(metric)} is computed in each fold, and averaged"
    if any(cell.is_averaged for cell in cells):
        text = "Values are means over runs"
    with_interval = [cell for cell in cells if cell.has_interval(metric)]
    if with_interval:
        # Ranges are stated, because tasks may differ in their films, and in films with a value.
        films = f"{number_range([cell.n_films for cell in with_interval])} {run.units}"
        text += (
            f"; in brackets: {100 * CONFIDENCE:g} % intervals over {films}, which hold for"
            f" {intervals_hold_for(run, with_interval)}"
        )
        counts = [cell.film_counts(metric) for cell in with_interval]
        known = films_with_value(counts, run.unit)
        text += f"; {known}" if known else ""
    return f"{text}."
