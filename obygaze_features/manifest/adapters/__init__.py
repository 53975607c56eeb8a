"""Read the files of data sets as manifests: a module for each data set, and what they share."""

import ast
import re
import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from obygaze_features.core.errors import FixInput as FixInput
from obygaze_features.core.files import require_file, sha256_file
from obygaze_features.manifest.model import Header, Manifest, SourceFile
from obygaze_features.manifest.tables import TableRow
from obygaze_features.manifest.vocabulary import (
    canonical_concept,
    canonical_level,
    packaged,
)

_STRING = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\")"""
_LIST = re.compile(rf"\[(?:{_STRING}(?:, ?{_STRING})*)?\]")


def published(dataset: str) -> dict[str, Any]:
    """Return the entry of a data set in datasets.toml."""
    entry: dict[str, Any] = packaged("adapters/datasets.toml")[dataset]
    return entry


def published_header(dataset: str, *sources: SourceFile, **more: Any) -> Header:
    """Return the header of a published data set, with its citation and notes."""
    entry = published(dataset)
    facts = {"citation": entry["citation"], "notes": tuple(entry["notes"])}
    return Header(dataset, **facts, sources=sources, **more)


class ImportedManifest(NamedTuple):
    """A manifest made from the files of a data set, and warnings about these files."""

    manifest: Manifest
    warnings: tuple[str, ...] = ()

    def with_terms(self, licence: str = "", citation: str = "") -> Self:
        """Return it with another licence or citation in the header; "" keeps what is there."""
        header = self.manifest.header
        stated = replace(
            header,
            licence=licence.strip() or header.licence,
            citation=citation.strip() or header.citation,
        )
        return self._replace(manifest=replace(self.manifest, header=stated))


def source_of(path: Path, name: str | None = None) -> SourceFile:
    """Return the name and the hash of a file, for the header."""
    require_file(path)
    return SourceFile(name or path.name, sha256_file(path))


def known_sources(
    files: Mapping[Path, tuple[str, Collection[str]]],
) -> tuple[tuple[SourceFile, ...], tuple[str, ...]]:
    """Return the sources in the header, and a warning for each file with an unknown hash.

    `files` has the name of each file, and the hashes that it may have.
    """
    sources = []
    messages = []
    for path, (name, known_hashes) in files.items():
        source = source_of(path, name)
        sources.append(source)
        if source.sha256 not in known_hashes:
            expected = f"expected the sha256 {' or '.join(known_hashes)}"
            messages.append(f"{path}: unknown file: {expected}, got {source.sha256}")
    return tuple(sources), tuple(messages)


def unread_columns(path: Path, columns: Collection[str], *known: str) -> list[str]:
    """Return a warning that names the columns that are not among the known ones."""
    unread = [name for name in columns if name not in known]
    if not unread:
        return []
    names = ", ".join(map(repr, unread))
    return [f"{path}: columns that are left out: {names}"]


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
    if words == ("",):
        return ()
    names = []
    unknown = []
    for word in words:
        name = canonical_concept(word)
        if name is not None:
            names.append(name)
        elif word not in unknown:
            unknown.append(word)
            row.add(column, f"unknown concept {word!r}")
    return tuple(names)
