"""Verify that a store has the files that it lists, and name each file that is not as listed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec
import numpy as np

from obygaze_features.core.console import Progress, Quiet, count, few, human
from obygaze_features.core.errors import Corrupt, ObygazeError
from obygaze_features.core.workspace import EXPECTED, PathLike
from obygaze_features.store.decoding import DAMAGE
from obygaze_features.store.encoding import array_document, group_document
from obygaze_features.store.files import Files, NoRanges
from obygaze_features.store.layout import (
    CARD,
    GROUP_JSON,
    STORE_JSON,
    Array,
)
from obygaze_features.store.network import Unreachable
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.rows import words_of_status

LENGTHS = "lengths"
HASHES = "hashes"
# Values of so many bytes are checked at a time.
CHECKED_BYTES = 2**25
# What other readers must know of an array or of the group; other attributes are remarks.
_ATTRIBUTES = ("coordinates", "flag_values", "flag_meanings")


@dataclass(frozen=True)
class Problem:
    """A file that is not as store.json lists it."""

    name: str
    message: str

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.name}: {self.message}"


@dataclass
class VerifyReport:
    """What a verification found."""

    location: str
    seal_sha256: str
    # What was compared: the lengths of the files, or their hashes too.
    how: str
    # Whether the seal is the one that was expected; False if none was.
    is_expected: bool = False
    n_bytes: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    is_extracted: bool = True

    def add(self, name: str, problem: str) -> None:
        """Add a problem."""
        self.problems.append(Problem(name, problem))

    @contextmanager
    def collecting(self, name: str) -> Iterator[None]:
        """Turn errors about a file into problems, but raise those of a broken connection.

        A server that does not answer, or not with a part, proves nothing about the file.
        """
        try:
            yield
        except (Unreachable, NoRanges):
            raise
        except ObygazeError as error:
            self.add(name, error.message)
        except FileNotFoundError:
            self.add(name, "it is missing")
        except OSError as error:
            self.add(name, f"it cannot be read: {error.strerror}")
        except DAMAGE as error:
            self.add(name, f"it is damaged: {str(error)[:200]}")

    def to_json(self) -> dict[str, Any]:
        """Return all that was found, and whether the store is whole."""
        return {**asdict(self), "whole": not self.problems}

    def __str__(self) -> str:
        if self.problems:
            return ""
        parts = []
        for status, number in self.counts.items():
            words = words_of_status(status, is_extracted=self.is_extracted)
            parts.append(f"{number} {words}")
        extent = "whole" if self.how == HASHES else "complete"
        size = human(self.n_bytes)
        lines = [f"{extent}: {size} ({self.how}); rows: {', '.join(parts)}"]
        if self.how == LENGTHS:
            lines.append(
                "every file is there and has its length; its bytes were not compared (--hash)"
            )
        if self.is_expected:
            lines.append(f"the expected store: its seal is {self.seal_sha256}")
        else:
            lines.append("who its publisher is was not checked (--expect)")
            lines.append(f"seal: {self.seal_sha256}")
        return "\n".join(lines)

    def require_ok(self) -> None:
        """Raise an error (exit 4) that names each file with a problem."""
        if not self.problems:
            return
        first, *others = self.problems
        message = str(first)
        if others:
            message += f"; {count(len(others), 'other problem')}"
        raise Corrupt(
            message,
            where=self.location,
            details=[str(problem) for problem in others],
        )


def verify(
    store: PathLike | Files | Store,
    *,
    hashes: bool = False,
    expect: str | None = None,
    progress: Progress | None = None,
    workspace: PathLike | None = None,
) -> VerifyReport:
    """Check that a store is whole and undamaged.

    Without options, check that every file exists and has its length; a changed byte is found with
    --hash. If a file is not as the store lists it, the exit code is 4 and each such file is named.

    A store that is consistent says nothing of who made it: with --expect and the seal that
    `obygaze store info` shows to its publisher, another store ends with the exit code 5. An address
    may end with #sha256=... in place of --expect.

    Args:
        store: The store.
        hashes: Read every byte; compare the SHA-256 of each file, each chunk, and all tables.
        expect: The seal of the store, from its publisher.
        progress: Counts the bytes of the files that were checked.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store verify obygaze12-xclip
        obygaze store verify obygaze12-xclip --hash --expect 5f0c...
    """
    opened = open_store(store, workspace=workspace, expect=expect)
    files = opened.record.files
    is_in_address = isinstance(store, str) and EXPECTED in store
    report = VerifyReport(
        location=opened.location,
        seal_sha256=opened.seal,
        how=HASHES if hashes else LENGTHS,
        is_expected=expect is not None or is_in_address,
        n_bytes=opened.record.n_bytes,
        is_extracted=opened.recipe.is_extracted,
    )
    progress = progress or Quiet()
    progress.expect(report.n_bytes, "B")
    for name in files:
        with report.collecting(name):
            _check_file(opened, name, report, hashes)
        progress.advance(files[name].n_bytes)
    _warn_of_extra(opened, report)
    report.counts = opened.record.rows.by_status
    if hashes and not report.problems:
        _check_documents(opened, report)
        _check_table(opened, report)
    if hashes and not report.problems:
        for array in opened.record.arrays:
            _check_array(opened, array, report)
    if report.problems:
        # They are none of this store if another one has taken its place meanwhile.
        with suppress(FileNotFoundError):
            opened.store_json()
    return report


def _check_file(store: Store, name: str, report: VerifyReport, hashes: bool) -> None:
    """Compare a file with its length, and with its SHA-256 if this is asked for."""
    mark = store.record.files[name]
    n_bytes = store.files.length(name)
    if n_bytes != mark.n_bytes:
        report.add(name, f"it has {n_bytes} bytes, expected {mark.n_bytes}")
        return
    if not hashes:
        return
    digest = hashlib.sha256()
    for data in store.listed.pieces(name):
        digest.update(data)
    if digest.hexdigest() != mark.sha256:
        report.add(name, "it does not have the SHA-256 that store.json lists")


def _warn_of_extra(store: Store, report: VerifyReport) -> None:
    """Warn of files that no store has."""
    names = store.files.names()
    if names is None:
        return
    known = {*store.record.files, STORE_JSON, CARD}
    extra = [name for name in names if name not in known]
    if extra:
        verb = "is" if len(extra) == 1 else "are"
        report.warnings.append(f"{few(extra)} {verb} not part of the store")


# The documents for other readers of Zarr.


def _check_documents(store: Store, report: VerifyReport) -> None:
    """Compare the documents of data.zarr with what store.json says."""
    n_rows = store.record.rows.total
    documents = []
    for array in (*store.record.columns, *store.record.arrays):
        expected = array_document(array, n_rows)
        documents.append((array.name, expected))
        _check_document(store, array.zarr_json, expected, report)
    _check_document(store, GROUP_JSON, group_document(documents), report)


def _check_document(
    store: Store, name: str, expected: bytes, report: VerifyReport
) -> None:
    with report.collecting(name):
        found = msgspec.json.decode(store.listed.whole(name).tobytes())
        if _meaning(found) != _meaning(msgspec.json.decode(expected)):
            report.add(name, "it does not say the same as store.json")


def _meaning(document: Any) -> Any:
    """Return a document of Zarr without what may differ between two programs."""
    meaning = {"storage_transformers": [], **document}
    attributes = document.get("attributes", {})
    meaning["attributes"] = {name: attributes.get(name) for name in _ATTRIBUTES}
    meaning["codecs"] = [_codec(codec) for codec in document.get("codecs", [])]
    consolidated = document.get("consolidated_metadata") or {}
    parts = consolidated.get("metadata", {})
    meaning["consolidated_metadata"] = {
        name: _meaning(part) for name, part in parts.items()
    }
    return meaning


def _codec(codec: Any) -> Any:
    name = codec["name"]
    settings = codec.get("configuration", {})
    if name == "bytes":
        return (name, settings.get("endian", "little"))
    if name == "sharding_indexed":
        codecs = [_codec(inner) for inner in settings["codecs"]]
        index_codecs = [_codec(inner) for inner in settings["index_codecs"]]
        index_location = settings.get("index_location", "end")
        return (name, settings["chunk_shape"], codecs, index_codecs, index_location)
    return (name,)


def _check_array(store: Store, array: Array, report: VerifyReport) -> None:
    """Check each chunk as a reader does, the rows without features, and the index of each file."""
    is_ok = store.table.is_ok
    step = array.chunk_rows * max(1, CHECKED_BYTES // array.chunk_bytes)
    for number in range(array.n_files(len(store))):
        name = array.file_name(number)
        first = number * array.file_rows
        after = min(first + array.file_rows, len(store))
        with report.collecting(name):
            # Readers of Zarr need it, where this program does not.
            store.arrays.check_index(array, number)
            for start in range(first, after, step):
                rows = np.arange(start, min(start + step, after))
                absent = store.read(array, rows)[~is_ok[rows]]
                is_filled = np.isnan(absent) if array.is_float else absent == 0
                if not is_filled.all():
                    report.add(name, "a row without features has numbers")
                    break


def _check_table(store: Store, report: VerifyReport) -> None:
    """Read each column of the table of rows as a reader does, and the index of its files."""
    all_rows = np.arange(len(store))
    for column in store.record.columns:
        with report.collecting(column.file_name(0)):
            if column.is_text:
                store.table.texts(column.name, all_rows)
            else:
                store.table.numbers(column.name, all_rows)
                for number in range(column.n_files(len(store))):
                    store.arrays.check_index(column, number)
            if column.name == "clip_id":
                # As many as there are, so that each is looked up among all.
                store.table.find(store.clip_ids.tolist())
            if column.name == "status":
                _ = store.table.codes
