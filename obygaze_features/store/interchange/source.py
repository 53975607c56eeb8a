"""What an importer reads from: clips with arrays, whatever file they lie in."""

from __future__ import annotations

import hashlib
import math
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import sha256_file
from obygaze_features.store.format.limits import check_memory
from obygaze_features.store.format.schema import RowStatus

Array = npt.NDArray[Any]
MOST_DIMENSIONS = 3
# What NumPy, h5py and torch are seen to raise over bytes that are not what they should be.
DAMAGE = (
    *(OSError, EOFError, ValueError, TypeError, RuntimeError, LookupError, ArithmeticError),
    *(AssertionError, AttributeError, SyntaxError, struct.error, tokenize.TokenError),
    *(zipfile.BadZipFile, zlib.error),
)


class Shape(NamedTuple):
    """The shape and the type of one clip's array."""

    sizes: tuple[int, ...]
    dtype: str

    @property
    def n_bytes(self) -> int:
        """How much memory it takes."""
        return math.prod(self.sizes) * np.dtype(self.dtype).itemsize


class BadRow(Exception):
    """One clip's array is of no use; the import goes on and the clip becomes a failed row."""

    def status(self) -> RowStatus:
        """The row's status in the store."""
        return RowStatus.failed("import", type(self.__cause__ or self).__name__, str(self))


class Source(Protocol):
    """Clips that can be imported. To read another format, write these members."""

    origin: Mapping[str, Any]
    clip_ids: Sequence[str]
    movie_ids: Sequence[str] | None
    levels: Sequence[str]
    warnings: list[str]

    def shape(self, level: str, index: int) -> Shape:
        """The shape of one clip's array, or BadRow; cheap where the format allows it."""

    def row(self, level: str, index: int) -> Array:
        """One clip's array, or BadRow."""

    def close(self) -> None:
        """Let go of open files."""


@dataclass
class Columns:
    """Whole arrays of all clips beside a list of ids: npz, npy, one big HDF5 array."""

    origin: Mapping[str, Any]
    clip_ids: Sequence[str]
    movie_ids: Sequence[str] | None
    arrays: Mapping[str, Any]
    warnings: list[str] = field(default_factory=list)
    handle: Any = None
    levels: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        self.levels = tuple(self.arrays)
        n_clips = len(self.clip_ids)
        for name, array in self.arrays.items():
            if not array.ndim or array.shape[0] != n_clips:
                raise FixInput(
                    f"{name}: the shape {tuple(array.shape)} does not begin with the number of "
                    f"ids, {n_clips}"
                )
        if self.movie_ids is not None and len(self.movie_ids) != n_clips:
            raise FixInput(f"{len(self.movie_ids)} movies for {n_clips} clips")

    def shape(self, level: str, index: int) -> Shape:
        """The same for every clip."""
        array = self.arrays[level]
        return Shape(tuple(array.shape[1:]), str(array.dtype))

    def row(self, level: str, index: int) -> Array:
        """One row of an array."""
        try:
            return np.asarray(self.arrays[level][index])
        except DAMAGE as error:
            raise BadRow(f"{level} cannot be read: {error}") from error

    def close(self) -> None:
        """Close the file the arrays are read from."""
        if self.handle is not None:
            self.handle.close()


class Joined:
    """Several sources of the same levels, one after the other."""

    movie_ids: Sequence[str] | None

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sources
        self.levels: Sequence[str] = sources[0].levels
        for source in sources:
            if set(source.levels) != set(self.levels):
                here, there = ", ".join(self.levels), ", ".join(source.levels)
                raise FixInput(
                    f"{here} in one of them, {there} in another",
                    where=name_of(source),
                )
        self.places = [
            (source, index) for source in sources for index in range(len(source.clip_ids))
        ]
        self.clip_ids: Sequence[str] = [clip for one in sources for clip in one.clip_ids]
        movies = [one.movie_ids for one in sources if one.movie_ids is not None]
        whole = len(movies) == len(sources)
        self.movie_ids = [movie for some in movies for movie in some] if whole else None
        self.warnings = [warning for one in sources for warning in one.warnings]
        self.origin: Mapping[str, Any] = {
            "format": sources[0].origin["format"],
            "parts": [dict(one.origin) for one in sources],
        }

    def shape(self, level: str, index: int) -> Shape:
        """From the source it is in."""
        source, place = self.places[index]
        return source.shape(level, place)

    def row(self, level: str, index: int) -> Array:
        """From the source it is in."""
        source, place = self.places[index]
        return source.row(level, place)

    def close(self) -> None:
        """Close them all."""
        for source in self.sources:
            source.close()


def opened(paths: Sequence[Path], open_one: Callable[[Path], Source]) -> Source:
    """The source of one path, or of several as one."""
    sources: list[Source] = []
    try:
        for path in paths:
            sources.append(open_one(path))
        return sources[0] if len(sources) == 1 else Joined(sources)
    except BaseException:
        for source in sources:
            source.close()
        raise


def checked_shape(shape: Shape, where: str) -> Shape:
    """The shape of something that can be a row of features; else BadRow."""
    if np.dtype(shape.dtype).kind not in "fiu":
        raise BadRow(f"{where} holds {shape.dtype}, which are not numbers")
    if not 1 <= len(shape.sizes) <= MOST_DIMENSIONS or not math.prod(shape.sizes):
        raise BadRow(f"{where} has the shape {shape.sizes}")
    check_memory(shape.n_bytes, "the array of one clip", where)
    return shape


def texts(values: Any, what: str, where: str) -> list[str]:
    """Ids as Python strings, from the string types of NumPy and HDF5."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise FixInput(f"{what} has the shape {array.shape}; a list of ids is wanted", where=where)
    if array.dtype.kind in "iu":
        return [str(value) for value in array.tolist()]
    if array.dtype.kind not in "USOT":
        raise FixInput(f"{what} holds {array.dtype}, not ids", where=where)
    try:
        return [one.decode("utf-8") if isinstance(one, bytes) else str(one) for one in array]
    except UnicodeDecodeError as error:
        raise FixInput(f"{what} is not UTF-8: {error}", where=where) from error


def name_of(source: Source) -> str:
    """What a source was read from, in a word."""
    origin = source.origin
    return str(origin.get("file", origin.get("folder", origin["format"])))


def one_file(path: Path) -> Path:
    """A path that must be a file."""
    if not path.is_file():
        raise FixInput("a file is wanted here", where=str(path))
    return path


def one_folder(path: Path) -> Path:
    """A path that must be a folder."""
    if not path.is_dir():
        raise FixInput("a folder is wanted here", where=str(path))
    return path


def file_origin(kind: str, path: Path) -> dict[str, Any]:
    """What is recorded of a single file: its name and what is in it."""
    return {"format": kind, "file": path.name, "sha256": sha256_file(path)}


def folder_origin(kind: str, root: Path, files: Sequence[Path]) -> dict[str, Any]:
    """What is recorded of many files: how many, and one digest over their names and contents."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(root).as_posix()}\0{sha256_file(file)}\n".encode())
    return {"format": kind, "folder": root.name, "files": len(files), "sha256": digest.hexdigest()}


def plain_files(root: Path, suffixes: Sequence[str]) -> list[Path]:
    """All files of some suffixes below a folder, sorted; links that lead out are refused."""
    base = root.resolve()
    found = sorted(path for path in root.rglob("*") if path.suffix.lower() in suffixes)
    for path in found:
        if not path.resolve().is_relative_to(base):
            raise FixInput("this link leads out of the folder", where=str(path))
    return [path for path in found if path.is_file()]


def level_name(name: str) -> str:
    """A name for a level from a key: `features.s3d` is s3d, `c3d_features` is c3d."""
    short = name.removeprefix("features.").removesuffix("_features").lower()
    cleaned = re.sub(r"[^a-z0-9_]+", "_", short).strip("_")
    return cleaned if re.match(r"[a-z]", cleaned) else f"x{cleaned}"
