"""Features in a table: a row for each clip; the columns of numbers are the array `clip`."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixUsage, ObygazeWarning
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import (
    TableRow,
    maybe_thousands,
    number_of_cell,
    read_table,
    thousands_text,
)
from obygaze_features.manifest.adapters.table_ids import columns_of_form, id_of_form
from obygaze_features.manifest.model import own_columns
from obygaze_features.store.importing.reader import (
    FILM_KEY,
    ID_KEY,
    TIME_KEYS,
    ArrayColumn,
    BadRow,
    Reader,
    Times,
    Values,
)

ARRAY = "clip"


def open_table(
    path: Path, arrays: Mapping[str, str], *, id_key: str = ID_KEY
) -> Reader:
    """Open a CSV file or a spreadsheet; `id_key` is a column of ids, or a form of several columns.

    `movie_id`, `start_s` and `end_s` say which clip a row is about. Columns without a number are
    left out, and those that only manifests have, such as `level`. In the others, a word is an
    error, and a clip with an empty cell has no features.
    """
    if arrays:
        hint = f"leave it out: all columns of numbers are the array {ARRAY}"
        raise FixUsage("--array does not apply to a table", hint=hint)
    form = id_key if "{" in id_key else f"{{{id_key}}}"
    columns_of_ids = columns_of_form(form)
    violations = Violations(path)
    table = read_table(
        path,
        required=list(dict.fromkeys(columns_of_ids)),
        violations=violations,
        content="clips",
    )
    ids = [id_of_form(form, row, row.cells) for row in table.rows]
    films = [row.cells.get(FILM_KEY, "").strip() for row in table.rows]
    times = [_times(row) for row in table.rows]
    cells_of: dict[str, list[str]] = {}
    left_out = []
    thousands = dict(table.maybe_thousands)
    # Levels and folds are no features.
    own = own_columns(table.columns)
    for name in filter(None, table.columns):
        if name in (*columns_of_ids, FILM_KEY, *TIME_KEYS):
            continue
        cells = [row[name].strip() for row in table.rows]
        numbers = [cell for cell in cells if number_of_cell(cell) is not None]
        has_points = any("." in cell for cell in numbers)
        # Beside a word, the decimal commas of a column are still there.
        if table.delimiter != "," and not has_points:
            number = maybe_thousands(cells)
            if number:
                thousands[name] = number
            cells = [cell.replace(",", ".") for cell in cells]
        has_numbers = any(number_of_cell(cell) is not None for cell in cells)
        if has_numbers and name in own:
            cells_of[name] = cells
        else:
            left_out.append(name)
    rows = []
    for place, row in enumerate(table.rows):
        rows.append(_numbers(row, {name: cells_of[name][place] for name in cells_of}))
    if not cells_of and not violations:
        violations.add(None, None, "no column has numbers")
    hint = (
        "--id-key COLUMN names the column of ids, --id-key '{film}-{scene}' makes them of several;"
        " leave a cell empty where there is no number, and remove columns that are not features"
    )
    violations.raise_if_any("the table cannot be imported", hint)
    notes = []
    doubtful = [name for name in thousands if name in (*cells_of, *TIME_KEYS)]
    if doubtful:
        first, *others = doubtful
        too = f"; {count(len(others), 'other column')} too" if others else ""
        text = f"{path}: {thousands_text(first, thousands[first])}{too}"
        warnings.warn(text, ObygazeWarning, stacklevel=2)
    if left_out:
        notes.append(f"columns that are no features were left out: {few(left_out, 5)}")
    return Reader(
        where=str(path),
        clip_ids=ids,
        movie_ids=films,
        columns={ARRAY: ArrayColumn(ARRAY, _Rows(rows, (len(rows), len(cells_of))))},
        notes=notes,
        times=times,
        feature_columns=[*cells_of],
    )


@dataclass(frozen=True)
class _Rows:
    """The numbers of each row, as an array of which ranges of rows are read."""

    rows: Sequence[Values | BadRow]
    shape: tuple[int, int]
    dtype: ClassVar[np.dtype[np.float64]] = np.dtype(np.float64)

    def __getitem__(self, places: slice) -> list[Values | BadRow]:
        return list(self.rows[places])


def _times(row: TableRow) -> Times:
    """Return when the clip of a row begins and ends; add a violation for each other word."""
    times = []
    for name in TIME_KEYS:
        cell = row.cells.get(name, "").strip()
        time_s = number_of_cell(cell)
        if cell and time_s is None:
            row.add(name, f"{cell!r} is not a number of seconds")
        elif time_s is not None and time_s < 0:
            row.add(name, f"{cell} is before the film begins")
        times.append(time_s)
    start_s, end_s = times
    if start_s is not None and end_s is not None and end_s <= start_s:
        row.add("end_s", f"{end_s:g} is not after the start, {start_s:g}")
    return start_s, end_s


def _numbers(row: TableRow, cells: Mapping[str, str]) -> Values | BadRow:
    """Return the numbers of a row, or why there are none; add a violation for each word."""
    empty = []
    values = []
    for name, cell in cells.items():
        number = number_of_cell(cell)
        if not cell:
            empty.append(name)
        elif number is None:
            row.add(name, f"{row[name]!r} is not a number")
        else:
            values.append(number)
    if empty:
        return BadRow(f"no number in the column {few(empty, 3)}")
    return np.array(values)
