"""Read the files of a packed store, in place or from a zip of another program."""

from __future__ import annotations

import io
import os
import stat
import struct
import weakref
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from obygaze_features.core.errors import Corrupt, FixInput, NotFound
from obygaze_features.core.files import confined
from obygaze_features.store.format.limits import DOCUMENT_BYTES, check_document, check_memory
from obygaze_features.store.format.records import STORE_FILE
from obygaze_features.store.format.schema import Bytes
from obygaze_features.store.remote.files import (
    Files,
    Piece,
    bounds,
    names_in,
    read_open_file,
)

# What zipfile raises for an invalid directory of entries.
ZIP_DAMAGE = (zipfile.BadZipFile, NotImplementedError, ValueError)
# Enough for the directory of a store with thousands of clips, in one request.
TAIL_BYTES = 64_000
HEADER = struct.Struct("<4s22xHH")
# `pack` writes no extra fields except for files of 4 GB; other programs write a few bytes.
EXTRA_BYTES = 64
# The bits of a directory entry for encryption (two kinds) and for patches.
NOT_PLAIN = 0x61
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# `pack` does not compress, and compressed JSON can become a thousand times longer.
DEFLATED_BYTES = 64_000_000


def open_zip(path: Path) -> ZipFiles:
    """Return the files of a packed store on this machine."""
    return ZipFiles(_OpenFile(path), path.name, str(path))


class ZipFiles:
    """The entries of a zip, read by ranges of the one file `name` of `inner`.

    Entries must be stored without compression, so that parts of them can be read.
    """

    def __init__(self, inner: Files, name: str, location: str | None = None) -> None:
        self.inner, self.name, self.is_remote = inner, name, inner.is_remote
        self.location = location or f"{inner.location}/{name}"
        tail = inner.read(name, -TAIL_BYTES)
        if tail is None:
            raise NotFound("no such file", where=self.location)
        self.total = tail.total
        self.zip = self._open(tail)
        listed = [one for one in self.zip.infolist() if not one.filename.endswith("/")]
        self.entries = {entry.filename: entry for entry in listed}
        if len(self.entries) < len(listed):
            raise FixInput("two entries of this zip have the same name", where=self.location)
        self._starts: dict[str, int] = {}
        for entry in listed:
            self._check(entry)

    def _open(self, tail: Piece) -> zipfile.ZipFile:
        try:
            ranges: Any = _Ranges(self, tail)
            return zipfile.ZipFile(ranges)
        except ZIP_DAMAGE as error:
            raise Corrupt(
                f"not a complete zip file: {error}",
                where=self.location,
                hint="copy or download it again; obygaze store pack makes it from a folder",
            ) from error

    def _check(self, entry: zipfile.ZipInfo) -> None:
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & NOT_PLAIN:
            raise FixInput(
                f"the entry {entry.filename!r} is compressed or encrypted",
                where=self.location,
                hint="read a zip that obygaze store pack made, or a folder of obygaze store unpack",
            )
        if entry.file_size != entry.compress_size or entry.file_size > self.total:
            raise Corrupt(f"{entry.filename!r} is longer than the zip file", where=self.location)

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
                f"the entry {entry.filename!r} is not at the listed position", where=self.location
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
        if piece is None or piece.total != self.total or len(piece.data) != stop - start:
            hint = "run the same command again"
            raise Corrupt("this file changed while it was read", where=self.location, hint=hint)
        return piece.data

    def names(self, folder: str) -> list[str] | None:
        """Return the names in a folder of the zip."""
        return names_in(folder, self.entries)


class _OpenFile:
    """One file, kept open: a zip that is replaced meanwhile can still be read."""

    is_remote = False

    def __init__(self, path: Path) -> None:
        self.location = str(path.parent)
        self.descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self.descriptor)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        del name
        return read_open_file(self.descriptor, start, stop)

    def names(self, folder: str) -> list[str] | None:
        del folder
        return None


class _Ranges(io.RawIOBase):
    """The zip as a file in which zipfile looks for the directory, mostly within its tail."""

    def __init__(self, zip: ZipFiles, tail: Piece) -> None:
        self.zip, self.tail, self.place = zip, tail.data, 0
        self.tail_start = tail.total - len(tail.data)

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.place, io.SEEK_END: self.zip.total}[whence]
        if base + offset < 0:
            raise ValueError("a place before the start of the file")
        self.place = base + offset
        return self.place

    def read(self, size: int | None = -1, /) -> bytes:
        stop = self.zip.total if size is None or size < 0 else self.place + size
        start, stop = self.place, min(stop, self.zip.total)
        self.place = max(start, stop)
        if start >= stop:
            return b""
        if start >= self.tail_start:
            return self.tail[start - self.tail_start : stop - self.tail_start].tobytes()
        return self.zip.range(start, stop).tobytes()


class UntrustedZip(ZipFiles):
    """The entries of a zip of another program: compressed or not, in a folder of the zip or not.

    Names must stay in their folder, entries must be plain files, and no entry may unpack to more
    than `expected` bytes.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(_OpenFile(path), path.name, str(path))
        self.expected: dict[str, int] = {}
        root = _root(list(self.entries), self.location)
        self.entries = {
            name.removeprefix(root): entry
            for name, entry in self.entries.items()
            if name.startswith(root)
        }

    def _check(self, entry: zipfile.ZipInfo) -> None:
        # orig_filename still has what zipfile removes, such as the bytes after a NUL.
        if entry.orig_filename != entry.filename:
            raise FixInput(
                f"the entry {entry.orig_filename!r} has an invalid name", where=self.location
            )
        try:
            confined(Path("/nonexistent"), entry.filename)
        except FixInput as error:
            raise FixInput(
                f"the entry {entry.filename!r} leaves its folder",
                where=self.location,
                hint="do not open this file; obygaze store pack makes one without such entries",
            ) from error
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
            hint = "obygaze store pack makes a zip of files only"
            raise FixInput(
                f"the entry {entry.filename!r} is not a file", where=self.location, hint=hint
            )
        if entry.flag_bits & NOT_PLAIN or entry.compress_type not in METHODS:
            raise FixInput(
                f"the entry {entry.filename!r} is encrypted, or compressed by an unknown method",
                where=self.location,
            )

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        """Read a part of an entry, never more bytes than the directory lists."""
        entry = self.entries.get(name)
        if entry is None:
            return None
        first, after = bounds(start, stop, entry.file_size)
        is_stored = entry.compress_type == zipfile.ZIP_STORED
        most = DOCUMENT_BYTES if is_stored else DEFLATED_BYTES
        if after - first > max(most, self.expected.get(name, 0)):
            raise FixInput(
                f"{name} has {after - first:,} bytes, more than the store lists",
                where=self.location,
            )
        check_memory(after - first, name, self.location)
        try:
            with self.zip.open(entry) as stream:
                stream.seek(first)
                data = stream.read(after - first)
        except (zipfile.BadZipFile, EOFError, ValueError, zlib.error) as error:
            raise Corrupt(f"{name} cannot be read: {error}", where=self.location) from error
        return Piece(np.frombuffer(data, np.uint8), entry.file_size)


def _root(names: list[str], where: str) -> str:
    """Return the folder of the zip that the store is in; "" as `pack` makes it."""
    found = [name for name in names if PurePosixPath(name).name == STORE_FILE]
    roots = sorted({name.removesuffix(STORE_FILE) for name in found}, key=len)
    if not roots or (len(roots) > 1 and roots[0]):
        raise FixInput(
            f"expected one store in this zip, got {len(roots)}",
            where=where,
            hint="a file of obygaze store pack",
        )
    return roots[0]
