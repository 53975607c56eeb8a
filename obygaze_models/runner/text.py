"""The text of a run for the terminal: an answer, a table of tasks by models, and warnings."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from obygaze_features.core.console import MISSING, digits_of, table
from obygaze_features.core.outside import safe_text
from obygaze_features.core.parts import label_of
from obygaze_models.evaluation.bootstrap import CONFIDENCE
from obygaze_models.evaluation.cells import Cell
from obygaze_models.evaluation.metrics import RANKING_METRICS, metric_name
from obygaze_models.protocols.schema import Task
from obygaze_models.runner.answer import (
    answer,
    array_text,
    asked_cell,
    best_guess,
    cannot_guess,
    compared_stores,
    films_with_value,
    further_answers,
    intervals_are_of,
    number_range,
    short,
    size_text,
    view_text,
    why_this_model,
)
from obygaze_models.runner.features import CHOSEN
from obygaze_models.runner.files import Run
from obygaze_models.runner.limits import warnings_of


def result_text(run: Run) -> str:
    """Return the output of `obygaze run`."""
    cells = run.cells
    lines = [
        _title(run, cells),
        _clips(run),
        *_titles_of_tasks(cells, run),
        answer(run),
        *further_answers(run),
    ]
    safe_lines = [safe_text(line, "terminal") for line in lines if line]
    safe_lines.append(_task_table(run, cells))
    lines = [
        _about_values(run, cells),
        _about_clips(cells),
        cannot_guess(run, cells),
        *_stores_of_answer(run, cells),
        *why_this_model(run),
    ]
    lines += _choices(run, cells)
    lines += [f"! {warning.text}" for warning in warnings_of(run)]
    safe_lines += [safe_text(line, "terminal") for line in lines if line]
    files = ", ".join(run.tables_with_rows)
    safe_lines.append(f"{run.folder}: {files}  ({run.about['seconds']:.1f} s)")
    return "\n".join(safe_lines)


def _title(run: Run, cells: Sequence[Cell]) -> str:
    stores = ", ".join(run.about["stores"])
    title = str(run.protocol["report"]["title"] or run.protocol["name"])
    # The title of a shipped protocol is of unseen films, and intervals over them.
    if run.unit != "film" or any(cell.knows_films for cell in cells):
        title = str(run.protocol["name"])
    return f"{title} ({stores})" if stores else title


def _clips(run: Run) -> str:
    """Return the line on the clips and films of a run, and on what chose them."""
    manifest = run.about["manifest"]
    place = ", ".join(filter(None, (manifest["name"], view_text(run))))
    line = f"{size_text(run)} ({place})"
    where = run.protocol["data"]["where"]
    if where:
        line += f" with {where}"
    return ", ".join(filter(None, (line, array_text(run))))


# ---- the table ----


def _task_table(run: Run, cells: Sequence[Cell]) -> str:
    """Return the primary metric of each model, a row for each pair of tasks.

    Beside the models stand the best baseline that sees no video, and what a paper prints. A run
    without models shows its baselines.
    """
    primary = str(run.protocol["report"]["primary"])
    shown = [cell for cell in cells if cell.is_model] or list(cells)
    printed = _printed(run, primary)
    columns = list(dict.fromkeys(_column(cell, run) for cell in shown))
    rows = []
    for tasks in dict.fromkeys(cell.tasks for cell in shown):
        of_tasks = [cell for cell in shown if cell.tasks == tasks]
        value_of = {
            _column(cell, run): _value(cell, primary, printed) for cell in of_tasks
        }
        first = of_tasks[0]
        guessed = best_guess(run, first, primary)
        guess = MISSING
        if guessed is not None:
            guess = f"{short(guessed.value(primary))} ({guessed.model})"
        n_clips = number_range([cell.n_clips for cell in of_tasks])
        if _have_other_clips(of_tasks):
            guess += f" on {first.n_clips}"
            for cell in of_tasks:
                value_of[_column(cell, run)] += f" on {cell.n_clips}"
        n_positive = number_range([cell.n_positive for cell in of_tasks])
        row: list[object] = [tasks, n_clips, n_positive]
        row += [value_of.get(column, MISSING) for column in columns]
        row.append(guess)
        rows.append(row)
    headers = [
        metric_name(primary),
        "clips",
        "positive",
        *columns,
        "best guess",
    ]
    if not any(cell.is_model for cell in shown):
        headers.pop()
        rows = [row[:-1] for row in rows]
    return table(headers, rows)


def _have_other_clips(cells: Sequence[Cell]) -> bool:
    """Return whether cells of the same tasks were tested on other clips."""
    return len({cell.clips.tobytes() for cell in cells}) > 1


def _titles_of_tasks(cells: Sequence[Cell], run: Run) -> list[str]:
    """Return the line with the words of each task, if their names do not say all."""
    words = []
    trained = [cell.train for cell in cells]
    tested = [cell.test for cell in cells]
    for name in dict.fromkeys(trained + tested):
        task = Task(**run.protocol["tasks"].get(name, {}))
        in_words = task.in_words(name)
        if in_words:
            words.append(f"{name}: {in_words}")
    return ["; ".join(words)] if words else []


def _column(cell: Cell, run: Run) -> str:
    """Return the name of a model, with its store where there are several."""
    name = label_of(cell.model)
    if cell.store and len(run.about["stores"]) > 1:
        return f"{name} ({cell.store})"
    return name


def _value(
    cell: Cell, metric: str, printed: Mapping[tuple[str, ...], tuple[float, float]]
) -> str:
    """Return a metric with its interval, and the value that a paper prints."""
    text = short(cell.value(metric))
    if cell.has_interval(metric):
        low, high = cell.ends(metric)
        digits = digits_of(low, high)
        text += f" [{short(low, digits)}, {short(high, digits)}]"
    if cell.name in printed:
        paper, paper_sd = printed[cell.name]
        text += f", paper {short(paper)}"
        if math.isfinite(paper_sd):
            text += f" ({short(paper_sd)})"
    return text


def _printed(run: Run, metric: str) -> dict[tuple[str, ...], tuple[float, float]]:
    """Return what a paper prints of each cell, with its deviation."""
    rows = run.results
    is_printed = (rows["metric"] == metric) & (rows["film"] == "")
    printed: dict[tuple[str, ...], tuple[float, float]] = {}
    for row in rows[is_printed & rows["paper"].notna()].to_dict("records"):
        name = (row["train"], row["test"], row["store"], row["model"])
        printed[name] = (row["paper"], row["paper_sd"])
    return printed


def _about_values(run: Run, cells: Sequence[Cell]) -> str:
    """Return the line on how the values of the table are computed, and on their intervals."""
    primary = str(run.protocol["report"]["primary"])
    name = metric_name(primary)
    how = f"{name} is computed over all folds together"
    if primary in RANKING_METRICS:
        how = f"{name} is computed in each fold, and averaged"
    if any(cell.is_averaged for cell in cells):
        how = "Values are means over runs"
    shown = [cell for cell in cells if cell.is_model] or cells
    with_interval = [cell for cell in shown if cell.has_interval(primary)]
    if not with_interval:
        return f"{how}."
    # Tasks may have other films, and other films with positive clips.
    films = f"{number_range([cell.n_films for cell in with_interval])} {run.units}"
    text = (
        f"{how}; in brackets: {100 * CONFIDENCE:g} % intervals over {films}, of"
        f" {intervals_are_of(run, with_interval)}"
    )
    counts = [cell.film_counts(primary) for cell in with_interval]
    known = films_with_value(counts, run.unit)
    return f"{text}; {known}." if known else f"{text}."


def _about_clips(cells: Sequence[Cell]) -> str:
    """Return the line on rows whose numbers are of other clips; "" where there are none."""
    models = [cell for cell in cells if cell.is_model] or list(cells)
    for tasks in dict.fromkeys(cell.tasks for cell in models):
        if _have_other_clips([cell for cell in models if cell.tasks == tasks]):
            return (
                "Models of a row were tested on other clips, where each number has its clips: do"
                " not compare these; the best guess is on the clips of the first model."
            )
    return ""


# ---- sentences beside the table ----


def _stores_of_answer(run: Run, cells: Sequence[Cell]) -> list[str]:
    """Return which store is better for the tasks and the model of the answer."""
    asked = asked_cell(run)
    if asked is None:
        return []
    return compared_stores(run, [cell for cell in cells if cell.tasks == asked.tasks])


def _choices(run: Run, cells: Sequence[Cell]) -> list[str]:
    """Return which stores training films chose."""
    counts: dict[str, Counter[str]] = {}
    for cell in cells:
        if cell.store == CHOSEN:
            of_model = counts.setdefault(cell.model, Counter())
            of_model.update(fold["chosen"]["store"] for fold in run.folds_of(cell))
    lines = []
    for model, of_model in counts.items():
        named = [f"{store} {n}" for store, n in of_model.most_common()]
        lines.append(
            f"{label_of(model)}: the stores that training {run.units} chose in {of_model.total()} "
            f"tests: {', '.join(named)}"
        )
    return lines
