"""Features in an npz file: an array of ids, and arrays with a row for each."""

import math
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.console import human
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.files import require_file
from obygaze_features.store.files import check_memory, free_bytes
from obygaze_features.store.importing.reader import (
    FOREIGN_DAMAGE,
    ID_KEY,
    Reader,
    Values,
    array_reader,
)

PIECE_BYTES = 2**20
# Of the header of a file in an archive, before its name; the lengths of two texts are at the end.
LOCAL_HEADER = 30


def open_npz(
    path: Path, arrays: Mapping[str, str], *, id_key: str | None = None
) -> Reader:
    """Open the arrays of an npz file; without `arrays`, each array that has a row for each id."""
    archive, members = _opened(path)
    reader = array_reader(
        str(path),
        list(members),
        lambda key: Member(path, archive, members[key]),
        arrays,
        id_key=id_key or ID_KEY,
    )
    reader.handles = [archive]
    return reader


def read_arrays(path: Path) -> dict[str, Values]:
    """Return every array of an npz file by its name, whole."""
    archive, members = _opened(path)
    with archive:
        return {key: Member(path, archive, members[key]).whole() for key in members}


def _opened(path: Path) -> tuple[zipfile.ZipFile, dict[str, str]]:
    """Return an npz file, and the names of its members by those of the arrays."""
    require_file(path)
    if not zipfile.is_zipfile(path):
        hint = "copy or download it again, or make it with numpy.savez"
        raise Corrupt("not a complete npz file", where=str(path), hint=hint)
    try:
        archive = zipfile.ZipFile(path)
    except FOREIGN_DAMAGE as error:
        raise Corrupt(f"not a complete npz file: {error}", where=str(path)) from error
    members = {}
    for member in archive.namelist():
        members[member.removesuffix(".npy")] = member
    return archive, members


class Member:
    """One array of an npz file, of which only the asked rows are in memory.

    An array that is stored as it is is mapped where it lies; a compressed one is unpacked into a
    temporary file first. Either way the checksum of the archive is compared once, before.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile, member: str) -> None:
        self.path = path
        self.archive = archive
        self.member = member
        self.info = archive.getinfo(member)
        where = str(path)
        try:
            with archive.open(member) as stream:
                self.shape, self.is_fortran, self.dtype = header_of_npy(stream)
                self.header_bytes = stream.tell()
        except FOREIGN_DAMAGE as error:
            raise Corrupt(
                f"{member!r} is not an array: {error}", where=where
            ) from error
        if self.dtype.hasobject:
            raise Corrupt(
                f"{member.removesuffix('.npy')!r} has Python objects, which are never unpickled",
                where=where,
                hint="np.array(values, dtype=...) when the file is made",
            )
        self.n_bytes = math.prod(self.shape) * self.dtype.itemsize
        if self.header_bytes + self.n_bytes > self.info.file_size:
            raise Corrupt(
                f"{member!r} is shorter than its shape {self.shape}", where=where
            )
        row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        check_memory(row_bytes, f"one row of {member}", where)
        self._values: Values | None = None

    def __getitem__(self, rows: slice) -> Values:
        """Return a range of rows."""
        if self._values is None:
            self._values = self._mapped()
        return np.asarray(self._values[rows])

    def whole(self) -> Values:
        """Return all of the array, in memory."""
        check_memory(self.n_bytes, self.member, str(self.path))
        return np.array(self._mapped())

    def _mapped(self) -> Values:
        """Return the array as it lies in a file, after a comparison of its checksum."""
        if 0 in self.shape:
            return np.zeros(self.shape, self.dtype)
        order: Any = "F" if self.is_fortran else "C"
        try:
            if self.info.compress_type == zipfile.ZIP_STORED:
                offset = self._offset()
                size = self.info.file_size
                content = np.memmap(self.path, np.uint8, "r", offset, size)
                if zlib.crc32(content.data) != self.info.CRC:
                    raise zipfile.BadZipFile("it does not have its checksum")
            else:
                content = np.memmap(self._unpacked(), np.uint8, "r")
            start = self.header_bytes
            values = np.ndarray(self.shape, self.dtype, content, start, order=order)
            return of_unicode(values)
        except FOREIGN_DAMAGE as error:
            raise Corrupt(
                f"{self.member!r} cannot be read: {error}", where=str(self.path)
            ) from error

    def _offset(self) -> int:
        """Return where in the archive the member begins."""
        with self.path.open("rb") as stream:
            stream.seek(self.info.header_offset)
            header = stream.read(LOCAL_HEADER)
        n_name = int.from_bytes(header[26:28], "little")
        n_extra = int.from_bytes(header[28:30], "little")
        return self.info.header_offset + LOCAL_HEADER + n_name + n_extra

    def _unpacked(self) -> Any:
        """Return a temporary file with the unpacked member; it has no name."""
        free = free_bytes(Path(tempfile.gettempdir()))
        if self.info.file_size > free:
            raise FixInput(
                f"{self.member} has {human(self.info.file_size)} unpacked, and"
                f" {human(free)} are free in {tempfile.gettempdir()}",
                where=str(self.path),
                hint="TMPDIR=FOLDER names another disk",
            )
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the mapped array keeps it
        with self.archive.open(self.member) as stream:
            shutil.copyfileobj(stream, file, PIECE_BYTES)
        file.flush()
        return file


def of_unicode(values: Values) -> Values:
    """Return values; raise ValueError for texts with numbers that are no characters of Unicode.

    Python makes broken texts of them, which fail somewhere else.
    """
    if values.dtype.kind == "U" and values.size and values.dtype.itemsize:
        number = np.dtype(np.uint32).newbyteorder(values.dtype.byteorder)
        codes = np.ascontiguousarray(values).view(number)
        is_surrogate = (codes >= 0xD800) & (codes <= 0xDFFF)
        if codes.max() > sys.maxunicode or is_surrogate.any():
            raise ValueError("a text has a character that Unicode does not have")
    return values


def header_of_npy(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether columns come first, and type, from the beginning of a .npy file."""
    formats = np.lib.format
    if formats.read_magic(stream) == (1, 0):
        return formats.read_array_header_1_0(stream)
    return formats.read_array_header_2_0(stream)
