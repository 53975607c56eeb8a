"""The files of a store in a folder, and the files that a store.json lists, wherever they are."""

import errno
import hashlib
import io
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from obygaze_features.core import system
from obygaze_features.core.console import human
from obygaze_features.core.errors import Corrupt, FixInput, ObygazeError, Stopped
from obygaze_features.core.files import leads_out
from obygaze_features.store.decoding import DAMAGE, Bytes
from obygaze_features.store.layout import CHUNK_BYTES, STORE_JSON
from obygaze_features.store.records import FileMark, seal_of

LINK_REFUSED = "a store must not contain symbolic links"
NOT_REGULAR = "expected a regular file, got a folder, a pipe or a device"
# store.json grows with the number of files, by about 130 bytes each. A file of the usual length has
# 64 MB, so that this is enough for 16 TB; and a stranger's document takes little memory.
MOST_DOCUMENT_BYTES = 2**25
_PIECES_AT_ONCE = 64
_KEPT_BYTES = 2**28


class NoRanges(FixInput):
    """A server sends whole files only: copy the store."""


class Range(NamedTuple):
    """Bytes of a file: from `start` to before `stop`.

    `memory` is a place for these bytes, for readers that read one part after another. Other
    readers ignore it.
    """

    name: str
    start: int
    stop: int
    memory: Bytes | None = None


class Files(Protocol):
    """Files by name, whole or in part. Names are relative, with forward slashes.

    To read stores from a new kind of place, write these members. One that cannot read parts of
    files raises `NoRanges`.
    """

    # What to show, and what to open again: it may contain what is secret.
    location: str
    address: str
    # How many bytes should be read at once; where a request takes long, more.
    piece_bytes: int

    def read(self, name: str, most_bytes: int) -> Bytes:
        """Return a whole file; raise FileNotFoundError if it is absent.

        A file of more than `most_bytes` is an error before it is in memory.
        """

    def read_ranges(self, ranges: Sequence[Range]) -> Iterator[Bytes]:
        """Yield parts of files in this order. A part beyond the end of its file is shorter."""

    def length(self, name: str) -> int:
        """Return the bytes of a file; raise FileNotFoundError if it is absent."""

    def names(self) -> list[str] | None:
        """Return the names of all files that are there; None where a place cannot list them."""


class FolderFiles:
    """The files of a folder on this machine. Symbolic links in it are refused."""

    # One chunk: it is read to its place in the result.
    piece_bytes = CHUNK_BYTES

    def __init__(self, root: Path) -> None:
        # Where the program is now decides what a relative path means, not where it will be.
        self.root = os.path.realpath(root)
        self.location = str(root)
        self.address = self.root
        self._checked_folders = {""}

    def read(self, name: str, most_bytes: int) -> Bytes:
        """Return a whole file; raise FileNotFoundError if it is absent."""
        with self._open(name) as stream:
            n_bytes = os.fstat(stream.fileno()).st_size
            check_length(name, n_bytes, most_bytes, self.location)
            return _read_at(stream, 0, np.empty(n_bytes, np.uint8))

    def read_ranges(self, ranges: Sequence[Range]) -> Iterator[Bytes]:
        """Yield parts of files; a file is opened once for neighbouring parts."""
        for name, parts in groupby(ranges, key=lambda wanted: wanted.name):
            with self._open(name) as stream:
                for _, start, stop, memory in parts:
                    if memory is None:
                        memory = np.empty(stop - start, np.uint8)
                    yield _read_at(stream, start, memory)

    def length(self, name: str) -> int:
        """Return the bytes of a file; raise FileNotFoundError if it is absent."""
        with self._open(name) as stream:
            return os.fstat(stream.fileno()).st_size

    def names(self) -> list[str] | None:
        """Return the names of all files and links that are there."""
        names = []
        for folder, folders, files in os.walk(self.root):
            links = [name for name in folders if Path(folder, name).is_symlink()]
            for name in (*files, *links):
                relative = Path(folder, name).relative_to(self.root)
                names.append(relative.as_posix())
        return sorted(names)

    @contextmanager
    def _open(self, name: str) -> Iterator[io.FileIO]:
        """Open a file without following a link."""
        path = f"{self.root}/{name}"
        self._check_folder(name.rpartition("/")[0])
        try:
            with open(
                path, "rb", buffering=0, opener=system.open_without_links
            ) as stream:
                if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                    raise Corrupt(NOT_REGULAR, where=path)
                yield stream
        except NotADirectoryError as error:
            raise FileNotFoundError(errno.ENOENT, "no such file", path) from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise Corrupt(LINK_REFUSED, where=path) from error
            if error.errno in (errno.EISDIR, errno.ENXIO):
                raise Corrupt(NOT_REGULAR, where=path) from error
            raise

    def _check_folder(self, folder: str) -> None:
        """Refuse a folder that is a link, or outside; once for each folder."""
        if folder in self._checked_folders:
            return
        self._check_folder(folder.rpartition("/")[0])
        path = f"{self.root}/{folder}"
        if leads_out(folder):
            raise FixInput(
                f"the path {folder!r} leads out of its folder", where=self.location
            )
        if Path(path).is_symlink():
            raise Corrupt(LINK_REFUSED, where=path)
        self._checked_folders.add(folder)


def _read_at(stream: io.FileIO, start: int, memory: Bytes) -> Bytes:
    """Fill memory with bytes of a file; return it, or as much as there was."""
    stream.seek(start)
    n_read = stream.readinto(memory.data)
    while n_read < len(memory):
        # One call reads 2 GB at most.
        n_more = stream.readinto(memory.data[n_read:])
        if not n_more:
            return memory[:n_read]
        n_read += n_more
    return memory


def check_length(name: str, n_bytes: int, most_bytes: int, where: str) -> None:
    """Raise an error for a file that is longer than it may be; ask before it is in memory."""
    if n_bytes > most_bytes:
        raise Corrupt(
            f"{name} has {human(n_bytes)}, expected at most {human(most_bytes)}",
            where=where,
        )
    check_memory(n_bytes, name, where)


def check_memory(
    n_bytes: int,
    subject: str,
    where: str,
    hint: str = "",
    *,
    error: type[ObygazeError] = FixInput,
) -> None:
    """Raise an error if `n_bytes` are more than this machine's memory."""
    total = system.memory_bytes()
    if n_bytes > total:
        raise error(
            f"{subject} needs {human(n_bytes)} of memory, this machine has {human(total)}",
            where=where,
            hint=hint or None,
        )


def free_bytes(folder: Path) -> int:
    """Return how many bytes the disk of a folder can take."""
    return shutil.disk_usage(folder).free


class ListedFiles:
    """The files that a store.json lists. A file that is not as listed is an error."""

    def __init__(
        self, files: Files, marks: Mapping[str, FileMark], seal: str = ""
    ) -> None:
        self.files = files
        self.marks = marks
        self.seal = seal
        # Some servers send whole files only: those that were sent, as many as memory should hold.
        self._sends_parts = True
        self._kept: dict[str, Bytes] = {}

    @property
    def location(self) -> str:
        """Where the store is, for people."""
        return self.files.location

    def whole(self, name: str) -> Bytes:
        """Return a whole file that has the listed length and SHA-256."""
        mark = self.marks[name]
        try:
            data = self.files.read(name, mark.n_bytes)
        except FileNotFoundError as error:
            raise self._missing(name) from error
        if (
            len(data) != mark.n_bytes
            or hashlib.sha256(data.data).hexdigest() != mark.sha256
        ):
            raise self.damaged(name, "it is not the file that store.json lists")
        return data

    def parts(self, ranges: Sequence[Range]) -> Iterator[Bytes]:
        """Yield parts of listed files, each of which has all its bytes. Nothing else is checked."""
        parts = self.files.read_ranges(ranges)
        for wanted in ranges:
            try:
                data = next(parts) if self._sends_parts else self._part_of(wanted)
            except FileNotFoundError as error:
                raise self._missing(wanted.name) from error
            except NoRanges:
                self._sends_parts = False
                data = self._part_of(wanted)
            if len(data) != wanted.stop - wanted.start:
                raise self.damaged(wanted.name, "it is shorter than store.json says")
            yield data

    def _part_of(self, wanted: Range) -> Bytes:
        """Return a part of a file that is fetched as a whole, and kept for the next part."""
        if wanted.name not in self._kept:
            kept_bytes = sum(map(len, self._kept.values()))
            if kept_bytes + self.marks[wanted.name].n_bytes > _KEPT_BYTES:
                self._kept = {}
            self._kept = {**self._kept, wanted.name: self.whole(wanted.name)}
        return self._kept[wanted.name][wanted.start : wanted.stop]

    def pieces(self, name: str) -> Iterator[memoryview]:
        """Yield the bytes of a listed file."""
        n_bytes = self.marks[name].n_bytes
        size = self.files.piece_bytes
        # Some at a time: a length that a stranger states must not decide how long a list becomes.
        for first in range(0, n_bytes, size * _PIECES_AT_ONCE):
            after = min(first + size * _PIECES_AT_ONCE, n_bytes)
            ranges = [
                Range(name, start, min(start + size, after))
                for start in range(first, after, size)
            ]
            for data in self.parts(ranges):
                yield data.data

    def check_length(self, name: str) -> None:
        """Raise an error unless a file has the listed length."""
        try:
            n_bytes = self.files.length(name)
        except FileNotFoundError as error:
            raise self._missing(name) from error
        if n_bytes != self.marks[name].n_bytes:
            raise self.damaged(name, f"it has {n_bytes} bytes")

    def _missing(self, name: str) -> ObygazeError:
        return self._not_as_listed(f"{name} is missing")

    def _not_as_listed(self, message: str) -> ObygazeError:
        """Return the error for a file that is damaged, or of a store that took its place."""
        with suppress(ObygazeError, OSError):
            if self.seal:
                document = self.files.read(STORE_JSON, MOST_DOCUMENT_BYTES)
                if seal_of(document.tobytes()) != self.seal:
                    return store_replaced_error(self.location)
        return Corrupt(message, where=self.location)

    @contextmanager
    def decoding(self, name: str) -> Iterator[None]:
        """Make an error that a file is damaged of what decoders raise over its bytes."""
        try:
            yield
        except DAMAGE as error:
            raise self.damaged(name, error) from error

    def damaged(self, name: str, problem: object) -> ObygazeError:
        """Return the error that a file is damaged, or of a store that took the place of this."""
        lines = str(problem).splitlines()
        reason = f": {lines[0][:160]}" if lines else ""
        return self._not_as_listed(f"{name} is damaged, or from another store{reason}")


def store_replaced_error(where: str) -> Stopped:
    """Return the error that another store is at the place of one that is open."""
    return Stopped(
        "the store was replaced while it was read",
        where=where,
        hint="the same command again",
    )
