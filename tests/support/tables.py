"""What tests read of a run: its cells, its values, its differences."""

from __future__ import annotations

from typing import Any

from obygaze_models.runner.rows import PredictionRow, ResultRow
from obygaze_models.runner.summary import CellRows, cells_of
from obygaze_models.runner.tables import Run


def models(run: Run, **wanted: Any) -> list[CellRows]:
    """The cells of models, of all or of those with these names."""
    return [cell for cell in _cells(run, **wanted) if cell.is_model]


def baselines(run: Run, **wanted: Any) -> list[CellRows]:
    """The cells of baselines."""
    return [cell for cell in _cells(run, **wanted) if not cell.is_model]


def the_cell(run: Run, **wanted: Any) -> CellRows:
    """The only model or baseline with these names, such as `model="ridge", test="EN_S"`."""
    (cell,) = _cells(run, **wanted)
    return cell


def _cells(run: Run, **wanted: Any) -> list[CellRows]:
    return [
        cell
        for cell in cells_of(run)
        if all(cell.facts[name] == value for name, value in wanted.items())
    ]


def of_films(run: Run, metric: str, **wanted: Any) -> dict[str, ResultRow]:
    """The rows of a cell within its films, of any metric, also of one that no page shows."""
    found = {}
    for row in run.results:
        is_of_cell = all(row[name] == value for name, value in wanted.items())
        is_of_metric = row["metric"] == metric and not row["against_model"]
        if row["film"] and is_of_metric and is_of_cell:
            found[row["film"]] = row
    return found


def differences(run: Run, **wanted: Any) -> list[ResultRow]:
    """The rows of differences of two models, or of a model on two stores."""
    return [
        row
        for row in run.results
        if row["against_model"]
        and row["against_train"] == row["train"]
        and all(row[name] == value for name, value in wanted.items())
    ]


def contrasts(run: Run, **wanted: Any) -> list[ResultRow]:
    """The rows of differences of a model that was trained on two tasks."""
    return [
        row
        for row in run.results
        if row["against_model"]
        and row["against_train"] != row["train"]
        and all(row[name] == value for name, value in wanted.items())
    ]


def predictions_of(run: Run, cell: CellRows) -> list[PredictionRow]:
    """The predictions of a cell."""
    names = ("train", "test", "model", "store")
    return [
        row
        for row in run.predictions
        if all(row[name] == cell.facts[name] for name in names)
    ]
