"""Results: models with baselines, single films, the numbers of the paper, intervals."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from obygaze_features.core.figures import INK, MUTED, draw_grid, label_rows
from obygaze_models.models.registry import UNTRAINED
from obygaze_models.protocols.runner.records import Record
from obygaze_models.report.figure import (
    BASELINE,
    MODEL,
    WRONG,
    FigureSet,
    draw_reference,
    hide_ticks,
)
from obygaze_models.report.lookup import (
    SHOWN,
    ReportRun,
    film_value,
    grouped,
    metric_name,
    model_and_store,
    model_name,
    number_of,
    pair_name,
    pair_of,
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

MAX_OPEN_ROWS = 12
MAX_FILM_COLUMNS = 6


def results(run: ReportRun) -> Part:
    """Yield a table per test task: models by train task, then baselines, equal ones in one row."""
    yield sentence("intervals", confidence=run.confidence)
    rows: list[Row | Heading] = []
    if run.is_own_test:
        for name, own in grouped([*run.cells, *run.baselines], run.label).items():
            rows.append(Heading(name, quiet=own[0]["kind"] == "baseline"))
            rows += [
                (record["test"], *_cells(run, record, True).values()) for record in own
            ]
        yield make_table("tasks", "results", rows, [*_cells(run, run.cells[0], True)])
        return
    for test, records in grouped(
        [*run.cells, *run.baselines], lambda r: r["test"]
    ).items():
        cells = [record for record in records if record["kind"] == "cell"]
        baselines = merged_baselines([r for r in records if r["kind"] == "baseline"])
        shown = [*cells, *(record for _, _, record in baselines)]
        differ = len({(record["n_test"], record["prevalence"]) for record in shown}) > 1
        rows = []
        for train, own in grouped(cells, lambda r: r["train"]).items():
            rows.append(Heading(f"trained on {train}"))
            rows += [
                (run.label(record), *_cells(run, record, differ).values())
                for record in own
            ]
        if baselines:
            rows.append(Heading("baselines without features", quiet=True))
        for names, trains, record in baselines:
            store = f" ({record['feature']})" if record["feature"] else ""
            rows.append(
                (
                    f"{', '.join(names)} · {trains}{store}",
                    *_cells(run, record, differ).values(),
                )
            )
        title = f"{test}: {run.task_titles[test]}" if test in run.task_titles else test
        if not differ:
            films = (
                f" of {shown[0]['n_movies']} films" if shown[0].get("n_movies") else ""
            )
            share = f"{100 * shown[0]['prevalence']:.1f} % positive"
            title += f" ({shown[0]['n_test']} clips{films}, {share})"
        headers = [*_cells(run, shown[0], differ)]
        table = make_table(
            "results", f"results-{slug(test)}", rows, headers, test=title
        )
        leaks = any(record["leaked"] for record in shown)
        yield table if leaks else replace(table, note="")


def _cells(run: ReportRun, record: Record, with_sizes: bool) -> dict[str, Any]:
    """Return the cells of a record by their headers, with sizes where they differ in the table."""
    sizes = {"clips": record["n_test"], "share positive": Number(record["prevalence"])}
    cells = sizes if with_sizes else {}
    cells |= {metric_name(metric): number_of(record, metric) for metric in SHOWN}
    if any(cell.get("seeds") for cell in run.cells):
        found = (record.get("seeds") or {}).get(run.primary) or {}
        cells[f"SD over seeds, {metric_name(run.primary)}"] = Number(
            found.get("sd"), digits=3
        )
    return {**cells, "leaked": record["leaked"]}


def merged_baselines(records: Sequence[Record]) -> list[tuple[list[str], str, Record]]:
    """Return one row for baselines with equal values: names, train tasks, and one record."""

    def shown_values(record: Record) -> tuple[object, ...]:
        shown = (str(number_of(record, metric)) for metric in SHOWN)
        return record["feature"], bool(record.get("ceiling")), record["leaked"], *shown

    # A baseline that is not trained on any clip cannot leak.
    known = [{**r, "leaked": 0} if r["model"] in UNTRAINED else r for r in records]
    every = {record["train"] for record in records}
    rows = []
    for same in grouped(known, shown_values).values():
        trains = {
            name: tuple(record["train"] for record in own)
            for name, own in grouped(same, model_name).items()
        }
        for tasks, names in grouped(trains, trains.__getitem__).items():
            first = next(record for record in same if model_name(record) in names)
            rows.append(
                (names, "any task" if set(tasks) == every else ", ".join(tasks), first)
            )
    return sorted(rows, key=lambda row: bool(row[2].get("ceiling")))


def argmax(run: ReportRun) -> Part:
    """Yield a table of several one-against-rest tasks that are evaluated as one question."""
    rows = [
        (
            run.label(record),
            record["n_test"],
            Number(record["accuracy"]),
            Number(record["f1_macro"]),
            Number(record["majority"]),
        )
        for record in run.of("argmax")
    ]
    if rows:
        tasks = ", ".join(run.of("argmax")[0]["tasks"])
        yield make_table("argmax", "argmax", rows, tasks=tasks)


def localisations(run: ReportRun) -> Part:
    """Yield the precision of the segments that models found in whole films, by overlap."""
    overlaps = (str(number / 10) for number in range(3, 8))
    yield from _by_pair(run, "localisation", ("map", "blind", *overlaps))


def levels(run: ReportRun) -> Part:
    """Yield how well scores follow the order of the levels, and the error of predicted levels."""
    yield from _by_pair(run, "levels", ("concordance", "macro_error", "blind_error"))


def annotators(run: ReportRun) -> Part:
    """Yield distances to what all annotators said, and the errors by annotator."""
    records = run.of("annotators")
    names = list(dict.fromkeys(name for record in records for name in record["errors"]))
    measures = ("manhattan", "wasserstein", "blind_manhattan")

    def numbers(record: Record) -> list[Number]:
        # An annotator may be called as a measure is.
        errors = [number_of(record["errors"], name) for name in names]
        return [*(number_of(record, measure) for measure in measures), *errors]

    if records:
        rows = run.rows_by_pair(records, numbers)
        headers = [f"error, {name or '-'}" for name in names]
        yield make_table("annotators", "annotators", rows, headers)


def _by_pair(run: ReportRun, kind: str, names: Sequence[str]) -> Part:
    """Yield a table of some numbers of the records of a kind."""
    records = run.of(kind)
    if records:
        rows = run.rows_by_pair(
            records, lambda r: [number_of(r, name) for name in names]
        )
        yield make_table(kind, kind, rows)


def learning(run: ReportRun) -> Part:
    """Yield the primary metric of each model by the number of training films."""
    curves = run.of("learning")
    if curves:
        rows = run.rows_by_pair(
            curves, lambda r: [Number(p["value"]) for p in r["points"]]
        )
        films = [f"{point['n_films']} films" for point in curves[0]["points"]]
        metric = metric_name(curves[0]["metric"])
        yield make_table("learning", "learning", rows, films, metric=metric)


def films(run: ReportRun) -> Part:
    """Yield the primary metric by film: films are rows if there are few models, else columns."""
    metric = run.primary
    cells = run.cells
    if run.films and len(cells) <= MAX_FILM_COLUMNS:
        names = [f"{run.label(cell)}, {pair_name(*pair_of(cell))}" for cell in cells]
        by_film = [
            (
                run.film_name(f),
                f,
                *(Number(film_value(cell, f, metric)) for cell in cells),
            )
            for f in run.films
        ]
        yield make_table("films", "films", by_film, names, metric=metric_name(metric))
    elif run.films:
        titles = [run.film_name(film) for film in run.films]
        rows = run.rows_by_pair(
            cells, lambda r: [Number(film_value(r, f, metric)) for f in run.films]
        )
        table = make_table("models", "films", rows, titles, metric=metric_name(metric))
        yield replace(table, folded=len(cells) > MAX_OPEN_ROWS)


def paper(run: ReportRun) -> Part:
    """Yield the numbers of this run with those that the paper prints: by cell, then by film."""
    if any(cell.get("paper") for cell in run.cells):
        quirk = run.protocol.get("splits", {}).get("quirk")
        yield from map(
            sentence, (quirk, "spread") if quirk in ("authors", "text") else ("spread",)
        )
    printed = [(cell, one) for cell in run.cells for one in cell.get("paper") or ()]
    by_metric = grouped(
        [p for p in printed if not p[1].get("movie")], lambda p: p[1]["metric"]
    )
    for metric, own in by_metric.items():
        rows: list[Row | Heading] = []
        for name, same in grouped(own, lambda p: model_and_store(p[0])).items():
            rows.append(Heading(name))
            rows += [
                (
                    *pair_of(r),
                    _ours(r, one),
                    Number(one["mean"], sd=one.get("sd")),
                    r["leaked"],
                )
                for r, one in same
            ]
        yield make_table("paper", f"paper-{metric}", rows, metric=metric_name(metric))
    for cell in run.cells:
        by_film = [one for one in cell.get("paper") or () if one.get("movie")]
        if by_film:
            yield _paper_by_film(cell, by_film)


def _paper_by_film(cell: Record, printed: Sequence[Mapping[str, Any]]) -> ResultTable:
    """Return a row per film, as in Table 4 of the paper."""
    rows: list[tuple[str, str, Number, Number]] = [
        (
            one.get("source") or one["movie"],
            one["movie"],
            _ours(cell, one),
            Number(one["mean"], sd=one.get("sd")),
        )
        for one in printed
    ]
    known = [(row[2].value, row[3].value) for row in rows if row[2].value is not None]
    if known:
        ours, theirs = (sum(values) / len(known) for values in zip(*known, strict=True))
        rows.append(("mean of these films", "", Number(ours), Number(theirs)))
    return make_table(
        "paper_films",
        f"paper-films-{cell['model']}-{cell['feature']}",
        rows,
        metric=metric_name(printed[0]["metric"]),
        name=f"{model_and_store(cell)}, {pair_name(*pair_of(cell))}",
        leaked=cell["leaked"],
        n_test=cell["n_test"],
    )


def _ours(cell: Record, printed: Mapping[str, Any]) -> Number:
    metric = printed["metric"]
    if film := printed.get("movie"):
        sd = (cell["by_movie"].get(film, {}).get("sd") or {}).get(metric)
        return Number(film_value(cell, film, metric), sd=sd)
    found = cell.get(metric) or {}
    return Number(found.get("mean"), sd=found.get("sd"))


def draw_intervals(run: ReportRun, figures: FigureSet) -> None:
    """Draw AP or AUC with its interval over films; baselines are below the models."""
    rows: list[tuple[str, Record | None]] = []
    if run.is_own_test:
        for name, cells in grouped(run.cells, run.label).items():
            cells.sort(key=lambda cell: -rank_of(cell, run.ranking))
            rows += [(name, None), *((f"{cell['test']}  ", cell) for cell in cells)]
        with figures.draw("intervals_by_task", "intervals", 0.6 + 0.22 * len(rows)) as (
            _,
            axes,
        ):
            _draw_rows(axes, rows, run, chance_of_each=True)
        return
    for test, cells in grouped(run.cells, lambda cell: cell["test"]).items():
        rows = []
        for train, own in grouped(cells, lambda cell: cell["train"]).items():
            rows += [
                (f"trained on {train}", None),
                *((run.label(cell), cell) for cell in own),
            ]
        baselines = merged_baselines([r for r in run.baselines if r["test"] == test])
        rows += [("baselines", None)] if baselines else []
        for names, trains, record in baselines:
            short = [name.partition(" (")[0] for name in names]
            name = (
                ", ".join(short)
                if len(short) < 3
                else f"{short[0]} and {len(short) - 1} more"
            )
            rows.append(
                (name if trains == "any task" else f"{name} · {trains}", record)
            )
        key = f"intervals-{slug(test)}"
        height = 0.6 + 0.22 * len(rows)
        with figures.draw("intervals", key, height, test=test) as (_, axes):
            _draw_rows(axes, rows, run)


def _draw_rows(
    axes: Any,
    rows: Sequence[tuple[str, Record | None]],
    run: ReportRun,
    *,
    chance_of_each: bool = False,
) -> None:
    metric = run.ranking
    label_rows(axes, [textwrap.fill(name, 24) for name, _ in rows], fontsize=6.5)
    for place, (_, record) in enumerate(rows):
        if record is None:
            axes.get_yticklabels()[place].set(fontweight="bold", color=MUTED)
            continue
        number = number_of(record, metric)
        color = MODEL
        if record["leaked"] or record["kind"] != "cell":
            color = WRONG if record["leaked"] else BASELINE
        if number.interval:
            ends = [number.low, number.high]
            axes.plot(ends, [place, place], color=color, lw=1.7, alpha=0.75)
        if number.value is not None:
            face = "white" if record.get("ceiling") else color
            axes.scatter(
                number.value, place, s=24, color=face, edgecolor=color, zorder=3
            )
        if chance_of_each:
            chance = chance_of(record, metric)
            axes.plot([chance, chance], [place - 0.32, place + 0.32], color=INK, lw=1)
    records = [record for _, record in rows if record]
    if records and not chance_of_each:
        draw_reference(axes, chance_of(records[0], metric))
    axes.set_xlim(-0.02, 1.02)
    draw_grid(axes)
    hide_ticks(axes, "left")
    axes.set_xlabel(f"{metric_name(metric)}, {run.confidence} intervals", color=MUTED)


def chance_of(record: Record, metric: str) -> float:
    """Return the expected value of a random order: for AP the mean over folds, for AUC 0.5."""
    if metric != "ap":
        return 0.5
    from obygaze_models.models.baselines import random_ap  # slow to import

    tests = {
        fold["fold"]: (fold["n_positive"], fold["n_test"]) for fold in record["folds"]
    }
    found = [float(random_ap(some / n, n)) for some, n in tests.values() if some]
    return sum(found) / len(found) if found else float(record["prevalence"])
