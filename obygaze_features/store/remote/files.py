"""The files of a store by name, wherever it is: the two interfaces, and a folder."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import leads_out
from obygaze_features.store.format.limits import check_document
from obygaze_features.store.format.records import Record
from obygaze_features.store.format.schema import Bytes, FileMark

R = TypeVar("R", bound=Record)

LINK_REFUSED = "a store must not contain symbolic links"
CACHED_BYTES = 1_000_000


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
        """Raise an error if this place cannot store the files, before any is sent."""
        return None

    def has(self, name: str, mark: FileMark) -> bool:
        """Return whether the same file is there already."""

    def put(self, name: str, data: bytes | Path, mark: FileMark) -> None:
        """Send one whole file, given as bytes or as a file here; several threads may call this."""

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""

    def update(self, name: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        """Replace a small file by `change(its bytes)`, where None stands for no file.

        If the place can detect that another process changes the file at the same time, neither
        change is lost. Return the new bytes.
        """

    def settle(self, message: str) -> None:
        """Make the files that were sent visible; many places do so at once."""
        return None


class FolderFiles:
    """The files of a folder on this machine; symbolic links in it are refused."""

    is_remote = False

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.location = str(root)
        self._folders = {""}

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        """Read from the file without following a link."""
        path = f"{self.root}/{name}"
        self._check_folder(name.rpartition("/")[0])
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise FixInput(LINK_REFUSED, where=path) from error
            raise
        try:
            total = os.fstat(descriptor).st_size
            check_document(name, total, self.location)
            return read_open_file(descriptor, total, start, stop)
        finally:
            os.close(descriptor)

    def _check_folder(self, folder: str) -> None:
        """Refuse a folder that is a link, or outside; once for each folder."""
        if folder in self._folders:
            return
        self._check_folder(folder.rpartition("/")[0])
        where = f"{self.root}/{folder}"
        if leads_out(folder):
            raise FixInput(f"the path {folder!r} leaves its folder", where=self.location)
        if Path(where).is_symlink():
            raise FixInput(LINK_REFUSED, where=where)
        self._folders.add(folder)

    def names(self, folder: str) -> list[str] | None:
        """Return the names in a folder."""
        path = self.root / folder
        return sorted(one.name for one in path.iterdir()) if path.is_dir() else []


class CountedFiles:
    """Files with a counter of requests and bytes; small files are kept and never read twice."""

    def __init__(self, inner: Files) -> None:
        self.inner = inner
        self.location, self.is_remote = inner.location, inner.is_remote
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
                if len(piece.data) == piece.total <= CACHED_BYTES and _is_cacheable(name):
                    self._cached[name] = piece
        return piece

    def names(self, folder: str) -> list[str] | None:
        """List and count."""
        self.n_requests += 1
        return self.inner.names(folder)


def _is_cacheable(name: str) -> bool:
    # Of the arrays only the ids: they are read before the selection is made.
    return not name.startswith("data.zarr/") or name.split("/")[1] in ("clip_id", "movie_id")


def read_open_file(descriptor: int, total: int, start: int, stop: int | None) -> Piece:
    """Read a part of an open file of `total` bytes."""
    first, after = bounds(start, stop, total)
    data: Bytes = np.empty(after - first, np.uint8)
    # One read returns at most 2 GB, and less on some network file systems.
    done = 0
    while done < len(data) and (n := os.preadv(descriptor, [data[done:].data], first + done)):
        done += n
    return Piece(data[:done], total)


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


def read_record(files: Files, kind: type[R], name: str) -> R | None:
    """Return one of a store's own JSON files, checked; None where it does not exist."""
    data = read_or_none(files, name)
    return None if data is None else kind.from_bytes(data, f"{files.location}/{name}")
