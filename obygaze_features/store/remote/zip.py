"""Read the files of a packed store in place: a zip whose entries are stored, not compressed."""

from __future__ import annotations

import io
import os
import stat
import struct
import weakref
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.errors import Corrupt, FixInput, NotFound
from obygaze_features.core.files import leads_out
from obygaze_features.store.format.limits import check_document
from obygaze_features.store.format.schema import Bytes
from obygaze_features.store.remote.files import Files, Piece, bounds, names_in, read_open_file

# What zipfile raises for an invalid directory of entries.
ZIP_DAMAGE = (zipfile.BadZipFile, NotImplementedError, ValueError)
# Enough for the directory of a store with thousands of clips, in one request.
TAIL_BYTES = 64_000
HEADER = struct.Struct("<4s22xHH")
# `pack` writes no extra fields except for files of 4 GB; other programs write a few bytes.
EXTRA_BYTES = 64
# The bits of a directory entry for encryption (two kinds) and for patches.
NOT_PLAIN = 0x61


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
        listed = [one for one in self._listed(tail) if not one.filename.endswith("/")]
        self.entries = {entry.filename: entry for entry in listed}
        if len(self.entries) < len(listed):
            raise FixInput("two entries of this zip have the same name", where=self.location)
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
            raise Corrupt(
                f"not a complete zip file: {error}",
                where=self.location,
                hint="copy or download it again; obygaze store pack makes it from a folder",
            ) from error

    def _check(self, entry: zipfile.ZipInfo) -> None:
        # orig_filename still has what zipfile removes, such as the bytes after a NUL.
        name, what = entry.orig_filename, ""
        if name != entry.filename or leads_out(name):
            what = "has an invalid name, or leaves its folder"
        elif stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
            what = "is not a file"
        elif entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & NOT_PLAIN:
            what = "is compressed or encrypted"
        if what:
            raise FixInput(
                f"the entry {name!r} {what}",
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
        return read_open_file(self.descriptor, os.fstat(self.descriptor).st_size, start, stop)

    def names(self, folder: str) -> list[str] | None:
        del folder
        return None


class _Ranges:
    """The zip as a file, of which zipfile reads the directory."""

    def __init__(self, zip: ZipFiles, tail: Piece) -> None:
        self.zip, self.tail, self.place = zip, tail.data, 0
        self.tail_start = tail.total - len(tail.data)

    def tell(self) -> int:
        return self.place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.place, io.SEEK_END: self.zip.total}[whence]
        if base + offset < 0:
            raise ValueError("a place before the start of the file")
        self.place = base + offset
        return self.place

    def read(self, size: int = -1) -> bytes:
        start, stop = bounds(self.place, None if size < 0 else self.place + size, self.zip.total)
        self.place = stop
        if start >= self.tail_start:
            return self.tail[start - self.tail_start : stop - self.tail_start].tobytes()
        return self.zip.range(start, stop).tobytes()
