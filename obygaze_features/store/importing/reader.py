"""What the readers of all formats share: features of clips in files that another program wrote."""

import hashlib
import math
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import few
from obygaze_features.core.errors import Corrupt, FixInput, FixUsage, near
from obygaze_features.core.files import TABLE_ENDINGS, is_workbook, sha256_file
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import encoding_of, head_of, number_of_cell
from obygaze_features.manifest.model import own_columns
from obygaze_features.store.files import check_memory
from obygaze_features.store.formats import format_of_source
from obygaze_features.store.layout import COMPANIONS, MASK, MOST_DIMENSIONS, N_WORDS
from obygaze_features.store.text_columns import TextColumn

# Rows are read in ranges of at most so many bytes.
MOST_BYTES = 2**26
# Of a clip, in an array that nobody has named.
USUAL_DIMENSIONS = 3
# Zeros become smaller by at most so much (deflate); an array of a larger factor was never written.
MOST_COMPRESSED = 1100
ID_KEY = "clip_id"
# Long ids that are equal take no place in a compressed file, and much in memory.
MOST_ID_BYTES = 4000
FILM_KEY = "movie_id"
# When clips begin and end in their videos, in seconds.
TIME_KEYS = ("start_s", "end_s")
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
FOREIGN_DAMAGE = (
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
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)

Values: TypeAlias = npt.NDArray[Any]
# Start and end of a clip in its video, in seconds; a time that is None is not known.
Times: TypeAlias = tuple[float | None, float | None]


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
ClipArrays: TypeAlias = Values | list[Values | BadRow]


class Column(Protocol):
    """One array of all clips of the files, by their places in `Reader.clip_ids`."""

    name: str

    def shapes(self, places: Sequence[int]) -> Iterable["Shape | BadRow"]:
        """Return the shape of each clip, or why it has none."""

    def read(self, places: npt.NDArray[np.int64]) -> ClipArrays:
        """Return the rows of some clips; the places rise."""


@dataclass
class Reader:
    """Features of clips in files of any format.

    Args:
        where: The file or folder.
        clip_ids: The ids of the clips.
        movie_ids: The film of each clip; "" where the files do not state it.
        columns: The arrays.
        times: Start and end of each clip, if the files state a time of one.
        notes: What was left out, in sentences.
        handles: What is closed at the end.
        files: Of a folder, the files that are read.
        asked: The keys of the arrays that have names in the files.
        companions: Columns that nobody has asked for. They are stored with the arrays to which
            they belong.
    """

    where: str
    clip_ids: Sequence[str]
    movie_ids: Sequence[str]
    columns: dict[str, Column]
    times: Sequence[Times] = ()
    notes: Sequence[str] = ()
    handles: Sequence[Any] = ()
    files: Sequence[Path] | None = None
    asked: Mapping[str, str] | None = None
    companions: Collection[str] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)

    def close(self) -> None:
        """Close the files."""
        for handle in self.handles:
            handle.close()


def open_features(
    source: Path,
    arrays: Mapping[str, str] | None = None,
    *,
    id_key: str | None = None,
) -> Reader:
    """Open features that another program wrote; close them afterwards.

    The parameters are those of `import_features`.
    """
    _refuse_table(source)
    kind = format_of_source(source)
    if not kind.has_names and (arrays or id_key is not None):
        raise FixUsage(f"--array and --id-key do not apply to {kind.name}")
    options: dict[str, Any] = {}
    if kind.has_names:
        options["arrays"] = dict(arrays or {})
    if id_key is not None:
        options["id_key"] = id_key
    reader: Reader = kind.open(source, **options)
    reader.origin = origin_of(kind.name, source, reader.files)
    if reader.asked is not None:
        reader.origin = {**reader.origin, "arrays": dict(reader.asked)}
    return reader


def _refuse_table(path: Path) -> None:
    """Raise an error for a table of numbers, with the line of NumPy that makes an npz of it."""
    problem = "features are not read from a table"
    if is_workbook(path):
        hint = "save the sheet as CSV: the same command then shows how an npz is made of it"
        raise FixUsage(problem, where=str(path), hint=hint)
    if path.suffix.lower() not in TABLE_ENDINGS:
        return
    table = head_of(path)
    place_of = {name: place for place, name in enumerate(table.columns)}
    id_place = place_of.get(ID_KEY, 0)

    def has_numbers(name: str) -> bool:
        return any(number_of_cell(row[name]) is not None for row in table.rows)

    places = []
    for name in own_columns(table.columns):
        if has_numbers(name) and place_of[name] != id_place:
            places.append(place_of[name])
    if not places:
        hint = (
            f"obygaze manifest import {shell_word(path)} -o NAME, if these are labels"
        )
        raise FixUsage(problem, where=str(path), hint=hint)
    names = few([table.columns[place] for place in places], 5)
    columns = str(places)
    if places == list(range(places[0], places[-1] + 1)):
        columns = f"range({places[0]}, {places[-1] + 1})"
    read = (
        f"read = lambda columns, **how: np.loadtxt({str(path)!r}, usecols=columns,"
        f" delimiter={table.delimiter!r}, skiprows={table.rows[0].line - 1}, comments=None,"
        f" quotechar='\"', encoding={encoding_of(path)!r}, **how)"
    )
    cell = "cell" if table.delimiter == "," else "cell.replace(',', '.')"
    # A clip without one of the numbers has no features, and the import says so.
    numbers = f"converters=lambda cell: float({cell} or 'nan')"
    arrays = [f"clip_id=read({id_place}, dtype=str)"]
    if FILM_KEY in place_of:
        arrays.append(f"{FILM_KEY}=read({place_of[FILM_KEY]}, dtype=str)")
    for key in TIME_KEYS:
        if key in place_of and has_numbers(key):
            arrays.append(f"{key}=read({place_of[key]}, {numbers})")
    arrays.append(f"clip=read({columns}, ndmin=2, {numbers})")
    made = f"np.savez({f'{path}.npz'!r}, {', '.join(arrays)})"
    raise FixUsage(
        f"{problem}; an npz may have its columns {names}: leave out labels, of which a model would"
        " learn the answer",
        where=str(path),
        hint=f"python -c {shell_word(f'import numpy as np; {read}; {made}')}",
    )


def places_of_shapes(
    column: Column, places: Sequence[int]
) -> tuple[dict[Shape, list[int]], str]:
    """Return the places of clips by their shapes, and why the first of the others has none."""
    of_shape: dict[Shape, list[int]] = {}
    problems: dict[str, None] = {}
    for place, shape in zip(places, column.shapes(places), strict=True):
        if isinstance(shape, BadRow):
            problems[str(shape)] = None
        else:
            of_shape.setdefault(shape, []).append(place)
    for shape in list(of_shape):
        try:
            checked_shape(shape, column.name)
        except BadRow as error:
            problems[str(error)] = None
            del of_shape[shape]
    return of_shape, next(iter(problems), "")


@dataclass
class ArrayColumn:
    """An array with a row for each clip.

    `values` has `shape`, `dtype`, and `values[first:after]`, which may be `ClipArrays` of any kind.
    """

    name: str
    values: Any

    @property
    def shape(self) -> Shape:
        """The shape of a row."""
        return Shape(tuple(self.values.shape[1:]), _name_of(self.values.dtype))

    def shapes(self, places: Sequence[int]) -> Iterable[Shape | BadRow]:
        """Return the shape of each row: that of all, unless rows have their own."""
        shape = self.shape
        if not hasattr(self.values, "sizes_of_rows"):
            return [shape] * len(places)
        shapes: list[Shape | BadRow] = []
        for sizes in self.values.sizes_of_rows(places):
            is_known = sizes is not None
            no_array = BadRow(f"{self.name} has no array")
            shapes.append(shape._replace(sizes=sizes) if is_known else no_array)
        return shapes

    def read(self, places: npt.NDArray[np.int64]) -> ClipArrays:
        """Return the rows of some clips, whose places ascend."""
        first = int(places[0])
        after = int(places[-1]) + 1
        if (after - first) * self.shape.n_bytes > MOST_BYTES:
            return self._one_by_one(places)
        try:
            rows: ClipArrays = self.values[first:after]
        except FOREIGN_DAMAGE:
            return self._one_by_one(places)
        if len(places) == len(rows):
            return rows
        if isinstance(rows, list):
            return [rows[place - first] for place in places.tolist()]
        return rows[places - first]

    def _one_by_one(self, places: npt.NDArray[np.int64]) -> list[Values | BadRow]:
        rows: list[Values | BadRow] = []
        for place in places.tolist():
            try:
                rows += list(self.values[place : place + 1])
            except FOREIGN_DAMAGE as error:
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
    # One number a clip is no vector, unless it was asked for.
    least_dimensions: int = 1
    # What is known of a clip, since opening a file may mean to read it.
    _shapes: dict[int, Shape | BadRow] = field(default_factory=dict)

    def shapes(self, places: Sequence[int]) -> Iterable[Shape | BadRow]:
        """Return the shape of each clip."""
        return map(self._shape, places)

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
            except FOREIGN_DAMAGE as error:
                rows.append(BadRow(f"{self.name} cannot be read: {error}"))
        return rows

    def _open(self, place: int) -> Any:
        key = self.keys[place]
        if key is None:
            raise BadRow(f"no file for {self.name}")
        try:
            opened = self.open_array(key)
            shape = Shape.of(opened)
        except FOREIGN_DAMAGE as error:
            raise BadRow(f"{self.name} cannot be read: {error}") from error
        checked_shape(shape, self.name, self.least_dimensions)
        return opened


def clip_reader(
    where: str,
    clips: Collection[tuple[str, str]],
    keys: Mapping[str, Mapping[tuple[str, str], Any]],
    open_array: Callable[[Any], Any],
    *,
    least_dimensions: int = 1,
) -> Reader:
    """Return the reader of files in which each clip has an array of its own.

    Args:
        where: The file or folder.
        clips: Film and name of each clip; the film is "" where the files do not give it.
        keys: The key of each clip, for each array.
        open_array: Opens the array of a key.
        least_dimensions: 0 if one number may be the array of a clip.
    """
    ids = ids_in_films(clips)
    if len(set(ids)) < len(ids):
        raise FixInput("two clips have one id, made of film and clip", where=where)
    columns: dict[str, Column] = {}
    for array, key_of_clip in keys.items():
        in_order = [key_of_clip[clip] for clip in clips]
        columns[array] = ClipColumn(array, in_order, open_array, least_dimensions)
    return Reader(where, ids, [film for film, _ in clips], columns)


def ids_in_films(clips: Collection[tuple[str, str]]) -> list[str]:
    """Return the ids of clips of films: the name, with the film where two have one name."""
    ids = [name for _, name in clips]
    if len(set(ids)) < len(ids):
        ids = [f"{film}-{name}" for film, name in clips]
    return ids


def name_by_shape(reader: Reader, several: str) -> None:
    """Name the only array of a reader by its shape: `clip` where no clip has several vectors."""
    (column,) = reader.columns.values()
    shapes, problem = places_of_shapes(column, range(len(reader.clip_ids)))
    if not shapes:
        raise FixInput(
            f"no clip has a usable array; the first: {problem}",
            where=reader.where,
            hint="one vector or several for each clip; in .pth torch.save(tensor[None], file)",
        )
    has_several = any(len(shape.sizes) > 1 for shape in shapes)
    column.name = several if has_several else "clip"
    reader.columns = {column.name: column}


def array_reader(
    where: str,
    names: Sequence[str],
    array_of: Callable[[str], Any],
    arrays: Mapping[str, str],
    *,
    id_key: str = ID_KEY,
) -> Reader:
    """Return the reader of arrays that have a row for each id.

    Args:
        where: The file or folder.
        names: The names of all arrays of the file.
        array_of: Returns the array of a name, which need not be read yet.
        arrays: The key of each array, by the name that it gets in the store; by default, all
            arrays of floats with a row for each id.
        id_key: The array of clip ids.
    """
    # Some formats read much of an array to open it.
    array_of = cache(array_of)
    _require_keys([id_key, *arrays.values()], names, array_of, where)
    ids = text_ids(array_of(id_key), id_key, where)
    films: Sequence[str] = [""] * len(ids)
    if FILM_KEY in names:
        films = text_ids(array_of(FILM_KEY), FILM_KEY, where)
    time_keys = []
    for key in TIME_KEYS:
        if key in names and key not in arrays.values():
            time_keys.append(key)
    times = times_of_columns({key: array_of(key) for key in time_keys}, len(ids), where)
    others = [key for key in names if key not in (id_key, FILM_KEY, *time_keys)]
    asked = dict(arrays)
    companions = []
    for key in COMPANIONS:
        is_free = key in others and key not in (*asked, *asked.values())
        if is_free and _is_companion(key, array_of(key), len(ids)):
            companions.append(key)
        elif is_free and key == MASK:
            frames = [name for name in asked.values() or others if name != MASK]
            _refuse_other_mask(array_of(key), map(array_of, frames), where)
    notes: list[str] = []
    if not arrays:
        problems = {}
        for key in others:
            # A single value is no array of clips: it is about the file.
            if key not in companions and array_of(key).shape:
                problems[key] = _why_not_features(array_of(key), len(ids))
        usable = [key for key, problem in problems.items() if not problem]
        asked.update(_named(usable, array_of, where))
        for key, problem in problems.items():
            if problem:
                notes.append(f"{key} was left out: {problem}")
    keys = {**asked, **dict(zip(companions, companions, strict=True))}
    # Where nothing is taken, the error names all that is there.
    columns = {key: array_of(key) for key in asked.values() or others}
    check_clip_rows(asked, columns, len(ids), len(films), where)
    return Reader(
        where=where,
        clip_ids=ids,
        movie_ids=films,
        columns={name: ArrayColumn(name, array_of(key)) for name, key in keys.items()},
        notes=notes,
        asked=asked,
        times=times,
        companions=companions,
    )


def _why_not_features(column: Any, n_clips: int) -> str:
    """Return why an array that nobody named is not taken for features; "" if it is."""
    shape = tuple(column.shape)
    kind = np.dtype(column.dtype).kind
    if shape[:1] != (n_clips,):
        return (
            f"its shape is {list(shape)}, without a row for each of the {n_clips} ids"
        )
    if kind not in "fiub":
        return f"it holds {_name_of(column.dtype)}, not real numbers"
    if len(shape) == 1:
        return "it has one number a clip; --array NAME=KEY takes it"
    if kind != "f":
        return f"it holds {_name_of(column.dtype)}; --array NAME=KEY takes it"
    if len(shape) > 1 + USUAL_DIMENSIONS:
        return f"its shape is {list(shape)}; --array NAME=KEY takes it"
    return ""


def _refuse_other_mask(mask: Any, columns: Iterable[Any], where: str) -> None:
    """Raise an error for a mask of other sizes than the frames: padding would count as frames."""
    sizes = [tuple(column.shape[1:]) for column in columns if len(column.shape) > 2]
    of_mask = tuple(mask.shape[1:])
    if mask.shape and sizes:
        raise FixInput(
            f"mask has the shape {list(of_mask)} a clip, and the frames {list(sizes[0])}: expected"
            " one value for each frame",
            where=where,
            hint="another shape, or another name than mask in the file",
        )


def _is_companion(key: str, column: Any, n_clips: int) -> bool:
    """Return whether an array may belong to another one.

    It may have the mask or the times of its frames, or how many words each clip has.
    """
    shape = tuple(column.shape)
    kind = np.dtype(column.dtype).kind
    if key == N_WORDS:
        return kind in "iu" and shape == (n_clips,)
    kinds = "biuf" if key == MASK else "f"
    return kind in kinds and len(shape) == 2 and shape[0] == n_clips


def times_of_columns(
    columns: Mapping[str, Any], n_clips: int, where: str
) -> list[Times]:
    """Return start and end of each clip from the columns `TIME_KEYS`; [] if there are none.

    NaN or no value is a time that is not known.
    """
    if not columns:
        return []
    seconds = np.full((n_clips, len(TIME_KEYS)), np.nan)
    for key, column in columns.items():
        shape = tuple(column.shape)
        if shape != (n_clips,) or np.dtype(column.dtype).kind not in "fiu":
            raise FixInput(
                f"expected {n_clips} times {key}, a number for each clip, got"
                f" {_name_of(column.dtype)} {list(shape)}",
                where=where,
            )
        values = [np.nan if isinstance(one, BadRow) else one for one in column[:]]
        seconds[:, TIME_KEYS.index(key)] = values
    known = seconds.astype(object)
    known[~np.isfinite(seconds)] = None
    return [(start_s, end_s) for start_s, end_s in known.tolist()]


def _named(
    keys: Sequence[str],
    array_of: Callable[[str], Any],
    where: str,
) -> dict[str, str]:
    """Return the keys of arrays by their names in the store.

    Of the arrays with a name that says nothing, the only one with one vector a clip is called
    `clip`, the only one with several `frames`.
    """
    names = {key: array_name(key) for key in keys}
    for name, has_several in (("clip", False), ("frames", True)):
        nameless = []
        for key in keys:
            is_several = len(array_of(key).shape) > 2
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
                hint=f"--array {shell_word(f'NAME={key}')} for each array that you need",
            )
    return key_of_name


def check_clip_rows(
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


def _require_keys(
    keys: Sequence[str],
    names: Sequence[str],
    array_of: Callable[[str], Any],
    where: str,
) -> None:
    """Raise an error for an array that is not there, with the options that read what is there."""
    for key in keys:
        try:
            array_of(key)
        except KeyError:
            raise FixInput(
                f"no array {key!r}{near(key, names)}; the file has {few(names) or 'none'}",
                where=where,
                hint="an array with a row for each clip, and one of their ids:"
                " --array NAME=KEY --id-key KEY",
            ) from None


def text_ids(values: Any, key: str, where: str) -> Sequence[str]:
    """Return ids as Python strings, from the text types of NumPy and HDF5."""
    if len(values.shape) != 1:
        raise FixInput(
            f"{key!r}: expected a list of ids, got the shape {tuple(values.shape)}",
            where=where,
            hint="name another array of ids: --id-key KEY",
        )
    if values.dtype.kind in "US":
        refuse_long_ids(values.dtype.itemsize, key, where)
    array = np.asarray(values[:])
    column = TextColumn.of_array(array) if array.dtype.kind in "US" else None
    if column is not None:
        return column
    ids: list[Any] = array.tolist()
    kinds = set(map(type, ids))
    if not kinds <= {str, bytes, int}:
        raise FixInput(f"{key!r} holds {array.dtype}, not ids", where=where)
    if bytes in kinds:
        try:
            ids = [name.decode() if type(name) is bytes else name for name in ids]
        except UnicodeDecodeError as error:
            raise FixInput(f"{key!r} is not UTF-8: {error}", where=where) from error
    return list(map(str, ids))


def refuse_long_ids(n_bytes: int, key: str, where: str) -> None:
    """Raise an error if the longest id takes too many bytes."""
    if n_bytes > MOST_ID_BYTES:
        raise Corrupt(
            f"{key!r} has ids of {n_bytes} bytes, expected at most {MOST_ID_BYTES}",
            where=where,
        )


def checked_shape(shape: Shape, array: str, least_dimensions: int = 0) -> Shape:
    """Return the shape if it can be that of a row of a store; raise BadRow if not."""
    if np.dtype(shape.dtype).kind not in "fiub":
        raise BadRow(f"{array} holds {shape.dtype}, which are not real numbers")
    n_dimensions = len(shape.sizes)
    is_possible = least_dimensions <= n_dimensions <= MOST_DIMENSIONS
    if not is_possible or not math.prod(shape.sizes):
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
