"""One file out of a store, and a store out of one file, with nothing believed on the way.

A packed store is a zip whose entries are stored as they are, in a fixed order and with one date:
the same store gives the same bytes, and readers read it in place.
"""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.drafts import new_file
from obygaze_features.core.errors import Corrupt, FixInput, ObygazeError
from obygaze_features.core.files import confined, sha256_bytes, sha256_file
from obygaze_features.store.files.places import ZIP_DAMAGE, Files, Piece
from obygaze_features.store.format.disk import disk_errors
from obygaze_features.store.format.limits import check_disk, check_memory
from obygaze_features.store.format.records import PARTIAL_FILE, STORE_FILE
from obygaze_features.store.read.reader import Store
from obygaze_features.store.sharing.selection import Part, part_of
from obygaze_features.store.sharing.transfer import Order, Transferred, draft_of, fetch, prepare

# The first date a zip can have.
DATE = (1980, 1, 1, 0, 0, 0)
MODE = (stat.S_IFREG | 0o644) << 16
UNIX = 3
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# Before store.json and the seal are read, nothing bounds them: a million clips need 20 MB.
DOCUMENT_BYTES = 256_000_000


@dataclass(frozen=True)
class Packed:
    """A packed store."""

    path: Path
    n_files: int
    n_bytes: int
    sha256: str
    sealed: bool
    partial: bool


def size_of_pack(store: Store) -> int:
    """How many bytes of files a pack has to write."""
    return part_of(store).n_bytes


def pack(
    store: Store, path: Path | str, *, force: bool = False, progress: Progress | None = None
) -> Packed:
    """Write a store into one zip file, every byte checked on the way.

    `progress` counts bytes.
    """
    path, part = Path(path), part_of(store)
    with disk_errors(path), new_file(path, force=force) as draft:
        check_disk(part.n_bytes, path.parent)
        with zipfile.ZipFile(draft, "x", zipfile.ZIP_STORED, strict_timestamps=True) as out:
            for name, data in _contents(store.files, part):
                _add(out, name, data)
                (progress or Quiet()).advance(len(data))
    return Packed(
        path=path,
        n_files=len(part.files) + len(documents_of(part)),
        n_bytes=path.stat().st_size,
        sha256=sha256_file(path),
        sealed=part.sealed,
        partial=part.partial is not None,
    )


def documents_of(part: Part) -> dict[str, bytes]:
    """The documents of a part, with the word that it is one; store.json is the last."""
    if part.partial is None:
        return dict(part.documents)
    return {PARTIAL_FILE: part.partial.to_bytes(), **part.documents}


def _contents(files: Files, part: Part) -> Iterator[tuple[str, bytes]]:
    # What says what a store is comes first: a zip that was cut off can still be told.
    documents = documents_of(part)
    yield STORE_FILE, documents.pop(STORE_FILE)
    yield from sorted(documents.items())
    for name in sorted(part.files):
        yield name, read_checked(files, part, name)


def read_checked(files: Files, part: Part, name: str) -> bytes:
    """The bytes of one file of a part, which are what its mark says."""
    mark = part.files[name]
    check_memory(mark.n_bytes, name, files.location)
    piece = files.read(name)
    if piece is None:
        raise Corrupt(f"{name} is missing", where=files.location, hint="obygaze store verify")
    data = piece.data.tobytes()
    if len(data) != mark.n_bytes or sha256_bytes(data) != mark.sha256:
        raise Corrupt(
            f"{name} has other bytes than the seal or marker promises",
            where=files.location,
            hint="obygaze store verify --hash",
        )
    return data


def _add(out: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, DATE)
    entry.create_system, entry.external_attr, entry.file_size = UNIX, MODE, len(data)
    with out.open(entry, "w") as stream:
        stream.write(data)


def unpack(
    packed: Path | str, target: Path | str, *, progress: Progress | None = None
) -> Transferred:
    """Make a folder of a packed store; only files the store promises, each checked.

    A zip that somebody packed again, compressed or below a folder, is taken too. `progress`
    counts bytes.
    """
    order, draft = open_pack(packed), draft_of(Path(target))
    interrupted = draft.exists()
    try:
        return fetch(order, target, progress)
    except ObygazeError:
        # What this call copied can be read again; what a pull fetched before stays.
        if not interrupted:
            shutil.rmtree(draft, ignore_errors=True)
        raise


def open_pack(packed: Path | str) -> Order:
    """Look at a packed store before any of it is written anywhere."""
    files = PackedFiles(Path(packed))
    order = prepare(files)
    files.expected = {name: mark.n_bytes for name, mark in order.part.files.items()}
    for name, n_bytes in files.expected.items():
        found = files.size(name)
        if found not in (None, n_bytes):
            raise Corrupt(
                f"{name} would have {found} bytes, {n_bytes} were promised", where=files.location
            )
    return order


class PackedFiles:
    """The entries of a zip that is not trusted: confined names, no links, sizes before bytes."""

    is_remote = False

    def __init__(self, path: Path) -> None:
        self.location = str(path)
        self.expected: dict[str, int] = {}
        try:
            self.zip = zipfile.ZipFile(path)
        except ZIP_DAMAGE as error:
            raise Corrupt(f"not a whole zip file: {error}", where=str(path)) from error
        entries = [entry for entry in self.zip.infolist() if not entry.is_dir()]
        for entry in entries:
            self._check(entry)
        root = _root([entry.filename for entry in entries], str(path))
        self.entries = {
            entry.filename.removeprefix(root): entry
            for entry in entries
            if entry.filename.startswith(root)
        }
        if len({entry.filename for entry in entries}) < len(entries):
            raise FixInput("two entries of this zip have one name", where=self.location)

    def _check(self, entry: zipfile.ZipInfo) -> None:
        # orig_filename still has what zipfile cleans away, such as the bytes after a NUL.
        if entry.orig_filename != entry.filename:
            raise FixInput(f"the entry {entry.orig_filename!r} is odd", where=self.location)
        try:
            confined(Path("/nonexistent"), entry.filename)
        except FixInput as error:
            raise FixInput(
                f"the entry {entry.filename!r} leaves its folder", where=self.location
            ) from error
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise FixInput(f"the entry {entry.filename!r} is no plain file", where=self.location)
        if entry.flag_bits & 0x1 or entry.compress_type not in METHODS:
            raise FixInput(
                f"the entry {entry.filename!r} is encrypted or compressed in an odd way",
                where=self.location,
            )

    def size(self, name: str) -> int | None:
        """How many bytes an entry says it has."""
        entry = self.entries.get(name)
        return None if entry is None else entry.file_size

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        """A part of an entry; never more bytes than it says it has."""
        entry = self.entries.get(name)
        if entry is None:
            return None
        stop = entry.file_size if stop is None else min(stop, entry.file_size)
        if stop - start > max(DOCUMENT_BYTES, self.expected.get(name, 0)):
            raise FixInput(f"{name} would be {stop - start:,} bytes", where=self.location)
        check_memory(stop - start, name, self.location)
        try:
            with self.zip.open(entry) as stream:
                stream.seek(start)
                data = stream.read(stop - start)
        except (zipfile.BadZipFile, EOFError, ValueError, zlib.error) as error:
            raise Corrupt(f"{name} cannot be read: {error}", where=self.location) from error
        return Piece(np.frombuffer(data, np.uint8), entry.file_size)

    def names(self, folder: str) -> list[str] | None:
        """The names in a folder of the zip."""
        prefix = f"{folder}/" if folder else ""
        inner = (name[len(prefix) :] for name in self.entries if name.startswith(prefix))
        return sorted({name.split("/")[0] for name in inner if name})


def _root(names: list[str], where: str) -> str:
    """The folder within the zip that the store is in: "" as `pack` makes it."""
    found = [name for name in names if PurePosixPath(name).name == STORE_FILE]
    roots = sorted({name.removesuffix(STORE_FILE) for name in found}, key=len)
    if not roots or (len(roots) > 1 and roots[0]):
        raise FixInput(f"{len(roots)} stores are in this zip; one is wanted", where=where)
    return roots[0]
