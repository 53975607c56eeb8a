"""Verify that a store has the files that it lists, and name each file that is not as listed."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec
import numpy as np

from obygaze_features.core.console import Progress, Quiet, count, few, human
from obygaze_features.core.errors import Corrupt, ObygazeError
from obygaze_features.core.workspace import EXPECTED, PathLike
from obygaze_features.store.decoding import (
    DAMAGE,
    codes_of,
    decode_texts,
)
from obygaze_features.store.encoding import (
    array_document,
    column_document,
    group_document,
    status_column,
)
from obygaze_features.store.files import Files, NoRanges
from obygaze_features.store.layout import (
    CARD,
    FILMS_CSV,
    HASH_BYTES,
    IDS,
    ROWS_CSV,
    STORE_JSON,
    ZARR,
    ZARR_COLUMNS,
    Array,
)
from obygaze_features.store.network import Unreachable
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.rows import words_of_status
from obygaze_features.store.text_columns import TextColumn

LENGTHS = "lengths"
HASHES = "hashes"
# Values of so many bytes are checked at a time.
CHECKED_BYTES = 2**25


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
        _check_tables(opened, report)
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
    documents = {f"{ZARR}/zarr.json": group_document()}
    for array in store.record.arrays:
        documents[array.zarr_json] = array_document(array, n_rows)
    for column in ZARR_COLUMNS:
        documents[f"{ZARR}/{column}/zarr.json"] = column_document(column, n_rows)
    for name, expected in documents.items():
        with report.collecting(name):
            found = msgspec.json.decode(store.listed.whole(name).tobytes())
            if _meaning(found) != _meaning(msgspec.json.decode(expected)):
                report.add(name, "it does not describe the array as store.json does")


def _meaning(document: Any) -> Any:
    """Return a document of Zarr without what may differ between two programs."""
    meaning = {"storage_transformers": [], "attributes": {}, **document}
    meaning["codecs"] = [_codec(codec) for codec in document.get("codecs", [])]
    # Written by zarr-python into groups.
    if meaning.get("consolidated_metadata", "") is None:
        del meaning["consolidated_metadata"]
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
    is_ok = store.status().is_ok
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


# The tables of rows.


def _check_tables(store: Store, report: VerifyReport) -> None:
    """Compare rows.csv with films.csv, ids, the columns of data.zarr and the counts."""
    rows = []
    with report.collecting(ROWS_CSV):
        rows = list(store.rows)
        if Counter(row.status for row in rows) != Counter(report.counts):
            report.add(ROWS_CSV, "its rows do not have the counts in store.json")
        if len({row.clip_id for row in rows}) < len(rows):
            report.add(ROWS_CSV, "a clip is there twice")
        n_makers = len(store.record.makers)
        if any(row.maker is not None and not 0 <= row.maker < n_makers for row in rows):
            report.add(ROWS_CSV, "a row was made by what store.json does not list")
    if report.problems:
        return
    clip_ids = [row.clip_id for row in rows]
    movie_ids = [row.movie_id for row in rows]
    statuses = [row.status for row in rows]
    with report.collecting(FILMS_CSV):
        _check_films(store, movie_ids, report)
    with report.collecting(IDS):
        _check_ids(store, clip_ids, report)
    for column, texts in (("clip_id", clip_ids), ("movie_id", movie_ids)):
        name = f"{ZARR}/{column}/c.0"
        with report.collecting(name):
            if decode_texts(store.listed.whole(name), len(rows)) != texts:
                report.add(name, "it does not have the ids of rows.csv")
    name = f"{ZARR}/status/c.0"
    with report.collecting(name):
        _, chunk = status_column(codes_of(statuses))
        if store.listed.whole(name).tobytes() != chunk:
            report.add(name, "it does not have the statuses of rows.csv")


def _check_films(store: Store, movie_ids: list[str], report: VerifyReport) -> None:
    films = store.table.films
    if store.movie_ids.tolist() != movie_ids:
        report.add(FILMS_CSV, "it does not have the films of rows.csv")
    data = store.listed.whole(ROWS_CSV)
    for run in range(len(films)):
        start, stop = films.first_bytes[run : run + 2].tolist()
        films.lines_of_run(run, data[start:stop])


def _check_ids(store: Store, clip_ids: list[str], report: VerifyReport) -> None:
    data = store.listed.whole(IDS)
    end = len(clip_ids) * HASH_BYTES
    ids = TextColumn(clip_ids)
    is_sorted = np.array_equal(data[:end].view("<u8"), ids.hashes[ids.by_hash])
    if not is_sorted or not np.array_equal(data[end:].view("<u4"), ids.by_hash):
        report.add(IDS, "it does not have the clips of rows.csv")
