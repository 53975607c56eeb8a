"""Read files as manifests: a module for each format, and here the functions that they share."""

import ast
import re
import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from obygaze_features.core.console import count
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import name_taken_error, require_file, sha256_file
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import TableRow
from obygaze_features.manifest.annotators import label_notes
from obygaze_features.manifest.history import with_command
from obygaze_features.manifest.io import read_manifest, saved_facts, write_manifest
from obygaze_features.manifest.link import is_linked, require_one_film_a_video
from obygaze_features.manifest.model import (
    NO_LEVEL,
    Header,
    Manifest,
    SourceFile,
)
from obygaze_features.manifest.stats import Stats, compute_stats
from obygaze_features.manifest.vocabulary import (
    LEVELS,
    canonical_concept,
    canonical_level,
    read_packaged,
)

_STRING = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\")"""
_LIST = re.compile(rf"\[(?:{_STRING}(?:, ?{_STRING})*)?\]")


def dataset_entry(dataset: str) -> dict[str, Any]:
    """Return the entry of a published data set in datasets.toml."""
    entry: dict[str, Any] = read_packaged("adapters/datasets.toml")[dataset]
    return entry


def published_header(dataset: str, *sources: SourceFile, **more: Any) -> Header:
    """Return the header of a published data set, with its citation and notes."""
    entry = dataset_entry(dataset)
    facts = {"citation": entry["citation"], "notes": tuple(entry["notes"])}
    return Header(dataset, **facts, sources=sources, **more)


class ImportedManifest(NamedTuple):
    """A manifest made from files or from other manifests, with warnings.

    `notes` are sentences about how the files were read. `facts` are values that only `--json`
    shows.
    """

    manifest: Manifest
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = MappingProxyType({})

    def save(
        self,
        path: Path,
        command: str,
        *parents: Manifest,
        force: bool = False,
    ) -> "SavedManifest":
        """Write the manifest; the name of its file becomes its name.

        Args:
            path: The TOML file of the manifest.
            command: The command that makes the manifest.
            parents: The manifests that this command reads.
            force: Replace the output if it exists.
        """
        manifest = with_command(
            replace(self.manifest, name=path.stem), command, *parents
        )
        n_links = _n_links(path)
        if n_links and not force:
            raise name_taken_error(
                f"this manifest links {count(n_links, 'clip')} to videos", path
            )
        if manifest.header.video_root:
            require_one_film_a_video(manifest)
        # Rows that contradict each other are refused before anything is written.
        write_manifest(manifest, path, force=force)
        return SavedManifest(path, manifest, [*self.warnings], self, n_links)


@dataclass(frozen=True, eq=False, repr=False)
class SavedManifest:
    """A manifest that was written.

    `imported` is the manifest as it was read. `n_lost_links` counts the clips of the replaced
    manifest that had links to videos.
    """

    path: Path
    manifest: Manifest
    warnings: list[str]
    imported: ImportedManifest
    n_lost_links: int

    @cached_property
    def _stats(self) -> Stats:
        return compute_stats(self.manifest)

    def to_json(self) -> dict[str, Any]:
        """Return the path of the manifest, and its counts."""
        return {
            **saved_facts(self.manifest, self.path),
            "warnings": self.warnings,
            **self.imported.facts,
            **self._stats.to_json(),
        }

    def __str__(self) -> str:
        stats = self._stats
        text = f"{self.path}: {stats.size}"
        counts = [f"{level} {n}" for level, n in stats.levels.items() if n]
        if counts and stats.without_level:
            counts.append(f"{NO_LEVEL} {stats.without_level}")
        return f"{text} ({', '.join(counts)})" if counts else text

    @property
    def notes(self) -> list[str]:
        """The notes of the import, lost links, the counts, and the next command."""
        notes = list(self.imported.notes)
        if self.n_lost_links:
            n_clips = count(self.n_lost_links, "clip")
            notes.append(
                f"removed the links of {n_clips} to videos; run obygaze manifest link again"
            )
        if not any(clip.level for clip in self.manifest):
            notes.append(
                "no clip has a level; pass --task COLUMN to obygaze run for a label of your own,"
                f" or import a column of {', '.join(LEVELS)} with --map level=COLUMN"
            )
        stats = self._stats
        notes += stats.level_notes(self.imported.facts.get("level_words"))
        notes += label_notes(self.manifest)
        quoted = shell_word(self.manifest.name)
        if stats.is_linked and stats.without_video < stats.clips:
            notes.append(f"next: obygaze extract plan {quoted} -b descriptors")
        else:
            notes.append(
                f"next: obygaze manifest link {quoted} FOLDER, or with features of your own:"
                f" obygaze store import FILE --manifest {quoted} -o STORE"
            )
        return notes


def _n_links(path: Path) -> int:
    """Return how many clips of an existing manifest were linked to a video.

    A missing or unreadable manifest has none.
    """
    with suppress(ObygazeError):
        manifest = read_manifest(path)
        if manifest.header.video_root:
            return sum(map(is_linked, manifest))
    return 0


def count_with_value(manifest: Manifest, column: str) -> int:
    """Return the number of clips that have a value in a column."""
    return sum(bool(clip.values(column)) for clip in manifest)


def source_file(path: Path, name: str | None = None) -> SourceFile:
    """Return the name and the hash of a file, for the header."""
    require_file(path)
    return SourceFile(name or path.name, sha256_file(path))


def known_sources(
    files: Mapping[Path, tuple[str, Collection[str]]],
) -> tuple[tuple[SourceFile, ...], tuple[str, ...]]:
    """Return the sources for the header, and a warning for each file with an unknown hash.

    `files` maps each file to its name and its known hashes.
    """
    sources = []
    messages = []
    for path, (name, known_hashes) in files.items():
        source = source_file(path, name)
        sources.append(source)
        if source.sha256 not in known_hashes:
            expected = f"expected the SHA-256 {' or '.join(known_hashes)}"
            messages.append(
                f"{path}: not the published file: {expected}, got {source.sha256}"
            )
    return tuple(sources), tuple(messages)


def unread_columns(
    path: Path, columns: Collection[str], *read_columns: str
) -> list[str]:
    """Return a warning that lists the columns that are not read; an empty list if all are read."""
    unread = [name for name in columns if name not in read_columns]
    if not unread:
        return []
    names = ", ".join(map(repr, unread))
    return [f"{path}: columns not imported: {names}"]


def string_list(text: str) -> tuple[str, ...] | None:
    """Return the strings of a list in Python's syntax, or None if the text is not such a list."""
    # literal_eval accepts more than lists: it would join 'a' 'b', where a comma is missing.
    if not _LIST.fullmatch(text):
        return None
    with warnings.catch_warnings(action="error"):
        try:
            return tuple(ast.literal_eval(text))
        except (SyntaxError, ValueError):
            return None


def read_level(row: TableRow) -> str:
    """Return the canonical level of a row; for an unknown level, add a violation and return ""."""
    level = canonical_level(row["label"])
    if level is None:
        row.add("label", unknown_level(row["label"]))
    return level or ""


def unknown_level(word: str) -> str:
    """Return the error sentence for a word that is no level."""
    return f"unknown level {word!r}, expected {', '.join(LEVELS)}"


def read_strings(row: TableRow, column: str) -> tuple[str, ...]:
    """Return the strings of a list in Python's syntax; an invalid cell is a violation."""
    strings = string_list(row[column])
    if strings is None:
        row.add(column, f"expected a list of strings, got {row[column]!r}")
    return strings or ()


def read_concepts(row: TableRow) -> tuple[str, ...]:
    """Return the canonical names of the concepts of a row; `['']` is an empty list."""
    words = read_strings(row, "concepts")
    if words == ("",):
        return ()
    names = []
    for word in dict.fromkeys(words):
        name = canonical_concept(word)
        if name is None:
            row.add("concepts", f"unknown concept {word!r}")
        else:
            names.append(name)
    return tuple(names)
