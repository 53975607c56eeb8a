"""The one seam through which stores are read: a folder, a zip, an object store."""

from __future__ import annotations

import errno
import os
import struct
import zipfile
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import Corrupt, FixInput, FixUsage, NotFound
from obygaze_features.core.extras import need
from obygaze_features.core.files import confined
from obygaze_features.core.workspace import URL_SCHEMES, is_url
from obygaze_features.store.files.network import network_error, object_store, told

# What zipfile raises over a directory of entries that is not what it should be.
ZIP_DAMAGE = (zipfile.BadZipFile, NotImplementedError, ValueError)
LINK_REFUSED = "a store must not contain symbolic links"
Bytes = npt.NDArray[np.uint8]


class Piece(NamedTuple):
    """Some bytes of a file, and how long the whole file is."""

    data: Bytes
    total: int


class Files(Protocol):
    """Reading by name, in parts, from many threads. Names are relative, with forward slashes.

    To read stores from somewhere new, write these three methods.
    """

    location: str
    is_remote: bool

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        """The bytes from `start` up to `stop`; None where there is no such file.

        A negative `start` counts from the end.
        """

    def names(self, folder: str) -> list[str] | None:
        """The names in one folder, sorted; None where this place cannot list."""


class FolderFiles:
    """A store that is a folder on this machine. Symbolic links inside a store are refused."""

    is_remote = False

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.location = str(root)
        self._folders = {""}

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        """Read straight from the file, without following a link."""
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
        with os.fdopen(descriptor, "rb", buffering=0) as stream:
            total = os.fstat(descriptor).st_size
            first, after = _bounds(start, stop, total)
            if first:
                stream.seek(first)
            data: Bytes = np.empty(after - first, np.uint8)
            return Piece(_fill(stream, data), total)

    def _check_folder(self, folder: str) -> None:
        """Refuse a folder that is a link, or outside; once for each folder."""
        if folder in self._folders:
            return
        parent = folder.rpartition("/")[0]
        self._check_folder(parent)
        if confined(self.root, folder).is_symlink():
            raise FixInput(LINK_REFUSED, where=f"{self.root}/{folder}")
        self._folders.add(folder)

    def names(self, folder: str) -> list[str] | None:
        """The names in a folder."""
        path = self.root / folder
        return sorted(one.name for one in path.iterdir()) if path.is_dir() else []


class ZipFiles:
    """A packed store, read in place. Entries are stored uncompressed, so parts can be read."""

    is_remote = False

    def __init__(self, path: Path) -> None:
        self.location = str(path)
        try:
            self.stream = path.open("rb")
            with zipfile.ZipFile(path) as packed:
                entries = packed.infolist()
        except ZIP_DAMAGE as error:
            raise Corrupt(f"not a whole zip file: {error}", where=str(path)) from error
        self.entries = {entry.filename: entry for entry in entries}
        self._check(entries)

    def _check(self, entries: list[zipfile.ZipInfo]) -> None:
        if len(self.entries) != len(entries):
            raise FixInput("two entries of this zip have one name", where=self.location)
        n_bytes = os.fstat(self.stream.fileno()).st_size
        for entry in entries:
            if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 0x1:
                raise FixInput(
                    f"the entry {entry.filename!r} is compressed or encrypted",
                    where=self.location,
                    hint="obygaze store unpack, then read the folder",
                )
            if entry.file_size != entry.compress_size or entry.file_size > n_bytes:
                raise Corrupt(f"{entry.filename!r} cannot be that long", where=self.location)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        """Read a part of an entry at its place in the zip."""
        entry = self.entries.get(name)
        if entry is None:
            return None
        first, after = _bounds(start, stop, entry.file_size)
        data = self._at(self._data_offset(entry) + first, after - first, name)
        return Piece(np.frombuffer(data, np.uint8), entry.file_size)

    def _data_offset(self, entry: zipfile.ZipInfo) -> int:
        # The local header has its own name and extra lengths; those of the directory may differ.
        header = self._at(entry.header_offset, 30, entry.filename)
        if header[:4] != b"PK\x03\x04":
            raise Corrupt(f"no entry where {entry.filename!r} should be", where=self.location)
        name_length, extra_length = struct.unpack("<HH", header[26:30])
        return entry.header_offset + 30 + int(name_length) + int(extra_length)

    def _at(self, offset: int, length: int, name: str) -> bytes:
        data = os.pread(self.stream.fileno(), length, offset)
        if len(data) != length:
            raise Corrupt(f"the zip ends within {name!r}", where=self.location)
        return data

    def names(self, folder: str) -> list[str] | None:
        """The names below a folder, its own files and folders only."""
        prefix = f"{folder}/" if folder else ""
        inner = (name[len(prefix) :] for name in self.entries if name.startswith(prefix))
        return sorted({name.split("/")[0] for name in inner if name})


class ObjectFiles:
    """A store behind an obstore store: http(s), s3, memory, and whatever else obstore speaks."""

    is_remote = True

    def __init__(self, store: Any, location: str) -> None:
        self.obstore = need("obstore", "remote", "reading a store over the network")
        self.store, self.location = store, location

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        """One request for the part that is wanted; the answer tells the whole length too."""
        options: dict[str, Any] = {}
        if start < 0:
            options["range"] = {"suffix": -start}
        elif stop is not None:
            options["range"] = (start, stop)
        elif start:
            options["range"] = {"offset": start}
        try:
            answer = self.obstore.get(self.store, name, options=options)
            data = np.frombuffer(memoryview(answer.bytes()), np.uint8)
        except FileNotFoundError:
            return None
        except network_error() as error:
            raise told(error, f"{self.location}/{name}") from error
        return Piece(data, int(answer.meta["size"]))

    def names(self, folder: str) -> list[str] | None:
        """The names in a folder where the place can list; web servers cannot."""
        try:
            found = self.obstore.list_with_delimiter(self.store, f"{folder}/" if folder else None)
        except (NotImplementedError, network_error()):
            return None
        paths = [entry["path"] for entry in found["objects"]] + list(found["common_prefixes"])
        return sorted(path.rstrip("/").rsplit("/", 1)[-1] for path in paths)


def _bounds(start: int, stop: int | None, total: int) -> tuple[int, int]:
    first = max(0, total + start) if start < 0 else min(start, total)
    return first, max(first, total if stop is None else min(stop, total))


def _fill(stream: Any, data: Bytes) -> Bytes:
    # One read gives at most 2 GB, and less on some network file systems.
    done = 0
    while done < len(data):
        count = stream.readinto(data[done:])
        if not count:
            return data[:done]
        done += count
    return data


def open_files(location: str | Path) -> Files:
    """The files of a store, by folder, zip file or URL."""
    if is_url(str(location)):
        return _open_url(str(location).rstrip("/"))
    path = Path(location)
    if path.is_dir():
        return FolderFiles(path)
    if path.is_file():
        return ZipFiles(path)
    raise NotFound("there is no store here", where=str(path), hint="obygaze store ls")


def _open_url(url: str) -> Files:
    if not url.startswith(URL_SCHEMES):
        hint = "https://, s3:// or hf://OWNER/NAME"
        raise FixUsage("stores are not read from such addresses", where=url, hint=hint)
    if url.endswith(".zip"):
        from obygaze_features.store.files.remote_zip import RemoteZip

        folder, _, name = url.rpartition("/")
        return RemoteZip(_open_url(folder), name)
    if url.startswith("hf://"):
        from obygaze_features.store.files.hub import open_hub

        return open_hub(url)
    return ObjectFiles(object_store(url), url)


def read_or_none(files: Files, name: str) -> bytes | None:
    """A small file whole, or None where it is not there."""
    piece = files.read(name)
    return None if piece is None else piece.data.tobytes()
