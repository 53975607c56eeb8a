"""Read the files of a folder, and the files that store.json lists, in a folder or on a server."""

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
# Upper bound of store.json, which has about 130 bytes per file: enough for 16 TB in files of 64 MB.
# An untrusted document therefore takes little memory.
MOST_DOCUMENT_BYTES = 2**25
_PIECES_AT_ONCE = 64
_KEPT_BYTES = 2**28


class NoRanges(FixInput):
    """A server sends only whole files: copy the store to read parts of it."""


class Range(NamedTuple):
    """The bytes of a file from offset `start` to offset `stop - 1`.

    `memory` is the memory into which the bytes are read; with None, new memory is taken. Only
    readers that read one range after another use `memory`. All other readers ignore it.
    """

    name: str
    start: int
    stop: int
    memory: Bytes | None = None


class Files(Protocol):
    """Files by name, whole or in part. Names are relative, with forward slashes.

    A class with these members can read stores from a new kind of place. If the place cannot send
    parts of files, `read_ranges` raises `NoRanges`.
    """

    # Messages show `location`. `address` opens the files again, and may contain secrets.
    location: str
    address: str
    # Bytes per read; larger where a request is slow.
    piece_bytes: int

    def read(self, name: str, most_bytes: int) -> Bytes:
        """Return a whole file; raise FileNotFoundError if it is missing.

        A file of more than `most_bytes` is refused before it is read into memory.
        """

    def read_ranges(self, ranges: Sequence[Range]) -> Iterator[Bytes]:
        """Yield parts of files in the order of `ranges`.

        If a range ends after the end of its file, its part is shorter than the range.
        """

    def length(self, name: str) -> int:
        """Return the length of a file in bytes; raise FileNotFoundError if it is missing."""

    def names(self) -> list[str] | None:
        """Return the names of all files, or None if the place cannot list them."""


class FolderFiles:
    """The files of a folder on this machine. Symbolic links in it are refused."""

    # One chunk, which is read directly to its place in the result.
    piece_bytes = CHUNK_BYTES

    def __init__(self, root: Path) -> None:
        # A relative path is resolved now: a later change of directory does not move the store.
        self.root = os.path.realpath(root)
        self.location = str(root)
        self.address = self.root
        self._checked_folders = {""}

    def read(self, name: str, most_bytes: int) -> Bytes:
        """Return a whole file; raise FileNotFoundError if it is missing."""
        with self._open(name) as stream:
            n_bytes = os.fstat(stream.fileno()).st_size
            check_length(name, n_bytes, most_bytes, self.location)
            return _read_at(stream, 0, np.empty(n_bytes, np.uint8))

    def read_ranges(self, ranges: Sequence[Range]) -> Iterator[Bytes]:
        """Yield parts of files; a file is opened once for all its parts that follow one another."""
        for name, parts in groupby(ranges, key=lambda wanted: wanted.name):
            with self._open(name) as stream:
                for _, start, stop, memory in parts:
                    if memory is None:
                        memory = np.empty(stop - start, np.uint8)
                    yield _read_at(stream, start, memory)

    def length(self, name: str) -> int:
        """Return the length of a file in bytes; raise FileNotFoundError if it is missing."""
        with self._open(name) as stream:
            return os.fstat(stream.fileno()).st_size

    def names(self) -> list[str]:
        """Return the names of all files and links."""
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
        """Raise an error for a folder that is a link or outside of the root."""
        if folder in self._checked_folders:
            return
        self._check_folder(folder.rpartition("/")[0])
        path = f"{self.root}/{folder}"
        if leads_out(folder):
            raise FixInput(
                f"the path {folder!r} leads out of the folder of the store",
                where=self.location,
            )
        if Path(path).is_symlink():
            raise Corrupt(LINK_REFUSED, where=path)
        self._checked_folders.add(folder)


def _read_at(stream: io.FileIO, start: int, memory: Bytes) -> Bytes:
    """Fill memory with bytes of a file; return the part that was filled."""
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
    """Raise an error if a file is longer than `most_bytes`, or than the memory of this machine.

    Call this before the file is read into memory.
    """
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
    """Raise an error if `n_bytes` exceed the memory of this machine."""
    total = system.memory_bytes()
    if n_bytes > total:
        raise error(
            f"{subject} needs {human(n_bytes)} of memory, but this machine has {human(total)}",
            where=where,
            hint=hint or None,
        )


def free_bytes(folder: Path) -> int:
    """Return the number of free bytes on the disk of a folder."""
    return shutil.disk_usage(folder).free


class ListedFiles:
    """The files that store.json lists. A file that differs from its entry is an error."""

    def __init__(
        self, files: Files, marks: Mapping[str, FileMark], seal: str = ""
    ) -> None:
        self.files = files
        self.marks = marks
        self.seal = seal
        # Of a server that sends whole files only, the last files are kept, up to `_KEPT_BYTES`.
        self._sends_parts = True
        self._kept: dict[str, Bytes] = {}

    @property
    def location(self) -> str:
        """The location of the store, for messages."""
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
            raise self.damaged(name, "length or SHA-256 differs from store.json")
        return data

    def parts(self, ranges: Sequence[Range]) -> Iterator[Bytes]:
        """Yield parts of listed files; raise an error for a part that is too short.

        Nothing else is checked: the caller compares checksums.
        """
        parts = self.files.read_ranges(ranges)
        for wanted in ranges:
            try:
                data = next(parts) if self._sends_parts else self._read_part(wanted)
            except FileNotFoundError as error:
                raise self._missing(wanted.name) from error
            except NoRanges:
                self._sends_parts = False
                data = self._read_part(wanted)
            if len(data) != wanted.stop - wanted.start:
                raise self.damaged(
                    wanted.name, "the file is shorter than store.json lists"
                )
            yield data

    def _read_part(self, wanted: Range) -> Bytes:
        """Return a part of a file, from a server that sends only whole files.

        The whole file is fetched, and kept in memory for its other parts.
        """
        if wanted.name not in self._kept:
            kept_bytes = sum(map(len, self._kept.values()))
            if kept_bytes + self.marks[wanted.name].n_bytes > _KEPT_BYTES:
                self._kept = {}
            self._kept = {**self._kept, wanted.name: self.whole(wanted.name)}
        return self._kept[wanted.name][wanted.start : wanted.stop]

    def pieces(self, name: str) -> Iterator[memoryview]:
        """Yield the bytes of a listed file in pieces."""
        n_bytes = self.marks[name].n_bytes
        size = self.files.piece_bytes
        # Pieces are listed in groups: an untrusted length must not decide the length of a list.
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
            raise self.damaged(name, f"the file has {n_bytes} bytes")

    def _missing(self, name: str) -> ObygazeError:
        return self._not_as_listed(f"{name} is missing")

    def _not_as_listed(self, message: str) -> ObygazeError:
        """Return the error for a file that differs from store.json.

        It states that the store was replaced after it was opened, or else `message`.
        """
        with suppress(ObygazeError, OSError):
            if self.seal:
                document = self.files.read(STORE_JSON, MOST_DOCUMENT_BYTES)
                if seal_of(document.tobytes()) != self.seal:
                    return store_replaced_error(self.location)
        return Corrupt(message, where=self.location)

    @contextmanager
    def decoding(self, name: str) -> Iterator[None]:
        """Convert the exceptions of decoders to the error that a file is damaged."""
        try:
            yield
        except DAMAGE as error:
            raise self.damaged(name, error) from error

    def damaged(self, name: str, problem: object) -> ObygazeError:
        """Return the error for a file that cannot be decoded or differs from store.json.

        It states that the store was replaced after it was opened, or else that the file is damaged.
        """
        lines = str(problem).splitlines()
        reason = f": {lines[0][:160]}" if lines else ""
        return self._not_as_listed(
            f"{name} is damaged, or belongs to another store{reason}"
        )


def store_replaced_error(where: str) -> Stopped:
    """Return the error that an open store was replaced."""
    return Stopped(
        "the store was replaced while it was read",
        where=where,
        hint="run the same command again",
    )
