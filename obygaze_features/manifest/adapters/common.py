"""What all adapters share: known files by their hash, lists of words, rows held to the rules."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from obygaze_features.core.console import few
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import require_file, sha256_file
from obygaze_features.core.schema_check import Violations
from obygaze_features.manifest.io import ClipParser
from obygaze_features.manifest.model import COLUMNS, Clip, Manifest, SourceFile
from obygaze_features.manifest.tables import TableRow
from obygaze_features.manifest.vocabulary import canonical_concept, canonical_level

_STRING = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_LIST = re.compile(rf"\[(?:(?:{_STRING})(?:, ?(?:{_STRING}))*)?\]")
_STRINGS = re.compile(_STRING)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}


@dataclass(frozen=True)
class ImportedManifest:
    """A manifest made from a data set's own files, and what a person should know about it."""

    manifest: Manifest
    warnings: tuple[str, ...] = ()


class Renamed(Violations):
    """Violations of rows that were translated, told with the column names of the source."""

    def __init__(self, path: Path, names: Mapping[str, str]) -> None:
        super().__init__(path)
        self.names = names

    def add(self, line: int | None, column: str | None, message: str) -> None:
        """Note one violation under the name that the source gives the column."""
        super().add(line, None if column is None else self.names.get(column, column), message)


class ClipReader:
    """Makes clips of translated rows, and holds each to the rules of a manifest at once."""

    def __init__(
        self, concepts: Iterable[str], columns: tuple[str, ...], violations: Violations
    ) -> None:
        self._parser = ClipParser(concepts, columns, violations)
        self._blank = dict.fromkeys((*COLUMNS, *columns), "")

    def clip(self, line: int, cells: Mapping[str, str]) -> Clip:
        """The clip of one row; columns that are not given are empty."""
        return self._parser.clip(TableRow(line, {**self._blank, **cells}))


def source_of(path: Path, name: str | None = None) -> SourceFile:
    """A file as the header remembers it, by its name and its hash."""
    require_file(path)
    return SourceFile(name or path.name, sha256_file(path))


def check_known(
    files: Iterable[tuple[Path, SourceFile, Collection[str]]], *, strict: bool
) -> tuple[str, ...]:
    """A warning for each file whose hash is not a known one; with `strict` an error of them all."""
    told = [
        f"{path}: not a known file (its sha256 is {source.sha256}, not {' or '.join(known)})"
        for path, source, known in files
        if source.sha256 not in known
    ]
    if strict and told:
        where = ", ".join(line.partition(": ")[0] for line in told)
        raise FixInput(
            "the sha256 does not match",
            where=where,
            hint="download it again, or import it without --strict",
            details=told,
        )
    return tuple(told)


def string_list(text: str) -> tuple[str, ...] | None:
    """The strings of a list that Python wrote into a cell, None where it is anything else."""
    if not _LIST.fullmatch(text):
        return None
    strings = [_unescaped(match[0][1:-1]) for match in _STRINGS.finditer(text)]
    known = [string for string in strings if string is not None]
    return tuple(known) if len(known) == len(strings) else None


def _unescaped(body: str) -> str | None:
    if any(match[1] not in _ESCAPED and len(match[1]) == 1 for match in _ESCAPE.finditer(body)):
        return None
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1]) or chr(int(match[1][1:], 16)), body)


def level_of(row: TableRow, column: str, violations: Violations) -> str:
    """The level of a row under its one name; empty, and told, where it is no level."""
    level = canonical_level(row[column])
    if level is None:
        violations.add(row.line, column, f"{row[column]!r} is not a level")
    return level or ""


def concepts_of(row: TableRow, column: str, violations: Violations) -> tuple[str, ...]:
    """The concepts of a list that Python wrote, under their one name; an empty string is none."""
    words = string_list(row[column])
    if words is None:
        violations.add(row.line, column, f"{row[column]!r} is not a list of strings")
        return ()
    words = () if words == ("",) else words
    for word in words:
        if canonical_concept(word) is None:
            violations.add(row.line, column, f"{word!r} is not a known concept")
    return tuple(known for word in words if (known := canonical_concept(word)) is not None)


def named_lines(lines: Sequence[int]) -> str:
    """Where something was found, short enough for one line: `line 3`, `lines 3, 4 and 60 more`."""
    return f"line{'s' if len(lines) > 1 else ''} {few([str(line) for line in lines], 5)}"
