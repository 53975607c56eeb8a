"""Read tables: CSV files and spreadsheets, with the line of each violation."""

import codecs
import csv
import io
import math
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from obygaze_features.core.console import count, few, human
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
from obygaze_features.core.unknown_words import (
    UNKNOWN,
    UnknownWords,
    is_date,
    is_error,
    word_option,
)
from obygaze_features.core.workbooks import Sheet, header_place, read_sheet

MAX_FILE = 1 << 28
# Columns of file names and of texts for language models, which are kept unchanged.
AS_WRITTEN = ("video", "video_name", "film_file", "text")
# The header is searched for in this number of lines.
MOST_TITLES = 50
DELIMITERS = (",", ";", "\t", "|")
SAVE_AS = "save the file as UTF-8 (in Excel: Save As, CSV UTF-8)"
# The line that Excel writes before the header, to declare the separator of cells.
SEPARATOR_LINE = re.compile('"?sep=(?P<separator>[,;|\\t])"?', re.IGNORECASE)
# The first bytes of files that are not tables, whatever their extension.
NO_TABLES = {
    b"<": "HTML or XML",
    b"{": "JSON",
    b"%PDF": "a PDF",
    b"PK\x03\x04": "a zip archive, or a spreadsheet with a wrong extension",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"\xd0\xcf\x11\xe0": "an old Office file",
    b"PAR1": "parquet",
    b"\x93NUMPY": "an array of NumPy",
    b"\x89HDF": "HDF5",
    b"WEBVTT": "WebVTT",
}
# Extension of a file of marks, which `marks import` reads.
MARKS = ".eaf"
# Extensions of subtitles.
SUBTITLES = (".srt", ".ass", ".vtt")
USE_OF_WORDS = "obygaze extract words MANIFEST -b minilm --subtitles FOLDER"
# Words that prove Windows-1252. They contain a small accented letter, whose byte is a capital or a
# sign in Mac OS Roman; or they start with a capital whose byte is a sign in Mac OS Roman and under
# DOS; or they contain an English apostrophe.
_OF_WINDOWS = re.compile(
    rb"[A-Za-z\xc0-\xff]{0,30}(?:[a-z][\xdf-\xf6\xf8-\xff]|[A-Z][\xdf-\xf6\xf8-\xff][a-z]"
    rb"|(?<![A-Za-z\x80-\xff])[\xc4\xc5\xc9\xdc][a-z]{2}"
    rb"|[a-z]\x92(?:[dmst]|ll|re|ve)(?![A-Za-z\x80-\xff]))"
    rb"[a-z\xdf-\xf6\xf8-\xff]{0,30}"
)
# Bytes that rule out Windows-1252: of Mac OS Roman, of Central European encodings, of no character,
# and of other scripts.
_NOT_OF_WINDOWS = re.compile(
    rb"[\x00\x81\x83\x86-\x8b\x8d-\x90\x98-\x9b\x9d-\x9f]|[\xc0-\xff]{3}"
)
DECIMAL_NUMBER = re.compile(r"-?[0-9]+(,[0-9]+)?([eE][-+]?[0-9]+)?")
# In a sheet, cells with numbers have points, and cells with text may have commas.
NUMBER_OF_SHEET = re.compile(r"-?[0-9]+([.,][0-9]+)?([eE][-+]?[0-9]+)?")
# 1,234 may have a thousands separator; 0,234 and 1234,500 have decimals.
MAYBE_THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2},[0-9]{3}")
PLAIN_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
# A number in any form: 1234.5, 1'234,5, 1 234,5, 1.234,5.
_ANY_NUMBER = re.compile(
    r"[-+\u2212]?([0-9]{1,3}(['\u2019 .,][0-9]{3})+|[0-9]+)([.,][0-9]+)?"
)
# In a table with decimal commas, a point may separate thousands.
_MAYBE_POINTS = re.compile(r"-?[1-9][0-9]{0,2}(\.[0-9]{3})+")
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,15}")
# A column of numbers has more than 4 numbers for each other cell that is not a number.
MOST_NUMBERS = 4
NO_HEADER = "the file is empty, expected a header line"


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table: its line, its cells by column, and the violations of the file."""

    line: int
    cells: Mapping[str, str]
    violations: Violations

    def __getitem__(self, column: str) -> str:
        return self.cells[column]

    def add(self, column: str | None, message: str) -> None:
        """Add a violation of this row."""
        self.violations.add(self.line, column, message)

    def match(
        self, column: str, form: re.Pattern[str], expected: str
    ) -> re.Match[str] | None:
        """Return the match of a regular expression with a cell.

        If there is no match, add a violation that the cell is not `expected`, and return None.
        """
        match = form.fullmatch(self[column])
        if match is None:
            self.add(column, f"{self[column]!r} is not {expected}")
        return match

    def whole(self, column: str, expected: str = "a whole number") -> int | None:
        """Return the whole number in a cell; if there is none, add a violation and return None."""
        value = whole_number(self[column])
        if value is None or value < 0:
            self.add(column, f"{self[column]!r} is not {expected}")
            return None
        return value

    def frames(self) -> tuple[int, int] | None:
        """Return `start_frame` and `end_frame` (inclusive), or add a violation and return None."""
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
        """Return a cell. Add a violation if its value is not allowed."""
        if self[column] not in allowed:
            self.add(column, f"{self[column]!r} is not one of {', '.join(allowed)}")
        return self[column]

    def unique(self, column: str, line_of: dict[str, int]) -> str:
        """Return a cell. Add a violation if an earlier line, by `line_of`, has the same value."""
        first = line_of.setdefault(self[column], self.line)
        if first != self.line:
            self.add(column, f"{self[column]!r} is already on line {first}")
        return self[column]


@dataclass(frozen=True)
class CsvTable:
    """The columns of a table and its rows.

    `delimiter` separates the cells; it is empty for a spreadsheet. If all commas (or points) of a
    column may separate thousands but were read as decimal marks, `maybe_thousands` maps the column
    to one of its numbers, as written in the file. `unread_thousands` does so for columns that stay
    text, because commas separate the cells of the table, too. `unread_numbers` does so for columns
    of numbers in several forms, which stay text. If several sheets contain data, `sheet` is the
    sheet that was assumed, `other_sheets` are the others, and `sheets_alike` are the sheets that
    share most columns, with the assumed one. If not, all are empty. `respelled` lists the columns
    whose names have another case in the file.
    """

    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    delimiter: str = ","
    maybe_thousands: Mapping[str, str] = field(default_factory=dict)
    unread_thousands: Mapping[str, str] = field(default_factory=dict)
    unread_numbers: Mapping[str, str] = field(default_factory=dict)
    sheet: str = ""
    other_sheets: Sequence[str] = ()
    sheets_alike: Sequence[str] = ()
    respelled: Sequence[str] = ()

    @property
    def filled_columns(self) -> tuple[str, ...]:
        """The names of columns; columns without a name are one name, "", if they contain text."""
        has_notes = any(row.cells.get("") for row in self.rows)
        return tuple(name for name in dict.fromkeys(self.columns) if name or has_notes)

    @property
    def remarks(self) -> list[str]:
        """Sentences on parts that are not read, such as columns without a name and other sheets."""
        remarks = []
        notes = [(row.line, row.cells.get("", "")) for row in self.rows]
        for line, text in notes:
            if text and whole_number(text) is None:
                remarks.append(
                    f"columns without a name are not read, such as {text!r} in line {line}"
                )
                break
        for column, number in self.unread_thousands.items():
            remarks.append(
                f"{number} in the column {column} is read as text, because its comma may separate"
                f" thousands or decimals; write {number.replace(',', '')} or"
                f" {number.replace(',', '.')}"
            )
        if self.respelled:
            named = few([repr(name) for name in self.respelled], 3)
            remarks.append(f"read as columns of the first table: {named}")
        if self.other_sheets:
            others = few([repr(name) for name in self.other_sheets], 3)
            remarks.append(
                f"the sheet {self.sheet!r} was read; --sheet selects a different sheet with data:"
                f" {others}"
            )
        if self.sheets_alike:
            sheets = " ".join(f"--sheet {shell_word(s)}" for s in self.sheets_alike)
            remarks.append(
                "several sheets have the same columns, and one was read; if each is of one"
                f" annotator, import this file alone, with {sheets}"
            )
        return remarks


def whole_number(text: str) -> int | None:
    """Return the integer in a cell (at most 15 ASCII digits, no blanks), or None."""
    return int(text) if WHOLE_NUMBER.fullmatch(text) else None


def read_table(
    path: Path,
    *,
    required: Sequence[str],
    violations: Violations | None = None,
    content: str | None = None,
    data: bytes | None = None,
    sheet: str = "",
    assume_sheet: bool = False,
    texts: Collection[str] = (),
    as_written: Collection[str] = AS_WRITTEN,
    words: UnknownWords | None = None,
    columns: Sequence[str] = (),
) -> CsvTable:
    """Read a table whose header contains at least the `required` columns.

    All tables of users are read by this function. A file with the extension .xlsx or .xlsm is read
    as a spreadsheet; its cells have the text that they would have in a CSV file. Text is UTF-8,
    UTF-16 with a byte order mark, or Windows-1252 if that is certain.

    A line `sep=;` before the header states the separator of cells. Without this line, the separator
    is the one with which the header contains most of the required columns, or else the one with
    which most lines have equally many cells. Excel writes semicolons if the comma is the decimal
    mark. Empty lines are skipped. Names of columns and cells become one line with single blanks and
    composed accents, except in the columns `as_written`. Numbers of a column with decimal commas
    get decimal points, unless the column is in `texts` or `as_written` or contains cells formatted
    as text. Cells that state no answer do not decide whether a column has numbers. An error of a
    formula, such as #N/A, is a violation in any column with a name.

    If `violations` is given, violations are added to it, so that the caller can add violations of
    values and raise all of them together. If it is not given, they are raised here. If `content` is
    given, a table without rows is a violation, and `content` is the word for the rows in its
    message. `data` are the bytes of a file that is not yet written to `path`.

    The default of `sheet` is the only sheet with data. If several sheets contain data and
    `assume_sheet` is true, it is the sheet with the required columns, or else the sheet with the
    most cells. The header is the first line with the required columns, or else the first line with
    about as many cells as most lines have, since a title has fewer cells.

    `columns` are those of another table of the same form: a column whose name differs from one of
    them in case only gets its name.
    """
    if sheet and not is_workbook(path):
        raise FixUsage(
            "--sheet is for spreadsheets only", where=str(path), hint="remove --sheet"
        )
    collected = Violations(path) if violations is None else violations
    found = Sheet("", (), {})
    delimiter = ""
    if data is None and is_parquet(path):
        found = read_parquet(path)
    elif data is None and is_workbook(path):
        likely = required if assume_sheet else None
        found = read_sheet(path, sheet, likely=likely)
    records = [*enumerate(found.rows, start=1)]
    number = NUMBER_OF_SHEET
    if data is not None or not (is_parquet(path) or is_workbook(path)):
        data = _read_bytes(path) if data is None else data
        _refuse_no_table(data, path)
        delimiter, of_text = _records(_lines(data, path), required, collected)
        records = [*of_text]
        number = DECIMAL_NUMBER
    records = [one for one in records if any(one[1])]
    place = 0
    if records:
        place = header_place([cells for _, cells in records[:MOST_TITLES]], required)
    header_line, names = records[place] if place < len(records) else (0, [])
    header = [single_line(name) for name in names]
    respelled = []
    spelling = {name.casefold(): name for name in columns}
    for index, name in enumerate(header):
        new_name = spelling.get(name.casefold(), name)
        if new_name != name and new_name not in header:
            respelled.append(name)
            header[index] = new_name
    if not header_line and not collected:
        collected.add(1, None, NO_HEADER)
    rows = []
    # Excel ends lines with delimiters of empty columns, which are not data.
    named = [name for name in header if name]
    # Without the required columns, rows cannot be checked.
    if header_line and _check_header(header_line, named, required, collected):
        for line, row in records[place + 1 :]:
            if len(row) == len(header):
                rows.append((line, row))
            else:
                _add_number_of_cells(line, row, header, collected)
    if content and not rows and not collected:
        collected.add(None, None, f"the table has no {content}")
    if violations is None:
        collected.raise_if_any("this table cannot be read")
    cells: dict[str, Sequence[str]] = {}
    may_be_numbers = []
    for index, column in enumerate(zip(*(row for _, row in rows), strict=True)):
        name = header[index]
        texts_of_column: Sequence[str] = column
        if name not in as_written:
            plain = {cell: single_line(cell) for cell in set(column)}
            texts_of_column = [plain[cell] for cell in column]
        if name in cells:
            # Columns without a name become one column.
            pairs = zip(cells[name], texts_of_column, strict=True)
            texts_of_column = [" ".join(filter(None, pair)) for pair in pairs]
        cells[name] = texts_of_column
        is_text = found.last_text.get(index, 0) >= header_line
        if name and name not in (*texts, *as_written) and not is_text:
            may_be_numbers.append(name)
    unread: dict[str, str] = {}
    lines = [line for line, _ in rows]
    for name in filter(None, cells):
        cells[name] = _without_errors(cells[name], name, lines, collected, words)
    stated = words or UnknownWords()
    not_texts = [*may_be_numbers]
    if delimiter == ",":
        unread = _columns_of_thousands(cells, may_be_numbers, stated)
        may_be_numbers = [name for name in may_be_numbers if name not in unread]
    thousands = _use_decimal_points(cells, may_be_numbers, number, stated)
    unread_numbers = {}
    for name in not_texts:
        # Most cells of large tables are numbers.
        others = {cell for cell in set(cells[name]) if not PLAIN_NUMBER.fullmatch(cell)}
        dates = {*filter(is_date, others)}
        if dates:
            _refuse_dates(dates, cells[name], name, lines, collected, stated)
        if name not in unread:
            unread_numbers[name] = _unread_number(filter(stated.is_answer, others))
    if violations is None:
        collected.raise_if_any("this table cannot be read")
    table_rows = []
    for (line, _), row in zip(rows, zip(*cells.values(), strict=True), strict=True):
        by_column = dict(zip(cells, row, strict=True))
        table_rows.append(TableRow(line, by_column, collected))
    assumed = found.name if found.others else ""
    return CsvTable(
        tuple(header),
        tuple(table_rows),
        delimiter,
        thousands,
        unread,
        {name: number for name, number in unread_numbers.items() if number},
        assumed,
        found.others,
        found.alike,
        respelled,
    )


@dataclass(frozen=True)
class OwnTable:
    """A table that obygaze wrote. Its rows are read while they are used.

    Attributes:
        columns: The columns.
        names: The names of the cells of a record: the columns, and optional columns that the table
            does not have, whose cells are empty.
        records: The line and the cells of each row.
        violations: The violations of the file.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    records: Iterator[tuple[int, Sequence[str]]]
    violations: Violations

    @property
    def rows(self) -> Iterator[TableRow]:
        """The rows, with their cells by column."""
        return (self.row(line, cells) for line, cells in self.records)

    def row(self, line: int, cells: Sequence[str]) -> TableRow:
        """Return the row of a record."""
        of_row = dict(zip(self.names, cells, strict=True))
        return TableRow(line, of_row, self.violations)


def read_own_table(
    path: Path,
    *,
    required: Sequence[str],
    optional: Sequence[str] = (),
    violations: Violations,
    data: bytes | None = None,
) -> OwnTable:
    """Read a table as obygaze writes it: UTF-8 without empty lines; the cells stay unchanged.

    The header must contain at least the `required` columns. The cells of an `optional` column that
    the table does not have are empty. Violations are added to `violations`. `data` are the bytes of
    a file that is not yet written to `path`.
    """
    data = _read_bytes(path) if data is None else data
    _refuse_no_table(data, path)
    _, records = _records(_lines(data, path, is_own=True), required, violations)
    line, header = next(records, (0, ()))
    if not line and not violations:
        violations.add(1, None, NO_HEADER)
    columns = tuple(header)
    names = tuple(dict.fromkeys((*columns, *required, *optional)))
    if not line or not _check_header(line, header, required, violations):
        # Without the required columns, rows cannot be checked.
        return OwnTable(columns, names, iter(()), violations)
    checked = _own_records(records, header, len(names), violations)
    return OwnTable(columns, names, checked, violations)


def _own_records(
    records: Iterable[tuple[int, Sequence[str]]],
    header: Sequence[str],
    n_names: int,
    violations: Violations,
) -> Iterator[tuple[int, Sequence[str]]]:
    n_columns = len(header)
    absent = [""] * (n_names - n_columns)
    for line, cells in records:
        if len(cells) == n_columns:
            yield line, [*cells, *absent]
        else:
            _add_number_of_cells(line, cells, header, violations)


def _add_number_of_cells(
    line: int, cells: Sequence[str], header: Sequence[str], violations: Violations
) -> None:
    expected = f"expected {count(len(header), 'cell')} as in the header"
    violations.add(line, None, f"{expected}, got {len(cells)}")


def read_header(path: Path) -> tuple[str, ...]:
    """Return the columns of a table.

    If a text file is not a table, return the parts of one line, split at a separator.
    """
    head = None
    if not is_workbook(path) and not is_parquet(path):
        # Only the first lines are read. All rows would take much more memory than the file, which
        # may be a table of features.
        lines = islice(_lines(_read_bytes(path), path), MOST_TITLES + 2)
        head = "".join(lines).encode()
    violations = Violations(path)
    return read_table(path, required=(), violations=violations, data=head).columns


# --- The texts of files ---


def _records(
    lines: Iterator[str], required: Sequence[str], violations: Violations
) -> tuple[str, Iterator[tuple[int, Sequence[str]]]]:
    """Return the delimiter of a table, and the number of the first line and the cells of each row.

    A quoted cell may contain line breaks.
    """
    head = [*islice(lines, MOST_TITLES)]
    named = SEPARATOR_LINE.fullmatch(head[0].rstrip("\r\n")) if head else None
    delimiter = named["separator"] if named else _find_delimiter(head, required)
    start = 1
    if named:
        start = 2
        del head[0]
    first = start
    reader = csv.reader(chain(head, lines), delimiter=delimiter, strict=True)

    def numbered() -> Iterator[tuple[int, Sequence[str]]]:
        line = start
        try:
            for record in reader:
                yield line, record
                line = first + reader.line_num
        except csv.Error as error:
            problem = f"not valid CSV ({error}); the rest of the file is not read"
            violations.add(line, None, problem)

    return delimiter, numbered()


def _find_delimiter(lines: Sequence[str], required: Sequence[str]) -> str:
    """Return the delimiter of the first lines of a table.

    With the right delimiter, one line contains most of the required columns, or most lines have
    equally many cells. Titles and numbers may contain commas.
    """
    found = []
    for delimiter in DELIMITERS:
        n_cells: Counter[int] = Counter()
        n_required = 0
        with suppress(csv.Error):
            for cells in filter(any, csv.reader(lines, delimiter=delimiter)):
                n_cells[len(cells)] += 1
                names = set(map(single_line, cells))
                n_required = max(n_required, len(names.intersection(required)))
        n_lines = n_cells.total()
        del n_cells[1]
        for size, n_equal in n_cells.items():
            found.append((n_required, n_equal / n_lines, size, delimiter))
    return max(found, key=itemgetter(0, 1, 2), default=(DELIMITERS[0],))[-1]


def _refuse_no_table(data: bytes, path: Path) -> None:
    """Raise an error if the first bytes show that the file is not a table."""
    start = data[:64].removeprefix(codecs.BOM_UTF8).lstrip()
    hint = import_of_features(path)
    ending = path.suffix.lower()
    if ending == MARKS:
        hint = f"obygaze marks import {shell_word(path)} -o NAME"
    elif ending in SUBTITLES:
        raise FixInput(f"{path}:1: expected a table, got subtitles", hint=USE_OF_WORDS)
    for first_bytes, content in NO_TABLES.items():
        if start.startswith(first_bytes):
            raise FixInput(f"{path}:1: expected a table, got {content}", hint=hint)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the stripped text of each line that is not blank."""
    for number, text in enumerate(text_lines(path), start=1):
        if text.strip():
            yield number, text.strip()


def text_lines(path: Path) -> Iterator[str]:
    """Return the lines of a text file; an error for invalid text names the line."""
    return _lines(_read_bytes(path), path)


def open_file(path: Path) -> BinaryIO:
    """Open a file; raise an error if it is missing or too large to be read."""
    require_file(path)
    size = path.stat().st_size
    if size > MAX_FILE:
        raise Corrupt(
            f"the file has {human(size)}, expected at most {human(MAX_FILE)}",
            where=str(path),
        )
    return path.open("rb")


def _read_bytes(path: Path) -> bytes:
    with open_file(path) as stream:
        return stream.read()


def _lines(data: bytes, path: Path, *, is_own: bool = False) -> Iterator[str]:
    """Return the lines of a text; an error for invalid text names the line."""
    encoding, word = ("utf-8-sig", "") if is_own else _detect_encoding(data)
    if word:
        shown = f"{path}: not UTF-8, read as Windows-1252: {word!r}"
        message = f"{shown}; if this is wrong, {SAVE_AS}"
        warnings.warn(ObygazeWarning(message), stacklevel=4)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        byte = f"byte 0x{data[error.start]:02X}"
        name = "UTF-16" if encoding == "utf-16" else "UTF-8"
        problem = f"expected text in {name}, got the invalid {byte}"
        raise Corrupt(problem, where=f"{path}:{line}", hint=SAVE_AS) from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise Corrupt(
            f"invalid text: line {line} has a NUL character",
            where=f"{path}:{line}",
            hint=SAVE_AS,
        )
    # Only a line feed ends a line, so that line numbers agree with an editor.
    return io.TextIOWrapper(io.BytesIO(data), encoding, newline="\n")


def _detect_encoding(data: bytes) -> tuple[str, str]:
    """Return the encoding of a text; for Windows-1252, also return a word that proves it.

    If the encoding is not certain, UTF-8 is returned, and reading the text raises an error.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", ""
    word = b""
    for line in data.splitlines():
        if line.isascii():
            continue
        if _is_utf8(line) or _NOT_OF_WINDOWS.search(line):
            return "utf-8-sig", ""
        found = _OF_WINDOWS.search(line)
        word = word or (found[0] if found else b"")
    return ("cp1252" if word else "utf-8-sig"), word.decode("cp1252")


def _is_utf8(line: bytes) -> bool:
    with suppress(UnicodeDecodeError):
        line.decode("utf-8")
        return True
    return False


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


def _without_errors(
    cells: Sequence[str],
    column: str,
    lines: Sequence[int],
    violations: Violations,
    words: UnknownWords | None,
) -> Sequence[str]:
    """Return the cells of a column, with `?` for errors of formulas that the user calls unknown.

    All other errors are violations.
    """
    errors = {*filter(is_error, set(cells))}
    if not errors:
        return cells
    read = []
    for line, cell in zip(lines, cells, strict=True):
        if cell not in errors:
            read.append(cell)
        elif words is not None and words.is_unknown(cell):
            read.append(UNKNOWN)
        else:
            way = ""
            if words is not None:
                way = f", or pass {word_option(cell)} if these answers are unknown"
            problem = f"expected a value, got the error {cell}: correct the cell{way}"
            violations.add(line, column, problem)
            read.append(cell)
    return read


def _refuse_dates(
    dates: Collection[str],
    cells: Sequence[str],
    column: str,
    lines: Sequence[int],
    violations: Violations,
    words: UnknownWords,
) -> None:
    """Add a violation for each date in a column of numbers: Excel turns 1.5 into 1 May.

    Numbers of four digits may be years, beside which a date is no surprise.
    """
    others = [cell for cell in cells if words.is_answer(cell) and cell not in dates]
    numbers = [cell for cell in others if NUMBER_OF_SHEET.fullmatch(cell)]
    are_years = all(len(number) == 4 for number in numbers)
    # The others may be typing errors.
    if are_years or len(numbers) <= MOST_NUMBERS * (len(others) - len(numbers)):
        return
    for line, cell in zip(lines, cells, strict=True):
        if cell in dates and words.is_answer(cell):
            violations.add(
                line,
                column,
                f"expected a number, got the date {cell}, which a spreadsheet may have made of a"
                " number: format the cell as a number, and write it with the decimal mark of the"
                " spreadsheet",
            )


def _columns_of_thousands(
    cells: Mapping[str, Sequence[str]], columns: Sequence[str], words: UnknownWords
) -> dict[str, str]:
    """Return one number of each column of numbers in which all commas may separate thousands."""
    thousands = {}
    for name in columns:
        number = maybe_thousands(cells[name])
        filled = filter(words.is_answer, cells[name] if number else ())
        if number and all(map(DECIMAL_NUMBER.fullmatch, filled)):
            thousands[name] = number
    return thousands


def _use_decimal_points(
    cells: dict[str, Sequence[str]],
    columns: Sequence[str],
    number: re.Pattern[str],
    words: UnknownWords,
) -> dict[str, str]:
    """Replace decimal commas by points in columns of numbers.

    Return one number of each column in which all commas may separate thousands. If some column has
    decimal commas, also return one number of each column in which all points may separate
    thousands.
    """
    thousands = {}
    of_numbers = []
    for name in columns:
        if not any("," in cell for cell in cells[name]):
            continue
        filled = [*filter(words.is_answer, cells[name])]
        if filled and all(map(number.fullmatch, filled)):
            of_numbers.append(name)
            thousands[name] = maybe_thousands(filled)
    for name in columns if of_numbers else ():
        with_point = [c for c in cells[name] if "." in c and words.is_answer(c)]
        if with_point and all(map(_MAYBE_POINTS.fullmatch, with_point)):
            thousands[name] = with_point[0]
    for name in of_numbers:
        read = []
        for cell in cells[name]:
            is_number = number.fullmatch(cell) is not None
            read.append(cell.replace(",", ".") if is_number else cell)
        cells[name] = read
    return {name: one for name, one in thousands.items() if one}


def _unread_number(texts: Iterable[str]) -> str:
    """Return one of the texts of a column if all of them are numbers in other forms, or ""."""
    unread = sorted(cell for cell in texts if number_of_cell(cell) is None)
    if not all(map(_ANY_NUMBER.fullmatch, unread)):
        return ""
    # One with a sign between thousands is named first.
    return min(
        unread, key=lambda cell: bool(NUMBER_OF_SHEET.fullmatch(cell)), default=""
    )


def unread_number_text(column: str, number: str) -> str:
    """Return a sentence on a column of numbers that is read as text."""
    return (
        f"the column {column} has numbers in several forms, and is read as text: write {number} as"
        " digits with one decimal mark, as the others"
    )


def maybe_thousands(cells: Iterable[str]) -> str:
    """Return the first number with a comma if all commas may separate thousands, else ""."""
    with_comma = [cell.strip() for cell in cells if "," in cell]
    if with_comma and all(map(MAYBE_THOUSANDS.fullmatch, with_comma)):
        return with_comma[0]
    return ""


def thousands_text(column: str, number: str) -> str:
    """Return a sentence on a number whose comma or point may separate thousands."""
    sign = "comma" if "," in number else "point"
    return (
        f"{number} in the column {column} was read as {number.replace(',', '.')}; if the {sign}"
        f" separates thousands, write numbers without this {sign}"
    )


def number_of_cell(cell: str | None) -> float | None:
    """Return a cell as a finite number, or None."""
    # Python reads 1_2 as 12, but in a table it is a name.
    if not cell or "_" in cell:
        return None
    with suppress(ValueError):
        number = float(cell)
        return number if math.isfinite(number) else None
    return None


def is_number(cell: str) -> bool:
    """Return whether a cell is a finite number."""
    return number_of_cell(cell) is not None
