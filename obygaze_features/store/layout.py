"""The layout of a store: chunks, files and blocks of arrays, and the names of files.

All functions are pure (docs/store.md, sections 1, 4 and 7).
"""

import math
import re
from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any, Literal

import msgspec
import numpy as np

from obygaze_features.core.errors import FixInput

CHUNK_BYTES = 2**17
CHUNK_ROWS = 2**12
FILE_BYTES = 2**26
FILE_ROWS = 2**20
BLOCK_BYTES = 2**28
MOST_BLOCKS = 2**9
# Rows of a block, which is a few minutes of work.
CLIPS_OF_A_BLOCK = 16
# Upper bounds; larger numbers mean a corrupt file.
MOST_ROW_BYTES = 2**40
MOST_DIMENSIONS = 16
MOST_ROWS = 2**28
CRC_BYTES = 4
# Upper bound of files that are read whole (documents, texts): these bytes, and more for each row.
WHOLE_BYTES = 2**20
WHOLE_ROW_BYTES = 2**10

DTYPES = ("float16", "float32", "float64", "bool", "uint8", "int32", "int64")
ROW_DIMENSION = "row"
STRING = "string"
# The table of rows: each column is an array with one value per row.
COLUMNS = {
    "clip_id": STRING,
    "movie_id": STRING,
    "start_s": "float64",
    "end_s": "float64",
    "status": "uint8",
    "reason": STRING,
    "start_frame": "int64",
    "end_frame": "int64",
    "framerate": "float64",
    "video_bytes": "int64",
    "video_hash": STRING,
    "n_pictures": "int64",
    "film_start_s": "float64",
    "film_end_s": "float64",
}
# Columns of every store. A store has any other column only if a row has a value in it.
ALWAYS_THERE = ("clip_id", "movie_id", "start_s", "end_s", "status", "reason")
# Rows per chunk of a column. A file of texts is one chunk.
COLUMN_ROWS = 2**16
# The mask of frames: true for real frames, false for the padding of a short clip.
MASK = "mask"
# The number of words of each clip, in a store of words. All clips without words have one vector.
N_WORDS = "n_words"
# Pictures of films. A store with this array is private.
PICTURES = "pictures"
# An array next to the pictures: whether each clip is undamaged.
CLEAN = "clean"
# Arrays with times of frames; the times of padding are NaN.
TIMES = ("time_s", "asked_s")
OF_FRAMES = (MASK, "time_s", "asked_s")
# Arrays that may belong to other arrays: see `belongs_to`.
COMPANIONS = (MASK, *TIMES, N_WORDS)

STORE_JSON = "store.json"
# The document that reserves a target for a seal until store.json is there.
# A dot: no array has such a name.
CLAIM = "seal.claim/seal.json"
CHECKS = "chunks.crc32c"
GROUP_JSON = "zarr.json"
CARD = "README.md"

# Names of the folder in which a store is filled, and of the files in it.
NEXT = ".next"
PLAN_JSON = "plan.json"
CLIPS_JSON = "clips.json"
BLOCKS = "blocks"
ROWS_JSON = "rows.json"
# The word in the name of a replaced store, before its seal.
BEFORE = ".before-"

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


class Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One array of a store: `shape` is the shape of one row, `dims` names its dimensions.

    Make one with `Array.of`, which chooses how many rows a chunk and a file have.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    chunk_rows: int
    file_rows: int
    # Chunks are never compressed; store.json says so.
    compressor: Literal[""] = ""

    @classmethod
    def of(
        cls,
        name: str,
        dtype: str,
        shape: Sequence[int],
        dims: Sequence[str] = (),
    ) -> "Array":
        """Return an array with the chunk and file sizes of the format.

        Args:
            name: The name of the array.
            dtype: The number format, one of `DTYPES`.
            shape: The shape of one row.
            dims: Names of the dimensions of a row; by default names with their sizes, as in d512.
        """
        row_bytes = max(math.prod(shape) * np.dtype(dtype).itemsize, 1)
        chunk_rows = power_of_two(CHUNK_BYTES // row_bytes, most=CHUNK_ROWS)
        file_rows = max(
            power_of_two(FILE_BYTES // row_bytes, most=FILE_ROWS), chunk_rows
        )
        named = tuple(dims) or default_dims(shape)
        return cls(name, dtype, tuple(shape), named, chunk_rows, file_rows)

    @property
    def row_bytes(self) -> int:
        """The bytes of one row; 1 for a column of texts."""
        n_bytes = 1 if self.is_text else np.dtype(self.dtype).itemsize
        return math.prod(self.shape) * n_bytes

    @property
    def chunk_bytes(self) -> int:
        """The bytes of one chunk, without its checksum."""
        return self.chunk_rows * self.row_bytes

    @property
    def chunks_of_a_file(self) -> int:
        """The number of entries in the index of a file."""
        return self.file_rows // self.chunk_rows

    @property
    def fill(self) -> Any:
        """The value of rows without features."""
        return np.nan if self.is_float else 0

    @property
    def is_float(self) -> bool:
        """Whether the values are floats; rows without features are NaN in such an array."""
        return self.dtype.startswith("float")

    @property
    def is_text(self) -> bool:
        """Whether this is a column of texts."""
        return self.dtype == STRING

    def n_files(self, n_rows: int) -> int:
        """Return the number of files for `n_rows` rows."""
        return math.ceil(n_rows / self.file_rows)

    def n_chunks(self, n_rows: int) -> int:
        """Return the number of chunks for `n_rows` rows."""
        return math.ceil(n_rows / self.chunk_rows)

    def file_name(self, number: int) -> str:
        """Return the name of a file of this array, relative to the store."""
        return f"{self.name}/c.{number}" + ".0" * len(self.shape)

    @property
    def zarr_json(self) -> str:
        """The name of the document that describes this array to readers of Zarr."""
        return f"{self.name}/zarr.json"


def arrays_of_features(arrays: Sequence[Array]) -> list[Array]:
    """Return the arrays of features or pictures, without times and masks."""
    features = []
    for array in arrays:
        is_pictures = (array.name, array.dtype) == (PICTURES, "uint8")
        if is_pictures or (array.is_float and array.name not in TIMES):
            features.append(array)
    return features


def default_array(arrays: Sequence[Array]) -> str:
    """Return the name of the default array: the first array with one vector per clip.

    Without such an array, return the first array of features; if there is none, return "".
    """
    features = arrays_of_features(arrays)
    vectors = [array for array in features if len(array.shape) == 1]
    return next((array.name for array in [*vectors, *features]), "")


def has_vector(arrays: Sequence[Array]) -> bool:
    """Return whether an array has one vector per clip, as experiments need."""
    return any(len(array.shape) == 1 for array in arrays_of_features(arrays))


def belongs_to(companion: Array, array: Array) -> bool:
    """Return whether `companion` has the times, the mask or the number of words of `array`.

    docs/store.md, section 4, lists which arrays belong together.
    """
    if (companion.name, companion.dtype, companion.dims) == (N_WORDS, "int32", ()):
        return array.is_float and array.name not in TIMES
    shares_frames = bool(companion.dims) and companion.dims == array.dims[:1]
    if companion.name in TIMES:
        return shares_frames
    has_frames = len(array.dims) > 1 or array.name in TIMES
    is_mask = companion.name == MASK and companion.dtype == "bool"
    return is_mask and shares_frames and has_frames


def with_companions(
    chosen: Sequence[Array], arrays: Sequence[Array]
) -> tuple[Array, ...]:
    """Return the chosen arrays, followed by the arrays that belong to them."""
    companions = []
    for array in arrays:
        is_needed = any(belongs_to(array, one) for one in chosen)
        if is_needed and array not in chosen:
            companions.append(array)
    return (*chosen, *companions)


def check_store_name(name: str, where: str) -> None:
    """Raise an error if this is not a valid name of a store."""
    if name.endswith(NEXT) or BEFORE in name or name.startswith("."):
        raise FixInput(
            f"{name!r} cannot be the name of a store: names must not end with {NEXT},"
            f" contain {BEFORE} or begin with a dot",
            where=where,
        )


def replaced_store_name(name: str, seal: str) -> str:
    """Return the name under which a replaced store is kept."""
    return f"{name}{BEFORE}{seal[:8]}"


def power_of_two(limit: int, *, most: int) -> int:
    """Return the largest power of two that is at most `limit` and `most`; at least 1."""
    bounded = max(1, min(limit, most))
    exponent = bounded.bit_length() - 1
    return int(2**exponent)


def choose_block_rows(n_rows: int, row_bytes: int) -> int:
    """Return the number of rows of a block.

    Args:
        n_rows: The number of rows of the store.
        row_bytes: The bytes of one row in all arrays.
    """
    rows = CLIPS_OF_A_BLOCK
    while n_rows > rows * MOST_BLOCKS and 2 * rows * row_bytes <= BLOCK_BYTES:
        rows *= 2
    while rows > 1 and rows * row_bytes > BLOCK_BYTES:
        rows //= 2
    return rows


def with_file_rows(arrays: Sequence[Array], file_rows: int = 0) -> tuple[Array, ...]:
    """Return the arrays with the same number of rows in each of their files.

    This number is `file_rows`. If `file_rows` is 0, it is the smallest number of the given arrays.
    A block of a filling therefore consists of one file of each array. The new store links these
    files, so no features are written twice.
    """
    n_rows = file_rows or min((array.file_rows for array in arrays), default=1)
    same = []
    for array in arrays:
        chunk_rows = min(array.chunk_rows, n_rows)
        same.append(
            msgspec.structs.replace(array, file_rows=n_rows, chunk_rows=chunk_rows)
        )
    return tuple(same)


def column_of(name: str, n_rows: int) -> Array:
    """Return a column of the table of rows; in a small store it is one short chunk."""
    needed_rows = power_of_two(2 * n_rows - 1, most=FILE_ROWS)
    chunk_rows = min(needed_rows, COLUMN_ROWS)
    dtype = COLUMNS[name]
    file_rows = chunk_rows if dtype == STRING else needed_rows
    return Array(name, dtype, (), (), chunk_rows, file_rows)


def default_dims(shape: Sequence[int]) -> tuple[str, ...]:
    """Return names of dimensions that contain their sizes: different sizes get different names."""
    letters = {1: "d", 2: "td", 3: "tpd"}.get(len(shape), ascii_lowercase)
    return tuple(f"{letter}{n}" for letter, n in zip(letters, shape, strict=False))


def check_arrays(arrays: Sequence[Array], where: str) -> None:
    """Raise an error unless these arrays are valid together."""
    if not arrays:
        raise FixInput("a store needs at least one array", where=where)
    size_of: dict[str, int] = {}
    names: set[str] = set()
    for array in arrays:
        problem = _find_problem(array)
        if array.name in names:
            problem = f"the array {array.name!r} occurs twice"
        if array.file_rows != arrays[0].file_rows:
            problem = "`file_rows` must be equal in all arrays"
        names.add(array.name)
        for dimension, size in zip(array.dims, array.shape, strict=False):
            if size_of.setdefault(dimension, size) != size:
                problem = f"the dimension {dimension!r} has two different sizes"
        if problem:
            raise FixInput(problem, where=where)
    for name in sorted(names & size_of.keys()):
        raise FixInput(
            f"{name!r} is both the name of an array and the name of a dimension",
            where=where,
        )


def check_columns(columns: Sequence[Array], n_rows: int, where: str) -> None:
    """Raise an error unless these are the columns of a table of `n_rows` rows."""
    names = {*ALWAYS_THERE, *(column.name for column in columns)}
    if list(columns) != [column_of(name, n_rows) for name in COLUMNS if name in names]:
        raise FixInput(
            f"`columns` must list the columns of the format for {n_rows} rows, in order",
            where=where,
        )


def _find_problem(array: Array) -> str:
    """Return the problem of one array, or "" if it is valid."""
    name = array.name
    if not _is_name(name) or name in COLUMNS:
        return (
            f"{name[:100]!r} cannot be the name of an array: expected lower case letters,"
            f" digits and _, and none of {', '.join((*COLUMNS, ROW_DIMENSION))}"
        )
    if array.dtype not in DTYPES:
        return f"dtype of {name} must be one of {', '.join(DTYPES)}, got {array.dtype[:100]!r}"
    n_names = len({*filter(_is_name, array.dims)})
    is_shape = n_names == len(array.dims) == len(array.shape) <= MOST_DIMENSIONS
    if not is_shape or min(array.shape, default=1) < 1:
        return (
            f"{name}: expected at most {MOST_DIMENSIONS} dimensions of size 1 or more, with"
            f" different valid names, got the shape {array.shape}, the names {array.dims}"
        )
    if array.row_bytes > MOST_ROW_BYTES:
        return f"one row of {name} has more than {MOST_ROW_BYTES} bytes"
    sizes = (array.chunk_rows, array.file_rows)
    are_powers = min(sizes) > 0 and all(size.bit_count() == 1 for size in sizes)
    is_chunk_short = array.chunk_rows <= min(array.file_rows, CHUNK_ROWS)
    is_chunk_small = array.chunk_bytes <= max(CHUNK_BYTES, array.row_bytes)
    is_file_short = array.file_rows <= FILE_ROWS
    if not (are_powers and is_chunk_short and is_chunk_small and is_file_short):
        return (
            f"chunks and files of {name} have {array.chunk_rows} and {array.file_rows} rows,"
            f" expected powers of two up to {CHUNK_ROWS} (or {CHUNK_BYTES} bytes) and {FILE_ROWS}"
        )
    return ""


def _is_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and name != ROW_DIMENSION


def most_whole_bytes(n_rows: int) -> int:
    """Return the largest length that is read as a whole, in bytes.

    It applies to a document on `n_rows` rows, and to a file of `n_rows` texts.
    """
    return WHOLE_BYTES + WHOLE_ROW_BYTES * n_rows


def names_of_files(arrays: Sequence[Array], n_rows: int) -> list[str]:
    """Return the names that store.json lists: a copy writes these files and no others.

    Args:
        arrays: The columns of the table of rows, then the arrays.
        n_rows: The number of rows.
    """
    names = [CHECKS, GROUP_JSON]
    for array in arrays:
        names.append(array.zarr_json)
        for number in range(array.n_files(n_rows)):
            names.append(array.file_name(number))
    return names
