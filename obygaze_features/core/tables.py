"""Read tables: CSV files and spreadsheets; each violation has its line."""

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
from obygaze_features.core.workbooks import Sheet, header_place, read_sheet

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

    `delimiter` is what separates its cells; it is empty for a spreadsheet. `maybe_thousands` has a
    number of each column, as it was written, if all commas in it were read as decimal ones and may
    be those of thousands. `sheet` is the one that was assumed to be meant where `other_sheets` have
    data too.
    """

    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    delimiter: str = ","
    maybe_thousands: Mapping[str, str] = field(default_factory=dict)
    sheet: str = ""
    other_sheets: Sequence[str] = ()

    @property
    def filled_columns(self) -> tuple[str, ...]:
        """The columns; those without a name are one, if somebody wrote into them."""
        has_notes = any(row.cells.get("") for row in self.rows)
        return tuple(name for name in dict.fromkeys(self.columns) if name or has_notes)

    @property
    def remarks(self) -> list[str]:
        """What was left out: columns without a name that have more than numbers, other sheets."""
        remarks = []
        notes = [(row.line, row.cells.get("", "")) for row in self.rows]
        for line, text in notes:
            if text and whole_number(text) is None:
                remarks.append(
                    f"columns without a name are left out, such as {text!r} in line {line}"
                )
                break
        if self.other_sheets:
            others = few([repr(name) for name in self.other_sheets], 3)
            remarks.append(
                f"the sheet {self.sheet!r} was read; --sheet takes another one with data: {others}"
            )
        return remarks


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
    if sheet and not is_workbook(path):
        problem = "--sheet is for spreadsheets, another file has no sheets"
        raise FixUsage(problem, where=str(path), hint="leave --sheet out")
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
        data = _bytes_of(path) if data is None else data
        _refuse_no_table(data, path)
        delimiter, records = _records(
            _lines(data, path, is_strict=is_strict), required, collected
        )
        number = DECIMAL_NUMBER
    # A blank line is wrong in a table of obygaze, and says so by its number of cells.
    records = [one for one in records if is_strict or any(one[1])]
    place = 0
    if header_row is not None:
        lines = [line for line, _ in records]
        place = lines.index(header_row) if header_row in lines else len(records)
    elif records and not is_strict:
        place = header_place([cells for _, cells in records[:MOST_TITLES]], required)
    header_line, names = records[place] if place < len(records) else (0, [])
    header = [*names] if is_strict else [single_line(name) for name in names]
    if header_row is not None and not header_line:
        problem = f"line {header_row} is empty, expected the header there"
        collected.add(None, None, problem)
    elif not header_line and not collected:
        collected.add(1, None, "the file is empty, expected a header line")
    rows = []
    # Excel ends lines with the delimiters of empty columns; such a column is not data.
    named = [name for name in header if name or is_strict]
    # Without the required columns, rows cannot be checked.
    if header_line and _check_header(header_line, named, required, collected):
        for line, row in records[place + 1 :]:
            if len(row) == len(header):
                rows.append((line, row))
            else:
                expected = f"expected {count(len(header), 'cell')} as in the header"
                collected.add(line, None, f"{expected}, got {len(row)}")
    if content and not rows and not collected:
        collected.add(None, None, f"the table has no {content}")
    if violations is None:
        collected.raise_if_any("this table cannot be read")
    cells: dict[str, Sequence[str]] = {}
    may_be_numbers = []
    for index, column in enumerate(zip(*(row for _, row in rows), strict=True)):
        name = header[index]
        texts_of_column: Sequence[str] = column
        if not is_strict and name not in as_written:
            plain = {cell: single_line(cell) for cell in set(column)}
            texts_of_column = [plain[cell] for cell in column]
        if name in cells:
            # Columns without a name are one.
            pairs = zip(cells[name], texts_of_column, strict=True)
            texts_of_column = [" ".join(filter(None, pair)) for pair in pairs]
        cells[name] = texts_of_column
        is_text = found.last_text.get(index, 0) >= header_line
        if name and name not in texts and not is_text:
            may_be_numbers.append(name)
    thousands = {}
    if not is_strict and delimiter != ",":
        thousands = _use_decimal_points(cells, may_be_numbers, number)
    table_rows = []
    for (line, _), row in zip(rows, zip(*cells.values(), strict=True), strict=True):
        by_column = dict(zip(cells, row, strict=True))
        table_rows.append(TableRow(line, by_column, collected))
    assumed = found.name if found.others else ""
    return CsvTable(
        tuple(header), tuple(table_rows), delimiter, thousands, assumed, found.others
    )


def header_of(path: Path) -> tuple[str, ...]:
    """Return the columns of a table; of another text file, a line in pieces."""
    head = None
    if not is_workbook(path) and not is_parquet(path):
        # Rows would take much more memory than the file: it may be a table of features.
        lines = islice(_lines(_bytes_of(path), path), MOST_TITLES + 2)
        head = "".join(lines).encode()
    violations = Violations(path)
    return read_table(path, required=(), violations=violations, data=head).columns


# --- The texts of files ---


def _records(
    lines: Iterator[str], required: Sequence[str], violations: Violations
) -> tuple[str, list[tuple[int, Sequence[str]]]]:
    """Return what separates the cells of lines, and the cells with the line they start on.

    A quoted cell may contain line breaks.
    """
    head = [*islice(lines, MOST_TITLES)]
    named = SEPARATOR_LINE.fullmatch(head[0].rstrip("\r\n")) if head else None
    delimiter = named["separator"] if named else _delimiter_of(head, required)
    start = 1
    if named:
        start = 2
        del head[0]
    first = start
    reader = csv.reader(chain(head, lines), delimiter=delimiter, strict=True)
    records: list[tuple[int, Sequence[str]]] = []
    try:
        for record in reader:
            records.append((start, record))
            start = first + reader.line_num
    except csv.Error as error:
        problem = f"not valid CSV ({error}); the rest of the file is not read"
        violations.add(start, None, problem)
    return delimiter, records


def _delimiter_of(lines: Sequence[str], required: Sequence[str]) -> str:
    """Return the delimiter of the first lines of a table.

    With it, a line has most of the required columns, or most lines have as many cells as others:
    a title may have commas, as numbers may.
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
    """Raise an error for what is no table by its first bytes."""
    start = data[:64].removeprefix(codecs.BOM_UTF8).lstrip()
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


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file that are not blank, stripped of blanks, with their numbers."""
    for number, text in enumerate(text_lines(path), start=1):
        if text.strip():
            yield number, text.strip()


def text_lines(path: Path) -> Iterator[str]:
    """Return the lines of a text file; an error for what is no text names the line."""
    return _lines(_bytes_of(path), path)


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


def _bytes_of(path: Path) -> bytes:
    with open_file(path) as stream:
        return stream.read()


def _lines(data: bytes, path: Path, *, is_strict: bool = False) -> Iterator[str]:
    """Return the lines of a text; what is no text is an error with its line."""
    encoding, word = ("utf-8-sig", "") if is_strict else _encoding_in(data)
    if word:
        shown = f"{path}: not UTF-8, read as Windows-1252: {word!r}"
        message = f"{shown}; {SAVE_AS} if this is wrong"
        warnings.warn(ObygazeWarning(message), stacklevel=4)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        byte = f"byte 0x{data[error.start]:02X}"
        name = "UTF-16" if encoding == "utf-16" else "UTF-8"
        problem = f"the file is not text in {name}: {byte} is not {name}"
        raise Corrupt(problem, where=f"{path}:{line}", hint=SAVE_AS) from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        problem = f"line {line} has a NUL character, which no text has"
        raise Corrupt(problem, where=f"{path}:{line}", hint=SAVE_AS)
    # Lines end with a line feed alone, so that their numbers are those of an editor.
    return io.TextIOWrapper(io.BytesIO(data), encoding, newline="\n")


def _encoding_in(data: bytes) -> tuple[str, str]:
    """Return the encoding of a text, and for Windows-1252 a word that nothing else can mean.

    Text in an encoding that is not certain is taken for UTF-8, and refused.
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


def _use_decimal_points(
    cells: dict[str, Sequence[str]], columns: Sequence[str], number: re.Pattern[str]
) -> dict[str, str]:
    """Put points in place of the decimal commas of columns of numbers.

    Return a number of each column in which all commas may be those of thousands, or where other
    columns have decimal commas, all points.
    """
    thousands = {}
    of_numbers = []
    for name in columns:
        filled = [cell for cell in cells[name] if cell]
        has_comma = any("," in cell for cell in filled)
        if has_comma and all(map(number.fullmatch, filled)):
            of_numbers.append(name)
            thousands[name] = maybe_thousands(filled)
    for name in columns if of_numbers else ():
        with_point = [cell for cell in cells[name] if "." in cell]
        if with_point and all(map(_MAYBE_POINTS.fullmatch, with_point)):
            thousands[name] = with_point[0]
    for name in of_numbers:
        cells[name] = [cell.replace(",", ".") for cell in cells[name]]
    return {name: one for name, one in thousands.items() if one}


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


def number_of_cell(cell: str | None) -> float | None:
    """Return a cell as a number; None where it is none, or not finite."""
    # Python reads 1_2 as 12, and in a table it is a name.
    if not cell or "_" in cell:
        return None
    with suppress(ValueError):
        number = float(cell)
        return number if math.isfinite(number) else None
    return None
