"""The section of a page of several runs that shows them side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from obygaze_models.protocols.runner.records import Run
from obygaze_models.report.compared_runs import (
    CellOfRuns,
    ComparedRuns,
    RunDifference,
    RunValue,
    compare_runs,
)
from obygaze_models.report.lookup import grouped, metric_name, pair_name
from obygaze_models.report.tables import (
    Heading,
    Number,
    ResultTable,
    Row,
    make_table,
)


@dataclass(frozen=True)
class SideBySide:
    """What differs between runs: warnings, settings, and cells with paired differences."""

    warnings: Sequence[str] = ()
    tables: Sequence[ResultTable] = ()


def side_by_side(runs: Sequence[Run]) -> SideBySide:
    """Return what differs between runs; nothing of a single one."""
    if len(runs) < 2:
        return SideBySide()
    compared = compare_runs(runs)
    tables = []
    numbers = range(1, len(runs) + 1)
    names = [f"run {number}" for number in numbers]
    if compared.settings:
        settings = [(key, *values) for key, values in compared.settings.items()]
        tables.append(make_table("settings", "settings", settings, names))
    differences = [f"run {number} minus run 1" for number in numbers[1:]]
    p_values = [f"p (all), run {number}" for number in numbers[1:]]
    cells = make_table(
        "compared",
        "compared",
        _rows(compared),
        [*names, *differences, *p_values, "clips"],
        metric=metric_name(compared.metric),
    )
    tables.append(cells)
    return SideBySide(compared.warnings, tables)


def _rows(compared: ComparedRuns) -> list[Row | Heading]:
    rows: list[Row | Heading] = []
    by_pair = grouped(compared.cells, lambda cell: (cell.train, cell.test))
    for pair, cells in by_pair.items():
        rows.append(Heading(pair_name(*pair)))
        rows += [_row(cell) for cell in cells]
    return rows


def _row(cell: CellOfRuns) -> Row:
    name = cell.model if not cell.store else f"{cell.model} ({cell.store})"
    others = cell.differences[1:]
    n_clips = [difference.n_clips for difference in others if difference is not None]
    return (
        name,
        *(_number(value) for value in cell.values),
        *(_number(difference) for difference in others),
        *(_p_of(difference) for difference in others),
        min(n_clips, default=None),
    )


def _number(value: RunValue | RunDifference | None) -> Number:
    if value is None:
        return Number(None)
    return Number(value.value, value.low, value.high)


def _p_of(difference: RunDifference | None) -> Number:
    p = None if difference is None else difference.p
    return Number(p, digits=3, is_p=True)
