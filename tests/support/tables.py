"""What tests read of a run: its cells, what run.json says of them, and rows of its tables."""

from __future__ import annotations

from typing import Any

import pandas as pd

from obygaze_models.evaluation.cells import Cell
from obygaze_models.evaluation.tables import CELL
from obygaze_models.runner.files import Run

Row = dict[str, Any]


def rows_of(table: pd.DataFrame, **wanted: Any) -> list[Row]:
    """The rows of a table, all or those with these values."""
    for name, value in wanted.items():
        table = table[table[name] == value]
    rows: list[Row] = table.to_dict("records")
    return rows


def models(run: Run, **wanted: Any) -> list[Cell]:
    """The cells of models, of all or of those with these names."""
    return [cell for cell in _cells(run, **wanted) if cell.is_model]


def baselines(run: Run, **wanted: Any) -> list[Cell]:
    """The cells of baselines."""
    return [cell for cell in _cells(run, **wanted) if not cell.is_model]


def the_cell(run: Run, **wanted: Any) -> Cell:
    """The only model or baseline with these names, such as `model="ridge", test="EN_S"`."""
    (cell,) = _cells(run, **wanted)
    return cell


def _cells(run: Run, **wanted: Any) -> list[Cell]:
    return [
        cell
        for cell in run.cells
        if all(getattr(cell, name) == value for name, value in wanted.items())
    ]


def names_of(cell: Cell) -> Row:
    """The names of a cell, as the columns of a table have them."""
    return dict(zip(CELL, cell.name, strict=True))


def fit_of(run: Run, cell: Cell) -> Row:
    """What run.json says of the fits of a cell."""
    (facts,) = (
        facts
        for facts in run.about["fits"]
        if tuple(facts[name] for name in CELL) == cell.name
    )
    return dict(facts)


def result_of(run: Run, cell: Cell, metric: str, film: str = "") -> Row:
    """The row of results.csv with a value of a cell."""
    names = {**names_of(cell), "metric": metric, "film": film, "against_model": ""}
    (row,) = (
        row for row in rows_of(run.results, **names) if pd.isna(row["train_films"])
    )
    return row


def of_films(run: Run, metric: str, **wanted: Any) -> dict[str, Row]:
    """The rows of results.csv within films."""
    rows = rows_of(run.results, metric=metric, against_model="", **wanted)
    return {row["film"]: row for row in rows if row["film"]}


def differences(run: Run, **wanted: Any) -> list[Row]:
    """The rows of differences of two models, or of a model on two stores."""
    rows = rows_of(run.results, **wanted)
    return [
        row
        for row in rows
        if row["against_model"] and row["against_train"] == row["train"]
    ]


def contrasts(run: Run, **wanted: Any) -> list[Row]:
    """The rows of differences of a model that was trained on two tasks."""
    rows = rows_of(run.results, **wanted)
    return [
        row
        for row in rows
        if row["against_model"] and row["against_train"] != row["train"]
    ]


def curve(run: Run) -> list[Row]:
    """The rows of learning curves."""
    return rows_of(run.results[run.results["train_films"].notna()])


def predictions_of(run: Run, cell: Cell) -> list[Row]:
    """The predictions of a cell."""
    tests = run.predictions
    return rows_of(tests[tests["train_films"].isna()], **names_of(cell))
