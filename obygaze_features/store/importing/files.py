"""Features of clips in files, as all readers return them, and the choice of arrays of a file."""

from __future__ import annotations

import base64
import math
import struct
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import few
from obygaze_features.core.errors import Corrupt, FixInput, near
from obygaze_features.core.external_calls import ERRORS_OF_DAMAGE
from obygaze_features.core.files import NO_MORE_BYTES
from obygaze_features.manifest.spans import FILM_TIMES, FRAMES, RATE_COLUMN
from obygaze_features.store.files import check_memory
from obygaze_features.store.layout import MASK, N_WORDS, TIMES

# Keys of ids, films, times and frames of clips in files; EXPORT_KEY has the record of an export.
ID_KEY = "clip_id"
FILM_KEY = "movie_id"
TIME_KEYS = ("start_s", "end_s")
FRAME_KEYS = (*FRAMES, RATE_COLUMN)
SPAN_KEYS = (*TIME_KEYS, *FRAME_KEYS, *FILM_TIMES)
EXPORT_KEY = "obygaze_origin"
# Upper bound of the factor by which deflate compresses zeros. An array with a larger factor was
# never written.
MOST_COMPRESSED = 1100
# Empty and equal texts are small in a compressed file, and large in memory.
MOST_LETTERS = 2**28
LONGEST_ID = 4000
IDS_AT_ONCE = 2**12
# The array names that experiments use.
USUAL_NAMES = ("clip", "pooled", "frames", "tokens")
# Arrays that belong to other arrays, with their NumPy kinds.
COMPANION_KINDS = {MASK: "biuf", **dict.fromkeys(TIMES, "f"), N_WORDS: "iu"}
# Attributes of numbers that stand for other numbers: xarray unpacks them.
PACKED = ("scale_factor", "add_offset")
STATE_MISSING = ("_FillValue", "missing_value")
# What xarray states as the missing value of times.
NOT_A_TIME = -(2**63)
NAME_IT = "pass --array NAME=KEY for each array with a row per clip, and --id-key KEY for the ids"

Values: TypeAlias = npt.NDArray[Any]
Keys: TypeAlias = Mapping[str, str]
Columns: TypeAlias = Mapping[str, Any]


class BadRow(Exception):
    """The array of a clip is not usable; the clip becomes a row with the status failed."""


class ArrayOfClips:
    """An array with one file or data set per clip, which are read one at a time.

    Args:
        read: Returns the array of a clip by its number, with `shape`, `dtype` and `array[()]`.
        n_clips: The number of clips.
    """

    dtype = np.dtype(object)

    def __init__(self, read: Callable[[int], Any], n_clips: int) -> None:
        self.read = read
        self.shape: tuple[int, ...] = (n_clips, 0)
        # The number of dimensions is that of the first readable clip.
        for place in range(n_clips):
            with suppress(BadRow, *ERRORS_OF_DAMAGE):
                self.shape = (n_clips, *[0] * len(read(place).shape))
                break

    def __getitem__(self, places: slice) -> Values:
        """Return the array of one clip; raise BadRow if it has none."""
        try:
            opened = self.read(places.start)
            n_bytes = math.prod(opened.shape) * opened.dtype.itemsize
            check_memory(n_bytes, "the array of one clip", "", error=Corrupt)
            return np.asarray(opened[()])[None]
        except ERRORS_OF_DAMAGE as error:
            raise BadRow(f"cannot be read: {str(error)[:120]}") from error


@dataclass
class FeatureFiles:
    """The features of clips in files.

    Args:
        where: The file or folder.
        names: The name of each clip.
        arrays: The arrays, by their names in the store. Each has a row for each clip, and `shape`,
            `dtype` and `array[first:after]`; in `shape`, a size that may differ between clips is 0.
        films: The film of each clip; "" where the files do not state it.
        spans: The times of clips in their videos in seconds, and their frames, by `SPAN_KEYS`; NaN
            where unknown.
        unasked: Arrays that were not requested: each is stored only if a stored array needs it.
        keys: The keys of the arrays in the files, for the recipe.
        notes: What was not imported, in sentences.
        is_export: Whether the files are an export of a store.
    """

    where: str
    names: Sequence[str]
    arrays: Columns
    films: Sequence[str]
    spans: Mapping[str, Values] = field(default_factory=dict)
    unasked: Collection[str] = ()
    keys: Keys | None = None
    notes: Sequence[str] = ()
    is_export: bool = False


def unnamed_file(folder: Path | None) -> Any:
    """Return a temporary file without a name in a folder."""
    return tempfile.TemporaryFile(dir=folder)


@contextmanager
def damaged(problem: str, where: object, *more: type[Exception]) -> Iterator[None]:
    """Convert the exceptions of libraries to the error that a file is damaged."""
    errors: tuple[type[Exception], ...] = (*ERRORS_OF_DAMAGE, *more)
    try:
        yield
    except errors as error:
        if getattr(error, "errno", None) in NO_MORE_BYTES:
            raise
        raise Corrupt(f"{problem}: {error}", where=str(where)) from error


def features_of_rows(
    where: Path | str,
    columns: Columns,
    asked: Keys,
    id_key: str | None,
    *,
    is_export: bool,
    clip_ids: Sequence[str] | None = None,
) -> FeatureFiles:
    """Return the features in arrays that have a row for each id.

    If `asked` is empty, all arrays of floats are selected.

    Args:
        where: The file or folder, or what the arrays are.
        columns: The arrays of the file, with `shape`, `dtype` and `array[first:after]`.
        asked: The keys of the requested arrays, by their names in the store.
        id_key: The key of the array of clip ids; None: `clip_id`.
        is_export: Whether the file is an export: its arrays keep their names and order.
        clip_ids: The ids of the rows, if the file has none and `id_key` is None.
    """
    has_ids = clip_ids is None or id_key is not None or ID_KEY in columns
    id_key = id_key or ID_KEY
    for key in (*[id_key] * has_ids, *asked.values()):
        if key not in columns:
            there = (
                f"{near(key, columns)}; arrays of the file: {few([*columns]) or 'none'}"
            )
            raise FixInput(f"no array {key!r}{there}", where=str(where), hint=NAME_IT)
    notes = []
    if clip_ids is None or has_ids:
        names = to_texts(columns[id_key], id_key, where)
    else:
        names = list(clip_ids)
        notes.append(
            f"the files have no ids: their {len(names)} rows are taken as the clips of the"
            " manifest, in its order"
        )
    others = {key: one for key, one in columns.items() if key not in asked.values()}
    others.pop(id_key, None)
    facts = {key: others.pop(key) for key in (FILM_KEY, *SPAN_KEYS) if key in others}
    unasked = {}
    for key, kinds in COMPANION_KINDS.items():
        if key in others and key not in asked and others[key].dtype.kind in kinds:
            unasked[key] = others.pop(key)
    if not asked:
        asked = _arrays_of_floats(others, len(names), where, is_export=is_export)
        # A single value describes the file, not clips.
        left_out = [
            key for key in others if others[key].shape and key not in asked.values()
        ]
        if left_out:
            notes.append(
                f"not imported, because not vectors of floats: {few(left_out, 20)}"
            )
    arrays = {name: columns[key] for name, key in asked.items()} | unasked
    for key, column in (facts | arrays).items():
        is_number = column.dtype.kind in "fiu" and len(column.shape) == 1
        if column.shape[:1] != (len(names),) or not (is_number or key not in SPAN_KEYS):
            raise FixInput(
                f"{key}: expected a row for each of {len(names)} ids, got {column.dtype}"
                f" {list(column.shape)}",
                where=str(where),
            )
    films = [""] * len(names)
    if FILM_KEY in facts:
        films = to_texts(facts.pop(FILM_KEY), FILM_KEY, where)
    spans = {}
    for key, column in facts.items():
        with damaged(f"{key} cannot be read", where):
            spans[key] = np.asarray(column[:], np.float64)
    return FeatureFiles(
        str(where), names, arrays, films, spans, unasked, asked, notes, is_export
    )


def _arrays_of_floats(
    columns: Columns, n_clips: int, where: Path | str, *, is_export: bool
) -> dict[str, str]:
    """Return the keys of the arrays of features, by their names in the store.

    Experiments read the first array with one vector per clip. A file may have labels too, so it
    must be clear which array is first. A single array is called `clip` or `frames`. Of several
    arrays, one must have a name of `USUAL_NAMES`.
    """
    usable = []
    for key, column in columns.items():
        is_vector = len(column.shape) > 1 or is_export
        if column.shape[:1] == (n_clips,) and column.dtype.kind == "f" and is_vector:
            usable.append(key)
    vectors = [key for key in usable if len(columns[key].shape) == 2] or usable
    if len(usable) == 1 and not is_export and usable[0] not in USUAL_NAMES:
        usual = "clip" if len(columns[usable[0]].shape) == 2 else "frames"
        return {usual: usable[0]}
    if not is_export:
        usable = sorted(usable, key=lambda key: key not in USUAL_NAMES)
    is_clear = is_export or {*vectors} & {*USUAL_NAMES}
    if not usable or not is_clear:
        shapes = [f"{k} {c.dtype} {list(c.shape)}" for k, c in columns.items()]
        raise FixInput(
            f"no array is clearly the features of the {n_clips} ids; arrays of the file:"
            f" {few(shapes) or 'none'}",
            where=str(where),
            hint=NAME_IT,
        )
    return {key: key for key in usable}


def problem_of_attributes(
    attributes: Mapping[str, Any], dtype: np.dtype[Any], fill: Any = None
) -> str:
    """Return why the numbers of an array are not what they stand for, or "".

    Args:
        attributes: The attributes of the array, as xarray writes them.
        dtype: The data type of the array.
        fill: One more number that stands for missing values.
    """
    packed = [key for key in PACKED if key in attributes]
    anew = "with an empty `encoding` in xarray"
    if packed:
        return f"has packed numbers ({few(packed)}): write them unpacked, {anew}"
    if dtype.kind not in "fiu":
        return ""
    stated = [attributes[key] for key in STATE_MISSING if key in attributes]
    for value in (*stated, fill):
        if isinstance(value, str):
            with suppress(ValueError, struct.error):
                (value,) = struct.unpack("<d", base64.b64decode(value))
        is_number = isinstance(value, int | float | np.number)
        if is_number and value != NOT_A_TIME and not math.isnan(value):
            return (
                f"states {value:g} as its missing value: write NaN in its place, {anew}"
            )
    return ""


def to_texts(column: Any, key: str, where: object) -> list[str]:
    """Return the ids in a column of NumPy or HDF5 as Python texts."""
    place = str(where)
    if len(column.shape) != 1:
        problem = f"{key!r}: expected a list of ids, got the shape {column.shape}"
        raise FixInput(problem, where=place, hint=NAME_IT)
    longest = 0
    if column.dtype.kind in "US":
        longest = column.dtype.itemsize // 4
    n_letters = 0
    texts: list[str] = []
    for first in range(0, column.shape[0], IDS_AT_ONCE):
        check_letters(longest, n_letters, key, place)
        with damaged(f"{key!r} cannot be read as Unicode", place, SystemError):
            cells = np.asarray(column[first : first + IDS_AT_ONCE]).tolist()
            kinds = {*map(type, cells)}
            if kinds - {str, bytes, int}:
                raise FixInput(f"{key!r} holds {column.dtype}, not ids", where=place)
            some = cells
            if kinds != {str}:
                some = [
                    one.decode() if type(one) is bytes else str(one) for one in cells
                ]
            # This raises an error for broken texts, which NumPy makes of invalid characters.
            n_letters += len("".join(some).encode())
        longest = max(map(len, some))
        texts += some
    check_letters(longest, n_letters, key, place)
    return texts


def check_letters(longest: int, n_letters: int, key: str, where: str) -> None:
    """Raise an error for ids that take more memory than the ids of a million clips."""
    if longest > LONGEST_ID or n_letters > MOST_LETTERS:
        raise Corrupt(f"{key!r}: the texts are too long for ids", where=where)
