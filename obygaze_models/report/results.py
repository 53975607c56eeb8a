"""Tables of results: every model beside the baselines, cell by cell and film by film."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from obygaze_models.protocols.runner.records import Record, Run
from obygaze_models.report.tables import Group, Number, Table, slug
from obygaze_models.report.words import (
    NAMES,
    SHOWN,
    are_own_tests,
    merged_baselines,
    metric_name,
    number_of,
    pair_name,
    primary,
    stores_of,
    with_store,
)

Row = tuple[Any, ...]
MOST_OPEN = 12


def result_tables(run: Run) -> Iterable[Table]:
    """One table a test: models by the task that trained them, then baselines, each said once."""
    stores = stores_of(run)
    if are_own_tests(run):
        yield _by_task(run)
        return
    for test in dict.fromkeys(record["test"] for record in [*run.cells, *run.baselines]):
        cells = [record for record in run.cells if record["test"] == test]
        blind = merged_baselines([r for r in run.baselines if r["test"] == test])
        alike = len({(r["n_test"], r["prevalence"]) for r in [*cells, *(b[2] for b in blind)]}) == 1
        groups: list[Group] = []
        rows: list[Row] = []
        records: list[Record] = []
        for train in dict.fromkeys(record["train"] for record in cells):
            groups.append(Group(len(rows), f"trained on {train}"))
            for record in (r for r in cells if r["train"] == train):
                rows.append((with_store(record, stores), *_result(record, alike)))
                records.append(record)
        if blind:
            groups.append(Group(len(rows), "no feature seen", quiet=True))
        for names, trains, record in blind:
            said = f"{names} · {trains}" + (f" ({record['feature']})" if record["feature"] else "")
            rows.append((said, *_result(record, alike)))
            records.append(record)
        counted = () if alike else ("clips", "share positive")
        leaked = frozenset(i for i, record in enumerate(records) if record["leaked"])
        yield Table(
            f"results-{slug(test)}",
            f"Tested on {test}{_title_of(run, test)}" + (_measure(records[0]) if alike else ""),
            ("model", *counted, *(NAMES[metric] for metric in SHOWN), "leaked"),
            tuple(rows),
            "Leaked: test clips that were seen in training; such rows are red on the page."
            if leaked
            else "",
            leaked,
            tuple(groups),
        )


def _by_task(run: Run) -> Table:
    """Many tasks, each tested on itself: a group a model, a row a task."""
    groups: list[Group] = []
    rows: list[Row] = []
    records = [*run.cells, *run.baselines]
    for name in dict.fromkeys(with_store(record, stores_of(run)) for record in records):
        own = [record for record in records if with_store(record, stores_of(run)) == name]
        groups.append(Group(len(rows), name, quiet=own[0]["kind"] == "baseline"))
        rows += [(record["test"], *_result(record, False)) for record in own]
    return Table(
        "results",
        "Each task tested on itself",
        ("task", "clips", "share positive", *(NAMES[metric] for metric in SHOWN), "leaked"),
        tuple(rows),
        warn=frozenset(i for i, row in enumerate(rows) if row[-1]),
        groups=tuple(groups),
    )


def _result(record: Record, alike: bool) -> tuple[Any, ...]:
    counted = () if alike else (record["n_test"], Number(record["prevalence"]))
    return (*counted, *(number_of(record, metric) for metric in SHOWN), record["leaked"])


def _measure(record: Record) -> str:
    films = f" of {record['n_movies']} films" if record.get("n_movies") else ""
    return f" ({record['n_test']} clips{films}, {100 * record['prevalence']:.1f} % positive)"


def argmax_tables(run: Run) -> Iterable[Table]:
    """Several one-against-rest tasks as one question."""
    rows = tuple(
        (
            with_store(r, stores_of(run)),
            r["n_test"],
            Number(r["accuracy"], *(r["ci"] or (None, None))),
            Number(r["f1_macro"]),
            Number(r["majority"]),
        )
        for r in run.of("argmax")
    )
    if rows:
        headers = ("model", "clips", "accuracy", "F1 macro", "largest class")
        tasks = ", ".join(run.of("argmax")[0]["tasks"])
        yield Table("argmax", f"The highest of {tasks}", headers, rows)


def film_tables(run: Run) -> Iterable[Table]:
    """The primary metric of each model, film by film; what there is less of makes the columns."""
    films = sorted({film for record in run.cells for film in record["by_movie"]})
    if not films:
        return
    make = _films_down if len(run.cells) < MOST_ACROSS else _films_across
    yield make(run, films, f"{metric_name(primary(run))} of each film")


MOST_ACROSS = 7
NO_CLASS = "A dash: the film has no clip of one of the classes."


def _films_down(run: Run, films: Sequence[str], title: str) -> Table:
    stores = stores_of(run)
    names = (f"{with_store(c, stores)}, {pair_name(c['train'], c['test'])}" for c in run.cells)
    rows = tuple(
        (film, *(_film_value(cell, film, primary(run)) for cell in run.cells)) for film in films
    )
    return Table("films", title, ("film", *names), rows, NO_CLASS)


def _films_across(run: Run, films: Sequence[str], title: str) -> Table:
    rows, groups = by_pair(
        run, lambda record: [_film_value(record, film, primary(run)) for film in films]
    )
    many = len(rows) > MOST_OPEN
    return Table("films", title, ("model", *films), rows, NO_CLASS, groups=groups, folded=many)


def by_pair(
    run: Run, values: Callable[[Record], Sequence[Any]]
) -> tuple[tuple[Row, ...], tuple[Group, ...]]:
    """A row for each cell, those of one training and one test task together."""
    groups: list[Group] = []
    rows: list[Row] = []
    for pair in dict.fromkeys((r["train"], r["test"]) for r in run.cells):
        groups.append(Group(len(rows), pair_name(*pair)))
        for record in run.cells:
            if (record["train"], record["test"]) == pair:
                rows.append((with_store(record, stores_of(run)), *values(record)))
    return tuple(rows), tuple(groups)


def _film_value(record: Record, film: str, metric: str) -> Number:
    return Number(record["by_movie"].get(film, {}).get(metric))


def _title_of(run: Run, task: str) -> str:
    title = run.protocol.get("tasks", {}).get(task, {}).get("title")
    return f": {title}" if title else ""
