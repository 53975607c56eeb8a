"""Tables of results: models with baselines, single films, and the numbers of the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from obygaze_models.protocols.runner.records import Record
from obygaze_models.report.lookup import (
    SHOWN,
    ReportRun,
    film_value,
    grouped,
    merged_baselines,
    metric_name,
    model_and_store,
    number_of,
    pair_name,
    pair_of,
)
from obygaze_models.report.tables import (
    FoldSpread,
    Heading,
    Number,
    ResultTable,
    Row,
    make_table,
    slug,
)
from obygaze_models.report.texts import sentence

Rows = list[Row | Heading]
MAX_OPEN_ROWS = 12
MAX_FILM_COLUMNS = 6


def result_tables(run: ReportRun) -> Iterable[ResultTable]:
    """Yield a table per test task: models by train task, then baselines, equal ones in one row."""
    if run.is_own_test:
        yield _by_task(run)
        return
    for test, records in grouped([*run.cells, *run.baselines], lambda r: r["test"]).items():
        cells = [record for record in records if record["kind"] == "cell"]
        baselines = merged_baselines([r for r in records if r["kind"] == "baseline"])
        shown = [*cells, *(record for _, _, record in baselines)]
        equal = len({(record["n_test"], record["prevalence"]) for record in shown}) == 1
        rows: Rows = []
        for train, own in grouped(cells, lambda r: r["train"]).items():
            rows.append(Heading(f"trained on {train}"))
            rows += [(run.label(record), *_result(run, record, equal)) for record in own]
        if baselines:
            rows.append(Heading("baselines without features", quiet=True))
        for names, trains, record in baselines:
            store = f" ({record['feature']})" if record["feature"] else ""
            rows.append((f"{', '.join(names)} · {trains}{store}", *_result(run, record, equal)))
        title = f"{test}: {run.task_titles[test]}" if test in run.task_titles else test
        title += _sizes(shown[0]) if equal else ""
        table = make_table(
            "results", f"results-{slug(test)}", rows, _headers(run, equal), test=title
        )
        leaks = any(record["leaked"] for record in shown)
        yield table if leaks else replace(table, note="")


def _by_task(run: ReportRun) -> ResultTable:
    """Return one table of tasks that are each tested on themselves: a group per model."""
    rows: Rows = []
    records = [*run.cells, *run.baselines]
    for name, own in grouped(records, run.label).items():
        rows.append(Heading(name, quiet=own[0]["kind"] == "baseline"))
        rows += [(record["test"], *_result(run, record, False)) for record in own]
    return make_table("tasks", "results", rows, _headers(run, False))


def _headers(run: ReportRun, equal: bool) -> tuple[str, ...]:
    sizes = () if equal else ("clips", "share positive")
    spread = (f"SD over seeds, {metric_name(run.primary)}",) if _has_seeds(run) else ()
    return (*sizes, *(metric_name(metric) for metric in SHOWN), *spread, "leaked")


def _has_seeds(run: ReportRun) -> bool:
    return any(cell.get("seeds") for cell in run.cells)


def _result(run: ReportRun, record: Record, equal: bool) -> Row:
    """Return the cells of a record; without sizes where they are equal for the whole table."""
    sizes = () if equal else (record["n_test"], Number(record["prevalence"]))
    found = (record.get("seeds") or {}).get(run.primary) or {}
    spread = (Number(found.get("sd"), digits=3),) if _has_seeds(run) else ()
    return (*sizes, *(number_of(record, metric) for metric in SHOWN), *spread, record["leaked"])


def _sizes(record: Record) -> str:
    films = f" of {record['n_movies']} films" if record.get("n_movies") else ""
    return f" ({record['n_test']} clips{films}, {100 * record['prevalence']:.1f} % positive)"


def argmax_tables(run: ReportRun) -> Iterable[ResultTable]:
    """Yield a table of several one-against-rest tasks that are evaluated as one question."""
    rows = [
        (
            run.label(record),
            record["n_test"],
            Number(record["accuracy"], *(record["ci"] or (None, None))),
            Number(record["f1_macro"]),
            Number(record["majority"]),
        )
        for record in run.of("argmax")
    ]
    if rows:
        tasks = ", ".join(run.of("argmax")[0]["tasks"])
        yield make_table("argmax", "argmax", rows, tasks=tasks)


def learning_tables(run: ReportRun) -> Iterable[ResultTable]:
    """Yield the primary metric of each model by the number of training films."""
    rows: Rows = []
    curves = run.of("learning")
    for pair, own in grouped(curves, pair_of).items():
        rows.append(Heading(pair_name(*pair)))
        rows += [(run.label(r), *(Number(point["value"]) for point in r["points"])) for r in own]
    if curves:
        films = [f"{point['n_films']} films" for point in curves[0]["points"]]
        metric = metric_name(curves[0]["metric"])
        yield make_table("learning", "learning", rows, films, metric=metric)


def film_tables(run: ReportRun) -> Iterable[ResultTable]:
    """Yield the primary metric by film: films are rows if there are few models, else columns."""
    films, metric = run.films, run.primary
    name = metric_name(metric)
    if films and len(run.cells) <= MAX_FILM_COLUMNS:
        names = [f"{run.label(cell)}, {pair_name(*pair_of(cell))}" for cell in run.cells]
        rows = [
            (run.film_name(f), f, *(Number(film_value(cell, f, metric)) for cell in run.cells))
            for f in films
        ]
        yield make_table("films", "films", rows, names, metric=name)
    elif films:
        titles = [run.film_name(film) for film in films]
        by_pair = rows_by_pair(run, lambda r: [Number(film_value(r, f, metric)) for f in films])
        table = make_table("models", "films", by_pair, titles, metric=name)
        yield replace(table, folded=len(run.cells) > MAX_OPEN_ROWS)


def rows_by_pair(run: ReportRun, values: Callable[[Record], Sequence[Any]]) -> Rows:
    """Return a row per cell, under a heading for each pair of train task and test task."""
    rows: Rows = []
    for pair, cells in grouped(run.cells, pair_of).items():
        rows.append(Heading(pair_name(*pair)))
        rows += [(run.label(cell), *values(cell)) for cell in cells]
    return rows


def paper_sentences(run: ReportRun) -> tuple[str, ...]:
    """Return how this run differs from the paper, and what the spread is."""
    if not any(cell.get("paper") for cell in run.cells):
        return ()
    quirk = run.protocol.get("splits", {}).get("quirk")
    keys = (quirk, "spread") if quirk in ("authors", "text") else ("spread",)
    return tuple(map(sentence, keys))


def paper_tables(run: ReportRun) -> Iterable[ResultTable]:
    """Yield the numbers of this run with those that the paper prints: by cell, then by film."""
    printed = [(cell, one) for cell in run.cells for one in cell.get("paper") or ()]
    by_metric = grouped([p for p in printed if not p[1].get("movie")], lambda p: p[1]["metric"])
    for metric, own in by_metric.items():
        rows: Rows = []
        for name, same in grouped(own, lambda p: model_and_store(p[0])).items():
            rows.append(Heading(name))
            rows += [
                (*pair_of(r), _ours(r, one), FoldSpread(one["mean"], one.get("sd")), r["leaked"])
                for r, one in same
            ]
        yield make_table("paper", f"paper-{metric}", rows, metric=metric_name(metric))
    for cell in run.cells:
        by_film = [one for one in cell.get("paper") or () if one.get("movie")]
        if by_film:
            yield _paper_by_film(cell, by_film)


def _paper_by_film(cell: Record, printed: Sequence[Mapping[str, Any]]) -> ResultTable:
    """Return a row per film, as in Table 4 of the paper."""
    rows: list[tuple[str, str, FoldSpread, FoldSpread]] = [
        (
            one.get("source") or one["movie"],
            one["movie"],
            _ours(cell, one),
            FoldSpread(one["mean"], one.get("sd")),
        )
        for one in printed
    ]
    known = [(row[2].mean, row[3].mean) for row in rows if row[2].mean is not None]
    if known:
        ours, theirs = (sum(values) / len(known) for values in zip(*known, strict=True))
        rows.append(("mean of these films", "", FoldSpread(ours), FoldSpread(theirs)))
    return make_table(
        "paper_films",
        f"paper-films-{cell['model']}-{cell['feature']}",
        rows,
        metric=metric_name(printed[0]["metric"]),
        name=f"{model_and_store(cell)}, {pair_name(*pair_of(cell))}",
        leaked=cell["leaked"],
        n_test=cell["n_test"],
    )


def _ours(cell: Record, printed: Mapping[str, Any]) -> FoldSpread:
    if film := printed.get("movie"):
        value = film_value(cell, film, printed["metric"])
        return FoldSpread(
            value, (cell["by_movie"].get(film, {}).get("sd") or {}).get(printed["metric"])
        )
    found = cell.get(printed["metric"]) or {}
    return FoldSpread(found.get("mean"), found.get("sd"))
