"""The ids of clips as a person names them: the ids themselves, or a file that lists them."""

import csv
import os
from collections.abc import Iterable
from pathlib import Path, PurePath

from obygaze_features.core.errors import FixInput, NotFound

# Of a parameter; on the command line, `core/value_types.py` reads the words.
ClipIds = str | os.PathLike[str] | Iterable[str]

COLUMN = "clip_id"
_ENDINGS = {".csv", ".tsv", ".txt"}


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
        raise NotFound(
            "no such file", where=word, hint="a file with one clip id a line, or ids"
        )
    return [word]


def _ids_in(path: Path) -> list[str]:
    """Return the ids in a file: one a line, or those in the column clip_id of a table."""
    try:
        # Windows programs put a mark before the first id.
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FixInput("not UTF-8", where=str(path), hint="save it as UTF-8") from error
    lines = [line for line in lines if line.strip()]
    first = lines[0] if lines else ""
    for separator in (",", ";", "\t"):
        header = next(csv.reader([first], delimiter=separator), [])
        names = [name.strip() for name in header]
        if COLUMN in names:
            column = names.index(COLUMN)
            rows = csv.reader(lines[1:], delimiter=separator)
            return [row[column].strip() for row in rows if len(row) > column]
    return [line.strip() for line in lines]
