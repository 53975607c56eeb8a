"""Select the files of a store to fetch, send or pack, and compare them with another copy."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from obygaze_features.core.console import Progress, Quiet, human
from obygaze_features.core.errors import AlreadyThere, Corrupt, FixInput
from obygaze_features.core.files import sha256_bytes
from obygaze_features.store.format.names import block_of, gathered_array_of
from obygaze_features.store.format.records import (
    README_FILE,
    Derivation,
    LicenceHistory,
    Plan,
    Seal,
    TextMarker,
    marker_key,
)
from obygaze_features.store.format.schema import TEXT_FOLDER, FileMark
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.remote import open_files
from obygaze_features.store.remote.files import (
    CountedFiles,
    Files,
    read_listed,
    read_or_none,
    read_record,
)
from obygaze_features.store.remote.part import (
    Cut,
    arrays_of_part,
    derivation_of,
    documents_of_arrays,
    licence_for,
)
from obygaze_features.store.remote.versions import (
    FilesOfVersion,
    first_to_send,
    kept_marks,
    seal_of_plan,
    seals_before,
)

THREADS = 16
# A sealed store does not change, so a part does not grow.
OTHER_PART = "another store, or another part of this one, is here"
OTHER_NAME = "another name, or remove this store first"


@dataclass(frozen=True)
class FileSelection:
    """The selected files of a store.

    The files of `marks` are still to be read and compared with their marks. `documents` (the seal
    or the markers, and store.json as the last) have been read and checked.

    With `derived`, this is a part of a store, which becomes a store of its own: of arrays, the
    documents are its own; with `cut`, its clips are still to be cut from the files.
    """

    source: CountedFiles
    marks: Mapping[str, FileMark]
    documents: Mapping[str, bytes]
    n_bytes_rows: int
    sealed: bool = True
    derived: Derivation | None = None
    cut: Cut | None = None
    # The sha256 of the seals of the versions before this one: a copy of one is brought up to date.
    earlier_seals: frozenset[str] = frozenset()

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
    part: bool = False
    remote: bool = True
    # Of a copy that was brought up to date, what each newer version changed.
    changes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return all numbers of the transfer."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.target}: {self.line}"

    @property
    def notes(self) -> list[str]:
        """What has changed in a copy that was here."""
        return list(self.changes)

    @property
    def line(self) -> str:
        """The transfer in one line, without where it went."""
        requests = f" in {self.n_requests} requests" if self.remote else ""
        rows = ""
        if self.part:
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
            is_kept = dict(zip(names, pool.map(is_there, names), strict=True))
        self.n_kept += sum(is_kept.values())
        self.advance(sum(self.marks[name].n_bytes for name in names if is_kept[name]))
        return [name for name in names if not is_kept[name]]

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
        known_facts = {
            "source": self.source.location,
            "target": target,
            "n_files": len(self.marks) + len(self.selection.documents),
            "n_files_kept": self.n_kept,
            "n_bytes_rows": self.selection.n_bytes_rows,
            "n_bytes_needed": self.selection.n_bytes,
            "n_bytes_transferred": self.source.n_bytes,
            "n_requests": self.source.n_requests,
            "seconds": time.monotonic() - self.started,
            "part": self.selection.derived is not None,
        }
        return Transferred(**{**known_facts, **facts})


def select_files(
    location: str | Path | Files,
    arrays: Sequence[str] | None = None,
    films: Iterable[str] | None = None,
    expect: str | None = None,
) -> FileSelection:
    """Return the files of a store, or of some of its arrays and films.

    Blocks are whole files, so clips that share a block with a film are fetched with it; they are
    not in the store that is made of it. With `expect`, the seal must have this sha256.
    """
    inner = open_files(location)
    _refuse_withdrawn(inner)
    files = CountedFiles(inner)
    store = open_store(files, expect=expect)
    store.plan.refuse_pictures(store.location)
    if films is not None:
        store.commits.find_index()
    if not store.sealed:
        if arrays is not None or films is not None:
            raise FixInput(
                "only a sealed store can be selected from by array or film",
                where=store.location,
                hint="obygaze store subset",
            )
        selection = _of_unsealed(store, files)
        # A seal is written before the markers are removed: without one, none was missed.
        if read_or_none(inner, Seal.FILE) is None:
            return selection
        files = CountedFiles(inner)
        store = open_store(files, expect=expect)
    if films is not None:
        movie_ids = [films] if isinstance(films, str) else list(films)
        return _of_films(store, files, arrays, movie_ids)
    return _of_sealed(store, files, arrays)


def _of_sealed(
    store: Store, source: CountedFiles, arrays: Sequence[str] | None
) -> FileSelection:
    """Return the files of a sealed store, or of some of its arrays."""
    seal = store.commits.seal
    if seal is None:
        raise FixInput(
            "it is not sealed", where=store.location, hint="obygaze extract run --seal"
        )
    _refuse_partial(store)
    plan = store.plan
    data = _document(source, Seal.FILE)
    if Seal.from_bytes(data, store.location).files.get(Plan.FILE) != seal.files.get(
        Plan.FILE
    ):
        # A version is being published, or its publication was stopped.
        data = seal_of_plan(source, data, plan) or data
    if sha256_bytes(data) != store.seal_sha256:
        hint = "run the same command again"
        raise Corrupt(
            f"{Seal.FILE} changed while it was read", where=store.location, hint=hint
        )
    specs = arrays_of_part(store, arrays)
    n_bytes_rows = plan.n_clips * sum(spec.row_bytes for spec in specs)
    if len(specs) < len(plan.arrays):
        derived = derivation_of(store, specs, arrays, None)
        marks, documents = documents_of_arrays(store, seal, specs, derived)
        _check_sizes(store, marks)
        return FileSelection(source, marks, documents, n_bytes_rows, derived=derived)
    marks = dict(seal.files)
    del marks[Plan.FILE]
    _check_sizes(store, marks)
    documents = {Seal.FILE: data, **_licence_of(store), Plan.FILE: plan.data}
    first = first_to_send(source, seal)
    marks.update(kept_marks(source, seal, first))
    earlier_seals = seals_before(source, seal)
    return FileSelection(
        source, marks, documents, n_bytes_rows, earlier_seals=earlier_seals
    )


def _of_films(
    store: Store,
    source: CountedFiles,
    arrays: Sequence[str] | None,
    films: Sequence[str],
) -> FileSelection:
    """Return the files with the blocks of some films, from which their clips are cut."""
    # By the index, where there is one: then the seal is not read.
    rows = store.select(films=films).rows
    if not len(rows):
        raise FixInput(
            "no clip of the store is selected",
            where=store.location,
            hint="other films",
        )
    _refuse_partial(store)
    plan = store.plan
    if len(rows) == plan.n_clips:
        return _of_sealed(store, source, arrays)
    specs = arrays_of_part(store, arrays)
    derived = derivation_of(store, specs, arrays, films)
    marks = dict(store.commits.text_files())
    for block in np.unique(rows // plan.block_rows).tolist():
        for spec in specs:
            name = plan.block_key(spec.name, block)
            marks[name] = store.commits.mark(name)
    _check_sizes(store, marks)
    n_bytes_rows = len(rows) * sum(spec.row_bytes for spec in specs)
    cut = Cut(store, rows, specs, derived)
    return FileSelection(
        source, marks, _licence_of(store), n_bytes_rows, derived=derived, cut=cut
    )


def _refuse_withdrawn(files: Files) -> None:
    """Raise an error for a version with features of clips that a later one withdrew."""
    if not isinstance(files, FilesOfVersion):
        return
    withdrawn_in = first_to_send(files.inner, files.newest)
    if files.number < withdrawn_in:
        raise FixInput(
            f"version {files.number} has features of clips that were withdrawn in version "
            f"{withdrawn_in}, so it is not sent, packed or fetched",
            where=files.location,
            hint=f"{files.inner.location}, the newest version; on this machine it can be read",
        )


def _refuse_partial(store: Store) -> None:
    """Raise an error for a copy that an earlier version made of some blocks of a store."""
    if store.commits.partial is not None:
        raise FixInput(
            "this copy is partial, so it is not sent, packed or fetched",
            where=store.location,
            hint="obygaze store subset makes a store of its own of what it holds",
        )


def _of_unsealed(store: Store, source: CountedFiles) -> FileSelection:
    """Return the files of the blocks that are committed so far.

    Each marker is read once: the files to copy are those of the markers to copy, and no others,
    although more blocks may be committed meanwhile.
    """
    plan = store.plan
    with ThreadPoolExecutor(THREADS) as pool:
        read = pool.map(store.commits.marker, range(plan.n_blocks))
        markers = [marker for marker in read if marker is not None]
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
    return FileSelection(source, marks, documents, n_bytes_rows, sealed=False)


def _licence_of(store: Store) -> dict[str, bytes]:
    """Return licence.json of a store by its name, checked; nothing where there is none."""
    history = store.licence_history
    if history is None:
        return {}
    if history.plan == store.plan.sha256:
        return {LicenceHistory.FILE: _document(store.files, LicenceHistory.FILE)}
    of_version = replace(history, plan=store.plan.sha256)
    return {LicenceHistory.FILE: of_version.to_bytes()}


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
        array_and_block = block_of(name)
        bound = most.get(array_and_block[0]) if array_and_block else None
        gathered_array = gathered_array_of(name)
        if gathered_array:
            bound = plan.n_blocks * most[gathered_array]
        # Codecs add a checksum and an index; compressors a little where nothing can be gained.
        if bound is not None and mark.n_bytes > bound * 1.1 + 100_000:
            raise FixInput(
                f"{name} is listed with {mark.n_bytes} bytes; its rows have {bound}",
                where=store.location,
            )


def existing_copy(files: Files, selection: FileSelection, hint: str) -> bool | None:
    """Return whether the copy at a place is sealed.

    None where there is none; an error if another store is there.
    """
    data = read_or_none(files, Plan.FILE)
    where = files.location
    if data is None:
        return None
    seal = read_or_none(files, Seal.FILE)
    if selection.cut is not None:
        _require_same_part(Plan.from_bytes(data, where), selection.cut.derived, where)
    else:
        if not is_earlier_copy(files, selection):
            _refuse_later_copy(files, seal, selection)
            _require_same_store(data, selection, where, hint)
            if seal is not None and seal != selection.documents.get(Seal.FILE):
                raise AlreadyThere(
                    "a copy with another seal is here", where=where, hint=hint
                )
    licence_to_add(files, selection, hint)
    return seal is not None


def is_earlier_copy(files: Files, selection: FileSelection) -> bool:
    """Return whether the copy at a place is an earlier version of the selected store."""
    if not selection.earlier_seals:
        return False
    seal = read_or_none(files, Seal.FILE)
    return seal is not None and sha256_bytes(seal) in selection.earlier_seals


def _refuse_later_copy(
    files: Files, data: bytes | None, selection: FileSelection
) -> None:
    """Raise an error if the copy at a place is a later version of the selected store."""
    ours = selection.documents.get(Seal.FILE)
    if data is None or ours is None or data == ours:
        return
    seal = Seal.from_bytes(data, f"{files.location}/{Seal.FILE}")
    if sha256_bytes(ours) not in seals_before(files, seal):
        return
    number = Seal.from_bytes(ours, selection.source.location).version_number
    raise AlreadyThere(
        f"the copy here is ahead: it is version {seal.version_number}, this is version {number}",
        where=files.location,
        hint=f"{files.location}@{number} is this version",
    )


def _require_same_store(
    data: bytes, selection: FileSelection, where: str, hint: str
) -> None:
    """Raise an error unless the store.json that is there is that of the selected store."""
    ours = selection.documents[Plan.FILE]
    if data == ours:
        return
    existing_plan = Plan.from_bytes(data, where)
    our_plan = Plan.from_bytes(ours, selection.source.location)
    replaced = {version.store_sha256 for version in our_plan.replaced_versions}
    if existing_plan.sha256 in replaced:
        raise AlreadyThere(
            "the store that is fetched or sent replaces the one here: obygaze store purge made it, "
            "without the features of withdrawn clips",
            where=where,
            hint="remove the store that is here, then the same command again",
        )
    existing_plan.recipe.require(
        our_plan.recipe,
        where=where,
        message="a store of another recipe is here",
        hint=OTHER_NAME,
    )
    if existing_plan.origins or selection.derived is not None:
        raise AlreadyThere(OTHER_PART, where=where, hint=OTHER_NAME)
    raise AlreadyThere("another store of this recipe is here", where=where, hint=hint)


def _require_same_part(existing_plan: Plan, derived: Derivation, where: str) -> None:
    """Raise an error unless the store that is there is the same part of the same store."""
    if existing_plan.plan_id != derived.plan_id or not existing_plan.origins:
        raise AlreadyThere(OTHER_PART, where=where, hint=OTHER_NAME)
    seals = {existing_plan.origins[-1].seal_sha256, derived.origins[-1].seal_sha256}
    seals.discard("")
    if len(seals) > 1:
        raise AlreadyThere(
            "the same part of a copy with another seal is here",
            where=where,
            hint=OTHER_NAME,
        )


def licence_to_add(files: Files, selection: FileSelection, hint: str) -> bytes | None:
    """Return licence.json of a selection if a copy lacks it, or has an earlier one.

    None where there is nothing to add; an error if the two contradict each other.
    """
    data = selection.documents.get(LicenceHistory.FILE)
    if data is None:
        return None
    existing_history = read_record(files, LicenceHistory)
    if existing_history is not None and is_earlier_copy(files, selection):
        # It is bound to the store.json of its version.
        plan_sha256 = sha256_bytes(selection.documents[Plan.FILE])
        existing_history = replace(existing_history, plan=plan_sha256)
    ours = LicenceHistory.from_bytes(
        data, f"{selection.source.location}/{LicenceHistory.FILE}"
    )
    if existing_history is None or (
        ours != existing_history and ours.continues(existing_history)
    ):
        plan = read_record(files, Plan)
        # A part has a store.json of its own.
        if plan is not None and selection.cut is not None:
            return licence_for(ours, plan)
        return data
    if existing_history.continues(ours):
        return None
    raise AlreadyThere(
        f"another licence was stated for the copy here: {existing_history.terms.licence!r}, "
        f"not {ours.terms.licence!r}",
        where=files.location,
        hint=hint,
    )
