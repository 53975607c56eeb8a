"""Read the sheets of .xlsx and .xlsm files: each cell as a CSV file would have it.

calamine reads the cells. It keeps a sheet as one rectangle, so that a single cell far away would
need all memory: the last cell is looked up in the XML of the file before. There are the errors of
formulas too, such as #N/A, which calamine takes for empty cells, and formulas without a value, as
some programs save them.
"""

import datetime
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from obygaze_features.core.console import human
from obygaze_features.core.errors import Corrupt, FixInput, FixUsage, first_line, near
from obygaze_features.core.file_names import single_line
from obygaze_features.core.files import READ_SPREADSHEETS, require_file
from obygaze_features.core.lazy import need
from obygaze_features.core.shell import shell_word

EXTRA = "tables"
# Of the file, and of what is in its archive.
MAX_FILE = 1 << 28
MAX_ARCHIVE = 1 << 30
# The most cells of the rectangle that a sheet fills.
MAX_CELLS = 10_000_000
# Of a sheet, in Excel and LibreOffice.
MAX_ROWS = 1 << 20
_MINUTE = datetime.timedelta(minutes=1)
_DAY = datetime.timedelta(days=1)
# calamine returns a time of a day or more as a date of the days after this one. Sheets count
# 29 February 1900, which no calendar has, so that only the times of January are certain.
_DAY_0 = datetime.datetime(1899, 12, 31)
_TIMES_END = "1900-02"
_TEXT = "@"
# The formats of times and of text that a file need not spell out.
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
# What a format shows as it is, and what is in brackets: a language, a colour; not hours, as in [h].
_NO_CODE = re.compile(r'"[^"]*"|\\.|\[(?![hms]+\])[^\]]*\]', re.IGNORECASE)
# A format of times has hours or seconds, and no day or year.
_OF_TIMES = re.compile(r"[^dy]*[hs][^dy]*")
# What a row of data has, and a row with the names of columns does not have.
_NUMBER = re.compile(r"[0-9][0-9.,:]*")
_CELL_NAME = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")

# The row and the column of a cell, from 0.
Position = tuple[int, int]


@dataclass(frozen=True)
class Sheet:
    """The texts of a sheet from its first row and column on.

    `last_text` has the last row, from 0, of each column that has cells formatted as text. `others`
    are the other sheets with data, where this one was assumed to be meant.
    """

    name: str
    rows: Sequence[Sequence[str]]
    last_text: Mapping[int, int]
    others: Sequence[str] = ()

    @property
    def filled_rows(self) -> list[int]:
        """The rows that are not empty, from 0."""
        return [index for index, cells in enumerate(self.rows) if any(cells)]


class _Outline(NamedTuple):
    """The last cell of a sheet, and the cells with the error of a formula, with its text.

    `without_value` has the cells with a formula that has no value. `last_text` has the last row of
    each column with cells formatted as text, `time_formats` the format of each cell that shows a
    time.
    """

    last: Position
    errors: dict[Position, str]
    without_value: list[Position]
    last_text: dict[int, int]
    time_formats: dict[Position, str]


def cell_name(row: int, column: int) -> str:
    """Return the name of a cell; row and column are counted from 0.

    >>> cell_name(4, 27)
    'AB5'
    """
    letters = ""
    rest = column + 1
    while rest:
        rest, letter = divmod(rest - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return f"{letters}{row + 1}"


def read_sheet(
    path: Path, name: str = "", *, likely: Collection[str] | None = None
) -> Sheet:
    """Return a sheet of a spreadsheet; without a name, the only visible one that has data.

    Args:
        path: The file.
        name: The name of the sheet.
        likely: The columns of the sheet that is meant if several have data. Without them, several
            are an error.
    """
    require_file(path)
    if path.suffix.lower() not in READ_SPREADSHEETS:
        raise FixInput(
            f"{path.suffix} files are not read, only {', '.join(READ_SPREADSHEETS)} and CSV",
            where=str(path),
        )
    calamine = need("python_calamine", EXTRA, f"reading {path.suffix} files")
    outlines = _outlines(path)
    with (
        _errors_of(calamine, path),
        calamine.CalamineWorkbook.from_path(str(path)) as workbook,
    ):
        worksheets = [
            sheet
            for sheet in workbook.sheets_metadata
            if sheet.typ == calamine.SheetTypeEnum.WorkSheet
        ]
        names = [sheet.name for sheet in worksheets]
        if name:
            if name not in names:
                raise FixUsage(
                    f"no sheet {name!r}{near(name, names)}",
                    where=str(path),
                    hint=f"--sheet with one of {', '.join(map(shell_word, names))}",
                )
            return _sheet(workbook.get_sheet_by_name(name), outlines, path)
        visible = calamine.SheetVisibleEnum.Visible
        sheets = [
            _sheet(workbook.get_sheet_by_name(sheet.name), outlines, path)
            for sheet in worksheets
            if sheet.visible == visible
        ]
    with_data = [sheet for sheet in sheets if sheet.filled_rows]
    if len(with_data) < 2 or likely is None:
        return _only_one(with_data, names, path)
    return _likely_one(with_data, likely)


@contextmanager
def _errors_of(calamine: Any, path: Path) -> Iterator[None]:
    """Raise an error for a file that calamine cannot read."""
    try:
        yield
    except (calamine.CalamineError, OSError) as error:
        raise _unreadable(path, error) from error
    except BaseException as error:
        # It panics on some damaged files; no module has the class.
        if type(error).__name__ != "PanicException":
            raise
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: BaseException) -> Corrupt:
    return Corrupt(
        f"this is no spreadsheet that can be read, or has a password: {first_line(error)}",
        where=str(path),
    )


def _refuse_large(last_row: int, last_column: int, path: Path) -> None:
    """Raise an error for a sheet that would need too much memory."""
    n_cells = (last_row + 1) * (last_column + 1)
    if n_cells > MAX_CELLS:
        last = cell_name(last_row, last_column)
        raise Corrupt(
            f"the sheet has cells up to {last}, expected at most {MAX_CELLS:,} cells",
            where=str(path),
        )


def _likely_one(sheets: Sequence[Sheet], columns: Collection[str]) -> Sheet:
    """Return the sheet that has columns, or else the one with the most cells."""

    def likelihood(sheet: Sheet) -> tuple[bool, int]:
        header = sheet.rows[header_place(sheet.rows, columns)]
        names = {single_line(cell) for cell in header}
        n_cells = sum(bool(cell) for cells in sheet.rows for cell in cells)
        return names.issuperset(columns), n_cells

    meant = max(sheets, key=likelihood)
    others = [sheet.name for sheet in sheets if sheet is not meant]
    return replace(meant, others=others)


def _only_one(with_data: Sequence[Sheet], names: Sequence[str], path: Path) -> Sheet:
    """Return the only sheet with data; an error names several."""
    if len(with_data) == 1:
        return with_data[0]
    if not with_data:
        raise FixInput(
            "no sheet that is shown has data",
            where=str(path),
            hint=f"the sheets are {', '.join(map(repr, names))}",
        )
    with_data_shown = ", ".join(repr(sheet.name) for sheet in with_data)
    raise FixUsage(
        f"{len(with_data)} sheets have data: {with_data_shown}",
        where=str(path),
        hint=f"manifest import has --sheet {shell_word(with_data[0].name)}; for"
        " another command save one sheet as CSV",
    )


def header_place(rows: Sequence[Sequence[str]], required: Collection[str] = ()) -> int:
    """Return the place of the row with the names of the columns; a title has fewer cells."""
    places = []
    n_cells = Counter(sum(map(bool, cells)) for cells in rows)
    del n_cells[0], n_cells[1]
    # As many cells as most rows have, of which some may be empty.
    usual = max(n_cells, key=n_cells.__getitem__, default=0)
    for place, cells in enumerate(rows):
        names = {single_line(cell) for cell in cells} - {""}
        has_required = bool(required) and names.issuperset(required)
        is_wide = len(names) > 1 and 3 * len(names) >= 2 * usual
        is_header = is_wide and not any(map(_NUMBER.fullmatch, names))
        has_names = (is_header, len(names) > 1, len(names) > 0)
        places.append((has_required, *has_names, -place))
    return -max(places, default=(False, False, False, False, 0))[-1]


def header_index(
    sheet: Sheet, path: Path, header_row: int | None, required: Collection[str]
) -> int:
    """Return the row with the names of the columns, from 0.

    Args:
        sheet: The sheet, which is not empty.
        path: The file, for the error.
        header_row: The number of the row, as a spreadsheet program shows it.
        required: The columns that are looked for where no number is given.
    """
    filled = sheet.filled_rows
    if header_row is None:
        return header_place(sheet.rows, required)
    if header_row - 1 not in filled:
        raise FixUsage(
            f"row {header_row} of the sheet {sheet.name!r} is empty",
            where=str(path),
            hint=f"header_row = {filled[0] + 1} in a file for --mapping, or another row with names",
        )
    return header_row - 1


def _sheet(worksheet: Any, outlines: Mapping[str, _Outline], path: Path) -> Sheet:
    """Return the texts of a worksheet of calamine."""
    outline = outlines.get(worksheet.name)
    if outline is not None and outline.without_value:
        cell = cell_name(*outline.without_value[0])
        raise FixInput(
            f"the formula in {cell} of the sheet {worksheet.name!r} has no value",
            where=str(path),
            hint="open the file in Excel or LibreOffice, which computes its formulas, and save it",
        )
    rows = worksheet.to_python(skip_empty_area=False)
    time_formats = {} if outline is None else outline.time_formats
    # Where other times of a column are shown as h:mm, or other times of the sheet as h:mm:ss with
    # seconds, those that are shown with :00 were typed so: a start and an end are of one form.
    with_typed_seconds = set()
    for row, cells in enumerate(rows):
        for column, value in enumerate(cells):
            form = time_formats.get((row, column), "")
            length = _length(value, form)
            if length is None or "h" not in form:
                continue
            if "s" not in form:
                with_typed_seconds.add(column)
            elif length % _MINUTE:
                with_typed_seconds.update(range(len(cells)))
    texts = []
    for row, cells in enumerate(rows):
        of_row = []
        for column, value in enumerate(cells):
            form = time_formats.get((row, column), "")
            text = cell_text(
                value, form, has_typed_seconds=column in with_typed_seconds
            )
            of_row.append(text)
        texts.append(of_row)
    last_text: Mapping[int, int] = {}
    if outline is not None:
        last_text = outline.last_text
        for (row, column), error in outline.errors.items():
            # Two parts of a damaged file may not agree.
            if row < len(texts) and column < len(texts[row]):
                texts[row][column] = error
    return Sheet(worksheet.name, texts, last_text)


def cell_text(value: Any, form: str = "", *, has_typed_seconds: bool = False) -> str:
    """Return the value of a cell as a CSV file has it.

    A time that may be meant as minutes and seconds is `h:mm`. Who types 0:03 for three seconds gets
    three minutes, which Excel shows as 0:03; 25:10 becomes 25 hours, shown as 25:10:00. Another
    program may show all times with seconds.

    Args:
        value: The value that calamine returns.
        form: The format of the cell, if it is one of times.
        has_typed_seconds: Whether the seconds of a time of its column were typed.

    >>> cell_text(12.0), cell_text(0.5), cell_text(True), cell_text(datetime.time(0, 1, 10))
    ('12', '0.5', 'TRUE', '0:01:10')
    """
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    length = _length(value, form)
    if length is None:
        return str(value)
    is_exact = has_typed_seconds and length < _DAY
    has_seconds = "s" in form and ("h" not in form or is_exact)
    return _duration(length, has_seconds=has_seconds or bool(length % _MINUTE))


def _length(value: Any, form: str) -> datetime.timedelta | None:
    """Return the time since midnight, or the duration, of a cell; None if it is no time."""
    if isinstance(value, datetime.timedelta):
        return value
    if isinstance(value, datetime.time):
        return datetime.datetime.combine(_DAY_0, value) - _DAY_0
    if isinstance(value, datetime.date) and form and str(value) < _TIMES_END:
        return datetime.datetime.fromisoformat(str(value)) - _DAY_0
    return None


def _duration(length: datetime.timedelta, *, has_seconds: bool) -> str:
    """Return a time as `h:mm:ss`, with milliseconds where it has them, or as `h:mm`."""
    n_ms = round(length / datetime.timedelta(milliseconds=1))
    sign = "-" if n_ms < 0 else ""
    n_seconds, ms = divmod(abs(n_ms), 1000)
    n_minutes, seconds = divmod(n_seconds, 60)
    hours, minutes = divmod(n_minutes, 60)
    fraction = f".{ms:03d}" if ms else ""
    if not has_seconds:
        return f"{sign}{hours}:{minutes:02d}"
    return f"{sign}{hours}:{minutes:02d}:{seconds:02d}{fraction}"


def _outlines(path: Path) -> dict[str, _Outline]:
    """Return the outline of each sheet, by its name."""
    n_bytes = path.stat().st_size
    if n_bytes > MAX_FILE:
        raise Corrupt(
            f"the file has {human(n_bytes)}, expected at most {human(MAX_FILE)}",
            where=str(path),
        )
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
            if size > MAX_ARCHIVE:
                limit = human(MAX_ARCHIVE)
                problem = f"the file unpacks to {human(size)}, expected at most {limit}"
                raise Corrupt(problem, where=str(path))
            return _outlines_of_xlsx(archive, path)
    except (
        zipfile.BadZipFile,
        zlib.error,
        ElementTree.ParseError,
        EOFError,
        LookupError,
        OSError,
        RuntimeError,
        ValueError,
    ) as error:
        raise _unreadable(path, error) from error


def _outlines_of_xlsx(archive: zipfile.ZipFile, path: Path) -> dict[str, _Outline]:
    relations = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
    target_of = {item.get("Id"): item.get("Target", "") for item in relations}
    book = ElementTree.fromstring(archive.read("xl/workbook.xml"))
    # calamine does not look at capitals either.
    member_of = {name.lower(): name for name in archive.namelist()}
    styles = member_of.get("xl/styles.xml")
    formats = {} if styles is None else _formats_of_xlsx(archive.read(styles))
    outlines = {}
    for sheet in book.iterfind(".//{*}sheet"):
        target = target_of.get(_relation_of(sheet), "")
        name = target.lstrip("/") if target.startswith("/") else f"xl/{target}"
        member = member_of.get(name.lower())
        if member is not None:
            outline = _outline_of_xlsx(archive, member, formats, path)
            outlines[sheet.get("name", "")] = outline
    return outlines


def _relation_of(sheet: ElementTree.Element) -> str:
    """Return the id of the relation of a sheet, whose namespace is another in strict files."""
    ids = [value for key, value in sheet.items() if key.endswith("}id")]
    return ids[0] if ids else ""


def _formats_of_xlsx(styles: bytes) -> dict[str, str]:
    """Return the format of each style of a cell, in small letters and without its texts."""
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
    """Return the outline of a sheet; raise an error where it becomes too large.

    A cell without a name is the one after the cell before it; a row without a number likewise.
    """
    errors = {}
    without_value = []
    last_text: dict[int, int] = {}
    time_formats = {}
    last_row = 0
    last_column = 0
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
                        f"the sheet has more than the {MAX_ROWS:,} rows that a sheet can have",
                        where=str(path),
                    )
            elif event == "end" and tag == "c":
                name = element.get("r")
                if name is None:
                    column += 1
                else:
                    row, column = _position(name)
                # A cell that only has a format is empty.
                if len(element):
                    last_row = max(last_row, row)
                    last_column = max(last_column, column)
                    _refuse_large(last_row, last_column, path)
                    form = formats.get(element.get("s", "0"), "")
                    if form == _TEXT:
                        last_text[column] = row
                    elif _OF_TIMES.fullmatch(form):
                        time_formats[row, column] = form
                kind = element.get("t")
                value = element.findtext("{*}v", "")
                if kind == "e":
                    errors[row, column] = value
                # The value of kind `str` may be the empty text.
                has_formula = element.find("{*}f") is not None
                if has_formula and not value and kind != "str":
                    without_value.append((row, column))
            elif event == "end" and tag == "row":
                element.clear()
                # Rows that were read take memory until their parent forgets them.
                parent.clear()
            elif event == "start" and tag == "sheetData":
                parent = element
    last = (last_row, last_column)
    return _Outline(last, errors, without_value, last_text, time_formats)


def _position(name: str) -> Position:
    """Return the row and the column of a cell, from 0."""
    match = _CELL_NAME.fullmatch(name.upper())
    if match is None:
        raise ValueError(f"a cell has the name {name!r}")
    letters, digits = match.groups()
    n_columns = 0
    for letter in letters:
        n_columns = 26 * n_columns + ord(letter) - ord("A") + 1
    return int(digits) - 1, n_columns - 1
