"""Spreadsheets for tests, written by XlsxWriter."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

Rows = Sequence[Sequence[Any]]
DAY_S = 86_400
# A formula with each error.
ERRORS = {"#N/A": "=NA()", "#DIV/0!": "=1/0"}


def write_workbook(
    path: Path,
    sheets: Mapping[str, Rows],
    *,
    merged: Sequence[str] = (),
    hidden: Sequence[str] = (),
) -> Path:
    """Write sheets; `merged` are ranges such as A2:A4 of the first sheet.

    None is an empty cell; "#N/A" and "#DIV/0!" are errors of formulas. A timedelta becomes a cell
    with the format of a duration.
    """
    import xlsxwriter

    book = xlsxwriter.Workbook(str(path))
    duration = book.add_format({"num_format": "[h]:mm:ss.000"})
    day = book.add_format({"num_format": "yyyy-mm-dd"})
    for number, (name, rows) in enumerate(sheets.items()):
        sheet = book.add_worksheet(name)
        for row, cells in enumerate(rows):
            for column, value in enumerate(cells):
                if isinstance(value, timedelta):
                    n_days = value.total_seconds() / DAY_S
                    sheet.write_number(row, column, n_days, duration)
                elif isinstance(value, date | datetime):
                    sheet.write_datetime(row, column, value, day)
                elif value in ("#N/A", "#DIV/0!"):
                    sheet.write_formula(row, column, ERRORS[value], None, value)
                elif isinstance(value, str):
                    sheet.write_string(row, column, value)
                elif value is not None:
                    sheet.write(row, column, value)
        if number == 0:
            for cells_merged in merged:
                first = cells_merged.split(":")[0]
                column = ord(first[0]) - ord("A")
                sheet.merge_range(cells_merged, rows[int(first[1:]) - 1][column])
        if name in hidden:
            sheet.hide()
    book.close()
    return path
