"""A packed store on a server, read in place: one request for its directory, one for each file."""

from __future__ import annotations

import io
import struct
import zipfile
from threading import Lock

import numpy as np

from obygaze_features.core.errors import Corrupt, FixInput, NotFound
from obygaze_features.store.files.places import ZIP_DAMAGE, Bytes, Files, Piece

# What holds the whole directory of a store of thousands of clips, and costs one request.
TAIL_BYTES = 64_000
HEADER = struct.Struct("<4s22xHH")
# `pack` writes no extra fields but for files of 4 GB; others write a few bytes.
EXTRA_BYTES = 64


class RemoteZip:
    """The entries of a stored zip, by ranges of the one file `name` of `inner`."""

    is_remote = True

    def __init__(self, inner: Files, name: str) -> None:
        self.inner, self.name = inner, name
        self.location = f"{inner.location}/{name}"
        tail = inner.read(name, -TAIL_BYTES)
        if tail is None:
            raise NotFound("there is no such file", where=self.location)
        self.total = tail.total
        try:
            with zipfile.ZipFile(_Ranges(self, tail)) as packed:
                entries = packed.infolist()
        except ZIP_DAMAGE as error:
            raise Corrupt(f"not a whole zip file: {error}", where=self.location) from error
        self.entries = {entry.filename: entry for entry in entries}
        self._starts: dict[str, int] = {}
        self._lock = Lock()
        self._check(entries)

    def _check(self, entries: list[zipfile.ZipInfo]) -> None:
        if len(self.entries) != len(entries):
            raise FixInput("two entries of this zip have one name", where=self.location)
        for entry in entries:
            stored = entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & 0x1
            if not stored:
                raise FixInput(
                    f"the entry {entry.filename!r} is compressed or encrypted",
                    where=self.location,
                    hint="download it, then obygaze store unpack",
                )
            if entry.file_size != entry.compress_size or entry.file_size > self.total:
                raise Corrupt(f"{entry.filename!r} cannot be that long", where=self.location)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        """A part of an entry; the first time its header comes along in the same request."""
        entry = self.entries.get(name)
        if entry is None:
            return None
        size = entry.file_size
        first = max(0, size + start) if start < 0 else min(start, size)
        after = max(first, size if stop is None else min(stop, size))
        begins = self._starts.get(name)
        if begins is None and first:
            self._first_part(entry, 0)
            begins = self._starts[name]
        if begins is None:
            return Piece(self._first_part(entry, after), size)
        return Piece(self.range(begins + first, begins + after), size)

    def _first_part(self, entry: zipfile.ZipInfo, length: int) -> Bytes:
        """The first bytes of an entry, found behind its own header."""
        at = entry.header_offset
        room = HEADER.size + len(entry.orig_filename.encode()) + EXTRA_BYTES
        data = self.range(at, min(at + room + length, self.total))
        if len(data) < HEADER.size or data[:4].tobytes() != b"PK\x03\x04":
            raise Corrupt(f"no entry where {entry.filename!r} should be", where=self.location)
        _, name_length, extra_length = HEADER.unpack(data[: HEADER.size].tobytes())
        skip = HEADER.size + int(name_length) + int(extra_length)
        with self._lock:
            self._starts[entry.filename] = at + skip
        if skip + length > len(data):
            return self.range(at + skip, at + skip + length)
        return data[skip : skip + length]

    def range(self, start: int, stop: int) -> Bytes:
        """Bytes of the zip itself."""
        if start == stop:
            return np.empty(0, np.uint8)
        piece = self.inner.read(self.name, start, stop)
        if piece is None or piece.total != self.total or len(piece.data) != stop - start:
            raise Corrupt("this file changed while it was read", where=self.location)
        return piece.data

    def names(self, folder: str) -> list[str] | None:
        """The names below a folder, its own files and folders only."""
        prefix = f"{folder}/" if folder else ""
        inner = (name[len(prefix) :] for name in self.entries if name.startswith(prefix))
        return sorted({name.split("/")[0] for name in inner if name})


class _Ranges(io.RawIOBase):
    """The zip as a file that zipfile can look for the directory in, mostly from its tail."""

    def __init__(self, zip: RemoteZip, tail: Piece) -> None:
        self.zip, self.tail, self.place = zip, tail.data, 0
        self.tail_start = tail.total - len(tail.data)

    def seekable(self) -> bool:
        """Zipfile seeks."""
        return True

    def readable(self) -> bool:
        """Zipfile reads."""
        return True

    def tell(self) -> int:
        """Where the next byte comes from."""
        return self.place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go somewhere."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.place, io.SEEK_END: self.zip.total}[whence]
        if base + offset < 0:
            raise ValueError("before the beginning")
        self.place = base + offset
        return self.place

    def read(self, size: int | None = -1, /) -> bytes:
        """Bytes of the tail, or a request."""
        stop = self.zip.total if size is None or size < 0 else self.place + size
        start, stop = self.place, min(stop, self.zip.total)
        self.place = max(start, stop)
        if start >= stop:
            return b""
        if start >= self.tail_start:
            return self.tail[start - self.tail_start : stop - self.tail_start].tobytes()
        return self.zip.range(start, stop).tobytes()
