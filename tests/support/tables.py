"""What tests read of a run: its cells, what run.json says of them, and rows of its tables."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pandas as pd

from obygaze_models.evaluation import tables
from obygaze_models.evaluation.cells import Cell, cells_from_tests
from obygaze_models.evaluation.tables import CELL, RunRow
from obygaze_models.runner.files import Run
from support.run_tables import table_of


def rows_of(table: pd.DataFrame, **wanted: Any) -> list[RunRow]:
    for name, value in wanted.items():
        table = table[table[name] == value]
    return tables.rows_as_dicts(table)


# What a row of a table of tests has if nothing else is said: a test of an unseen film.
A_TEST = {
    **{"task": "T", "train": "T", "test": "T", "store": "x", "model": "ridge"},
    **{"fold": "0", "seed": 0, "seen": "unseen", "n_seen": 9, "leaked": False},
    **{"is_model": True, "is_trained": True, "is_probability": True},
}


def a_table(rows: Iterable[RunRow]) -> pd.DataFrame:
    """A table of tests; rows have `clip_id`, `movie_id`, `y`, `score`, and what they say else."""
    whole = []
    for row in rows:
        facts = {**A_TEST, "group": row["movie_id"], **row}
        limit = 0.5 if facts["is_probability"] else 0.0
        whole.append({"decision": float(row["score"] > limit), **facts})
    return table_of("predictions.csv", whole)


def cell_of(rows: Iterable[RunRow], *, is_averaged: bool = False) -> Cell:
    """The only cell of these rows (`a_table`), whose tasks are T; or as if folds shared clips."""
    (cell,) = cells_from_tests(a_table(rows))
    return replace(cell, is_averaged=True) if is_averaged else cell


def models(run: Run, **wanted: Any) -> list[Cell]:
    return [cell for cell in _cells(run, **wanted) if cell.is_model]


def baselines(run: Run, **wanted: Any) -> list[Cell]:
    return [cell for cell in _cells(run, **wanted) if not cell.is_model]


def the_cell(run: Run, **wanted: Any) -> Cell:
    """The only model or baseline with these names, such as `model="ridge", test="EN_S"`."""
    (cell,) = _cells(run, **wanted)
    return cell


def _cells(run: Run, **wanted: Any) -> list[Cell]:
    return [
        cell
        for cell in cells_of(run)
        if all(getattr(cell, name) == value for name, value in wanted.items())
    ]


def cells_of(run: Run) -> list[Cell]:
    """The cells of a run, computed from its predictions."""
    return cells_from_tests(run.predictions)


def names_of(cell: Cell) -> RunRow:
    return dict(zip(CELL, cell.name, strict=True))


def fit_of(run: Run, cell: Cell) -> RunRow:
    (facts,) = (
        facts
        for facts in run.about["fits"]
        if tuple(facts[name] for name in CELL) == cell.name
    )
    return dict(facts)


def by_film(cell: Cell, metric: str) -> dict[str, float]:
    """A metric of a cell within each of its films, NaN where it has none."""
    films, values = cell.by_film([metric])
    return dict(zip(films, values[metric].tolist(), strict=True))


def of_films(run: Run, metric: str, **wanted: Any) -> dict[str, RunRow]:
    rows = rows_of(run.results, metric=metric, against_model="", **wanted)
    return {row["film"]: row for row in rows if row["film"]}


def differences(run: Run, **wanted: Any) -> list[RunRow]:
    """The rows of differences of two models, or of a model on two stores."""
    return [
        row for row in _against(run, **wanted) if row["against_train"] == row["train"]
    ]


def contrasts(run: Run, **wanted: Any) -> list[RunRow]:
    """The rows of differences of a model that was trained on two tasks."""
    return [
        row for row in _against(run, **wanted) if row["against_train"] != row["train"]
    ]


def _against(run: Run, **wanted: Any) -> list[RunRow]:
    return [row for row in rows_of(run.results, **wanted) if row["against_model"]]


def predictions_of(run: Run, cell: Cell) -> list[RunRow]:
    return rows_of(run.predictions, **names_of(cell))
