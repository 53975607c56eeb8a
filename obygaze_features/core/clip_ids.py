"""The ids of clips as a person names them: the ids themselves, or a file that lists them."""

import csv
import io
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePath

from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.files import SPREADSHEETS

# Of a parameter; on the command line, `core/value_types.py` reads the words.
ClipIds = str | os.PathLike[str] | Iterable[str]

COLUMN = "clip_id"
SEPARATORS = (",", ";", "\t")
_ENDINGS = {".csv", ".tsv", ".txt", *SPREADSHEETS}


def clip_ids(clips: ClipIds) -> list[str]:
    """Return the ids of clips.

    Args:
        clips: A list of ids, which is returned, one id, or a file: one id a line, or a table with
            a column clip_id.
    """
    if isinstance(clips, str):
        return ids_of_word(clips)
    if isinstance(clips, os.PathLike):
        return _ids_in(Path(clips))
    return list(clips)


def is_file_name(word: str) -> bool:
    """Return whether there is a file of this name; a long list of ids is none."""
    try:
        return Path(word).is_file()
    except OSError:
        return False


def ids_of_word(word: str) -> list[str]:
    """Return the ids in a file, if the word is the path of one, else the word as an id."""
    if is_file_name(word):
        return _ids_in(Path(word))
    if PurePath(word).suffix.lower() in _ENDINGS:
        raise NotFound("no such file", where=word)
    return [word]


def _ids_in(path: Path) -> list[str]:
    """Return the ids in a file: one a line, or those in the column clip_id of a table.

    A file without ids is an error: where clips are chosen, no ids would stand for all clips.
    """
    text = _text_of(path)
    ids = _column_of(text, path)
    if ids is None:
        lines = [line.strip() for line in text.splitlines()]
        ids = [line for line in lines if line]
    if not ids:
        raise FixInput(
            "this file has no clip ids",
            where=str(path),
            hint=f"one id a line, or a table with a column {COLUMN}",
        )
    return ids


def _text_of(path: Path) -> str:
    """Return the text of a file."""
    if path.suffix.lower() in SPREADSHEETS:
        raise FixInput(
            "ids are not read from spreadsheets",
            where=str(path),
        )
    try:
        # Windows programs put a mark before the first id.
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FixInput("not UTF-8", where=str(path)) from error


def _column_of(text: str, path: Path) -> list[str] | None:
    """Return the cells in the column clip_id of a table; None for text without this column."""
    header = next((line for line in text.splitlines() if line.strip()), "")
    for separator in SEPARATORS:
        names: list[str] = []
        # A line may be longer than a cell of CSV.
        with suppress(csv.Error):
            names = [
                name.strip() for name in next(csv.reader([header], delimiter=separator))
            ]
        if COLUMN in names:
            try:
                return _cells(text, separator, names.index(COLUMN), path)
            except csv.Error as error:
                raise FixInput(f"not valid CSV: {error}", where=str(path)) from error
    return None


def _cells(text: str, separator: str, column: int, path: Path) -> list[str]:
    """Return the cells of one column below the header; a row without one is an error."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    rows = [row for row in reader if any(cell.strip() for cell in row)]
    cells = []
    for number, row in enumerate(rows[1:], start=1):
        cell = row[column].strip() if len(row) > column else ""
        if not cell:
            raise FixInput(
                f"row {number} below the header has no {COLUMN}",
                where=str(path),
            )
        cells.append(cell)
    return cells
