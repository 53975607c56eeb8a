"""The files of a store by name, wherever it is: the interfaces, a folder, a packed store."""

import errno
import io
import os
import re
import stat
import struct
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from obygaze_features.core import system
from obygaze_features.core.errors import Corrupt, FixInput, NotFound
from obygaze_features.core.files import leads_out
from obygaze_features.store.format.limits import check_document, check_memory
from obygaze_features.store.format.records import Record
from obygaze_features.store.format.schema import ID_ARRAYS, Bytes, FileMark

R = TypeVar("R", bound=Record)

LINK_REFUSED = "a store must not contain symbolic links"
COPY_AGAIN = "copy the store again from where it is from"
NOT_REGULAR = "expected a regular file, got a folder, a pipe or a device"
CACHED_BYTES = 1_000_000
# What zipfile raises for an invalid directory of entries.
ZIP_DAMAGE = (zipfile.BadZipFile, NotImplementedError, ValueError)
# Enough for the directory of a store with thousands of clips, in one request.
TAIL_BYTES = 64_000
HEADER = struct.Struct("<4s22xHH")
# `pack` writes no extra fields except for files of 4 GB; other programs write a few bytes.
EXTRA_BYTES = 64
# The bits of a directory entry for encryption (two kinds) and for patches.
NOT_PLAIN = 0x61


class Piece(NamedTuple):
    """Some bytes of a file, and the length of the whole file."""

    data: Bytes
    total: int


class Files(Protocol):
    """Read files by name, whole or in part, from many threads.

    Names are relative, with forward slashes. To read stores from a new kind of place, write these
    members.
    """

    location: str
    is_remote: bool

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        """Return the bytes from `start` up to `stop`; None where there is no such file.

        A negative `start` counts from the end.
        """

    def names(self, folder: str) -> list[str] | None:
        """Return the names in one folder, sorted; None where this place cannot list."""


class Target(Protocol):
    """Write files by name. To push stores to a new kind of place, write these members."""

    location: str
    files: Files

    def prepare(self, files: Mapping[str, FileMark]) -> None:
        """Open the place, before anything is sent; an error if it cannot store the files."""
        return None

    def has(self, name: str, mark: FileMark) -> bool:
        """Return whether the same file is there already."""

    def put(self, name: str, data: bytes | Path, mark: FileMark) -> None:
        """Send one whole file, given as bytes or as a file here; several threads may call this."""

    def create(self, name: str, data: bytes) -> bytes | None:
        """Send a small file unless there is one; return the bytes of the one that is there then.

        If two processes do so at the same time, both return the same. None for a place that decides
        otherwise between two processes, or cannot; it sends nothing.
        """
        return None

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""

    def settle(self, message: str) -> None:
        """Make the files that were sent visible; many places do so at once."""
        return None


class FolderFiles:
    """The files of a folder on this machine; symbolic links in it are refused."""

    is_remote = False

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        self.location = str(root)
        self._folders = {""}

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        """Read from the file without following a link."""
        path = f"{self.root}/{name}"
        self._check_folder(name.rpartition("/")[0])
        try:
            with open(
                path, "rb", buffering=0, opener=system.open_without_links
            ) as stream:
                status = os.fstat(stream.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise FixInput(NOT_REGULAR, where=path, hint=COPY_AGAIN)
                total = status.st_size
                check_document(name, total, self.location)
                first, after = bounds(start, stop, total)
                data: Bytes = np.empty(after - first, np.uint8)
                if first:
                    stream.seek(first)
                return Piece(_read_into(stream, data), total)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise FixInput(LINK_REFUSED, where=path) from error
            if error.errno in (errno.EISDIR, errno.ENXIO):
                raise FixInput(NOT_REGULAR, where=path, hint=COPY_AGAIN) from error
            raise

    def _check_folder(self, folder: str) -> None:
        """Refuse a folder that is a link, or outside; once for each folder."""
        if folder in self._folders:
            return
        self._check_folder(folder.rpartition("/")[0])
        where = f"{self.root}/{folder}"
        if leads_out(folder):
            raise FixInput(
                f"the path {folder!r} leads out of its folder", where=self.location
            )
        if Path(where).is_symlink():
            raise FixInput(LINK_REFUSED, where=where)
        self._folders.add(folder)

    def names(self, folder: str) -> list[str] | None:
        """Return the names in a folder."""
        try:
            return sorted(path.name for path in (self.root / folder).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []


def _read_into(stream: io.FileIO, data: Bytes) -> Bytes:
    """Fill an array with bytes of a file; return what there was of them."""
    n_read = 0
    while n_read < len(data):
        # One call reads 2 GB at most.
        n_more = stream.readinto(data.data[n_read:])
        if not n_more:
            break
        n_read += n_more
    return data[:n_read]


def open_zip(path: Path) -> "ZipFiles":
    """Return the files of a packed store on this machine."""
    whole = path.resolve()
    return ZipFiles(FolderFiles(whole.parent), whole.name, str(path))


class ZipFiles:
    """The entries of a zip, read by ranges of the one file `name` of `inner`.

    Entries must be stored without compression, so that parts of them can be read.
    """

    def __init__(self, inner: Files, name: str, location: str | None = None) -> None:
        self.inner = inner
        self.name = name
        self.is_remote = inner.is_remote
        self.location = location or f"{inner.location}/{name}"
        tail = inner.read(name, -TAIL_BYTES)
        if tail is None:
            raise NotFound("no such file", where=self.location)
        self.total = tail.total
        listed = [
            entry for entry in self._listed(tail) if not entry.filename.endswith("/")
        ]
        self.entries = {entry.filename: entry for entry in listed}
        if len(self.entries) < len(listed):
            raise FixInput(
                "two entries of this zip have the same name", where=self.location
            )
        self._starts: dict[str, int] = {}
        for entry in listed:
            self._check(entry)

    def _listed(self, tail: Piece) -> list[zipfile.ZipInfo]:
        """Return the directory of the zip, which is mostly within its tail."""
        ranges: Any = _Ranges(self, tail)
        try:
            with zipfile.ZipFile(ranges) as directory:
                return directory.infolist()
        except ZIP_DAMAGE as error:
            hint = (
                "copy or download it again; obygaze store pack makes it from a folder"
            )
            if not re.search(r"\.zip($|[?#])", self.location):
                hint = "a store is a folder or a .zip file; obygaze store import --help"
            raise Corrupt(
                f"not a complete zip file: {error}", where=self.location, hint=hint
            ) from error

    def _check(self, entry: zipfile.ZipInfo) -> None:
        # orig_filename still has what zipfile removes, such as the bytes after a NUL.
        name = entry.orig_filename
        problem = ""
        if name != entry.filename or leads_out(name):
            problem = "has an invalid name, or leads out of its folder"
        elif stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
            problem = "is not a file"
        elif entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & NOT_PLAIN:
            problem = "is compressed or encrypted"
        if problem:
            raise FixInput(
                f"the entry {name!r} {problem}",
                where=self.location,
                hint="a zip that obygaze store pack made; another program can unpack others",
            )
        if entry.file_size != entry.compress_size or entry.file_size > self.total:
            raise Corrupt(f"{name!r} is longer than the zip file", where=self.location)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        """Read a part of an entry; the first time its header comes in the same request."""
        entry = self.entries.get(name)
        if entry is None:
            return None
        check_document(name, entry.file_size, self.location)
        first, after = bounds(start, stop, entry.file_size)
        if name not in self._starts:
            data = self._first_part(entry, 0 if first else after)
            if not first:
                return Piece(data, entry.file_size)
        begin = self._starts[name]
        return Piece(self.range(begin + first, begin + after), entry.file_size)

    def _first_part(self, entry: zipfile.ZipInfo, length: int) -> Bytes:
        """Return the first bytes of an entry, which come after its own header."""
        at = entry.header_offset
        room = HEADER.size + len(entry.orig_filename.encode()) + EXTRA_BYTES
        data = self.range(at, min(at + room + length, self.total))
        if len(data) < HEADER.size or data[:4].tobytes() != b"PK\x03\x04":
            raise Corrupt(
                f"the entry {entry.filename!r} is not at the listed position",
                where=self.location,
            )
        _, name_length, extra_length = HEADER.unpack(data[: HEADER.size].tobytes())
        skip = HEADER.size + int(name_length) + int(extra_length)
        self._starts[entry.filename] = at + skip
        if skip + length > len(data):
            return self.range(at + skip, at + skip + length)
        return data[skip : skip + length]

    def range(self, start: int, stop: int) -> Bytes:
        """Read bytes of the zip itself."""
        if start == stop:
            return np.empty(0, np.uint8)
        piece = self.inner.read(self.name, start, stop)
        if (
            piece is None
            or piece.total != self.total
            or len(piece.data) != stop - start
        ):
            hint = "run the same command again"
            raise Corrupt(
                "this file changed while it was read", where=self.location, hint=hint
            )
        return piece.data

    def names(self, folder: str) -> list[str] | None:
        """Return the names in a folder of the zip."""
        return names_in(folder, self.entries)


class _Ranges:
    """The zip as a file, of which zipfile reads the directory."""

    def __init__(self, zip: ZipFiles, tail: Piece) -> None:
        self.zip = zip
        self.tail = tail.data
        self.position = 0
        self.tail_start = tail.total - len(tail.data)

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {
            io.SEEK_SET: 0,
            io.SEEK_CUR: self.position,
            io.SEEK_END: self.zip.total,
        }[whence]
        if base + offset < 0:
            raise ValueError("it is too short")
        self.position = base + offset
        return self.position

    def read(self, size: int = -1) -> bytes:
        start, stop = bounds(
            self.position, None if size < 0 else self.position + size, self.zip.total
        )
        self.position = stop
        if start >= self.tail_start:
            return self.tail[start - self.tail_start : stop - self.tail_start].tobytes()
        return self.zip.range(start, stop).tobytes()


class CountedFiles:
    """Files with a counter of requests and bytes; small files are kept and never read twice."""

    def __init__(self, inner: Files) -> None:
        self.inner = inner
        self.location = inner.location
        self.is_remote = inner.is_remote
        self.n_requests = self.n_bytes = 0
        self._cached: dict[str, Piece] = {}
        self._lock = Lock()

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        """Read and count."""
        cached = self._cached.get(name) if start == 0 and stop is None else None
        if cached is not None:
            return cached
        piece = self.inner.read(name, start, stop)
        with self._lock:
            self.n_requests += 1
            if piece is not None:
                self.n_bytes += len(piece.data)
                # Of the arrays only the ids: they are read before the selection is made.
                is_kept = (
                    not name.startswith("data.zarr/") or name.split("/")[1] in ID_ARRAYS
                )
                if is_kept and len(piece.data) == piece.total <= CACHED_BYTES:
                    self._cached[name] = piece
        return piece

    def names(self, folder: str) -> list[str] | None:
        """List and count."""
        self.n_requests += 1
        return self.inner.names(folder)


def bounds(start: int, stop: int | None, total: int) -> tuple[int, int]:
    """Return the first byte of a part and the byte after its last, within the file."""
    first = max(0, total + start) if start < 0 else min(start, total)
    return first, max(first, total if stop is None else min(stop, total))


def names_in(folder: str, names: Iterable[str]) -> list[str]:
    """Return the files and folders directly in a folder, of the names of all files."""
    prefix = f"{folder}/" if folder else ""
    inner = (name[len(prefix) :] for name in names if name.startswith(prefix))
    return sorted({name.split("/")[0] for name in inner if name})


def read_or_none(files: Files, name: str) -> bytes | None:
    """Return a small file whole, or None where it does not exist."""
    piece = files.read(name)
    return None if piece is None else piece.data.tobytes()


def read_listed(files: Files, name: str, mark: FileMark) -> bytes:
    """Return a file whole; raise an error unless its bytes are the ones of its mark.

    Where another version of the store has another file in its place, it is read from where it is
    kept.
    """
    check_memory(mark.n_bytes, name, files.location)
    data = read_or_none(files, name)
    if data is not None and FileMark.of(data) == mark:
        return data
    kept_data = read_kept(files, mark)
    if kept_data is not None:
        return kept_data
    if data is None:
        raise Corrupt(
            f"{name} is missing", where=files.location, hint="obygaze store verify"
        )
    raise not_as_listed(name, files.location)


def read_kept(files: Files, mark: FileMark) -> bytes | None:
    """Return a file of an earlier version, with the bytes of its mark; None if it is not there."""
    piece = files.read(mark.kept_name, 0, max(mark.n_bytes, 1))
    if piece is None or piece.total != mark.n_bytes:
        return None
    data = piece.data.tobytes()
    return data if FileMark.of(data) == mark else None


def not_as_listed(name: str, where: str) -> Corrupt:
    """Return the error for a file whose bytes are not those that were committed."""
    return Corrupt(
        f"{name} does not have the checksum that the store lists",
        where=where,
        hint="obygaze store verify --hash, of the store it is read from",
    )


def read_record(files: Files, kind: type[R], name: str = "") -> R | None:
    """Return one of a store's own JSON files, checked; None where it does not exist."""
    name = name or kind.FILE
    data = read_or_none(files, name)
    return None if data is None else kind.from_bytes(data, f"{files.location}/{name}")
