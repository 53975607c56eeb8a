"""Texts with their columns, from a table, a manifest, or a folder of text files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.tables import read_table

CONCEPTS = "concepts"
_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Record:
    """One text's columns by name, and where it stands."""

    cells: Mapping[str, str]
    where: str

    def joined(self, columns: Sequence[str]) -> str:
        """The cells of some columns, as one key a person can read."""
        return " ".join(self.cells[column] for column in columns)


def records_of_table(path: Path, columns: Sequence[str], delimiter: str = ",") -> list[Record]:
    """The rows of a CSV file that has at least these columns."""
    table = read_table(path, required=columns, delimiter=delimiter)
    return [Record(row.cells, f"{path}:{row.line}") for row in table.rows]


def records_of_manifest(manifest: Manifest, columns: Sequence[str]) -> list[Record]:
    """The clips of a manifest, with their own and all further columns."""
    own = ("clip_id", "movie_id", "level", CONCEPTS)
    unknown = [name for name in columns if name not in (*own, *manifest.columns)]
    if unknown:
        there = ", ".join((*own, *manifest.columns))
        raise NotFound(f"no column {unknown[0]!r}; there are {there}", where=manifest.name)
    return [
        Record(
            {
                **clip.extra,
                "clip_id": clip.clip_id,
                "movie_id": clip.movie_id,
                "level": clip.level,
                CONCEPTS: "|".join(clip.concepts),
            },
            clip.clip_id,
        )
        for clip in manifest
    ]


def columns_of(text: str | None) -> tuple[str, ...]:
    """The names of columns, separated by commas."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def records_of_folder(folder: Path, names: str, columns: Sequence[str] = ()) -> list[Record]:
    """Each line of the text files of a folder; `names` says what a file's name tells.

    For example "{image}_{face}_{group}_{copy}": each word in braces becomes a column, beside
    `caption` (the line) and `file`.
    """
    pattern = _pattern(names)
    there = (*pattern.groupindex, "file", "caption")
    for column in columns:
        if column not in there:
            raise NotFound(f"no column {column!r}; {names} tells {', '.join(there)}")
    records = []
    paths = sorted(folder.glob("*.txt"))
    if not paths:
        raise NotFound("no .txt file in this folder", where=str(folder))
    for path in paths:
        found = pattern.fullmatch(path.stem)
        if found is None:
            raise FixInput(f"{path.name} is not named {names}", where=str(folder), hint="--names")
        try:
            lines = path.read_text("utf-8").splitlines()
        except UnicodeDecodeError:
            raise FixInput("this file is not UTF-8", where=str(path)) from None
        told = {**found.groupdict(), "file": path.stem}
        records += [
            Record({**told, "caption": line}, f"{path}:{number}")
            for number, line in enumerate(lines, start=1)
        ]
    return records


def _pattern(names: str) -> re.Pattern[str]:
    fields = _FIELD.findall(names)
    if not fields or len(set(fields)) < len(fields):
        raise FixInput(f"{names!r} names no columns, or one twice", hint="'{image}_{group}'")
    parts = _FIELD.split(names)
    # Fields do not run over the mark that separates them, so that each name has one reading.
    return re.compile(
        "".join(f"(?P<{part}>[^_]+?)" if i % 2 else re.escape(part) for i, part in enumerate(parts))
    )
