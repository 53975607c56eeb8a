"""Read tables in bounded memory: CSV files and spreadsheets; each violation has its line."""

import codecs
import csv
import io
import math
import re
import warnings
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from itertools import count as count_from
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from obygaze_features.core.console import count, human
from obygaze_features.core.errors import (
    Corrupt,
    FixInput,
    FixUsage,
    ObygazeWarning,
    near,
)
from obygaze_features.core.file_names import single_line
from obygaze_features.core.files import import_of_features, is_workbook, require_file
from obygaze_features.core.parquet_tables import is_parquet, read_parquet
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workbooks import (
    Sheet,
    header_index,
    header_place,
    read_sheet,
)

MAX_LINE = 1 << 20
MAX_FILE = 1 << 28
# The columns of names of files, which are as the disk has them, and of texts for models of words.
AS_WRITTEN = ("video", "video_name", "text")
# The lines among which that with the names of the columns is looked for.
MOST_TITLES = 50
DELIMITERS = (",", ";", "\t", "|")
SAVE_AS = "save the file as UTF-8 (a table of Excel: Save As, CSV UTF-8)"
# The line that Excel writes before the header, to say what separates the cells.
SEPARATOR_LINE = re.compile('"?sep=(?P<separator>[,;|\\t])"?', re.IGNORECASE)
# What files begin with that are no tables, though they may be named so.
NO_TABLES = {
    b"<": "HTML or XML",
    b"{": "JSON",
    b"%PDF": "a PDF",
    b"PK\x03\x04": "a zip archive, or a spreadsheet named as text",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"\xd0\xcf\x11\xe0": "an old Office file",
    b"PAR1": "parquet",
    b"\x93NUMPY": "an array of NumPy",
    b"\x89HDF": "HDF5",
    b"WEBVTT": "WebVTT",
}
# A file with marks in a film, which `manifest import` reads.
MARKS = ".eaf"
# Files of words alone.
SUBTITLES = (".srt", ".ass", ".vtt")
OF_WORDS = "the file has subtitles, what is said in a film"
USE_OF_WORDS = "obygaze extract words MANIFEST -b minilm --subtitles FOLDER"
# A word with a small letter with an accent: on a Mac, its byte is a capital or a sign. Or one that
# begins with a capital whose byte is a sign on a Mac and under DOS. Or an English apostrophe.
_OF_WINDOWS = re.compile(
    rb"[A-Za-z\xc0-\xff]{0,30}(?:[a-z][\xdf-\xf6\xf8-\xff]|[A-Z][\xdf-\xf6\xf8-\xff][a-z]"
    rb"|(?<![A-Za-z\x80-\xff])[\xc4\xc5\xc9\xdc][a-z]{2}"
    rb"|[a-z]\x92(?:[dmst]|ll|re|ve)(?![A-Za-z\x80-\xff]))"
    rb"[a-z\xdf-\xf6\xf8-\xff]{0,30}"
)
# Letters of a Mac and of Central Europe, bytes that are nothing, and words in another script.
_NOT_OF_WINDOWS = re.compile(
    rb"[\x00\x81\x83\x86-\x8b\x8d-\x90\x98-\x9b\x9d-\x9f]|[\xc0-\xff]{3}"
)
DECIMAL_NUMBER = re.compile(r"-?[0-9]+(,[0-9]+)?([eE][-+]?[0-9]+)?")
# Of a sheet, the cells that are numbers have points beside texts that have commas.
NUMBER_OF_SHEET = re.compile(r"-?[0-9]+([.,][0-9]+)?([eE][-+]?[0-9]+)?")
# 1,234 may be a thousand and more; 0,234 and 1234,500 have decimals.
MAYBE_THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2},[0-9]{3}")
# In a table with decimal commas, a point may part thousands.
_MAYBE_POINTS = re.compile(r"-?[1-9][0-9]{0,2}(\.[0-9]{3})+")
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class TableRow:
    """The cells of one row by column, its line, and where violations of its values are added."""

    line: int
    cells: Mapping[str, str]
    violations: Violations

    def __getitem__(self, column: str) -> str:
        return self.cells[column]

    def add(self, column: str | None, message: str) -> None:
        """Add a violation of this row."""
        self.violations.add(self.line, column, message)

    def matching(
        self, column: str, form: re.Pattern[str], expected: str
    ) -> re.Match[str] | None:
        """Return the match of a whole cell; where there is none, add that it is not `expected`."""
        match = form.fullmatch(self[column])
        if match is None:
            self.add(column, f"{self[column]!r} is not {expected}")
        return match

    def whole(self, column: str, expected: str = "a whole number") -> int | None:
        """Return the whole number in a cell; where there is none, add that it is not `expected`."""
        value = whole_number(self[column])
        if value is None or value < 0:
            self.add(column, f"{self[column]!r} is not {expected}")
            return None
        return value

    def frames(self) -> tuple[int, int] | None:
        """Return `start_frame` and `end_frame`; both are inclusive."""
        columns = ("start_frame", "end_frame")
        start, end = (
            self.whole(column, "a frame number (whole, from 0)") for column in columns
        )
        if start is None or end is None:
            return None
        if end < start:
            self.add("end_frame", f"the end {end} is before the start {start}")
            return None
        return start, end

    def one_of(self, column: str, allowed: Collection[str]) -> str:
        """Return a cell; another value than the allowed ones is a violation."""
        if self[column] not in allowed:
            self.add(column, f"{self[column]!r} is not one of {', '.join(allowed)}")
        return self[column]

    def unique(self, column: str, line_of: dict[str, int]) -> str:
        """Return a cell; a repeated value is a violation. `line_of` has the line of each value."""
        first = line_of.setdefault(self[column], self.line)
        if first != self.line:
            self.add(column, f"{self[column]!r} is already on line {first}")
        return self[column]


@dataclass(frozen=True)
class CsvTable:
    """The columns of a table and its rows.

    `delimiter` is what separates its cells; it is empty for a spreadsheet. `doubt` says what was
    taken for the delimiter and the header, where the first lines have different numbers of cells.
    `maybe_thousands` has a number of each column, as it was written, if all commas in it were read
    as decimal ones and may be those of thousands. `sheet` is the one that was assumed to be meant
    where `other_sheets` have data too.
    """

    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    delimiter: str = ","
    doubt: str = ""
    maybe_thousands: Mapping[str, str] = field(default_factory=dict)
    sheet: str = ""
    other_sheets: Sequence[str] = ()

    @property
    def filled_columns(self) -> tuple[str, ...]:
        """The columns; those without a name are one, if somebody wrote into them."""
        has_notes = any(row.cells.get("") for row in self.rows)
        return tuple(name for name in dict.fromkeys(self.columns) if name or has_notes)

    @property
    def unnamed(self) -> list[str]:
        """A sentence on columns without a name, if they have more than the numbers of rows."""
        for row in self.rows:
            text = row.cells.get("", "")
            if text and whole_number(text) is None:
                return [
                    f"columns without a name are left out, such as {text!r} in line {row.line}"
                ]
        return []


def whole_number(text: str) -> int | None:
    """Return the integer in a cell, or None: no decimals, exponent, blanks or non-ASCII digits."""
    return int(text) if WHOLE_NUMBER.fullmatch(text) else None


def read_table(
    path: Path,
    *,
    required: Sequence[str],
    is_strict: bool = False,
    violations: Violations | None = None,
    content: str | None = None,
    data: bytes | None = None,
    sheet: str = "",
    assume_sheet: bool = False,
    header_row: int | None = None,
    texts: Collection[str] = (),
    as_written: Collection[str] = AS_WRITTEN,
) -> CsvTable:
    """Read a table whose header has at least the `required` columns.

    Everything that reads a table of a person calls this. A file that is named as a spreadsheet
    (.xlsx, .xlsm) is read as one; its cells have the texts that they would have in a CSV file. Text
    is in UTF-8, in UTF-16 with its mark, or in Windows-1252 where no byte may be another letter.

    Cells are separated as a line `sep=;` before the header says, else by the sign with which the
    header has most of the required columns, else by the one with which most lines have equally
    many cells: Excel writes semicolons where the comma is the decimal mark. Empty lines are
    skipped. A name of a column, and a cell, is one line with single blanks, and has accents in its
    letters; only the columns `as_written` stay. Where no comma separates cells, as in a sheet, a
    column of numbers with decimal commas has points, unless it is one of `texts`, or has cells that
    are formatted as text. A table that is `is_strict` is one of obygaze: UTF-8, without empty
    lines, and its cells are as they are.

    Violations go into `violations` where it is given, so that the caller can add those of the
    values and raise all of them together; without it they are raised here. `content` names what
    the rows are, where a table without rows is a violation. `data` are the bytes of a file that
    is not yet written to `path`.

    Without a `sheet` it is the only one with data; if there are several and `assume_sheet`, the one
    with the required columns, or else the one with the most cells. `header_row` is the number of
    the line with the names of the columns; lines before it are not read. [default: the first line
    with the required columns, else the first with about as many cells as most: a title has fewer]
    """
    collected = Violations(path) if violations is None else violations
    if sheet and not is_workbook(path):
        problem = "--sheet is for spreadsheets, another file has no sheets"
        raise FixUsage(problem, where=str(path), hint="leave --sheet out")
    if data is None and (is_workbook(path) or is_parquet(path)):
        found = _sheet_of(path, required, sheet, assume_sheet=assume_sheet)
        table = _read_sheet(
            found, path, required, collected, header_row, texts, as_written
        )
        if content and not table.rows and not collected:
            collected.add(None, None, f"the table has no {content}")
        if violations is None:
            collected.raise_if_any("this table cannot be read")
        return table
    with open_file(path) if data is None else io.BytesIO(data) as stream:
        _refuse_no_table(stream, path)
        lines = _lines(stream if is_strict else _as_utf8(stream, path), collected)
        # A file has no more lines than bytes.
        n_titles = min(header_row or 1, MAX_FILE)
        head = list(islice(lines, MOST_TITLES + n_titles))
        first_line = 1
        named = SEPARATOR_LINE.fullmatch(head[0].rstrip("\r\n")) if head else None
        if named is not None:
            del head[0]
            first_line = 2
        if header_row is not None:
            n_before = max(header_row - first_line, 0)
            del head[:n_before]
            first_line += n_before
        delimiter = named["separator"] if named else _delimiter_of(head, required)
        if header_row is None and not is_strict:
            cells_of_lines = [_cells_of_header(line, delimiter) for line in head]
            n_titles = header_place(cells_of_lines, required)
            del head[:n_titles]
            first_line += n_titles
        doubt = "" if named else _doubt(head, delimiter, first_line)
        text = chain(filter(None, head), lines)
        records = _records(text, delimiter, collected, first_line)
        line, header = next(records, (0, []))
        names = header
        if not is_strict:
            header = [single_line(name) for name in header]
            # Excel ends lines with the delimiters of empty columns; such a column is not data.
            names = [name for name in header if name]
        rows: tuple[TableRow, ...] = ()
        thousands: Mapping[str, str] = {}
        if line and _check_header(line, names, required, collected):
            rows = tuple(_rows(records, header, is_strict, collected))
            if not is_strict:
                rows = tuple(_with_plain_cells(row, as_written) for row in rows)
            if not is_strict and delimiter != ",":
                may_be_numbers = [name for name in names if name not in texts]
                rows, thousands = _with_decimal_points(
                    may_be_numbers, rows, DECIMAL_NUMBER
                )
        # Without the required columns, rows cannot be checked; only the text itself is.
        deque(records, maxlen=0)
    if not line and not collected:
        if header_row is None or header_row <= 1:
            collected.add(1, None, "the file is empty, expected a header line")
        else:
            problem = f"the file has no line {header_row}, expected the header there"
            collected.add(None, None, problem)
    elif content and not rows and not collected:
        collected.add(None, None, f"the table has no {content}")
    if violations is None:
        collected.raise_if_any("this table cannot be read")
    return CsvTable(tuple(header), rows, delimiter, doubt, thousands)


def header_of(path: Path) -> tuple[str, ...]:
    """Return the columns of a table; of another text file, a line in pieces."""
    return head_of(path).columns


def head_of(path: Path) -> CsvTable:
    """Return a table with its first rows alone; a spreadsheet is read whole."""
    head = None
    if not is_workbook(path) and not is_parquet(path):
        # Rows would take much more memory than the file: it may be a table of features.
        with open_file(path) as stream:
            head = b"".join(islice(_as_utf8(stream, path), MOST_TITLES + 2))
    violations = Violations(path)
    return read_table(path, required=(), violations=violations, data=head)


def _delimiter_of(lines: Sequence[str], required: Sequence[str]) -> str:
    """Return the delimiter of the first lines of a table.

    With it, a line has most of the required columns, or most lines have as many cells as others:
    a title may have commas, as numbers may.
    """
    found = []
    for delimiter in DELIMITERS:
        n_cells: Counter[int] = Counter()
        n_required = 0
        for cells in _records_of_head(lines, delimiter):
            n_cells[len(cells)] += 1
            names = set(map(single_line, cells))
            n_required = max(n_required, len(names.intersection(required)))
        n_lines = n_cells.total()
        del n_cells[1]
        for size, n_equal in n_cells.items():
            found.append((n_required, n_equal / n_lines, size, delimiter))
    return max(found, key=itemgetter(0, 1, 2), default=(DELIMITERS[0],))[-1]


def _doubt(head: Sequence[str], delimiter: str, first_line: int) -> str:
    """Return what was taken for the delimiter and the header; "" if all lines have equal cells."""
    sizes = set(map(len, _records_of_head(head, delimiter)))
    if len(sizes) < 2:
        return ""
    return (
        f"the table was read with {delimiter!r} between cells and the names of the columns on line"
        f" {first_line}; where these are on another line, header_row = N in a file for --mapping"
    )


def _records_of_head(lines: Sequence[str], delimiter: str) -> Iterator[list[str]]:
    """Yield the cells of lines that are not empty, up to what is no CSV."""
    with suppress(csv.Error, ValueError):
        for cells in csv.reader(lines, delimiter=delimiter):
            if any(cells):
                yield cells


def _cells_of_header(line: str, delimiter: str) -> tuple[str, ...]:
    """Return the names in the first line of a header; none of a line that is no CSV."""
    try:
        (cells,) = csv.reader([line], delimiter=delimiter)
    except (csv.Error, ValueError):
        return ()
    return tuple(single_line(cell) for cell in cells)


def _refuse_no_table(stream: BinaryIO, path: Path) -> None:
    """Raise an error for what is no table by its first bytes."""
    start = stream.read(64).removeprefix(codecs.BOM_UTF8).lstrip()
    stream.seek(0)
    hint = import_of_features(path)
    ending = path.suffix.lower()
    if ending == MARKS:
        hint = f"obygaze manifest import {shell_word(path)} -o NAME"
    elif ending in SUBTITLES:
        raise FixInput(f"{path}:1: this is no table: {OF_WORDS}", hint=USE_OF_WORDS)
    for first_bytes, content in NO_TABLES.items():
        if start.startswith(first_bytes):
            problem = f"{path}:1: this is no table: the file is {content}"
            raise FixInput(problem, hint=hint)


def _sheet_of(
    path: Path, required: Sequence[str], name: str, *, assume_sheet: bool
) -> Sheet:
    """Return the sheet of a spreadsheet, or the table of a Parquet file."""
    if is_parquet(path):
        return read_parquet(path)
    return read_sheet(path, name, likely=required if assume_sheet else None)


def _read_sheet(
    sheet: Sheet,
    path: Path,
    required: Sequence[str],
    violations: Violations,
    header_row: int | None,
    texts: Collection[str],
    as_written: Collection[str],
) -> CsvTable:
    """Return the table in a sheet of a spreadsheet; its lines are the rows of the sheet."""
    if not sheet.filled_rows:
        violations.add(None, None, f"the sheet {sheet.name!r} is empty")
        return CsvTable((), (), "")
    index = header_index(sheet, path, header_row, required)
    header = [single_line(cell) for cell in sheet.rows[index]]
    named = [name for name in header if name]
    rows: tuple[TableRow, ...] = ()
    thousands: Mapping[str, str] = {}
    if _check_header(index + 1, named, required, violations):
        records = enumerate(sheet.rows[index + 1 :], start=index + 2)
        rows = tuple(_rows(records, header, False, violations))
        rows = tuple(_with_plain_cells(row, as_written) for row in rows)
        may_be_numbers = []
        for column, name in enumerate(header):
            is_text = sheet.last_text.get(column, index) > index
            if name and name not in texts and not is_text:
                may_be_numbers.append(name)
        rows, thousands = _with_decimal_points(may_be_numbers, rows, NUMBER_OF_SHEET)
    assumed = sheet.name if sheet.others else ""
    return CsvTable(tuple(header), rows, "", "", thousands, assumed, sheet.others)


def text_lines(path: Path, violations: Violations) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers."""
    with open_file(path) as stream:
        yield from enumerate(_lines(_as_utf8(stream, path), violations), start=1)


def numbered_lines(path: Path, violations: Violations) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file that are not blank, stripped of blanks at both ends."""
    for number, text in text_lines(path, violations):
        if text.strip():
            yield number, text.strip()


def open_file(path: Path) -> BinaryIO:
    """Open a file that is not too large to be read."""
    require_file(path)
    size = path.stat().st_size
    if size > MAX_FILE:
        raise Corrupt(
            f"the file has {human(size)}, expected at most {human(MAX_FILE)}",
            where=str(path),
        )
    return path.open("rb")


def _as_utf8(stream: BinaryIO, path: Path) -> BinaryIO:
    """Return the stream, or a UTF-8 copy of text that is in UTF-16 or certainly in Windows-1252.

    Text in another encoding is left as it is: its lines are refused one by one.
    """
    if _is_utf16(stream):
        try:
            text = stream.read().decode("utf-16")
        except UnicodeDecodeError as error:
            problem = f"the file is not text in UTF-16: {error.reason}; {SAVE_AS}"
            raise Corrupt(problem, where=str(path)) from error
        return io.BytesIO(text.encode("utf-8"))
    word = _word_in_windows_1252(stream)
    stream.seek(0)
    if not word:
        return stream
    message = (
        f"{path}: not UTF-8, read as Windows-1252: {word!r}; {SAVE_AS} if this is wrong"
    )
    warnings.warn(ObygazeWarning(message), stacklevel=3)
    return io.BytesIO(stream.read().decode("cp1252").encode("utf-8"))


def encoding_of(path: Path) -> str:
    """Return in which encoding the text of a table is read, as Python calls it."""
    with open_file(path) as stream:
        if _is_utf16(stream):
            return "utf-16"
        return "cp1252" if _word_in_windows_1252(stream) else "utf-8"


def _is_utf16(stream: BinaryIO) -> bool:
    start = stream.read(2)
    stream.seek(0)
    return start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def _word_in_windows_1252(stream: BinaryIO) -> str:
    """Return a word that only Windows-1252 can mean; "" of a text in another encoding."""
    word = b""
    while line := stream.readline(MAX_LINE):
        if line.isascii():
            continue
        if _is_text(line) or _NOT_OF_WINDOWS.search(line):
            return ""
        found = _OF_WINDOWS.search(line)
        if found and not word:
            word = found[0]
    return word.decode("cp1252")


def _is_text(line: bytes) -> bool:
    """Return whether a line is UTF-8 without NUL characters, which text in UTF-16 has."""
    try:
        return "\0" not in line.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _lines(stream: BinaryIO, violations: Violations) -> Iterator[str]:
    """Yield the lines as text, up to a line that is too long to be held in memory."""
    for number in count_from(1):
        raw = stream.readline(MAX_LINE + 1)
        if len(raw) > MAX_LINE:
            problem = f"the line is longer than {human(MAX_LINE)}; the rest of the file is not read"
            violations.add(number, None, problem)
        if not raw or len(raw) > MAX_LINE:
            return
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
            if not _is_text(raw):
                problem = f"the file is not text in UTF-8; {SAVE_AS}"
                raise Corrupt(problem, where=f"{violations.path}:1")
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = f"byte 0x{raw[error.start]:02X} at position {error.start + 1}"
            violations.add(number, None, f"{byte} is not UTF-8")
            text = raw.decode("utf-8", errors="replace")
            violations.hint = SAVE_AS
        if "\x00" in text:
            problem = f"line {number} has a NUL character, which no text has"
            raise Corrupt(problem, where=violations.path)
        yield text


def _records(
    lines: Iterator[str], delimiter: str, violations: Violations, first_line: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield records with the line they start on; a quoted cell may contain line breaks."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    start = first_line
    try:
        for record in reader:
            yield start, record
            start = first_line + reader.line_num
    except csv.Error as error:
        violations.add(
            start, None, f"not valid CSV ({error}); the rest of the file is not read"
        )


def _check_header(
    line: int,
    header: Sequence[str],
    required: Sequence[str],
    violations: Violations,
) -> bool:
    before = len(violations)
    missing = [name for name in required if name not in header]
    for name in dict.fromkeys(name for name in header if header.count(name) > 1):
        violations.add(line, name, "the header lists this column more than once")
    for name in missing:
        violations.add(line, name, f"required column is missing{near(name, header)}")
    return len(violations) == before


def _rows(
    records: Iterable[tuple[int, Sequence[str]]],
    header: Sequence[str],
    is_strict: bool,
    violations: Violations,
) -> Iterator[TableRow]:
    for line, cells in records:
        if not any(cells) and not (is_strict and cells):
            if is_strict:
                violations.add(line, None, "the line is empty")
        elif len(cells) != len(header):
            violations.add(
                line,
                None,
                f"expected {count(len(header), 'cell')} as in the header, got {len(cells)}",
            )
        else:
            by_column = dict(zip(header, cells, strict=True))
            if "" in by_column:
                by_column[""] = _without_column(header, cells)
            yield TableRow(line, by_column, violations)


def _with_plain_cells(row: TableRow, as_written: Collection[str]) -> TableRow:
    """Return a row whose cells are one line each, but for some columns."""
    cells = {}
    for name, cell in row.cells.items():
        cells[name] = cell if name in as_written else single_line(cell)
    return replace(row, cells=cells)


def _with_decimal_points(
    columns: Sequence[str], rows: tuple[TableRow, ...], number: re.Pattern[str]
) -> tuple[tuple[TableRow, ...], Mapping[str, str]]:
    """Return rows in which the decimal commas of columns of numbers are points.

    Also return a number of each column in which all commas may be those of thousands, or where
    other columns have decimal commas, all points.
    """
    of_numbers = []
    thousands = {}
    for name in columns:
        cells = [row[name] for row in rows if row[name]]
        are_numbers = all(map(number.fullmatch, cells))
        if not are_numbers or not any("," in cell for cell in cells):
            continue
        of_numbers.append(name)
        with_comma = maybe_thousands(cells)
        if with_comma:
            thousands[name] = with_comma
    if not of_numbers:
        return rows, thousands
    for name in columns:
        with_point = [row[name] for row in rows if "." in row[name]]
        if with_point and all(map(_MAYBE_POINTS.fullmatch, with_point)):
            thousands[name] = with_point[0]
    changed = []
    for row in rows:
        points = {name: row[name].replace(",", ".") for name in of_numbers}
        changed.append(replace(row, cells={**row.cells, **points}))
    return tuple(changed), thousands


def maybe_thousands(cells: Iterable[str]) -> str:
    """Return the first number with a comma if all commas may be those of thousands, else ""."""
    with_comma = [cell.strip() for cell in cells if "," in cell]
    if with_comma and all(map(MAYBE_THOUSANDS.fullmatch, with_comma)):
        return with_comma[0]
    return ""


def thousands_text(column: str, number: str) -> str:
    """Return how a number of a column was read whose comma may part thousands."""
    sign = "comma" if "," in number else "point"
    return (
        f"{number} in the column {column} was read as {number.replace(',', '.')}; if it is a"
        f" thousand and more, write numbers without this {sign}"
    )


def _without_column(header: Sequence[str], cells: Sequence[str]) -> str:
    """Return the text of all cells whose columns have no name."""
    pairs = zip(header, cells, strict=True)
    return " ".join(cell for name, cell in pairs if cell and not name)


def number_of_cell(cell: str | None) -> float | None:
    """Return a cell as a number; None where it is none, or not finite."""
    # Python reads 1_2 as 12, and in a table it is a name.
    if not cell or "_" in cell:
        return None
    with suppress(ValueError):
        number = float(cell)
        return number if math.isfinite(number) else None
    return None
