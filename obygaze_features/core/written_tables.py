"""Write a table as CSV or as a spreadsheet, by the extension of the file.

Equal tables give equal bytes, so that a repeated command finds a file with the same contents.
"""

from __future__ import annotations

import datetime
import io
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import (
    csv_bytes,
    json_values,
    write_new,
)
from obygaze_features.core.lazy import import_optional

# Columns of a table: the name, and a value for each row or None.
Columns = Mapping[str, Sequence[Any]]

SUFFIXES = (".csv", ".xlsx")

# Texts that become numbers. A longer whole number may be an id, and would lose its last digits.
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,9}")
_DECIMAL = re.compile(r"-?[0-9]+\.[0-9]*[1-9]")
MAX_SHEET_ROWS = 1_048_576
MAX_SHEET_COLUMNS = 16_384
MAX_CELL_LETTERS = 32_767
# The creation time of a workbook is fixed, so that equal tables have equal bytes.
CREATED = datetime.datetime(2000, 1, 1)


class Listing:
    """A result that is also a table; `table` returns its columns."""

    def table(self) -> Columns:
        """Return the columns of the table."""
        raise NotImplementedError

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.table().values()), ()))

    def write(
        self,
        output: str | Path | None = None,
        *,
        force: bool = False,
    ) -> list[Path]:
        """Write the table to a file, and return the files that were written.

        Args:
            output: Write the table to this file: .csv or .xlsx.
            force: Replace the output if it exists.
        """
        if output is None:
            return []
        return [write_table(output, self.table(), force=force)]


def write_table(
    path: str | os.PathLike[str],
    columns: Columns,
    *,
    force: bool = False,
) -> Path:
    """Write a table; the extension of the file selects the format.

    Args:
        path: The file: .csv or .xlsx.
        columns: The values of each column; all columns have the same number of values.
        force: Replace an existing file with other contents.
    """
    path = Path(path)
    check_table_name(path)
    plain = {name: json_values(list(values)) for name, values in columns.items()}
    if path.suffix.lower() == ".csv":
        rows = zip(*plain.values(), strict=True)
        data = csv_bytes(plain, rows)
    else:
        data = _xlsx(plain, path)
    write_new(path, data, force=force)
    return path


def check_table_name(path: str | os.PathLike[str]) -> None:
    """Raise an error for a file name without the extension of a table; called before long work."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        stem = path.name.removesuffix(path.suffix)
        raise FixUsage(
            f"expected {' or '.join(SUFFIXES)}, got {path.suffix or 'no extension'!r}",
            where=str(path),
            hint=f"use {' or '.join(f'{stem}{known}' for known in SUFFIXES)}",
        )
    if suffix == ".xlsx":
        import_optional("xlsxwriter", "tables", "writing .xlsx files")


def check_output(output: str | os.PathLike[str] | None) -> None:
    """Raise an error if -o names a file without the extension of a table."""
    if output is not None:
        check_table_name(output)


def _xlsx(columns: Columns, path: Path) -> bytes:
    """Return a workbook of one sheet, in which text that looks like a formula or date stays text.

    Cells with text are formatted as text, so that editing and reading keep the text. A column whose
    texts are all numbers becomes a column of numbers, with which a spreadsheet program can compute.
    The header is bold and stays visible.
    """
    xlsxwriter = import_optional("xlsxwriter", "tables", "writing .xlsx files")
    _check_sheet(columns, path)
    stream = io.BytesIO()
    book = xlsxwriter.Workbook(stream, {"in_memory": True})
    book.set_properties({"created": CREATED})
    bold = book.add_format({"bold": True})
    as_text = book.add_format({"num_format": "@"})
    sheet = book.add_worksheet("table")
    sheet._xml_number_element = partial(_write_exact_number, sheet)
    sheet.freeze_panes(1, 0)
    for number, (name, values) in enumerate(columns.items()):
        sheet.write_string(0, number, name, bold)
        for row, value in enumerate(_as_numbers(values), start=1):
            if isinstance(value, bool):
                sheet.write_boolean(row, number, value)
            elif isinstance(value, int | float):
                sheet.write_number(row, number, value)
            elif value is not None and value != "":
                sheet.write_string(row, number, str(value), as_text)
    sheet.autofit()
    book.close()
    return stream.getvalue()


def _as_numbers(values: Sequence[Any]) -> Sequence[Any]:
    """Return the values as numbers, or unchanged if some value is not the text of a number."""
    numbers: list[Any] = []
    for value in values:
        number = value
        if value not in (None, ""):
            number = _parse_number(value) if isinstance(value, str) else None
            if number is None:
                return values
        numbers.append(number)
    return numbers


def _parse_number(text: str) -> float | None:
    """Return the number that is written as exactly this text, or None."""
    if _WHOLE.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text) and repr(float(text)) == text:
        return float(text)
    return None


def _write_exact_number(sheet: Any, number: float, attributes: Any = ()) -> None:
    """Write a cell with all 17 digits of a number; XlsxWriter itself writes 16."""
    cell = "".join(f' {name}="{value}"' for name, value in attributes)
    exact = repr(float(number)) if isinstance(number, float) else str(number)
    sheet.fh.write(f"<c{cell}><v>{exact}</v></c>")


def _check_sheet(columns: Columns, path: Path) -> None:
    """Raise an error for a table that is too large for a spreadsheet."""
    cells = [value for values in columns.values() for value in values]
    letters = [len(value) for value in cells if isinstance(value, str)]
    rows = [len(values) for values in columns.values()]
    for number, most, noun in (
        (1 + max(rows, default=0), MAX_SHEET_ROWS, "rows"),
        (len(columns), MAX_SHEET_COLUMNS, "columns"),
        (max(letters, default=0), MAX_CELL_LETTERS, "letters in a cell"),
    ):
        if number > most:
            raise FixUsage(
                f"a spreadsheet has at most {most:,} {noun}, got {number:,}",
                where=str(path),
                hint=f"use {path.with_suffix('.csv').name}",
            )
