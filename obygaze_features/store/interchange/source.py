"""Features that another program wrote, as clips with arrays; what all formats share."""

import hashlib
import math
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import few
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.files import sha256_file
from obygaze_features.core.notebook import short_repr
from obygaze_features.store.format.limits import check_memory

T = TypeVar("T")
Array = npt.NDArray[Any]
Opener: TypeAlias = Callable[[], Any]
MAX_DIMENSIONS = 3
# By these marks `export` lists the arrays that it wrote, and an import finds them again.
HDF5_NAMES = "obygaze_levels"
NPY_NAMES = "levels.txt"
PROVENANCE = "obygaze_provenance"
# Names of arrays that say nothing about what they hold. Experiments look for the array `clip`.
GENERIC = frozenset(
    (
        "x",
        "features",
        "feature",
        "feats",
        "embeddings",
        "embedding",
        "vectors",
        "data",
        "arr_0",
    )
)
ID_KEY = "clip_id"
# What arrays of ids are called, the first of which is taken where none is named.
ID_KEYS = (ID_KEY, "clip_ids", "ids", "id", "names", "video_names", "keys")
FILM_KEY = "movie_id"
# What NumPy, h5py and torch raise over damaged bytes.
DAMAGE = (
    *(
        OSError,
        EOFError,
        ValueError,
        TypeError,
        RuntimeError,
        LookupError,
        ArithmeticError,
    ),
    *(AssertionError, AttributeError, SyntaxError, struct.error, tokenize.TokenError),
    *(zipfile.BadZipFile, zlib.error),
)


class Shape(NamedTuple):
    """The shape and the type of one clip's array."""

    sizes: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, array: Any) -> Self:
        """Return those of an array."""
        return cls(tuple(array.shape), str(array.dtype))

    @property
    def n_bytes(self) -> int:
        """How much memory it takes."""
        return math.prod(self.sizes) * np.dtype(self.dtype).itemsize


class BadRow(Exception):
    """One clip's array cannot be used; the clip becomes a failed row."""


@dataclass
class FeatureSource:
    """Features of clips that can be imported, from files of any format.

    `movie_ids` has the film of each clip, None where the files do not give it. `arrays` has, for
    each array, a function for each clip that opens its array, None where the clip has none. An
    array is anything with `shape`, `dtype` and `array[()]`; it is read only when its row is
    written. `handles` are closed at the end.
    """

    origin: Mapping[str, Any]
    clip_ids: Sequence[str]
    movie_ids: Sequence[str | None]
    arrays: Mapping[str, Sequence[Opener | None]]
    warnings: list[str] = field(default_factory=list)
    handles: Sequence[Any] = ()
    _shapes: dict[Any, Shape] = field(default_factory=dict)

    def __repr__(self) -> str:
        names = ", ".join(self.names)
        return short_repr(
            "FeatureSource", name_of(self), f"{len(self.clip_ids)} clips", names
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""
        return tuple(self.arrays)

    def shape(self, array: str, index: int) -> Shape:
        """Return the shape of one clip's array, or raise BadRow; it is opened once for that."""
        opener = self.arrays[array][index]
        if opener not in self._shapes:
            self._shapes[opener] = self._use(array, opener, Shape.of)
        return self._shapes[opener]

    def row(self, array: str, index: int) -> Array:
        """Return one clip's array, or raise BadRow."""
        return self._use(
            array, self.arrays[array][index], lambda array: np.asarray(array[()])
        )

    def _use(self, array: str, opener: Opener | None, use: Callable[[Any], T]) -> T:
        if opener is None:
            raise BadRow(f"no file for {array}")
        try:
            return use(opener())
        except Corrupt as error:
            raise BadRow(error.message) from error
        except DAMAGE as error:
            raise BadRow(f"{array} cannot be read: {error}") from error

    def close(self) -> None:
        """Close the files that the arrays are read from."""
        for handle in self.handles:
            handle.close()


def joined_source(sources: Sequence[FeatureSource]) -> FeatureSource:
    """Return several sources of the same arrays as one, one after the other."""
    names = sources[0].names
    for source in sources:
        if set(source.names) != set(names):
            here = ", ".join(names)
            there = ", ".join(source.names)
            raise FixInput(
                f"the sources have different arrays: {here}; {there}",
                where=name_of(source),
                hint="import each into its own store, or choose --array in all of them",
            )
    clip_ids: list[str] = []
    movie_ids: list[str | None] = []
    arrays: dict[str, list[Opener | None]] = {name: [] for name in names}
    messages: list[str] = []
    handles: list[Any] = []
    for source in sources:
        clip_ids += source.clip_ids
        movie_ids += source.movie_ids
        for name in names:
            arrays[name] += source.arrays[name]
        messages += source.warnings
        handles += source.handles
    return FeatureSource(
        origin={
            "format": sources[0].origin["format"],
            "parts": [dict(source.origin) for source in sources],
        },
        clip_ids=clip_ids,
        movie_ids=movie_ids,
        arrays=arrays,
        warnings=messages,
        handles=handles,
    )


def clip_source(
    origin: Mapping[str, Any],
    keys: Mapping[str, Mapping[str, Any]],
    open_array: Callable[[Any], Any],
    arrays: Mapping[str, str],
    *,
    film_of_clip: Mapping[str, str] | None = None,
) -> FeatureSource:
    """Return the source of arrays that are one for each clip: files, or datasets in a file.

    `keys` has, for each array, the key of each clip's array; `open_array` opens one by its key.
    `arrays` is recorded with the origin. `film_of_clip` has the films that the files give.
    """
    origin = {**origin, "levels": dict(arrays)} if arrays else origin
    clip_ids = list(dict.fromkeys(chain(*keys.values())))
    openers_of_array: dict[str, list[Opener | None]] = {}
    for array, key_of_clip in keys.items():
        openers: list[Opener | None] = []
        for clip in clip_ids:
            if clip in key_of_clip:
                openers.append(partial(open_array, key_of_clip[clip]))
            else:
                openers.append(None)
        openers_of_array[array] = openers
    known_films = film_of_clip or {}
    movie_ids = [known_films.get(clip) for clip in clip_ids]
    return FeatureSource(origin, clip_ids, movie_ids, openers_of_array)


def column_source(
    path: Path,
    names: Collection[str],
    read: Callable[[str], Any],
    arrays: Mapping[str, str],
    *,
    origin: Mapping[str, Any],
    id_key: str = ID_KEY,
    keep_names: bool = False,
) -> FeatureSource:
    """Return the source of arrays that have a row for each id.

    Args:
        path: the file or folder of the arrays.
        names: their names.
        read: returns the array of a name.
        arrays: the key of each array; by default those of floats with a row for each id.
        origin: what is recorded of the file or folder.
        id_key: the array of clip ids.
        keep_names: arrays are called as in the file, as `export` wrote them.
    """
    ids = _ids(path, read, id_key)
    films: Sequence[str | None] = [None] * len(ids)
    if FILM_KEY in names:
        films = [film or None for film in _ids(path, read, FILM_KEY)]
    keys = arrays.values() or [name for name in names if name not in (id_key, FILM_KEY)]
    array_of_key = {key: read(key) for key in keys}
    warnings = []
    if not arrays:
        arrays = _usable_arrays(array_of_key, len(ids), path, keep_names=keep_names)
        warnings = [
            f"{key} was left out: not an array with a row for each id"
            for key in sorted(array_of_key.keys() - set(arrays.values()))
        ]
    _check_rows(arrays, array_of_key, ids, films, path)
    rows: dict[str, list[Opener | None]] = {}
    # Known without reading the rows.
    shapes: dict[Any, Shape] = {}
    for name, key in arrays.items():
        array = array_of_key[key]
        shape_of_row = Shape(tuple(array.shape[1:]), str(array.dtype))
        rows[name] = [partial(array.__getitem__, index) for index in range(len(ids))]
        shapes.update(dict.fromkeys(rows[name], shape_of_row))
    origin = {**origin, "levels": dict(arrays)}
    return FeatureSource(origin, ids, films, rows, warnings, _shapes=shapes)


def _usable_arrays(
    array_of_key: Mapping[str, Any], n_clips: int, path: Path, *, keep_names: bool
) -> dict[str, str]:
    """Return the key of each array by its name: of those of floats with a row for each clip.

    The only one with one vector a clip is called `clip` if its key says nothing. With `keep_names`
    the keys are the names.
    """
    usable = [
        key
        for key, array in array_of_key.items()
        if array.dtype.kind == "f" and 2 <= array.ndim <= 4 and len(array) == n_clips
    ]
    if keep_names:
        return {key: key for key in usable}
    arrays = _named_arrays(usable, path)
    vectors = [name for name, key in arrays.items() if array_of_key[key].ndim == 2]
    if len(vectors) != 1 or vectors[0] not in GENERIC or "clip" in arrays:
        return arrays
    return {"clip" if name == vectors[0] else name: key for name, key in arrays.items()}


def _check_rows(
    arrays: Mapping[str, str],
    array_of_key: Mapping[str, Any],
    ids: Sequence[str],
    films: Sequence[str | None],
    path: Path,
) -> None:
    """Raise an error unless there is an array, and films and arrays have a row for each id."""
    n_clips = len(ids)
    where = str(path)
    if not arrays:
        shapes = [
            f"{key} is {array.dtype} {list(array.shape)}"
            for key, array in array_of_key.items()
        ]
        there = f": {few(shapes)}" if shapes else "; the file has no other array"
        raise FixInput(
            f"no array of floats has a row for each of the {n_clips} ids{there}",
            where=where,
            hint=_hint_for_rows(array_of_key, n_clips),
        )
    if len(films) != n_clips:
        raise FixInput(
            f"expected {n_clips} film ids, one for each clip, got {len(films)}",
            where=where,
            hint="save one film id for each clip",
        )
    for array, key in arrays.items():
        shape = tuple(array_of_key[key].shape)
        if shape[:1] != (n_clips,):
            raise FixInput(
                f"{array}: expected {n_clips} rows, one for each id, got the shape {shape}",
                where=where,
                hint="save as many rows as ids, in the same order",
            )


def _hint_for_rows(array_of_key: Mapping[str, Any], n_clips: int) -> str:
    """Return what to do where no array of floats has a row for each id."""
    for key, array in array_of_key.items():
        kind = array.dtype.kind
        has_row_of_each = array.ndim >= 1 and len(array) == n_clips
        is_transposed = array.ndim == 2 and array.shape[1] == n_clips
        if has_row_of_each and kind in "iub":
            return f"--array NAME={key} stores whole numbers too"
        if has_row_of_each and kind == "c":
            return f"{key} has complex numbers: save its real part or its modulus"
        if has_row_of_each and kind != "f":
            return f"{key} has text in place of numbers: array.astype(np.float32)"
        if is_transposed:
            return f"{key} has a column for each id: save it transposed (array.T)"
    return "name other ids, or a file with a row for each of these"


def _named_arrays(keys: Sequence[str], path: Path) -> dict[str, str]:
    """Return the keys of arrays by their names; two that would get one name are an error."""
    arrays: dict[str, str] = {}
    for key in keys:
        first = arrays.setdefault(array_name(key), key)
        if first != key:
            raise FixInput(
                f"{first!r} and {key!r} would both be the array {array_name(key)!r}",
                where=str(path),
                hint=f"--array NAME={key} for each array that you need",
            )
    return arrays


def _ids(path: Path, read: Callable[[str], Any], key: str) -> list[str]:
    """Return ids as Python strings, from the string types of NumPy and HDF5."""
    values = read(key)
    shown_key = repr(key)
    where = str(path)
    # HDF5 returns fill values for what a file does not hold, which takes hours for a damaged size.
    if path.is_file() and math.prod(values.shape) > 8 * path.stat().st_size:
        raise Corrupt(
            f"{shown_key} lists {math.prod(values.shape)} ids, more than the bits of the file",
            where=where,
            hint="copy the file again",
        )
    array = np.asarray(values)
    if array.ndim != 1:
        raise FixInput(
            f"{shown_key}: expected a list of ids, got the shape {array.shape}",
            where=where,
            hint="name another array of ids",
        )
    if array.dtype.kind in "iu":
        return [str(value) for value in array.tolist()]
    is_text = array.dtype.kind in "USOT" and all(
        isinstance(value, str | bytes) for value in array
    )
    if not is_text:
        raise FixInput(f"{shown_key} holds {array.dtype}, not ids", where=where)
    try:
        return [_as_text(value) for value in array]
    except UnicodeDecodeError as error:
        raise FixInput(f"{shown_key} is not UTF-8: {error}", where=where) from error


def _as_text(value: str | bytes) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def has_several(n_dimensions: Iterable[int]) -> bool:
    """Return whether most clips have several vectors, by the dimensions of each clip's array."""
    several = [n > 1 for n in n_dimensions]
    return 2 * sum(several) > len(several)


def checked_shape(shape: Shape, where: str) -> Shape:
    """Return the shape if it can be that of a row of features; raise BadRow if not."""
    if np.dtype(shape.dtype).kind not in "fiu":
        raise BadRow(f"{where} holds {shape.dtype}, which are not numbers")
    if not 1 <= len(shape.sizes) <= MAX_DIMENSIONS or not math.prod(shape.sizes):
        raise BadRow(f"{where} has the shape {shape.sizes}")
    check_memory(shape.n_bytes, "the array of one clip", where)
    return shape


def name_of(source: FeatureSource) -> str:
    """Return the name of the file or folder that a source was read from."""
    origin = source.origin
    return str(origin.get("file", origin.get("folder", origin["format"])))


def origin_of(
    kind: str, path: Path, files: Sequence[Path] | None = None
) -> dict[str, Any]:
    """Return what is recorded of one file, or of a folder's: one digest of names and contents."""
    if files is None:
        return {"format": kind, "file": path.name, "sha256": sha256_file(path)}
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(
            f"{file.relative_to(path).as_posix()}\0{sha256_file(file)}\n".encode()
        )
    return {
        "format": kind,
        "folder": path.name,
        "files": len(files),
        "sha256": digest.hexdigest(),
    }


def plain_files(root: Path, suffixes: Sequence[str]) -> list[Path]:
    """Return the files of some suffixes below a folder, sorted; reject links to other folders.

    Hidden files are no features: macOS puts `._M-1.npy` beside `M-1.npy` on other disks.
    """
    if not root.is_dir():
        hint = "the folder of the files; obygaze store import --help lists the formats"
        raise FixInput("expected a folder", where=str(root), hint=hint)
    base = root.resolve()
    named_so = sorted(
        path for path in visible_paths(root) if path.suffix.lower() in suffixes
    )
    for path in named_so:
        if not path.resolve().is_relative_to(base):
            raise FixInput(
                "a link to another folder", where=str(path), hint="copy the file here"
            )
    files = [path for path in named_so if path.is_file()]
    if not files:
        hint = "another folder, or obygaze store import --help for other formats"
        raise FixInput(
            f"no {suffixes[0]} file in this folder", where=str(root), hint=hint
        )
    return files


def visible_paths(root: Path) -> Iterator[Path]:
    """Yield what is below a folder, without hidden files and what is in hidden folders."""
    for path in root.rglob("*"):
        names = path.relative_to(root).parts
        if not any(name.startswith(".") for name in names):
            yield path


def by_clip(files: Sequence[Path], ids: Sequence[str] | None = None) -> dict[str, Path]:
    """Return files by the ids of their clips, by default their names without the suffix."""
    file_of_clip: dict[str, Path] = {}
    for clip, file in zip(ids or [file.stem for file in files], files, strict=True):
        first = file_of_clip.setdefault(clip, file)
        if first != file:
            raise FixInput(f"two files for the clip {clip!r}", where=f"{first}, {file}")
    return file_of_clip


def array_name(name: str) -> str:
    """Return the name of an array from a key: `features.s3d` is s3d, `c3d_features` is c3d."""
    short = name.removeprefix("features.").removesuffix("_features").lower()
    cleaned = re.sub(r"[^a-z0-9_]+", "_", short).strip("_")
    return cleaned if re.match(r"[a-z]", cleaned) else f"x{cleaned}"


def film_of(clip_id: str) -> str:
    """Return the film of a clip by its id: the part before the last hyphen, or the whole id."""
    head, hyphen, _ = clip_id.rpartition("-")
    return head if hyphen and head else clip_id
