"""What the readers of all formats share: features of clips in files that another program wrote."""

import hashlib
import math
import re
import struct
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import few
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.files import sha256_file
from obygaze_features.store.files import check_memory

# Rows are read in ranges of at most so many bytes.
MOST_BYTES = 2**26
MOST_DIMENSIONS = 3
# The mark of an export: where the features come from.
ORIGIN_KEY = "obygaze_origin"
ID_KEY = "clip_id"
FILM_KEY = "movie_id"
# Names of arrays that say nothing about what the array holds. Experiments look for `clip`.
GENERIC = frozenset(
    (
        "x",
        "feature",
        "features",
        "feats",
        "embedding",
        "embeddings",
        "vector",
        "vectors",
        "data",
        "arr_0",
    )
)
# What NumPy, h5py and torch raise over damaged bytes.
DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    RuntimeError,
    LookupError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    SyntaxError,
    NotImplementedError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)

Values: TypeAlias = npt.NDArray[Any]


class Shape(NamedTuple):
    """The shape of one clip's array, and the type of its numbers."""

    sizes: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, array: Any) -> Self:
        """Return those of one clip's array."""
        return cls(tuple(array.shape), _name_of(array.dtype))

    @property
    def n_bytes(self) -> int:
        """How much memory the array takes."""
        return math.prod(self.sizes) * np.dtype(self.dtype).itemsize


class BadRow(Exception):
    """One clip's array cannot be used; the clip becomes a failed row."""


# One array of some clips: as one array, or in a list where some may be bad.
Rows: TypeAlias = Values | list[Values | BadRow]


class Column(Protocol):
    """One array of all clips of the files, by their places in `Reader.clip_ids`."""

    name: str

    def shapes(self, places: Sequence[int]) -> tuple[Counter[Shape], str]:
        """Return how many clips have each shape, and why the first of the others has none."""

    def read(self, places: npt.NDArray[np.int64]) -> Rows:
        """Return the rows of some clips; the places rise."""


@dataclass
class Reader:
    """Features of clips in files of any format.

    `where` names the file or folder, `origin` is what the recipe records of it. `movie_ids` has
    None where the files do not give the film of a clip. `handles` are closed at the end.
    """

    where: str
    origin: Mapping[str, Any]
    clip_ids: Sequence[str]
    movie_ids: Sequence[str | None]
    columns: dict[str, Column]
    notes: Sequence[str] = ()
    handles: Sequence[Any] = ()

    def close(self) -> None:
        """Close the files."""
        for handle in self.handles:
            handle.close()


@dataclass
class ArrayColumn:
    """An array with a row for each clip.

    `values` has `shape`, `dtype`, and `values[first:after]`, which may be `Rows` of any kind.
    """

    name: str
    values: Any

    @property
    def shape(self) -> Shape:
        """The shape of a row."""
        return Shape(tuple(self.values.shape[1:]), _name_of(self.values.dtype))

    def shapes(self, places: Sequence[int]) -> tuple[Counter[Shape], str]:
        """Return the one shape of the array."""
        try:
            shape = checked_shape(self.shape, self.name)
        except BadRow as error:
            return Counter(), str(error)
        return Counter({shape: len(places)} if places else {}), ""

    def read(self, places: npt.NDArray[np.int64]) -> Rows:
        """Return the rows of some clips."""
        first = int(places[0])
        after = int(places[-1]) + 1
        if (after - first) * self.shape.n_bytes > MOST_BYTES:
            return self._one_by_one(places)
        try:
            rows: Rows = self.values[first:after]
        except DAMAGE:
            return self._one_by_one(places)
        if len(rows) == len(places):
            return rows
        if isinstance(rows, list):
            return [rows[place - first] for place in places.tolist()]
        return rows[places - first]

    def _one_by_one(self, places: npt.NDArray[np.int64]) -> list[Values | BadRow]:
        rows: list[Values | BadRow] = []
        for place in places.tolist():
            try:
                rows += list(self.values[place : place + 1])
            except DAMAGE as error:
                rows.append(BadRow(f"{self.name} cannot be read: {error}"))
        return rows


@dataclass
class ClipColumn:
    """An array that each clip has in a file or data set of its own.

    `keys` has the key of each clip, None where it has none; `open_array` opens the array of a key:
    anything with `shape`, `dtype` and `array[()]`.
    """

    name: str
    keys: Sequence[Any]
    open_array: Callable[[Any], Any]
    # What is known of a clip, since opening a file may mean to read it.
    _shapes: dict[int, Shape | BadRow] = field(default_factory=dict)

    def shapes(self, places: Sequence[int]) -> tuple[Counter[Shape], str]:
        """Return the shapes of some clips."""
        clips_of_shape: Counter[Shape] = Counter()
        first_problem = ""
        for place in places:
            shape = self._shape(place)
            if isinstance(shape, BadRow):
                first_problem = first_problem or str(shape)
            else:
                clips_of_shape[shape] += 1
        return clips_of_shape, first_problem

    def _shape(self, place: int) -> Shape | BadRow:
        if place not in self._shapes:
            try:
                self._shapes[place] = Shape.of(self._open(place))
            except BadRow as error:
                # Another one, since the traceback keeps the array in memory.
                self._shapes[place] = BadRow(*error.args)
        return self._shapes[place]

    def read(self, places: npt.NDArray[np.int64]) -> list[Values | BadRow]:
        """Return the array of each clip."""
        rows: list[Values | BadRow] = []
        for place in places.tolist():
            try:
                rows.append(np.asarray(self._open(place)[()]))
            except BadRow as error:
                rows.append(BadRow(*error.args))
            except DAMAGE as error:
                rows.append(BadRow(f"{self.name} cannot be read: {error}"))
        return rows

    def _open(self, place: int) -> Any:
        key = self.keys[place]
        if key is None:
            raise BadRow(f"no file for {self.name}")
        try:
            opened = self.open_array(key)
        except DAMAGE as error:
            raise BadRow(f"{self.name} cannot be read: {error}") from error
        checked_shape(Shape.of(opened), self.name)
        return opened


def clip_reader(
    where: str,
    origin: Mapping[str, Any],
    keys: Mapping[str, Mapping[str, Any]],
    open_array: Callable[[Any], Any],
    film_of_clip: Mapping[str, str],
) -> Reader:
    """Return the reader of files in which each clip has an array of its own.

    Args:
        where: The file or folder.
        origin: What is recorded of it.
        keys: The key of each clip, for each array.
        open_array: Opens the array of a key.
        film_of_clip: The films that the files give.
    """
    clips: dict[str, None] = {}
    for key_of_clip in keys.values():
        clips.update(dict.fromkeys(key_of_clip))
    columns: dict[str, Column] = {}
    for array, key_of_clip in keys.items():
        in_order = [key_of_clip.get(clip) for clip in clips]
        columns[array] = ClipColumn(array, in_order, open_array)
    films = [film_of_clip.get(clip) for clip in clips]
    return Reader(where, origin, list(clips), films, columns)


def name_by_shape(reader: Reader, several: str) -> None:
    """Name the only array of a reader by its shape: `clip` where most clips have one vector."""
    (column,) = reader.columns.values()
    clips_of_shape, problem = column.shapes(range(len(reader.clip_ids)))
    if not clips_of_shape:
        raise FixInput(
            f"no clip has a usable array; the first: {problem}",
            where=reader.where,
            hint="one vector or several for each clip; in .pth torch.save(tensor[None], file)",
        )
    n_several = 0
    for shape, n_clips in clips_of_shape.items():
        n_several += n_clips * (len(shape.sizes) > 1)
    column.name = several if 2 * n_several > clips_of_shape.total() else "clip"
    reader.columns = {column.name: column}


def array_reader(
    where: str,
    origin: Mapping[str, Any],
    names: Sequence[str],
    array_of: Callable[[str], Any],
    arrays: Mapping[str, str],
    *,
    id_key: str = ID_KEY,
) -> Reader:
    """Return the reader of arrays that have a row for each id.

    Args:
        where: The file or folder.
        origin: What is recorded of it.
        names: The names of all arrays of the file.
        array_of: Returns the array of a name, which need not be read yet.
        arrays: The key of each array, by the name that it gets in the store; by default, all
            arrays of floats with a row for each id.
        id_key: The array of clip ids.
    """
    ids = _ids(array_of(id_key), id_key, where)
    films: Sequence[str | None] = [None] * len(ids)
    if FILM_KEY in names:
        films = [film or None for film in _ids(array_of(FILM_KEY), FILM_KEY, where)]
    keys = list(arrays.values())
    if not keys:
        keys = [name for name in names if name not in (id_key, FILM_KEY)]
    array_of_key = {key: array_of(key) for key in keys}
    notes = []
    if not arrays:
        usable = _usable(array_of_key, len(ids))
        arrays = _named(usable, array_of_key, where)
        for key in sorted(array_of_key.keys() - set(usable)):
            notes.append(f"{key} was left out: not an array with a row for each id")
    _check_rows(arrays, array_of_key, len(ids), len(films), where)
    return Reader(
        where=where,
        origin={**origin, "arrays": dict(arrays)},
        clip_ids=ids,
        movie_ids=films,
        columns={
            name: ArrayColumn(name, array_of_key[key]) for name, key in arrays.items()
        },
        notes=notes,
    )


def _usable(columns: Mapping[str, Any], n_clips: int) -> list[str]:
    """Return the keys of the arrays of floats with a row for each clip."""
    keys = []
    for key, column in columns.items():
        n_dimensions = len(column.shape)
        is_float = np.dtype(column.dtype).kind == "f"
        if is_float and 2 <= n_dimensions <= 4 and column.shape[0] == n_clips:
            keys.append(key)
    return keys


def _named(
    keys: Sequence[str], columns: Mapping[str, Any], where: str
) -> dict[str, str]:
    """Return the keys of arrays by their names in the store.

    Of the arrays with a name that says nothing, the only one with one vector a clip is called
    `clip`, the only one with several `frames`.
    """
    names = {key: array_name(key) for key in keys}
    for name, has_several in (("clip", False), ("frames", True)):
        nameless = []
        for key in keys:
            is_several = len(columns[key].shape) > 2
            if names[key] in GENERIC and is_several == has_several:
                nameless.append(key)
        if len(nameless) == 1 and name not in names.values():
            names[nameless[0]] = name
    key_of_name: dict[str, str] = {}
    for key, name in names.items():
        first = key_of_name.setdefault(name, key)
        if first != key:
            raise FixInput(
                f"{first!r} and {key!r} would both be the array {name!r}",
                where=where,
                hint=f"--array NAME={key} for each array that you need",
            )
    return key_of_name


def _check_rows(
    arrays: Mapping[str, str],
    columns: Mapping[str, Any],
    n_clips: int,
    n_films: int,
    where: str,
) -> None:
    """Raise an error unless there is an array, and films and arrays have a row for each id."""
    if not arrays:
        shapes = []
        for key, column in columns.items():
            shapes.append(f"{key} is {column.dtype} {list(column.shape)}")
        there = f": {few(shapes)}" if shapes else "; the file has no other array"
        raise FixInput(
            f"no array of floats has a row for each of the {n_clips} ids{there}",
            where=where,
            hint="save one row for each id, or name the array: --array NAME=KEY",
        )
    if n_films != n_clips:
        raise FixInput(
            f"expected {n_clips} film ids, one for each clip, got {n_films}",
            where=where,
        )
    for name, key in arrays.items():
        shape = tuple(columns[key].shape)
        if shape[:1] != (n_clips,):
            raise FixInput(
                f"{name}: expected {n_clips} rows, one for each id, got the shape {shape}",
                where=where,
            )


def _ids(values: Any, key: str, where: str) -> list[str]:
    """Return ids as Python strings, from the text types of NumPy and HDF5."""
    if len(values.shape) != 1:
        raise FixInput(
            f"{key!r}: expected a list of ids, got the shape {tuple(values.shape)}",
            where=where,
            hint="name another array of ids: --id-key KEY",
        )
    array = np.asarray(values[:])
    ids = []
    for value in array.tolist():
        if isinstance(value, bytes):
            try:
                value = value.decode("utf-8")
            except UnicodeDecodeError as error:
                problem = f"{key!r} is not UTF-8: {error}"
                raise FixInput(problem, where=where) from error
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise FixInput(f"{key!r} holds {array.dtype}, not ids", where=where)
        ids.append(str(value))
    return ids


def checked_shape(shape: Shape, array: str) -> Shape:
    """Return the shape if it can be that of a row of features; raise BadRow if not."""
    if np.dtype(shape.dtype).kind not in "fiu":
        raise BadRow(f"{array} holds {shape.dtype}, which are not numbers")
    n_dimensions = len(shape.sizes)
    if not 1 <= n_dimensions <= MOST_DIMENSIONS or not math.prod(shape.sizes):
        raise BadRow(f"{array} has the shape {shape.sizes}")
    check_memory(shape.n_bytes, "the array of one clip", array, error=Corrupt)
    return shape


def origin_of(
    kind: str, path: Path, files: Sequence[Path] | None = None
) -> dict[str, Any]:
    """Return what is recorded of a file, or of a folder: one hash of names and contents."""
    if files is None:
        return {"format": kind, "file": path.name, "sha256": sha256_file(path)}
    digest = hashlib.sha256()
    for file in sorted(files):
        name = file.relative_to(path).as_posix()
        digest.update(f"{name}\0{sha256_file(file)}\n".encode())
    return {
        "format": kind,
        "folder": path.name,
        "files": len(files),
        "sha256": digest.hexdigest(),
    }


def plain_files(root: Path, suffixes: Sequence[str]) -> list[Path]:
    """Return the files of some suffixes below a folder, sorted; links out of it are refused.

    Hidden files are no features: macOS puts `._M-1.npy` beside `M-1.npy` on other disks.
    """
    if not root.is_dir():
        hint = "the folder of the files; obygaze store import --help lists the formats"
        raise FixInput("expected a folder", where=str(root), hint=hint)
    base = root.resolve()
    files = []
    for path in sorted(root.rglob("*")):
        names = path.relative_to(root).parts
        is_hidden = any(name.startswith(".") for name in names)
        if is_hidden or path.suffix.lower() not in suffixes:
            continue
        if not path.resolve().is_relative_to(base):
            raise Corrupt("a link to another folder", where=str(path))
        if path.is_file():
            files.append(path)
    if not files:
        hint = "another folder, or obygaze store import --help for other formats"
        raise FixInput(
            f"no {suffixes[0]} file in this folder", where=str(root), hint=hint
        )
    return files


def array_name(name: str) -> str:
    """Return the name of an array from a key: `features.s3d` is s3d, `c3d_features` is c3d."""
    short = name.removeprefix("features.").removesuffix("_features").lower()
    cleaned = re.sub(r"[^a-z0-9_]+", "_", short).strip("_")
    return cleaned if re.match(r"[a-z]", cleaned) else f"x{cleaned}"


def _name_of(dtype: Any) -> str:
    """Return the name of a type of numbers, whatever the order of its bytes."""
    native = np.dtype(dtype).newbyteorder("=")
    # NumPy does not know types of texts by their names, such as bytes104.
    name: str = native.str if native.kind in "SUV" else native.name
    return name
