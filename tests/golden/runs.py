"""The one adapter that reads a run: where the files of a run change, this file does.

The tables have names of their own. A test of a clip is a row with the score of each model beside
those of the others; the values of a cell are a row with a column for each metric.
"""

from collections.abc import Iterable
from typing import Any

from golden.doors import Place
from golden.tables import Row, number, number_of

# These say the same of all clips: what they are worth is in the table of values.
SAME_FOR_ALL_CLIPS = ("random", "all_positive", "prevalence")
SPREAD = ("sd", "low", "high")
COUNTS = ("films_better", "films_equal", "films_compared")
JUDGED = ("random", "baseline_value", "tested", "p", "comparisons", *COUNTS)
# The columns of a test of a clip, and what they are called here.
TEST = {name: name for name in ("task", "train", "store", "fold", "seed")}
TEST |= {"clip_id": "clip", "movie_id": "film", "y": "y"}
CELL = ("task", "train", "store", "model", "film", "clips", "films", "leaked", "fits")
CELL += ("basis",)
FURTHER = ("concepts", "trees", "success")


def read_run(place: Place, run: str) -> dict[str, list[Row]]:
    results = place.read_table(f"runs/{run}/results.csv")
    tests = place.read_table(f"runs/{run}/predictions.csv")
    tables = {
        "scores": scores(tests),
        "values": values([row for row in results if not is_difference(row)]),
        "differences": in_order(map(difference, filter(is_difference, results)), 8),
    }
    for name in FURTHER:
        if (place.folder / f"runs/{run}/{name}.csv").exists():
            tables[name] = other_table(place.read_table(f"runs/{run}/{name}.csv"))
    return {name: rows for name, rows in tables.items() if rows}


def in_order(rows: Iterable[Row], n_keys: int) -> list[Row]:
    """Return rows in the order of their first columns, whatever order the run wrote them in."""
    return sorted(rows, key=lambda row: [*map(str, row.values())][:n_keys])


def is_difference(row: Row) -> bool:
    return bool(row["against_model"])


def scores(predictions: Iterable[Row]) -> list[Row]:
    """Return a row for each test of a clip, with score and decision of each model."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in predictions:
        if row["model"] in SAME_FOR_ALL_CLIPS:
            continue
        test = {name: row[column] for column, name in TEST.items()}
        cells = found.setdefault(tuple(test.values()), test)
        if row["model"] in cells:
            raise AssertionError(f"a clip is tested twice: {row}")
        cells[row["model"]] = number(row["score"])
        cells[f"{row['model']} says"] = row["decision"]
    return in_order(found.values(), 8)


def values(results: Iterable[Row]) -> list[Row]:
    metrics: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in results:
        if row["film"] and row["model"] in SAME_FOR_ALL_CLIPS:
            continue
        key = tuple(row[name] for name in CELL)
        cells = metrics.setdefault(key, {})
        if row["metric"] in cells:
            raise AssertionError(f"a value stands there twice: {row}")
        cells[row["metric"]] = number(row["value"])
        for part in (*SPREAD, *JUDGED, "paper", "paper_sd"):
            if row[part]:
                cells[f"{row['metric']} {part}"] = number(row[part])
        for part in ("baseline", "verdict"):
            if row[part]:
                cells[f"{row['metric']} {part}"] = row[part]
    names = sorted({name for cells in metrics.values() for name in cells})
    rows = []
    for key, cells in sorted(metrics.items()):
        of_cell = {name: cells.get(name) for name in names}
        rows.append({**dict(zip(CELL, key, strict=True)), **of_cell})
    return rows


def difference(row: Row) -> Row:
    cells: dict[str, Any] = {"task": row["task"]}
    for key in ("train", "store", "model"):
        cells[key] = row[key]
        cells[f"against {key}"] = row[f"against_{key}"]
    cells["metric"] = row["metric"]
    for part in ("value", *SPREAD, "first", "second", "tested", "p", "comparisons"):
        cells[part] = number(row[part])
    for part in ("clips", "films", *COUNTS, "basis", "verdict"):
        cells[part] = row[part]
    return cells


def comparison(rows: Iterable[Row]) -> list[Row]:
    texts = ("train", "test", "model", "store", "against_store", "metric", "clips")
    numbers = ("value", "low", "high", "first", "second", "p")
    found = []
    for row in rows:
        cells: dict[str, Any] = {name: row[name] for name in texts}
        cells |= {name: number(row[name]) for name in numbers}
        found.append({**cells, "why not": row["why_not"]})
    return in_order(found, 6)


def other_table(rows: Iterable[Row]) -> list[Row]:
    found = []
    for row in rows:
        numbers = {key: number_of(text) for key, text in row.items()}
        known = {key: one for key, one in numbers.items() if one is not None}
        found.append(row | known)
    return found
