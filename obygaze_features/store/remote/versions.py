"""The versions of a store: their chain, and the files of one of them.

The names that a store has without versions are those of the newest one. Of each earlier version,
`versions/files/` has its seal and the files that a later one replaced, each under its sha256. The
seal of the newest has the mark of the entry of the version before it, and so on: all that is read
of an earlier version is compared with a sha256 that the newest seal stands for.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from obygaze_features.core.console import count
from obygaze_features.core.errors import Corrupt, NotFound
from obygaze_features.core.files import sha256_bytes
from obygaze_features.store.format.limits import DOCUMENT_BYTES, check_document
from obygaze_features.store.format.records import (
    LicenceHistory,
    Partial,
    Plan,
    Seal,
    StoreVersion,
    VersionEntry,
)
from obygaze_features.store.format.schema import (
    KEPT_FOLDER,
    OK,
    VERSIONS_FOLDER,
    FileMark,
)
from obygaze_features.store.remote.files import (
    Files,
    Piece,
    bounds,
    names_in,
    read_kept,
    read_or_none,
)

# The seals of versions with a new store.json, by the sha256 of that file.
SEALS_FOLDER = f"{VERSIONS_FOLDER}/seals"
# Where a version is that is being published.
NEXT_VERSION = "next"
NO_LOG = "obygaze store verify, of the store it was copied from"


def earlier_versions(files: Files, seal: Seal) -> Iterator[VersionEntry]:
    """Yield the versions before the one of a seal, the latest first; each is compared.

    A copy may have none of them, or only the latest.
    """
    version = seal.store_version
    while version is not None and version.previous is not None:
        entry = read_entry(files, version.previous)
        if entry is None:
            return
        if entry.store_version.number != version.number - 1:
            raise Corrupt(
                f"the version before {version.number} has the number "
                f"{entry.store_version.number}",
                where=files.location,
                hint=NO_LOG,
            )
        version = entry.store_version
        yield entry


def read_entry(files: Files, mark: FileMark) -> VersionEntry | None:
    """Return the entry of an earlier version; None where this copy does not have it.

    Another file in its place is an error.
    """
    data = None
    # It lists the rows that its version changed: of a million clips these are megabytes.
    if mark.n_bytes <= DOCUMENT_BYTES:
        data = read_kept(files, mark)
    if data is None:
        if files.read(mark.kept_name, 0, 1) is None:
            return None
        raise Corrupt(
            f"{mark.kept_name}, the entry of an earlier version, is damaged",
            where=files.location,
            hint=NO_LOG,
        )
    return VersionEntry.from_bytes(data, f"{files.location}/{mark.kept_name}")


def read_kept_seal(files: Files, entry: VersionEntry) -> bytes | None:
    """Return the bytes of the seal of an earlier version; None where this copy does not have it."""
    check_document(Seal.FILE, entry.seal.n_bytes, files.location)
    data = read_kept(files, entry.seal)
    if data is None and files.read(entry.seal.kept_name, 0, 1) is not None:
        raise Corrupt(
            f"{entry.seal.kept_name}, the seal of version {entry.store_version.number}, is "
            "damaged",
            where=files.location,
            hint=NO_LOG,
        )
    return data


def next_seal_name(store_sha256: str) -> str:
    """Return where the seal of a version with a new store.json is before it is seal.json."""
    return f"{SEALS_FOLDER}/{store_sha256}.json"


def version_of(seal: Seal, plan: Plan) -> StoreVersion:
    """Return which version of a store a seal is, also of the first one."""
    if seal.store_version is not None:
        return seal.store_version
    numbers = {"clips": plan.n_clips}
    return StoreVersion(1, "created", "", "", plan.created, numbers)


def read_seal(files: Files) -> Seal:
    """Return the newest seal; an error where the store is not sealed."""
    data = read_or_none(files, Seal.FILE)
    if data is None:
        raise NotFound(
            "this store is not sealed, so it has no versions yet",
            where=files.location,
            hint="obygaze extract run --seal",
        )
    return Seal.from_bytes(data, f"{files.location}/{Seal.FILE}")


def seal_of_plan(files: Files, data: bytes, plan: Plan) -> bytes | None:
    """Return the seal of the version with a store.json that is not the one of seal.json.

    A version is published between two reads, or its publication was stopped. None where no version
    has that store.json.

    Args:
        files: The files of the store.
        data: The bytes of seal.json.
        plan: The store.json that was read.
    """
    seal = Seal.from_bytes(data, f"{files.location}/{Seal.FILE}")
    for entry in earlier_versions(files, seal):
        if entry.store.sha256 == plan.sha256:
            return read_kept_seal(files, entry)
    return _next_seal(files, data, plan.sha256)


def _next_seal(files: Files, data: bytes, store_sha256: str) -> bytes | None:
    """Return the seal of the version that is being published; None where it has another store.json.

    Args:
        files: The files of the store.
        data: The bytes of seal.json.
        store_sha256: The sha256 of the store.json of the next version.
    """
    name = next_seal_name(store_sha256)
    next_data = read_or_none(files, name)
    if next_data is None:
        return None
    next_seal = Seal.from_bytes(next_data, f"{files.location}/{name}")
    if sha256_bytes(data) not in seals_before(files, next_seal):
        return None
    return next_data


def seals_before(files: Files, seal: Seal) -> frozenset[str]:
    """Return the sha256 of the seals of all versions before the one of a seal."""
    return frozenset(entry.seal.sha256 for entry in earlier_versions(files, seal))


def first_to_send(files: Files, seal: Seal) -> int:
    """Return the first version that a copy may have: the last one that withdrew clips.

    Those before it still have the features of these clips.
    """
    version = seal.store_version
    if version is None:
        return 1
    if version.change == "withdrawn":
        return version.number
    for entry in earlier_versions(files, seal):
        if entry.store_version.change == "withdrawn":
            return entry.store_version.number
    return 1


def stores_of_versions(files: Files) -> set[str]:
    """Return the sha256 of the store.json of each version of a store."""
    seal = read_seal(files)
    stores = {seal.files.get(Plan.FILE, FileMark(0, "")).sha256}
    stores.update(entry.store.sha256 for entry in earlier_versions(files, seal))
    return stores


def has_version_with(files: Files, store_sha256: str) -> bool:
    """Return whether a version of a store, or the one that is being published, has a store.json."""
    data = read_or_none(files, Seal.FILE)
    if data is None:
        return False
    if store_sha256 in stores_of_versions(files):
        return True
    return _next_seal(files, data, store_sha256) is not None


def files_of_version(files: Files, number: int) -> Files:
    """Return the files of a version of a store; an error that lists the versions if it has none."""
    newest = read_seal(files)
    if number == newest.version_number:
        return files
    for entry in earlier_versions(files, newest):
        if entry.store_version.number == number:
            return FilesOfVersion(files, newest, entry)
    if number < newest.version_number:
        raise NotFound(
            f"version {number} is not in this copy, only the newest, {newest.version_number}",
            where=files.location,
            hint="obygaze store log, of the store that it was copied from",
        )
    raise NotFound(
        f"this store has no version {number}, the newest is {newest.version_number}",
        where=files.location,
        hint="obygaze store log lists its versions",
    )


class FilesOfVersion:
    """The files of an earlier version of a store, by the names that they had then."""

    def __init__(self, inner: Files, newest: Seal, entry: VersionEntry) -> None:
        self.inner = inner
        self.newest = newest
        self.entry = entry
        self.number = entry.store_version.number
        self.is_remote = inner.is_remote
        self.location = f"{inner.location}@{self.number}"
        data = read_kept_seal(inner, entry)
        if data is None:
            raise NotFound(
                f"version {self.number} is not in this copy",
                where=inner.location,
                hint="obygaze store log says why; a version whose clips were withdrawn later is "
                "not sent",
            )
        self.seal_data = data
        self.seal = Seal.from_bytes(data, f"{self.location}/{Seal.FILE}")

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        """Read a file of this version, from its place or from where it is kept."""
        if name == Seal.FILE:
            return piece_of(self.seal_data, start, stop)
        if name == LicenceHistory.FILE:
            return piece_of(self._licence, start, stop) if self._licence else None
        if name == Partial.FILE or name.startswith(f"{VERSIONS_FOLDER}/"):
            piece = self.inner.read(name, start, stop)
            # A later version may have a file again: then a copy has it in its usual place alone.
            usual_name = self._name_of_kept.get(name)
            if piece is None and usual_name is not None:
                return self.inner.read(usual_name, start, stop)
            return piece
        mark = self.seal.files.get(name)
        if mark is None:
            return None
        if self.newest.files.get(name) == mark:
            return self.inner.read(name, start, stop)
        check_document(name, mark.n_bytes, self.location)
        piece = self.inner.read(mark.kept_name, start, stop)
        if piece is None:
            # A file that was replaced is kept before it is: this one was not replaced yet.
            return self.inner.read(name, start, stop)
        check_document(name, piece.total, self.location)
        return piece

    def names(self, folder: str) -> list[str] | None:
        """Return the names in a folder."""
        return names_in(folder, [*self.seal.files, Seal.FILE])

    @cached_property
    def _name_of_kept(self) -> dict[str, str]:
        """The files of the newest version, by the names that they will be kept under."""
        return {mark.kept_name: name for name, mark in self.newest.files.items()}

    @cached_property
    def _licence(self) -> bytes:
        """The licences that were stated for the store, bound to the store.json of this version."""
        data = read_or_none(self.inner, LicenceHistory.FILE)
        if data is None:
            return b""
        where = f"{self.inner.location}/{LicenceHistory.FILE}"
        history = LicenceHistory.from_bytes(data, where)
        if has_version_with(self.inner, history.plan):
            history = replace(history, plan=self.entry.store.sha256)
        return history.to_bytes()


def rows_withdrawn_later(files: Files) -> frozenset[int]:
    """Return the rows of an earlier version of a store that are withdrawn in the newest.

    None for the files of the newest version.
    """
    if not isinstance(files, FilesOfVersion):
        return frozenset()
    rows = set()
    for row, status in files.newest.status_of_row.items():
        if status.is_withdrawn and files.seal.status_of_row.get(row, OK).is_ok:
            rows.add(row)
    return frozenset(rows)


def text_of_withdrawn_later(path: Path, n_clips: int) -> str:
    """Return a sentence on features of an earlier version that are withdrawn in the newest.

    Args:
        path: Where the features were written.
        n_clips: Of how many clips.
    """
    return (
        f"{path} has the features of {count(n_clips, 'clip')} withdrawn in a later version of the "
        "store: what is made of the newest version does not have them"
    )


def kept_marks(files: Files, newest: Seal, first: int = 1) -> dict[str, FileMark]:
    """Return the files below versions/ that the versions from `first` on need, by their names.

    The entries of all versions are among them, and versions that this copy does not have are not.
    """
    marks: dict[str, FileMark] = {}
    version = newest.store_version
    for entry in earlier_versions(files, newest):
        if version is not None and version.previous is not None:
            marks[version.previous.kept_name] = version.previous
        version = entry.store_version
        if version.number < first:
            continue
        data = read_kept_seal(files, entry)
        if data is None:
            continue
        marks[entry.seal.kept_name] = entry.seal
        seal = Seal.from_bytes(data, f"{files.location}/{entry.seal.kept_name}")
        for name, mark in seal.files.items():
            if newest.files.get(name) != mark:
                marks[mark.kept_name] = mark
    return marks


def is_kept_name(name: str) -> bool:
    """Return whether a file of an earlier version has such a name."""
    folder, _, digits = name.rpartition("/")
    is_hexadecimal = len(digits) == 64 and set(digits) <= set("0123456789abcdef")
    return folder == KEPT_FOLDER and is_hexadecimal


def piece_of(data: bytes, start: int, stop: int | None) -> Piece:
    """Return a part of a file that is in memory."""
    first, after = bounds(start, stop, len(data))
    return Piece(np.frombuffer(data[first:after], np.uint8), len(data))
