"""Functions of all adapters: check the hash of files, read lists of words in cells."""

from __future__ import annotations

import ast
import re
import unicodedata
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from obygaze_features.core.console import few
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import require_file, sha256_file
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.schema_check import Table, read_toml, table_of
from obygaze_features.manifest.model import Header, Manifest, SourceFile
from obygaze_features.manifest.tables import TableRow
from obygaze_features.manifest.vocabulary import canonical_concept, canonical_level

_STRING = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\")"""
_LIST = re.compile(rf"\[(?:{_STRING}(?:, ?{_STRING})*)?\]")


@dataclass(frozen=True)
class PublishedSplit:
    """A split file that was published with a data set, and the annotation levels in it."""

    file: str
    levels: tuple[str, ...]
    sha256: str

    @property
    def name(self) -> str:
        """The name of the split's fold column: `by_movie_HN_S` for `by_movie/HN_S.csv`."""
        return self.file.removesuffix(".csv").replace("/", "_")


@dataclass(frozen=True)
class ValueTable:
    """Files with values of clips: their columns with those of the manifest, the form of a value.

    Without `columns`, the value is the class of violence, in the third column of any name.
    """

    files: tuple[str, ...]
    form: str
    what: str
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PublishedDataset:
    """An entry of datasets.toml; `sha256` are the hashes of the published table."""

    citation: str
    notes: tuple[str, ...]
    sha256: tuple[str, ...] = ()
    splits: tuple[PublishedSplit, ...] = ()
    tables: tuple[ValueTable, ...] = ()

    def header(self, dataset: str, **more: Any) -> Header:
        """Return a header with this citation and these notes."""
        return Header(dataset, **{"citation": self.citation, "notes": self.notes, **more})


@cache
def published(dataset: str) -> PublishedDataset:
    """Return the entry of a data set in datasets.toml."""
    path = files(__package__).joinpath("datasets.toml")
    document = read_toml(path.read_bytes(), path.name)
    datasets = document.check(Table(others=table_of(PublishedDataset)))
    document.raise_if_any("datasets.toml is not valid")
    found: PublishedDataset = datasets[dataset]
    return found


@dataclass(frozen=True, repr=False)
class ImportedManifest:
    """A manifest made from the files of a data set, and warnings about these files."""

    manifest: Manifest
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return short_repr("ImportedManifest", self.manifest, f"{len(self.warnings)} warnings")


def source_of(path: Path, name: str | None = None) -> SourceFile:
    """Return the name and the hash of a file, for the header."""
    require_file(path)
    return SourceFile(name or path.name, sha256_file(path))


def check_known(
    sources: Iterable[tuple[Path, SourceFile, Collection[str]]], *, strict: bool
) -> tuple[str, ...]:
    """Return a warning for each file without a known hash; with `strict` raise an error instead."""
    unknown = {
        str(path): f"unknown file: expected the sha256 {' or '.join(known)}, got {source.sha256}"
        for path, source, known in sources
        if source.sha256 not in known
    }
    warnings = tuple(f"{path}: {message}" for path, message in unknown.items())
    if strict and warnings:
        raise FixInput(
            "the sha256 is not that of the published file",
            where=", ".join(unknown),
            hint="download it again, or import it without --strict",
            details=warnings,
        )
    return warnings


def ascii_id(text: str) -> str:
    """Return text as an id: without accents, other characters than those of ids become `_`.

    Text without a letter or digit of ASCII is returned unchanged.

    >>> ascii_id("Amélie 1")
    'Amelie_1'
    """
    plain = unicodedata.normalize("NFKD", text.strip())
    plain = "".join(mark for mark in plain if not unicodedata.combining(mark))
    made = re.sub(r"[^A-Za-z0-9._+-]+", "_", plain).lstrip(".+-")
    return made if re.search("[A-Za-z0-9]", made) else text


def string_list(text: str) -> tuple[str, ...] | None:
    """Return the strings of a list in Python's syntax, None where the text is anything else."""
    # literal_eval accepts more than lists: it would join 'a' 'b', where a comma is missing.
    if not _LIST.fullmatch(text):
        return None
    with warnings.catch_warnings(action="error"):
        try:
            return tuple(ast.literal_eval(text))
        except (SyntaxError, ValueError):
            return None


def level_of(row: TableRow, column: str) -> str:
    """Return the canonical level in a cell; an unknown level is a violation and returned empty."""
    level = canonical_level(row[column])
    if level is None:
        row.add(column, f"unknown level {row[column]!r}")
    return level or ""


def strings_of(row: TableRow, column: str) -> tuple[str, ...]:
    """Return the strings of a list that Python wrote into a cell."""
    strings = string_list(row[column])
    if strings is None:
        row.add(column, f"expected a list of strings, got {row[column]!r}")
    return strings or ()


def concepts_of(row: TableRow, column: str) -> tuple[str, ...]:
    """Return the canonical names of the concepts in such a list; `['']` is an empty list."""
    words = strings_of(row, column)
    known = {word: canonical_concept(word) for word in words if words != ("",)}
    for word, name in known.items():
        if name is None:
            row.add(column, f"unknown concept {word!r}")
    return tuple(name for word in words if (name := known.get(word)))


def named_lines(lines: Sequence[int]) -> str:
    """Return line numbers as text: `line 3`, or `lines 3, 4 and 60 more`."""
    return f"line{'s' if len(lines) > 1 else ''} {few([str(line) for line in lines], 5)}"
