"""Spreadsheets for tests: the same sheets as .xlsx (XlsxWriter) and as .ods (odfdo)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

Rows = Sequence[Sequence[Any]]
DAY_S = 86_400


def write_workbook(
    path: Path,
    sheets: Mapping[str, Rows],
    *,
    merged: Sequence[str] = (),
    hidden: Sequence[str] = (),
) -> Path:
    """Write sheets; `merged` are ranges such as A2:A4 of the first sheet.

    None is an empty cell. A timedelta becomes a cell with the format of a duration.
    """
    if path.suffix == ".ods":
        _write_ods(path, sheets, merged, hidden)
    else:
        _write_xlsx(path, sheets, merged, hidden)
    return path


def _write_xlsx(
    path: Path, sheets: Mapping[str, Rows], merged: Sequence[str], hidden: Sequence[str]
) -> None:
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


def _write_ods(
    path: Path, sheets: Mapping[str, Rows], merged: Sequence[str], hidden: Sequence[str]
) -> None:
    from odfdo import Cell, Document, Element, Row, Table

    document = Document("spreadsheet")
    document.body.clear()
    for number, (name, rows) in enumerate(sheets.items()):
        table = Table(name)
        for cells in rows:
            row = Row()
            for value in cells:
                row.append_cell(Cell() if value is None else Cell(value))
            table.append_row(row)
        if number == 0:
            for cells_merged in merged:
                table.set_span(cells_merged)
        if name in hidden:
            table.style = "hidden"
        document.body.append(table)
    style = Element.from_tag(
        '<style:style style:name="hidden" style:family="table">'
        '<style:table-properties table:display="false"/></style:style>'
    )
    document.insert_style(style, automatic=True)
    document.save(path)
