"""Read the sheets of .xlsx and .xlsm files: each cell with the text that a CSV file would have.

A cell that is merged over several rows has its value in each of them.

calamine reads the cells. It allocates a sheet as one rectangle, so that a single cell far away
would need all memory. Therefore the XML of the file is read first. The XML states the last cell,
merged cells, the errors of formulas such as #N/A, which calamine reads as empty cells, and the
formulas without a value, which some programs write.
"""

import datetime
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from obygaze_features.core.console import human
from obygaze_features.core.errors import Corrupt, FixInput, FixUsage, first_line, near
from obygaze_features.core.file_names import single_line
from obygaze_features.core.files import READ_SPREADSHEETS, require_file
from obygaze_features.core.lazy import import_optional
from obygaze_features.core.shell import shell_word

EXTRA = "tables"
# Bytes of the file, and of its unpacked archive.
MAX_FILE = 1 << 28
MAX_ARCHIVE = 1 << 30
# The most cells of the rectangle that a sheet fills.
MAX_CELLS = 10_000_000
# The limit of Excel and LibreOffice.
MAX_ROWS = 1 << 20
_MINUTE = datetime.timedelta(minutes=1)
_DAY = datetime.timedelta(days=1)
# calamine returns a time of a day or more as a date, counted from this day. Spreadsheets count a
# 29 February 1900, which did not exist, so that only times in January are certain.
_DAY_0 = datetime.datetime(1899, 12, 31)
_TIMES_END = "1900-02"
_TEXT = "@"
# Built-in formats of times and text, which files refer to by number.
_KNOWN_FORMATS = {
    18: "h:mm am/pm",
    19: "h:mm:ss am/pm",
    20: "h:mm",
    21: "h:mm:ss",
    45: "mm:ss",
    46: "[h]:mm:ss",
    47: "mmss.0",
    49: _TEXT,
}
# Literal text of a format, and brackets with a language or colour; not with hours, as in [h].
_NO_CODE = re.compile(r'"[^"]*"|\\.|\[(?![hms]+\])[^\]]*\]', re.IGNORECASE)
# A format of times has hours or seconds, and no day or year.
_OF_TIMES = re.compile(r"[^dy]*[hs][^dy]*")
# Cells of data. A header has such names only if all of its columns have names.
_NUMBER = re.compile(r"[0-9][0-9.,:]*")
_CELL_NAME = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")

# The row and the column of a cell, from 0.
Position = tuple[int, int]


@dataclass(frozen=True)
class Sheet:
    """The texts of a sheet, starting at its first row and column.

    `last_text` maps a column to the last row in which its cell is formatted as text; columns and
    rows are counted from 0. `others` are the names of other sheets with data, if this sheet was
    assumed. `alike` are the names of this sheet and of those that share most of its columns, in the
    order of the file, if there are any.
    """

    name: str
    rows: Sequence[Sequence[str]]
    last_text: Mapping[int, int]
    others: Sequence[str] = ()
    alike: Sequence[str] = ()


@dataclass
class _Outline:
    """Facts of the XML of a sheet that calamine does not return.

    Attributes:
        errors: Text of the error, such as #N/A, for each cell with an error.
        without_value: Cells with a formula whose value is not in the file.
        last_text: Last row with a cell formatted as text, for each column with such cells.
        time_formats: Format of each cell that shows a time.
        merged: First cell and last row of each group of merged cells.
    """

    errors: dict[Position, str] = field(default_factory=dict)
    without_value: list[Position] = field(default_factory=list)
    last_text: dict[int, int] = field(default_factory=dict)
    time_formats: dict[Position, str] = field(default_factory=dict)
    merged: list[tuple[Position, int]] = field(default_factory=list)


def read_sheet(
    path: Path, name: str = "", *, likely: Collection[str] | None = None
) -> Sheet:
    """Return a sheet of a spreadsheet. The default is the only visible sheet with data.

    Args:
        path: The file.
        name: The name of the sheet. Empty: the only visible sheet with data.
        likely: Columns that identify the sheet if several contain data. None: several sheets with
            data are an error.
    """
    require_file(path)
    if path.suffix.lower() not in READ_SPREADSHEETS:
        raise FixInput(
            f"expected {', '.join(READ_SPREADSHEETS)} or CSV, got {path.suffix}",
            where=str(path),
        )
    calamine = import_optional("python_calamine", EXTRA, f"reading {path.suffix} files")
    sheets = []
    with _convert_errors(calamine, path):
        outlines = _outlines(path)
        with calamine.CalamineWorkbook.from_path(str(path)) as workbook:
            names = []
            for sheet in workbook.sheets_metadata:
                if sheet.typ == calamine.SheetTypeEnum.WorkSheet:
                    names.append(sheet.name)
                    is_shown = sheet.visible == calamine.SheetVisibleEnum.Visible
                    if name == sheet.name or (not name and is_shown):
                        cells = workbook.get_sheet_by_name(sheet.name)
                        outline = outlines.get(sheet.name, _Outline())
                        sheets.append(_sheet(cells, outline, path))
    listed = ", ".join(map(shell_word, names))
    if name and not sheets:
        problem = f"no sheet {name!r}{near(name, names)}"
        raise FixUsage(
            problem, where=str(path), hint=f"use --sheet with one of {listed}"
        )
    with_data = [sheet for sheet in sheets if name or any(map(any, sheet.rows))]
    if len(with_data) == 1:
        return with_data[0]
    if with_data and likely is not None:
        return _likely_one(with_data, likely)
    raise FixUsage(
        f"expected one visible sheet with data, got {len(with_data)}",
        where=str(path),
        hint=f"use manifest import --sheet with one of {listed}, or save one sheet as CSV",
    )


@contextmanager
def _convert_errors(calamine: Any, path: Path) -> Iterator[None]:
    """Convert errors of a file that cannot be read."""
    of_archive = (zipfile.BadZipFile, zlib.error, ElementTree.ParseError, EOFError)
    try:
        yield
    except BaseException as error:
        known = (calamine.CalamineError, *of_archive, LookupError, OSError, ValueError)
        # calamine panics for some damaged files; no module exports the class.
        is_panic = type(error).__name__ in ("PanicException", "RuntimeError")
        if not is_panic and not isinstance(error, known):
            raise
        raise Corrupt(
            f"the spreadsheet cannot be read, or has a password: {first_line(error)}",
            where=str(path),
        ) from error


def _likely_one(sheets: Sequence[Sheet], columns: Collection[str]) -> Sheet:
    """Return the sheet with these columns, or else the sheet with the most cells."""

    def header(sheet: Sheet) -> set[str]:
        return {*map(single_line, sheet.rows[header_place(sheet.rows, columns)])}

    def names(sheet: Sheet) -> set[str]:
        return {name.casefold() for name in header(sheet)}

    def likelihood(sheet: Sheet) -> tuple[bool, int]:
        n_cells = sum(sum(map(bool, cells)) for cells in sheet.rows)
        return header(sheet).issuperset(columns), n_cells

    meant = max(sheets, key=likelihood)
    required = {column.casefold() for column in header(meant).intersection(columns)}
    alike = []
    for sheet in sheets:
        in_both = names(sheet) & names(meant)
        # One person may have added a column of remarks.
        shares_most = 2 * len(in_both) > len(names(sheet) | names(meant))
        if shares_most and required <= in_both:
            alike.append(sheet.name)
    others = [sheet.name for sheet in sheets if sheet is not meant]
    return replace(meant, others=others, alike=alike if len(alike) > 1 else ())


def header_place(rows: Sequence[Sequence[str]], required: Collection[str] = ()) -> int:
    """Return the index of the row that is most likely the header; a title has fewer cells."""
    places = []
    n_cells = Counter(sum(map(bool, cells)) for cells in rows)
    del n_cells[0], n_cells[1]
    # The number of filled cells of most rows.
    usual = max(n_cells, key=n_cells.__getitem__, default=0)
    for place, cells in enumerate(rows):
        names = [name for name in map(single_line, cells) if name]
        has_required = bool(required) and {*names}.issuperset(required)
        is_wide = len(names) > 1 and 3 * len(names) >= 2 * usual
        # A column may be called 1990; in a title with a date, most cells are empty.
        is_data = len(names) < usual and any(map(_NUMBER.fullmatch, names))
        is_header = is_wide and not is_data
        has_names = (is_header, len(names) > 1, len(names) > 0)
        places.append((has_required, *has_names, -place))
    return -max(places, default=(False, False, False, False, 0))[-1]


def _sheet(worksheet: Any, outline: _Outline, path: Path) -> Sheet:
    """Return the texts of a worksheet of calamine."""
    for row, column in outline.without_value:
        raise FixInput(
            f"the formula in row {row + 1} and column {column + 1} of the sheet"
            f" {worksheet.name!r} has no value",
            where=str(path),
            hint="open the file in Excel or LibreOffice, which computes formulas, and save it",
        )
    values = worksheet.to_python(skip_empty_area=False)
    texts = [[cell_text(value) for value in cells] for cells in values]
    # Parts of a damaged file may contradict each other.
    n_columns = min(map(len, values), default=0)

    def is_inside(place: Position) -> bool:
        return place[0] < len(values) and place[1] < n_columns

    lengths = {}
    # The :00 of a time such as 0:03:00 is kept if another time of the column is shown as h:mm, or
    # if another time of the sheet is shown as h:mm:ss and has seconds, because start and end have
    # the same form.
    typed_seconds = set()
    for place, form in outline.time_formats.items():
        if is_inside(place):
            length = _length(values[place[0]][place[1]], is_time=True)
            if length is None:
                continue
            lengths[place] = length
            if "h" in form and "s" not in form:
                typed_seconds.add(place[1])
            elif "h" in form and length % _MINUTE:
                typed_seconds.update(range(n_columns))
    for place, length in lengths.items():
        form = outline.time_formats[place]
        is_exact = place[1] in typed_seconds and length < _DAY
        has_seconds = "s" in form and ("h" not in form or is_exact)
        texts[place[0]][place[1]] = _duration(length, has_seconds=has_seconds)
    for place, error in outline.errors.items():
        if is_inside(place):
            texts[place[0]][place[1]] = error
    for (first, column), last in outline.merged:
        for row in range(first + 1, min(last + 1, len(values))):
            if column < n_columns:
                texts[row][column] = texts[first][column]
    return Sheet(worksheet.name, texts, outline.last_text)


def cell_text(value: Any, *, has_seconds: bool = False) -> str:
    """Return the value of a cell as text, as in a CSV file.

    With `has_seconds`, a time of whole minutes is `h:mm:ss`, as all other times.

    >>> cell_text(12.0), cell_text(0.5), cell_text(True), cell_text(datetime.time(0, 1, 10))
    ('12', '0.5', 'TRUE', '0:01:10')
    """
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    length = _length(value)
    if length is None:
        return str(value)
    return _duration(length, has_seconds=has_seconds)


def _length(value: Any, *, is_time: bool = False) -> datetime.timedelta | None:
    """Return the duration or time since midnight in a cell, or None."""
    if isinstance(value, datetime.timedelta):
        return value
    if isinstance(value, datetime.time):
        return datetime.datetime.combine(_DAY_0, value) - _DAY_0
    if is_time and isinstance(value, datetime.date) and str(value) < _TIMES_END:
        return datetime.datetime.fromisoformat(str(value)) - _DAY_0
    return None


def _duration(length: datetime.timedelta, *, has_seconds: bool = False) -> str:
    """Return a time as `h:mm:ss`, with milliseconds if it has any, or as `h:mm`.

    A whole number of minutes is `h:mm`, unless `has_seconds` is true, because it may mean minutes
    and seconds. If a user types 0:03 for three seconds, Excel stores three minutes and shows 0:03.
    If a user types 25:10, Excel stores 25 hours and 10 minutes and shows 25:10:00. Other programs
    may show all times with seconds.
    """
    n_ms = round(length / datetime.timedelta(milliseconds=1))
    sign = "-" if n_ms < 0 else ""
    n_minutes, ms = divmod(abs(n_ms), 60_000)
    clock = f"{sign}{n_minutes // 60}:{n_minutes % 60:02d}"
    if not has_seconds and not length % _MINUTE:
        return clock
    return clock + f":{ms / 1000:06.3f}".removesuffix(".000")


def _refuse_large(verb: str, n_bytes: int, limit: int, path: Path) -> None:
    """Raise an error for a file that would need too much memory."""
    if n_bytes > limit:
        raise Corrupt(
            f"the file {verb} {human(n_bytes)}, expected at most {human(limit)}",
            where=str(path),
        )


def _outlines(path: Path) -> dict[str, _Outline]:
    """Return the outline of each sheet, by name."""
    _refuse_large("has", path.stat().st_size, MAX_FILE, path)
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
        _refuse_large("unpacks to", size, MAX_ARCHIVE, path)
        relations = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
        target_of = {item.get("Id"): item.get("Target", "") for item in relations}
        book = ElementTree.fromstring(archive.read("xl/workbook.xml"))
        # Case is ignored, as in calamine.
        member_of = {name.lower(): name for name in archive.namelist()}
        styles = member_of.get("xl/styles.xml")
        formats = {} if styles is None else _formats_of_xlsx(archive.read(styles))
        outlines = {}
        for sheet in book.iterfind(".//{*}sheet"):
            # Strict files use a different namespace for the relation.
            ids = [value for key, value in sheet.items() if key.endswith("}id")]
            target = target_of.get(ids[0], "") if ids else ""
            inside = target[1:] if target.startswith("/") else f"xl/{target}"
            member = member_of.get(inside.lower())
            if member is not None:
                outline = _outline_of_xlsx(archive, member, formats, path)
                outlines[sheet.get("name", "")] = outline
        return outlines


def _formats_of_xlsx(styles: bytes) -> dict[str, str]:
    """Return the format of each cell style, in lower case and without literal text."""
    root = ElementTree.fromstring(styles)
    format_of = dict(_KNOWN_FORMATS)
    for item in root.iterfind("{*}numFmts/{*}numFmt"):
        code = _NO_CODE.sub("", item.get("formatCode", ""))
        format_of[int(item.get("numFmtId", 0))] = code.lower()
    formats = {}
    for style, item in enumerate(root.iterfind("{*}cellXfs/{*}xf")):
        formats[str(style)] = format_of.get(int(item.get("numFmtId", 0)), "")
    return formats


def _outline_of_xlsx(
    archive: zipfile.ZipFile, member: str, formats: Mapping[str, str], path: Path
) -> _Outline:
    """Return the outline of a sheet; raise an error if the sheet is too large.

    A cell without a name comes directly after the cell before it. A row without a number comes
    directly after the row before it.
    """
    outline = _Outline()
    n_rows = n_columns = 0
    row = column = -1
    parent = ElementTree.Element("sheetData")
    with archive.open(member) as stream:
        events = ElementTree.iterparse(stream, events=("start", "end"))
        for event, element in events:
            tag = element.tag.rpartition("}")[2]
            if event == "start" and tag == "row":
                row = int(element.get("r", row + 2)) - 1
                column = -1
                if row >= MAX_ROWS:
                    raise Corrupt(
                        f"the sheet has more rows than the limit of {MAX_ROWS:,}",
                        where=str(path),
                    )
            elif event == "end" and tag == "c":
                name = element.get("r")
                row, column = (row, column + 1) if name is None else _position(name)
                place = row, column
                # A cell with a format only is empty.
                if len(element):
                    n_rows = max(n_rows, row + 1)
                    n_columns = max(n_columns, column + 1)
                    if n_rows * n_columns > MAX_CELLS:
                        raise Corrupt(
                            f"the sheet has {n_rows:,} rows and {n_columns:,} columns, expected at"
                            f" most {MAX_CELLS:,} cells",
                            where=str(path),
                        )
                    form = formats.get(element.get("s", "0"), "")
                    if form == _TEXT:
                        outline.last_text[column] = row
                    elif _OF_TIMES.fullmatch(form):
                        outline.time_formats[place] = form
                kind = element.get("t")
                value = element.findtext("{*}v", "")
                if kind == "e":
                    outline.errors[place] = value
                # A value of type `str` may be the empty text.
                has_formula = element.find("{*}f") is not None
                if has_formula and not value and kind != "str":
                    outline.without_value.append(place)
            elif event == "end" and tag == "row":
                element.clear()
                # The parent keeps rows in memory after they were read.
                parent.clear()
            elif event == "end" and tag == "mergeCell":
                first, _, last = element.get("ref", "").partition(":")
                outline.merged.append((_position(first), _position(last or first)[0]))
            elif event == "start" and tag == "sheetData":
                parent = element
    return outline


def _position(name: str) -> Position:
    """Return the row and the column, counted from 0, of a cell with a name such as B3."""
    match = _CELL_NAME.fullmatch(name.upper())
    if match is None:
        raise ValueError(f"invalid cell name {name!r}")
    letters, digits = match.groups()
    n_columns = 0
    for letter in letters:
        n_columns = 26 * n_columns + ord(letter) - ord("A") + 1
    return int(digits) - 1, n_columns - 1
