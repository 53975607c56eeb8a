"""Verify that a store has the files that it lists, and name each file that differs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from obygaze_features.core.console import Progress, Quiet, count, few, human
from obygaze_features.core.errors import Corrupt, ObygazeError, first_line
from obygaze_features.core.workspace import EXPECTED, PathLike, is_url
from obygaze_features.store.decoding import DAMAGE
from obygaze_features.store.encoding import zarr_documents
from obygaze_features.store.files import Files, NoRanges
from obygaze_features.store.layout import (
    CARD,
    STORE_JSON,
)
from obygaze_features.store.network import Unreachable
from obygaze_features.store.reading import Store, open_store

# Bytes that are hashed to estimate how long the hash of a store takes.
SAMPLE_BYTES = 2**22
LENGTHS = "lengths"
HASHES = "hashes"
# The attributes of Zarr that other readers need. All other attributes are remarks.
_ATTRIBUTES = ("coordinates", "flag_values", "flag_meanings")
# The statuses of the first version. A later version may know more, and these keep their numbers.
_N_FIRST_STATUSES = 6
# Settings that a document of Zarr may omit. It may omit empty settings too.
_DEFAULTS = (
    ("endian", "little"),
    ("index_location", "end"),
    ("kind", "inline"),
    ("must_understand", False),
)


@dataclass
class VerifyReport:
    """The result of a verification."""

    location: str
    seal_sha256: str
    # LENGTHS or HASHES: whether hashes were compared too.
    how: str
    # Whether the seal equals an expected seal; False if none was given.
    is_expected: bool = False
    n_bytes: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    # The name of each file that differs from store.json, and the problem.
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, name: str, problem: str) -> None:
        """Add a problem."""
        self.problems.append(f"{name}: {problem.removeprefix(name).strip()}")

    @contextmanager
    def collecting(self, name: str) -> Iterator[None]:
        """Turn errors about a file into problems of the report.

        If the connection broke, or the server sends no parts of files, raise the error: it does not
        show whether the file is damaged.
        """
        try:
            yield
        except (Unreachable, NoRanges):
            raise
        except (ObygazeError, OSError, *DAMAGE) as error:
            self.add(name, first_line(error))

    @property
    def hash_time(self) -> str:
        """How long the comparison of all bytes takes, in words, if the disk is fast enough."""
        if is_url(self.location):
            return f"reading {human(self.n_bytes)}"
        sample = bytes(SAMPLE_BYTES)
        begin = time.perf_counter()
        hashlib.sha256(sample)
        seconds = (time.perf_counter() - begin) * self.n_bytes / SAMPLE_BYTES
        return f"in about {max(1, round(seconds))} s"

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON; the key `whole` states whether no file has a problem."""
        return {**vars(self), "whole": not self.problems}

    def __str__(self) -> str:
        if self.problems:
            return f"not whole: {count(len(self.problems), 'problem')}"
        rows = ", ".join(f"{n} {status}" for status, n in self.counts.items())
        extent = "whole"
        if self.how == LENGTHS:
            extent = (
                f"the bytes were not compared (--hash compares them, {self.hash_time}); every"
                " file has its length"
            )
        seal = "the expected seal"
        if not self.is_expected:
            seal = "the publisher was not checked; pass --expect SEAL to do so\nseal"
        return (
            f"{extent}: {human(self.n_bytes)}; rows: {rows}\n{seal}: {self.seal_sha256}"
        )

    def require_ok(self) -> None:
        """Raise an error (exit 4) that names each file with a problem."""
        if not self.problems:
            return
        first, *others = self.problems
        if others:
            first += f"; {count(len(others), 'other problem')}"
        raise Corrupt(first, where=self.location, details=others)


def verify(
    store: PathLike | Files | Store,
    *,
    hashes: bool = False,
    expect: str | None = None,
    progress: Progress | None = None,
    workspace: PathLike | None = None,
) -> VerifyReport:
    """Check that a store is whole and undamaged.

    By default, check that every file exists and has its length; a changed byte is found with
    `hashes`. The report names each file that is not as the store lists it.

    A consistent store may still be somebody else's. With `expect` and the seal that its publisher
    sees in `og.store.info`, any other store is refused. An address may end with #sha256=...
    instead.

    Args:
        store: The store.
        hashes: Read every byte, and compare the SHA-256 of each file.
        expect: The seal of the store, from its publisher.
        progress: Counts the bytes of the files that were checked.
        workspace: The workspace, if it is not the current one.
    """
    opened = open_store(store, workspace=workspace, expect=expect)
    # Without the seal, store.json is not read again for each file that is not as listed.
    unsealed = Store(opened.files, opened.record, seal="")
    marks = opened.record.files
    is_in_address = isinstance(store, str) and EXPECTED in store
    report = VerifyReport(
        location=opened.location,
        seal_sha256=opened.seal,
        how=HASHES if hashes else LENGTHS,
        is_expected=expect is not None or is_in_address,
        n_bytes=opened.record.n_bytes,
        counts=opened.record.rows.by_status,
    )
    progress = progress or Quiet()
    progress.expect(report.n_bytes, "B")
    for name, mark in marks.items():
        with report.collecting(name):
            unsealed.listed.check_length(name)
            if hashes:
                _check_hash(unsealed, name)
        progress.advance(mark.n_bytes)
    names = opened.files.names() or []
    extra = [name for name in names if name not in {*marks, STORE_JSON, CARD}]
    if extra:
        report.warnings.append(f"not part of the store: {few(extra)}")
    if hashes and not report.problems:
        _check_documents(unsealed, report)
        _check_indexes(unsealed, report)
        with report.collecting("the table of rows"):
            _read_columns(unsealed)
    if report.problems:
        # This raises an error if another store has taken the place of this store meanwhile.
        with suppress(FileNotFoundError):
            opened.store_json()
    return report


def _check_hash(store: Store, name: str) -> None:
    """Raise an error unless a file has the SHA-256 that store.json lists."""
    digest = hashlib.sha256()
    for data in store.listed.pieces(name):
        digest.update(data)
    if digest.hexdigest() != store.record.files[name].sha256:
        raise store.listed.damaged(name, "the SHA-256 differs")


def _check_documents(store: Store, report: VerifyReport) -> None:
    """Compare the documents of the group, which programs for Zarr read, with store.json."""
    arrays = (*store.record.columns, *store.record.arrays)
    expected = zarr_documents(arrays, store.record.rows.total)
    for name, document in expected.items():
        with report.collecting(name):
            found = msgspec.json.decode(store.listed.whole(name).tobytes())
            if _meaning(found) != _meaning(msgspec.json.decode(document)):
                report.add(name, "the content differs from store.json")


def _read_columns(store: Store) -> None:
    """Read the table of rows column by column; an invalid value or a duplicate clip is an error."""
    table = store.table
    rows = table.all_rows()
    for column in store.record.columns:
        if column.is_text:
            table.texts(column.name, rows)
        else:
            table.numbers(column.name, rows)


def _meaning(value: Any) -> Any:
    """Return a part of a document of Zarr without remarks and optional settings."""
    if isinstance(value, list):
        return list(map(_meaning, value))
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, item in value.items():
        if key == "attributes":
            names = [name for name in _ATTRIBUTES if name in item]
            item = {name: _first_statuses(name, item[name]) for name in names}
        meaning = _meaning(item)
        if meaning not in ({}, []) and (key, meaning) not in _DEFAULTS:
            kept[key] = meaning
    return kept


def _first_statuses(name: str, value: Any) -> Any:
    """Return the value of an attribute; of flags, only those of the first statuses."""
    if name == "flag_values" and isinstance(value, list):
        return value[:_N_FIRST_STATUSES]
    if name == "flag_meanings" and isinstance(value, str):
        return value.split()[:_N_FIRST_STATUSES]
    return value


def _check_indexes(store: Store, report: VerifyReport) -> None:
    """Check the indexes of files: readers of Zarr use them, this program does not."""
    for array in (*store.record.columns, *store.record.arrays):
        for number in range(0 if array.is_text else array.n_files(len(store))):
            with report.collecting(array.file_name(number)):
                store.arrays.check_index(array, number)
