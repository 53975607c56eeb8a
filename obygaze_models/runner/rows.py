"""The rows of the tables of a run: one type each, from the fit to the page, and as CSV.

A column is one line of the type of its row; it is written and read by what stands there. A text
that is missing is empty, a missing number NaN, and a missing whole number None.
"""

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

from obygaze_features.core.files import csv_line


class CellColumns(TypedDict, total=False):
    """The names of a cell: a model on a store, trained for one task and tested on one."""

    task: str
    train: str
    test: str
    store: str
    model: str


class PredictionRow(CellColumns, total=False):
    """A test of a clip, in predictions.csv."""

    fold: str
    seed: int
    clip_id: str
    movie_id: str
    y: int
    score: float
    decision: bool


class ResultRow(CellColumns, total=False):
    """A value of a metric in results.csv: of a cell, a difference of two, or a learning curve.

    `film` is empty for the value over all films; a difference has the names of its other side in
    `against_*`. `train_films` is the mark of a point of a learning curve: no other row has it, and
    a row that has it is not the value of its cell.
    """

    film: str
    metric: str
    value: float
    sd: float
    fits: int | None
    low: float
    high: float
    p: float
    p_all: float
    p_guesses: float
    clips: int
    films: int
    leaked: int | None
    basis: str
    against_train: str
    against_store: str
    against_model: str
    train_films: int | None
    paper: float
    paper_sd: float


class ConceptRow(TypedDict, total=False):
    """A concept of a bottleneck, in concepts.csv."""

    store: str
    model: str
    train: str
    concept: str
    clips: int
    films: int
    films_with_value: int | None
    positive: int
    ap: float
    low: float
    high: float
    auc: float
    p: float
    p_holm: float
    tolerance: float
    weight: float


class NodeRow(TypedDict, total=False):
    """A node of the tree of a bottleneck, in trees.csv."""

    store: str
    model: str
    train: str
    node: int
    left: int | None
    right: int | None
    concept: str
    threshold: float
    clips: int
    share: float


class SuccessRow(CellColumns, total=False):
    """What a level or a concept does to the decisions of a cell, in success.csv."""

    film: str
    factor: str
    log_odds: float
    se: float
    low: float
    high: float
    p: float
    clips: int | None
    all_clips: int | None
    successes: int | None
    method: str
    errors: str
    note: str


# The columns of each table, in order, with the types of their values.
RUN_TABLES: dict[str, Mapping[str, Any]] = {
    "predictions.csv": PredictionRow.__annotations__,
    "results.csv": ResultRow.__annotations__,
    "concepts.csv": ConceptRow.__annotations__,
    "trees.csv": NodeRow.__annotations__,
    "success.csv": SuccessRow.__annotations__,
}


def table_bytes(name: str, rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return a table as CSV. What has no value is empty, and a decision is 0 or 1."""
    columns = RUN_TABLES[name]
    table = bytearray(csv_line(columns).encode("utf-8"))
    for row in rows:
        cells = []
        for column, kind in columns.items():
            value = row.get(column)
            if kind is bool:
                value = int(row[column])
            # Only NaN is not equal to itself.
            cells.append(value if value == value else None)
        table += csv_line(cells).encode("utf-8")
    return bytes(table)


def read_rows(
    name: str, data: bytes, is_wanted: Callable[[Sequence[str]], bool] | None = None
) -> list[Any]:
    """Return the rows of a table.

    Args:
        name: The file.
        data: Its bytes.
        is_wanted: Whether a row is returned, by its cells; by default each is.
    """
    columns = RUN_TABLES[name]
    reader = csv.reader(io.StringIO(data.decode("utf-8"), newline=""))
    if next(reader, []) != list(columns):
        raise ValueError(f"its columns must be {', '.join(columns)}")
    # Names of clips, films and models are in many rows: each is kept once.
    texts: dict[str, str] = {}
    rows = []
    for cells in reader:
        if len(cells) != len(columns):
            raise ValueError(f"line {reader.line_num} has {len(cells)} values")
        if is_wanted is not None and not is_wanted(cells):
            continue
        row: dict[str, Any] = {}
        for (column, kind), cell in zip(columns.items(), cells, strict=True):
            if kind is str:
                row[column] = texts.setdefault(cell, cell)
            elif kind is float:
                row[column] = float(cell) if cell else math.nan
            elif kind is bool:
                row[column] = bool(int(cell))
            else:
                row[column] = int(cell) if cell else None
        rows.append(row)
    return rows
