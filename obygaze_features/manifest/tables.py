"""Strict tables: a CSV file read in bounded memory, every violation named by line and column."""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from obygaze_features.core.console import human
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import require_file
from obygaze_features.core.schema_check import Violations

MAX_LINE = 1 << 20
MAX_FILE = 1 << 28
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class TableRow:
    """The cells of one row by column name, and the line of the file it starts on."""

    line: int
    cells: Mapping[str, str]

    def __getitem__(self, column: str) -> str:
        return self.cells[column]


@dataclass(frozen=True)
class CsvTable:
    """A file of rows that all have the same columns."""

    path: Path
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]


def whole_number(text: str) -> int | None:
    """The integer a cell holds, or None: no decimals, no exponent, no blanks, no other digits."""
    return int(text) if WHOLE_NUMBER.fullmatch(text) else None


def read_table(
    path: Path,
    *,
    required: Sequence[str],
    delimiter: str = ",",
    skip_blank: bool = False,
    max_line: int = MAX_LINE,
    violations: Violations | None = None,
) -> CsvTable:
    """Read a table whose header has at least the `required` columns.

    Violations go into the collector where one is given, so that the caller can add what is wrong
    with the values and report all of it together; without one they are raised here.
    """
    found = Violations(path) if violations is None else violations
    with _open(path) as stream:
        table = _read(path, stream, required, delimiter, skip_blank, max_line, found)
    if violations is None:
        found.raise_if_any("this table cannot be read")
    return table


def table_of_bytes(
    data: bytes, path: Path, *, required: Sequence[str], violations: Violations
) -> CsvTable:
    """The table that a file of these bytes would be, under the name it would have."""
    if len(data) > MAX_FILE:
        told = f"{human(len(data))} of rows, the most that is read is {human(MAX_FILE)}"
        violations.add(None, None, told)
        return CsvTable(path, (), ())
    return _read(path, io.BytesIO(data), required, ",", False, MAX_LINE, violations)


def numbered_lines(path: Path, found: Violations) -> Iterator[tuple[int, str]]:
    """The lines of a text file that is no CSV, without their ends; bounded as tables are."""
    with _open(path) as stream:
        for number, text in enumerate(_lines(stream, MAX_LINE, found), start=1):
            yield number, text.rstrip("\r\n")


def _open(path: Path) -> BinaryIO:
    require_file(path)
    size = path.stat().st_size
    if size > MAX_FILE:
        raise FixInput(
            f"the table has {human(size)}, the most that is read is {human(MAX_FILE)}",
            where=str(path),
        )
    return path.open("rb")


def _read(
    path: Path,
    stream: BinaryIO,
    required: Sequence[str],
    delimiter: str,
    skip_blank: bool,
    max_line: int,
    found: Violations,
) -> CsvTable:
    records = _records(_lines(stream, max_line, found), delimiter, found)
    first = next(records, None)
    if first is None:
        if not found:
            found.add(1, None, "the file is empty, a header line was expected")
        return CsvTable(path, (), ())
    line, header = first
    if not _check_header(line, header, required, delimiter, found):
        # Without its columns nothing can be said about a row; only the text itself is checked.
        for _ in records:
            pass
        return CsvTable(path, tuple(header), ())
    return CsvTable(path, tuple(header), tuple(_rows(records, header, skip_blank, found)))


def _lines(stream: BinaryIO, max_line: int, found: Violations) -> Iterator[str]:
    """The lines as text. One that is too long ends the reading: it is never held in memory."""
    number = 0
    while raw := stream.readline(max_line + 1):
        number += 1
        if len(raw) > max_line:
            found.add(number, None, f"the line is longer than {human(max_line)}; read no further")
            return
        if number == 1 and not _is_plain_text(raw, found):
            return
        yield _decode(raw, number, found)


def _is_plain_text(first: bytes, found: Violations) -> bool:
    if first.startswith(b"\xef\xbb\xbf"):
        found.add(
            1, None, "the file starts with a byte order mark; save it as UTF-8 without one (no BOM)"
        )
        return False
    if first.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in first:
        found.add(1, None, "this is UTF-16 or not text at all; save it as UTF-8")
        return False
    return True


def _decode(raw: bytes, number: int, found: Violations) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{raw[error.start]:02X} at position {error.start + 1}"
        found.add(number, None, f"{byte} is not UTF-8 (a Latin-1 file?)")
        text = raw.decode("utf-8", errors="replace")
    if "\x00" in text:
        found.add(number, None, "a NUL character")
    return text


def _records(
    lines: Iterator[str], delimiter: str, found: Violations
) -> Iterator[tuple[int, list[str]]]:
    """Records with the line they start on; a quoted cell may hold line breaks."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        start = reader.line_num + 1
        try:
            record = next(reader, None)
        except csv.Error as error:
            found.add(start, None, f"not a table from here on ({error}); read no further")
            return
        if record is None:
            return
        yield start, record


def _check_header(
    line: int, header: Sequence[str], required: Sequence[str], delimiter: str, found: Violations
) -> bool:
    before = len(found)
    missing = [name for name in required if name not in header]
    other = _other_delimiter(header, delimiter)
    if missing and other:
        found.add(
            line, None, f"cells are separated by {DELIMITERS[other]}, not {DELIMITERS[delimiter]}"
        )
        return False
    for name in dict.fromkeys(name for name in header if header.count(name) > 1):
        found.add(line, name, "the header has this column more than once")
    for name in missing:
        close = difflib.get_close_matches(name, header, n=1)
        found.add(line, name, "no such column" + (f"; is it {close[0]!r}?" if close else ""))
    return len(found) == before


def _other_delimiter(header: Sequence[str], delimiter: str) -> str | None:
    if len(header) != 1:
        return None
    return next((mark for mark in DELIMITERS if mark != delimiter and mark in header[0]), None)


def _rows(
    records: Iterator[tuple[int, list[str]]],
    header: Sequence[str],
    skip_blank: bool,
    found: Violations,
) -> Iterator[TableRow]:
    for line, cells in records:
        if not any(cells) and (skip_blank or not cells):
            if not skip_blank:
                found.add(line, None, "an empty line")
        elif len(cells) != len(header):
            found.add(line, None, f"{len(cells)} cells, the header has {len(header)}")
        else:
            yield TableRow(line, dict(zip(header, cells, strict=True)))
