"""The ids of clips as a person names them: the ids themselves, or a file that lists them."""

import csv
import io
import os
from collections.abc import Iterable
from pathlib import Path, PurePath

from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.files import SPREADSHEETS

# Of a parameter; on the command line, `core/value_types.py` reads the words.
ClipIds = str | os.PathLike[str] | Iterable[str]

COLUMN = "clip_id"
_ENDINGS = {".csv", ".txt", *SPREADSHEETS}


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
    try:
        # Windows programs put a mark before the first id.
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FixInput("not UTF-8", where=str(path)) from error
    header = text.partition("\n")[0].replace('"', "")
    if COLUMN in header.strip().split(","):
        ids = _column_of(text, path)
    else:
        lines = [line.strip() for line in text.splitlines()]
        ids = [line for line in lines if line]
    if not ids:
        raise FixInput(
            "this file has no clip ids",
            where=str(path),
            hint=f"one id a line, or a table with a column {COLUMN}",
        )
    return ids


def _column_of(text: str, path: Path) -> list[str]:
    """Return the cells in the column clip_id of a table; a row without one is an error."""
    ids: list[str] = []
    try:
        for row in csv.DictReader(io.StringIO(text, newline="")):
            clip_id = (row.get(COLUMN) or "").strip()
            if not clip_id:
                number = len(ids) + 1
                raise FixInput(
                    f"row {number} below the header has no {COLUMN}", where=str(path)
                )
            ids.append(clip_id)
    except csv.Error as error:
        raise FixInput(f"not valid CSV: {error}", where=str(path)) from error
    return ids
