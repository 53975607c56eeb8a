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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
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


@dataclass
class _Outline:
    """What the XML of a sheet has beside the values of its cells.

    Attributes:
        errors: The texts of formulas with an error.
        without_value: The cells with a formula that has no value.
        last_text: The last row of each column with cells that are formatted as text.
        time_formats: The format of each cell that shows a time.
    """

    errors: dict[Position, str] = field(default_factory=dict)
    without_value: list[Position] = field(default_factory=list)
    last_text: dict[int, int] = field(default_factory=dict)
    time_formats: dict[Position, str] = field(default_factory=dict)


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
    sheets = []
    with _errors_of(calamine, path):
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
        raise FixUsage(problem, where=str(path), hint=f"--sheet with one of {listed}")
    with_data = [sheet for sheet in sheets if name or any(map(any, sheet.rows))]
    if len(with_data) == 1:
        return with_data[0]
    if with_data and likely is not None:
        return _likely_one(with_data, likely)
    raise FixUsage(
        f"expected one sheet with data that is shown, got {len(with_data)}",
        where=str(path),
        hint=f"the sheets are {listed}; manifest import has --sheet, for another command save one"
        " sheet as CSV",
    )


@contextmanager
def _errors_of(calamine: Any, path: Path) -> Iterator[None]:
    """Raise an error for a file that cannot be read."""
    of_archive = (zipfile.BadZipFile, zlib.error, ElementTree.ParseError, EOFError)
    try:
        yield
    except BaseException as error:
        known = (calamine.CalamineError, *of_archive, LookupError, OSError, ValueError)
        # calamine panics on some damaged files; no module has the class.
        is_panic = type(error).__name__ in ("PanicException", "RuntimeError")
        if not is_panic and not isinstance(error, known):
            raise
        raise Corrupt(
            "this is no spreadsheet that can be read, or has a password:"
            f" {first_line(error)}",
            where=str(path),
        ) from error


def _likely_one(sheets: Sequence[Sheet], columns: Collection[str]) -> Sheet:
    """Return the sheet that has columns, or else the one with the most cells."""

    def likelihood(sheet: Sheet) -> tuple[bool, int]:
        header = sheet.rows[header_place(sheet.rows, columns)]
        names = {single_line(cell) for cell in header}
        n_cells = sum(sum(map(bool, cells)) for cells in sheet.rows)
        return names.issuperset(columns), n_cells

    meant = max(sheets, key=likelihood)
    others = [sheet.name for sheet in sheets if sheet is not meant]
    return replace(meant, others=others)


def header_place(rows: Sequence[Sequence[str]], required: Collection[str] = ()) -> int:
    """Return the place of the row with the names of the columns; a title has fewer cells."""
    places = []
    n_cells = Counter(sum(map(bool, cells)) for cells in rows)
    del n_cells[0], n_cells[1]
    # As many cells as most rows have, of which some may be empty.
    usual = max(n_cells, key=n_cells.__getitem__, default=0)
    for place, cells in enumerate(rows):
        names = [name for name in map(single_line, cells) if name]
        has_required = bool(required) and {*names}.issuperset(required)
        is_wide = len(names) > 1 and 3 * len(names) >= 2 * usual
        is_header = is_wide and not any(map(_NUMBER.fullmatch, names))
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
            hint="open the file in Excel or LibreOffice, which computes its formulas, and save it",
        )
    values = worksheet.to_python(skip_empty_area=False)
    texts = [[cell_text(value) for value in cells] for cells in values]
    # Two parts of a damaged file may not agree.
    n_columns = min(map(len, values), default=0)

    def is_inside(place: Position) -> bool:
        return place[0] < len(values) and place[1] < n_columns

    lengths = {}
    # Where other times of a column are shown as h:mm, or other times of the sheet as h:mm:ss with
    # seconds, those that are shown with :00 were typed so: a start and an end are of one form.
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
    return Sheet(worksheet.name, texts, outline.last_text)


def cell_text(value: Any) -> str:
    """Return the value of a cell as a CSV file has it.

    >>> cell_text(12.0), cell_text(0.5), cell_text(True), cell_text(datetime.time(0, 1, 10))
    ('12', '0.5', 'TRUE', '0:01:10')
    """
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    length = _length(value)
    return str(value) if length is None else _duration(length)


def _length(value: Any, *, is_time: bool = False) -> datetime.timedelta | None:
    """Return the time since midnight, or the duration, of a cell; None if it is no time."""
    if isinstance(value, datetime.timedelta):
        return value
    if isinstance(value, datetime.time):
        return datetime.datetime.combine(_DAY_0, value) - _DAY_0
    if is_time and isinstance(value, datetime.date) and str(value) < _TIMES_END:
        return datetime.datetime.fromisoformat(str(value)) - _DAY_0
    return None


def _duration(length: datetime.timedelta, *, has_seconds: bool = False) -> str:
    """Return a time as `h:mm:ss`, with milliseconds where it has them, or as `h:mm`.

    A time that may be meant as minutes and seconds is `h:mm`. Who types 0:03 for three seconds gets
    three minutes, which Excel shows as 0:03; 25:10 becomes 25 hours, shown as 25:10:00. Another
    program may show all times with seconds.
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
        problem = f"the file {verb} {human(n_bytes)}, expected at most {human(limit)}"
        raise Corrupt(problem, where=str(path))


def _outlines(path: Path) -> dict[str, _Outline]:
    """Return the outline of each sheet, by its name."""
    _refuse_large("has", path.stat().st_size, MAX_FILE, path)
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
        _refuse_large("unpacks to", size, MAX_ARCHIVE, path)
        relations = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
        target_of = {item.get("Id"): item.get("Target", "") for item in relations}
        book = ElementTree.fromstring(archive.read("xl/workbook.xml"))
        # calamine does not look at capitals either.
        member_of = {name.lower(): name for name in archive.namelist()}
        styles = member_of.get("xl/styles.xml")
        formats = {} if styles is None else _formats_of_xlsx(archive.read(styles))
        outlines = {}
        for sheet in book.iterfind(".//{*}sheet"):
            # The namespace of the relation is another one in strict files.
            ids = [value for key, value in sheet.items() if key.endswith("}id")]
            target = target_of.get(ids[0], "") if ids else ""
            inside = target[1:] if target.startswith("/") else f"xl/{target}"
            member = member_of.get(inside.lower())
            if member is not None:
                outline = _outline_of_xlsx(archive, member, formats, path)
                outlines[sheet.get("name", "")] = outline
        return outlines


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
                        f"the sheet has more than the {MAX_ROWS:,} rows that a sheet can have",
                        where=str(path),
                    )
            elif event == "end" and tag == "c":
                name = element.get("r")
                row, column = (row, column + 1) if name is None else _position(name)
                place = row, column
                # A cell that only has a format is empty.
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
                # The value of kind `str` may be the empty text.
                has_formula = element.find("{*}f") is not None
                if has_formula and not value and kind != "str":
                    outline.without_value.append(place)
            elif event == "end" and tag == "row":
                element.clear()
                # Rows that were read take memory until their parent forgets them.
                parent.clear()
            elif event == "start" and tag == "sheetData":
                parent = element
    return outline


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
