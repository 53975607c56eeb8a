"""Clip ids as the user passes them: ids, or a file that lists ids."""

import os
from collections.abc import Iterable
from pathlib import Path, PurePath

from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.files import SPREADSHEETS, TABLE_ENDINGS, is_workbook

# The type of a parameter.
ClipIds = str | os.PathLike[str] | Iterable[str]

COLUMN = "clip_id"
_ENDINGS = {".txt", *TABLE_ENDINGS, *SPREADSHEETS}


def clip_ids(clips: ClipIds) -> list[str]:
    """Return the ids of clips.

    Args:
        clips: A list of ids, one id, or the path of a file. The file has one id on each line, or is
            a table with a column clip_id.
    """
    if isinstance(clips, str):
        return ids_of_word(clips)
    if isinstance(clips, os.PathLike):
        return _ids_in(Path(clips))
    return list(clips)


def each_name(names: str | Iterable[str]) -> list[str]:
    """Return names as a list; a single text is one name."""
    return [names] if isinstance(names, str) else list(names)


def is_file_name(word: str) -> bool:
    """Return whether a file of this name exists; False for a text that is too long for a name."""
    try:
        return Path(word).is_file()
    except OSError:
        return False


def ids_of_word(word: str) -> list[str]:
    """Return the ids in a file if the word is its path, else the word as the only id.

    Raise an error if there is no file, and the word ends like the name of a table or text file.
    """
    if is_file_name(word):
        return _ids_in(Path(word))
    if PurePath(word).suffix.lower() in _ENDINGS:
        raise NotFound("no such file", where=word)
    return [word]


def _ids_in(path: Path) -> list[str]:
    """Return the ids in a file, which has one id on each line, or is a table with a column clip_id.

    Raise an error for a file without ids, because an empty selection would mean all clips.
    """
    # Each command imports this module, and few read a file of ids.
    from obygaze_features.core.schema_check import Violations
    from obygaze_features.core.tables import numbered_lines, read_header, read_table

    violations = Violations(path)
    # A table has a column of ids; a list has one column and no header.
    header = () if is_workbook(path) else read_header(path)
    if is_workbook(path) or COLUMN in header or len(header) > 1:
        table = read_table(path, required=[COLUMN], violations=violations)
        for row in table.rows:
            if not row[COLUMN].strip():
                row.add(COLUMN, "is empty")
        violations.raise_if_any("the clips cannot be read")
        ids = [row[COLUMN].strip() for row in table.rows]
    else:
        ids = [line for _, line in numbered_lines(path)]
    if not ids:
        raise FixInput(
            "this file has no clip ids",
            where=str(path),
            hint=f"write one clip id per line, or a table with a column {COLUMN}",
        )
    return ids
