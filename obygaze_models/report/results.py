"""Results: models with baselines, intervals, tasks as one question, learning curves."""

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from obygaze_features.core.figures import INK, MUTED, draw_grid, label_rows
from obygaze_models.models.registry import UNTRAINED
from obygaze_models.protocols.results.cells import CellRecord
from obygaze_models.protocols.results.whole_run import Argmax, LearningCurve
from obygaze_models.protocols.runner.records import count_groups, group_column
from obygaze_models.report.figure import (
    BASELINE,
    MODEL,
    WRONG,
    FigureSet,
    draw_reference,
    hide_ticks,
)
from obygaze_models.report.lookup import (
    ReportRun,
    grouped,
    metric_name,
    metric_of,
    model_name,
    rank_of,
)
from obygaze_models.report.tables import (
    Heading,
    Number,
    Part,
    ResultTable,
    Row,
    make_table,
    sentence,
    slug,
)

# A label and a record; None for a heading.
IntervalRow = tuple[str, CellRecord | None]


def results(run: ReportRun) -> Part:
    """Yield a table per test task: models by train task, then baselines, equal ones in one row."""
    yield sentence("intervals", confidence=run.confidence)
    records = [*run.cells, *run.baselines]
    if run.is_own_test:
        yield _results_by_model(run, records)
        return
    by_test = grouped(records, lambda record: record.test)
    for test, records_of_test in by_test.items():
        yield _results_of_test(run, test, records_of_test)


def _results_by_model(run: ReportRun, records: Sequence[CellRecord]) -> ResultTable:
    """Return one table of tasks that are each tested on itself: a row per task, by model."""
    rows: list[Row | Heading] = []
    for name, same_model in grouped(records, run.label).items():
        rows.append(Heading(name, quiet=same_model[0].kind == "baseline"))
        for record in same_model:
            values = _cells(run, record, with_sizes=True).values()
            rows.append((record.test, *values))
    headers = list(_cells(run, run.cells[0], with_sizes=True))
    return make_table("tasks", "results", rows, headers)


def _results_of_test(
    run: ReportRun, test: str, records: Sequence[CellRecord]
) -> ResultTable:
    """Return the table of a test task: models under their train task, then baselines."""
    cells = [record for record in records if record.kind == "cell"]
    baselines = merged_baselines(
        [r for r in records if r.kind == "baseline"], run.shown_metrics
    )
    shown = [*cells, *(record for _, _, record in baselines)]
    sizes = {(record.n_test, record.prevalence) for record in shown}
    sizes_differ = len(sizes) > 1
    rows: list[Row | Heading] = []
    for train, same_train in grouped(cells, lambda record: record.train).items():
        rows.append(Heading(f"trained on {train}"))
        for record in same_train:
            values = _cells(run, record, sizes_differ).values()
            rows.append((run.label(record), *values))
    if baselines:
        rows.append(Heading("baselines without features", quiet=True))
    for names, trains, record in baselines:
        store = f" ({record['feature']})" if record.feature else ""
        values = _cells(run, record, sizes_differ).values()
        rows.append((f"{', '.join(names)} · {trains}{store}", *values))
    title = test
    if test in run.task_titles:
        title = f"{test}: {run.task_titles[test]}"
    if not sizes_differ:
        title += _sizes_of(shown[0], group_column(run.protocol))
    headers = list(_cells(run, shown[0], sizes_differ))
    table = make_table("results", f"results-{slug(test)}", rows, headers, test=title)
    if any(record.leaked for record in shown):
        return table
    return replace(table, note="")


def _sizes_of(record: CellRecord, group: str) -> str:
    """Return the sizes of a test task for the title of its table."""
    films = ""
    if record.n_films:
        films = f" of {count_groups(record.n_films, group)}"
    share = f"{100 * record.prevalence:.1f} % positive"
    return f" ({record.n_test} clips{films}, {share})"


def _cells(run: ReportRun, record: CellRecord, with_sizes: bool) -> dict[str, Any]:
    """Return the cells of a record by their headers, with sizes where they differ in the table."""
    cells: dict[str, Any] = {}
    if with_sizes:
        cells["clips"] = record.n_test
        cells["share positive"] = Number(record.prevalence)
    for metric in run.shown_metrics:
        cells[metric_name(metric)] = metric_of(record, metric)
    if any(cell.seeds for cell in run.cells):
        header = f"SD over seeds, {metric_name(run.primary)}"
        cells[header] = Number(_sd_over_seeds(record, run.primary), digits=3)
    return {**cells, "leaked": record.leaked}


def _sd_over_seeds(record: CellRecord, metric: str) -> float | None:
    """Return the deviation of a metric over seeds; None of a single seed."""
    if record.seeds is None or metric not in record.seeds.metrics:
        return None
    return record.seeds.metrics[metric].sd


def merged_baselines(
    records: Sequence[CellRecord], metrics: Sequence[str]
) -> list[tuple[list[str], str, CellRecord]]:
    """Return one row for baselines with equal values: names, train tasks, and one record."""

    def shown_values(record: CellRecord) -> tuple[object, ...]:
        shown = (str(metric_of(record, metric)) for metric in metrics)
        return record.feature, bool(record.ceiling), record.leaked, *shown

    all_tasks = {record.train for record in records}
    rows = []
    known = [_without_impossible_leak(record) for record in records]
    for same in grouped(known, shown_values).values():
        trains = {}
        for name, same_model in grouped(same, model_name).items():
            trains[name] = tuple(record.train for record in same_model)
        for tasks, names in grouped(trains, trains.__getitem__).items():
            first = next(record for record in same if model_name(record) in names)
            trained_on = ", ".join(tasks)
            if set(tasks) == all_tasks:
                trained_on = "any task"
            rows.append((names, trained_on, first))
    return sorted(rows, key=lambda row: bool(row[2].ceiling))


def _without_impossible_leak(record: CellRecord) -> CellRecord:
    """Return a record; a baseline that is not trained on any clip cannot leak."""
    if record.model in UNTRAINED:
        return replace(record, leaked=0)
    return record


def argmax(run: ReportRun) -> Part:
    """Yield a table of several one-against-rest tasks that are evaluated as one question."""
    rows = [
        (
            run.label(record),
            record.n_test,
            Number(record.accuracy),
            Number(record.f1_macro),
            Number(record.majority),
        )
        for record in run.of(Argmax)
    ]
    if rows:
        tasks = ", ".join(run.of(Argmax)[0].tasks)
        yield make_table("argmax", "argmax", rows, tasks=tasks)


def learning(run: ReportRun) -> Part:
    """Yield the primary metric of each model by the number of training films."""

    def values(curve: LearningCurve) -> list[Number]:
        return [Number(point.value) for point in curve.points]

    curves = run.of(LearningCurve)
    if curves:
        rows = run.rows_by_pair(curves, values)
        films = [f"{point.n_films} films" for point in curves[0].points]
        metric = metric_name(curves[0].metric)
        yield make_table("learning", "learning", rows, films, metric=metric)


def draw_intervals(run: ReportRun, figures: FigureSet) -> None:
    """Draw AP or AUC with its interval over films; baselines are below the models."""
    if run.is_own_test:
        # Bars show the others.
        alone = [cell for cell in run.cells if cell.test not in run.places_of_tasks]
        if not alone:
            return
        rows: list[IntervalRow] = []
        for name, cells in grouped(alone, run.label).items():
            cells.sort(key=lambda cell: -rank_of(cell, run.ranking))
            rows.append((name, None))
            rows += [(f"{cell.test}  ", cell) for cell in cells]
        height = 0.6 + 0.22 * len(rows)
        with figures.draw("intervals_by_task", "intervals", height) as (_, axes):
            _draw_rows(axes, rows, run, chance_of_each=True)
        return
    for test, cells in grouped(run.cells, lambda cell: cell.test).items():
        rows = []
        for train, same_train in grouped(cells, lambda cell: cell.train).items():
            rows.append((f"trained on {train}", None))
            rows += [(run.label(cell), cell) for cell in same_train]
        rows += _baseline_rows(
            [r for r in run.baselines if r.test == test], run.shown_metrics
        )
        key = f"intervals-{slug(test)}"
        height = 0.6 + 0.22 * len(rows)
        with figures.draw("intervals", key, height, test=test) as (_, axes):
            _draw_rows(axes, rows, run)


def _baseline_rows(
    records: Sequence[CellRecord], metrics: Sequence[str]
) -> list[IntervalRow]:
    """Return the rows of the baselines of a test task below their heading."""
    rows: list[IntervalRow] = []
    baselines = merged_baselines(records, metrics)
    if baselines:
        rows.append(("baselines", None))
    for names, trains, record in baselines:
        short = [name.partition(" (")[0] for name in names]
        label = ", ".join(short)
        if len(short) > 2:
            label = f"{short[0]} and {len(short) - 1} more"
        if trains != "any task":
            label = f"{label} · {trains}"
        rows.append((label, record))
    return rows


def _draw_rows(
    axes: Any,
    rows: Sequence[IntervalRow],
    run: ReportRun,
    *,
    chance_of_each: bool = False,
) -> None:
    metric = run.ranking
    label_rows(axes, [textwrap.fill(name, 24) for name, _ in rows], fontsize=6.5)
    for y, (_, record) in enumerate(rows):
        if record is None:
            axes.get_yticklabels()[y].set(fontweight="bold", color=MUTED)
            continue
        number = metric_of(record, metric)
        color = _color_of(record)
        if number.interval:
            ends = [number.low, number.high]
            axes.plot(ends, [y, y], color=color, lw=1.7, alpha=0.75)
        if number.value is not None:
            face = "white" if record.ceiling else color
            axes.scatter(number.value, y, s=24, color=face, edgecolor=color, zorder=3)
        if chance_of_each:
            chance = chance_of(record, metric)
            axes.plot([chance, chance], [y - 0.32, y + 0.32], color=INK, lw=1)
    records = [record for _, record in rows if record]
    if records and not chance_of_each:
        draw_reference(axes, chance_of(records[0], metric))
    axes.set_xlim(-0.02, 1.02)
    draw_grid(axes)
    hide_ticks(axes, "left")
    axes.set_xlabel(f"{metric_name(metric)}, {run.confidence} intervals", color=MUTED)


def _color_of(record: CellRecord) -> str:
    """Return the colour of a record: wrong where it leaked, else that of its kind."""
    if record.leaked:
        return WRONG
    return MODEL if record.kind == "cell" else BASELINE


def chance_of(record: CellRecord, metric: str) -> float:
    """Return the expected value of a random order: for AP the mean over folds, for AUC 0.5."""
    if metric != "ap":
        return 0.5
    from obygaze_models.models.baselines import random_ap  # slow to import

    tests = {fold.fold: (fold.n_positive, fold.n_test) for fold in record.folds}
    chances = [
        float(random_ap(n_positive / n_test, n_test))
        for n_positive, n_test in tests.values()
        if n_positive
    ]
    if not chances:
        return float(record.prevalence)
    return sum(chances) / len(chances)
