"""Select the files of a store to fetch, send or pack, and compare them with another copy."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from obygaze_features.core.console import Progress, Quiet, human
from obygaze_features.core.errors import AlreadyThere, Corrupt, FixInput
from obygaze_features.core.files import sha256_bytes
from obygaze_features.store.format.names import block_of
from obygaze_features.store.format.records import (
    README_FILE,
    LicenceHistory,
    Partial,
    Plan,
    Seal,
    TextMarker,
    marker_key,
)
from obygaze_features.store.format.schema import MASK, TEXT_FOLDER, FileMark
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.remote import open_files
from obygaze_features.store.remote.files import (
    CountedFiles,
    Files,
    read_listed,
    read_or_none,
    read_record,
)

THREADS = 16


@dataclass(frozen=True)
class FileSelection:
    """The selected files of a store.

    The files of `marks` are still to be read and compared with their marks. `documents` (the seal
    or the markers, and store.json as the last) have been read and checked.
    """

    source: CountedFiles
    marks: Mapping[str, FileMark]
    documents: Mapping[str, bytes]
    partial: Partial | None
    n_bytes_rows: int
    sealed: bool = True

    @property
    def n_bytes(self) -> int:
        """The bytes of all its files and documents."""
        marks = self.marks.values()
        documents = self.documents.values()
        return sum(mark.n_bytes for mark in marks) + sum(map(len, documents))

    def read(self, name: str) -> bytes:
        """Read one file, and raise an error unless its bytes are the ones of its mark."""
        return read_listed(self.source, name, self.marks[name])


@dataclass(frozen=True)
class Transferred:
    """The files, bytes and requests of a transfer."""

    source: str
    target: str
    n_files: int
    n_files_kept: int
    n_bytes_rows: int
    n_bytes_needed: int
    n_bytes_transferred: int
    n_requests: int
    seconds: float
    partial: bool
    remote: bool = True

    @property
    def line(self) -> str:
        """The transfer in one line."""
        requests = f" in {self.n_requests} requests" if self.remote else ""
        rows = ""
        if self.partial:
            n_bytes = human(self.n_bytes_rows)
            rows = f" (the rows that were asked for: {n_bytes} uncompressed)"
        return (
            f"{self.n_files} files, {human(self.n_bytes_needed)}{rows}; "
            f"{human(self.n_bytes_transferred)} transferred{requests}, {self.seconds:.1f} s"
        )


class Transfer:
    """Selected files on their way to a place, which may have some of them already."""

    def __init__(self, selection: FileSelection, progress: Progress | None) -> None:
        self.selection = selection
        self.source = selection.source
        self.marks = selection.marks
        self.progress = progress or Quiet()
        self.started = time.monotonic()
        self.n_kept = 0
        self.stopped = False
        self.lock = Lock()

    def advance(self, n_bytes: int) -> None:
        """Count bytes as done; several threads may call this."""
        with self.lock:
            self.progress.advance(n_bytes)

    def absent(self, is_there: Callable[[str], bool]) -> list[str]:
        """Return the files that the place does not have; the others count as done."""
        names = sorted(self.marks)
        with ThreadPoolExecutor(THREADS) as pool:
            kept = dict(zip(names, pool.map(is_there, names), strict=True))
        self.n_kept += sum(kept.values())
        self.advance(sum(self.marks[name].n_bytes for name in names if kept[name]))
        return [name for name in names if not kept[name]]

    def move(
        self, work: Callable[[str], None], names: Sequence[str], threads: int
    ) -> None:
        """Do the work for each name; after the first error, or Ctrl-C, start no further name."""
        with ThreadPoolExecutor(threads) as pool:
            running = [pool.submit(work, name) for name in names]
            try:
                done, _ = wait(running, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
            except BaseException:
                self.stopped = True
                raise
            finally:
                for future in running:
                    future.cancel()

    def done(self, target: str, **facts: Any) -> Transferred:
        """Return what was transferred; `facts` replace what is known of the selection."""
        known = {
            "source": self.source.location,
            "target": target,
            "n_files": len(self.marks) + len(self.selection.documents),
            "n_files_kept": self.n_kept,
            "n_bytes_rows": self.selection.n_bytes_rows,
            "n_bytes_needed": self.selection.n_bytes,
            "n_bytes_transferred": self.source.n_bytes,
            "n_requests": self.source.n_requests,
            "seconds": time.monotonic() - self.started,
        }
        return Transferred(**{**known, **facts})


def select_files(
    location: str | Path | Files,
    levels: Sequence[str] | None = None,
    movies: Iterable[str] | None = None,
    expect: str | None = None,
) -> FileSelection:
    """Return the files that hold some arrays of some movies, by default all of them.

    Blocks are whole files, so clips that share a block with a movie come with it. With `expect`,
    the seal must have this sha256.
    """
    inner = open_files(location)
    files = CountedFiles(inner)
    store = open_store(files, expect=expect)
    store.plan.refuse_pictures(store.location)
    if not store.sealed:
        if levels is not None or movies is not None:
            raise FixInput(
                "only a sealed store can be selected from by level or movie",
                where=store.location,
                hint="obygaze store subset",
            )
        selection = _of_unsealed(store, files)
        # A seal is written before the markers are removed: without one, none was missed.
        if read_or_none(inner, Seal.FILE) is None:
            return selection
        files = CountedFiles(inner)
        store = open_store(files, expect=expect)
    return _of_sealed(store, files, levels, movies)


def _of_sealed(
    store: Store,
    source: CountedFiles,
    levels: Sequence[str] | None,
    movies: Iterable[str] | None,
) -> FileSelection:
    seal = store.commits.seal
    here = store.commits.partial
    if seal is None:
        raise FixInput(
            "it is not sealed", where=store.location, hint="obygaze extract run --seal"
        )
    names = levels if levels is not None else [spec.name for spec in store.plan.arrays]
    rows = store.select(movies=movies).rows
    blocks = frozenset((rows // store.plan.block_rows).tolist())
    chosen = store.plan.with_masks(names)
    if (
        here is not None
        and MASK not in names
        and not blocks <= here.blocks.get(MASK, frozenset())
    ):
        # A partial copy of an earlier version has levels without their mask.
        chosen = [name for name in chosen if name != MASK]
    specs = [store.plan.array(name) for name in chosen]
    wanted = Partial({spec.name: blocks for spec in specs})
    if here is not None and levels is None and movies is None:
        wanted = here
    held = here.blocks if here is not None else wanted.blocks
    missing = [
        name for name, own in wanted.blocks.items() if own - held.get(name, frozenset())
    ]
    if missing:
        raise FixInput(
            f"this copy is partial and does not hold all of {', '.join(missing)}",
            where=store.location,
            hint="obygaze store info lists what it holds",
        )
    marks = {name: mark for name, mark in seal.files.items() if wanted.holds_file(name)}
    partial = None if len(marks) == len(seal.files) else wanted
    del marks[Plan.FILE]
    _check_sizes(store, marks)
    documents = {Seal.FILE: _document(source, Seal.FILE), **_licence_of(store)}
    if sha256_bytes(documents[Seal.FILE]) != store.seal_sha256:
        hint = "run the same command again"
        raise Corrupt(
            f"{Seal.FILE} changed while it was read", where=store.location, hint=hint
        )
    documents[Plan.FILE] = store.plan.data
    blocks_of_rows = rows // store.plan.block_rows
    n_bytes_rows = 0
    for spec in specs:
        # Of a partial copy, these may be other blocks in each array.
        is_selected = np.isin(blocks_of_rows, list(wanted.blocks.get(spec.name, ())))
        n_bytes_rows += int(is_selected.sum()) * spec.row_bytes
    return FileSelection(source, marks, documents, partial, n_bytes_rows)


def _of_unsealed(store: Store, source: CountedFiles) -> FileSelection:
    """Return the files of the blocks that are committed so far.

    Each marker is read once: the files to copy are those of the markers to copy, and no others,
    although more blocks may be committed meanwhile.
    """
    plan = store.plan
    with ThreadPoolExecutor(THREADS) as pool:
        found = pool.map(store.commits.marker, range(plan.n_blocks))
        markers = [marker for marker in found if marker is not None]
    marks = dict(plan.files)
    documents: dict[str, bytes] = {}
    readme = read_or_none(source, README_FILE)
    texts = read_or_none(source, TextMarker.FILE)
    if readme is not None:
        documents[README_FILE] = readme
    if texts is not None:
        documents[TextMarker.FILE] = texts
        where = f"{store.location}/{TextMarker.FILE}"
        listed = TextMarker.from_bytes(texts, where).files
        plan.names.require(listed, where)
        marks.update(
            {
                name: listed[name]
                for name in listed
                if name.startswith(f"{TEXT_FOLDER}/")
            }
        )
    for marker in markers:
        documents[marker_key(marker.block)] = marker.to_bytes()
        marks.update(marker.files)
    documents |= _licence_of(store)
    documents[Plan.FILE] = plan.data
    _check_sizes(store, marks)
    n_rows = 0
    for marker in markers:
        first, after = marker.rows
        n_rows += after - first
    n_bytes_rows = n_rows * sum(spec.row_bytes for spec in plan.arrays)
    return FileSelection(source, marks, documents, None, n_bytes_rows, sealed=False)


def _licence_of(store: Store) -> dict[str, bytes]:
    """Return licence.json of a store by its name, checked; nothing where there is none."""
    if store.licence_history is None:
        return {}
    return {LicenceHistory.FILE: _document(store.files, LicenceHistory.FILE)}


def _document(files: Files, name: str) -> bytes:
    data = read_or_none(files, name)
    if data is None:
        raise Corrupt(f"{name} is missing", where=files.location)
    return data


def _check_sizes(store: Store, marks: Mapping[str, FileMark]) -> None:
    """Raise an error for files with more bytes than the arrays of store.json can have."""
    plan = store.plan
    most = {spec.name: plan.block_rows * spec.row_bytes for spec in plan.arrays}
    for name, mark in marks.items():
        found = block_of(name)
        bound = most.get(found[0]) if found else None
        # Codecs add a checksum and an index; compressors a little where nothing can be gained.
        if bound is not None and mark.n_bytes > bound * 1.1 + 100_000:
            raise FixInput(
                f"{name} is listed with {mark.n_bytes} bytes; its rows have {bound}",
                where=store.location,
            )


def existing_copy(
    files: Files, selection: FileSelection, hint: str
) -> tuple[bool, Partial | None] | None:
    """Return whether the copy at a place is sealed, and what it holds if it is partial.

    None where there is none; an error if another store is there.
    """
    store = read_or_none(files, Plan.FILE)
    where = files.location
    if store is None:
        return None
    if store != selection.documents[Plan.FILE]:
        ours = Plan.from_bytes(
            selection.documents[Plan.FILE], selection.source.location
        )
        Plan.from_bytes(store, where).recipe.require(
            ours.recipe, where=where, what="a store of another recipe is here"
        )
        raise AlreadyThere(
            "another store of this recipe is here", where=where, hint=hint
        )
    seal = read_or_none(files, Seal.FILE)
    if seal is not None and seal != selection.documents.get(Seal.FILE):
        raise AlreadyThere("a copy with another seal is here", where=where, hint=hint)
    licence_to_add(files, selection, hint)
    return seal is not None, read_record(files, Partial)


def licence_to_add(files: Files, selection: FileSelection, hint: str) -> bytes | None:
    """Return licence.json of a selection if a copy lacks it, or has an earlier one.

    None where there is nothing to add; an error if the two contradict each other.
    """
    data = selection.documents.get(LicenceHistory.FILE)
    if data is None:
        return None
    there = read_record(files, LicenceHistory)
    ours = LicenceHistory.from_bytes(
        data, f"{selection.source.location}/{LicenceHistory.FILE}"
    )
    if there is None or (ours != there and ours.continues(there)):
        return data
    if there.continues(ours):
        return None
    raise AlreadyThere(
        f"another licence was stated for the copy here: {there.terms.licence!r}, "
        f"not {ours.terms.licence!r}",
        where=files.location,
        hint=hint,
    )


def extended(there: Partial | None, selection: FileSelection) -> Partial | None:
    """Return what a copy holds once a selection is added; None where that is everything."""
    new = selection.partial
    if there is None or new is None:
        return None
    blocks = dict(there.blocks)
    for name, own in new.blocks.items():
        blocks[name] = blocks.get(name, frozenset()) | own
    both = Partial(blocks)
    seal = Seal.from_bytes(selection.documents[Seal.FILE], Seal.FILE)
    return None if all(map(both.holds_file, seal.files)) else both
