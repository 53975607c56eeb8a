"""How the arrays of imported files become those of the new store, and their numbers its numbers."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput
from obygaze_features.store.formats import Pool
from obygaze_features.store.importing.clips import Clips
from obygaze_features.store.importing.reader import (
    Reader,
    Shape,
    Values,
    places_of_shapes,
)
from obygaze_features.store.layout import (
    COMPANIONS,
    MASK,
    N_WORDS,
    TIMES,
    Array,
    with_companions,
)
from obygaze_features.store.making import rows_not_finite

POOLED = "pooled"
# How the vectors of a clip become one, and the words for it in recipes.
POOLINGS: Mapping[Pool, str] = {"mean": "mean", "max": "maximum", "last": "last"}


def features_of(reader: Reader) -> list[str]:
    """Return the columns that hold features, and not a mask, times or numbers of words."""
    return [name for name in reader.columns if name not in COMPANIONS]


class StoredArray(NamedTuple):
    """An array of the store: of which array of the files it is, and its shape and type.

    `file_shape` is the largest shape of a clip in the files. An array with a `pooling` is one
    vector of all that a clip has, of which clips may have different numbers; of those of its real
    frames, if `mask` names the column of a mask.
    """

    name: str
    source: str
    shape: Shape
    file_shape: Shape
    dims: tuple[str, ...] = ()
    pooling: Pool | None = None
    mask: str = ""

    @property
    def array(self) -> Array:
        """The array of the store."""
        return Array.of(self.name, self.shape.dtype, self.shape.sizes, self.dims)


def stored_arrays_of(
    reader: Reader,
    clips: Clips,
    named: Collection[str],
    *,
    pool: Pool | None,
    keep_frames: bool,
) -> list[StoredArray]:
    """Return the arrays of the store: those that were asked for, and what belongs to them."""
    features = features_of(reader)
    is_alone = pool is not None and not keep_frames
    arrays = []
    for name in reader.columns:
        pooling = pool if is_alone and name in features else None
        # Masks and times of frames are not stored where one vector is left of the frames.
        is_stored = name in features or not is_alone
        stored = _stored_array(reader, clips, name, pooling, is_stored=is_stored)
        arrays.append(stored)
    if is_alone:
        arrays = _with_usual_name(arrays, {"clip", *named})
    elif pool is not None:
        # Before the others, it is what experiments read.
        arrays = [*_pooled_too(reader, arrays, pool), *arrays]
    arrays = [_with_mask(stored, arrays) for stored in arrays]
    has_mask = MASK in reader.columns and any(stored.pooling for stored in arrays)
    if has_mask and not any(stored.mask for stored in arrays):
        raise FixInput(
            f"{MASK} has no value for each of the frames that --pool makes one vector of",
            where=reader.where,
            hint="a mask of the shape [clips, frames], or leave it out",
        )
    companions = set(reader.companions)
    if is_alone:
        # Of the arrays of frames there is one vector left.
        companions.update(reader.columns.keys() - set(features))
    asked = [stored.array for stored in arrays if stored.name not in companions]
    together = with_companions(asked, [stored.array for stored in arrays])
    return [stored for stored in arrays if stored.array in together]


def _with_usual_name(
    arrays: Sequence[StoredArray], kept: Collection[str]
) -> list[StoredArray]:
    """Return arrays of which the only one that several vectors become is called 'pooled'.

    A name that somebody gave is kept, and so is `clip`.
    """
    several = [one for one in arrays if one.pooling and len(one.file_shape.sizes) > 1]
    names = {stored.name for stored in arrays}
    if len(several) != 1 or several[0].name in kept or POOLED in names:
        return list(arrays)
    return [one._replace(name=POOLED) if one is several[0] else one for one in arrays]


def _pooled_too(
    reader: Reader, arrays: Sequence[StoredArray], pooling: Pool
) -> list[StoredArray]:
    """Return the array 'pooled', if an array has several vectors a clip."""
    several = []
    for stored in arrays:
        if stored.name in features_of(reader) and len(stored.shape.sizes) > 1:
            several.append(stored)
    if not several:
        return []
    if POOLED in reader.columns:
        raise FixInput(
            f"an array {POOLED!r} exists already",
            where=reader.where,
            hint="--keep-frames without --pool",
        )
    if len(several) > 1:
        names = few([stored.name for stored in several])
        raise FixInput(
            f"several arrays have several vectors a clip, and only one can become"
            f" {POOLED!r}: {names}",
            where=reader.where,
            hint="--array NAME=KEY for one of them, or leave --keep-frames out",
        )
    shape = Shape(several[0].shape.sizes[-1:], "float32")
    return [several[0]._replace(name=POOLED, shape=shape, dims=(), pooling=pooling)]


def _with_mask(stored: StoredArray, arrays: Sequence[StoredArray]) -> StoredArray:
    """Return an array with the mask that belongs to the frames of which it is made."""
    if not stored.pooling and stored.name in TIMES:
        return stored
    for other in arrays:
        if other.name == MASK and _is_mask_of(other, stored):
            return stored._replace(mask=MASK)
    return stored


def _is_mask_of(mask: StoredArray, stored: StoredArray) -> bool:
    """Return whether a mask says which frames of an array are real: it has their sizes."""
    sizes = stored.file_shape.sizes
    of_mask = mask.file_shape.sizes
    is_shorter = 0 < len(of_mask) < len(sizes)
    return is_shorter and sizes[: len(of_mask)] == of_mask


def _stored_array(
    reader: Reader, clips: Clips, name: str, pooling: Pool | None, *, is_stored: bool
) -> StoredArray:
    """Return how an array is stored: with the one shape that its clips have.

    What is not stored may have several; then it is the largest.
    """
    here = clips.places[clips.places >= 0].tolist()
    places_of_shape, problem = places_of_shapes(reader.columns[name], here)
    if not places_of_shape:
        first = f"; the first: {problem}" if problem else ""
        raise FixInput(
            f"no clip has a usable {name}{first}",
            where=reader.where,
            hint="--array NAME=KEY of another array",
        )
    places_of_sizes: dict[tuple[int, ...], list[int]] = {}
    for shape, places in places_of_shape.items():
        sizes = shape.sizes[-1:] if pooling else shape.sizes
        places_of_sizes.setdefault(sizes, []).extend(places)
    if len(places_of_sizes) > 1 and is_stored:
        raise _several_shapes(reader, name, places_of_sizes)
    sizes = max(places_of_sizes, key=math.prod)
    types = {shape.dtype for shape in places_of_shape}
    dtype, dims = _type_and_dims(name, sizes, types)
    # Not by bytes: the largest shape of a mask is that of the frames that it is of.
    largest = max(places_of_shape, key=lambda shape: math.prod(shape.sizes))
    return StoredArray(name, name, Shape(sizes, dtype), largest, dims, pooling)


def _several_shapes(
    reader: Reader,
    name: str,
    places_of_sizes: Mapping[tuple[int, ...], Sequence[int]],
) -> FixInput:
    """Return the error that the arrays of clips cannot be one array of a store."""
    details = []
    for sizes, places in places_of_sizes.items():
        example = reader.clip_ids[places[0]]
        details.append(f"{count(len(places), 'clip')} of {sizes}, such as {example}")
    return FixInput(
        f"{name} has {len(places_of_sizes)} shapes, and a store needs one for all clips:"
        f" {'; '.join(details[:2])}",
        where=reader.where,
        hint="--pool max keeps the maximum over all vectors of one width, --pool mean their mean;"
        " --manifest NAME takes only its clips",
        details=details[:20],
    )


def _type_and_dims(
    name: str, sizes: tuple[int, ...], types: set[str]
) -> tuple[str, tuple[str, ...]]:
    """Return the type of the numbers of an array, and the names of its dimensions."""
    of_frames = tuple(f"t{size}" for size in sizes)
    if name == MASK and len(sizes) == 1:
        return "bool", of_frames
    if name in TIMES and len(sizes) < 2:
        return "float64", of_frames
    if (
        name == N_WORDS
        and not sizes
        and all(np.dtype(one).kind in "iu" for one in types)
    ):
        return "int32", ()
    # One vector a clip is kept in float32 whatever it came in, as all stores have it.
    is_half = types == {"float16"} and len(sizes) > 1
    return "float16" if is_half else "float32", ()


def converted(
    values: Values, stored: StoredArray, is_real: Values | None = None
) -> tuple[Values, dict[int, str]]:
    """Return rows as the store holds them, and what is wrong with some, by their places.

    Args:
        values: Rows of the files, all with the shape of a row of the store unless it is pooled.
        stored: The array of the store.
        is_real: Which frames of each row are real, if the files say it.
    """
    problems = {} if is_real is None else _problems_of_mask(is_real)
    if stored.pooling and values.ndim > 2:
        values = _pooled(values, is_real, stored.pooling)
    dtype = np.dtype(stored.shape.dtype)
    with np.errstate(over="ignore"):  # what is too large is found below
        rows = values.astype(dtype, copy=False)
    if stored.name in TIMES:
        # A frame that does not exist has no time.
        return rows, problems
    if dtype == np.bool_:
        problems.update(_others_than_0_and_1(values, stored.name))
    for place in rows_not_finite(rows):
        problems.setdefault(place, _not_finite(values[place], stored))
    if dtype.itemsize < values.dtype.itemsize:
        had_values = values.reshape(len(rows), -1).any(axis=1)
        has_values = rows.reshape(len(rows), -1).any(axis=1)
        for place in np.flatnonzero(had_values & ~has_values).tolist():
            problems[place] = f"{stored.name} has numbers too small for {dtype.name}"
    return rows, problems


def _problems_of_mask(is_real: Values) -> dict[int, str]:
    """Return which rows of a mask do not say which frames are real, or that none is."""
    problems = _others_than_0_and_1(is_real, MASK)
    has_real = is_real.reshape(len(is_real), -1).any(axis=1)
    for place in np.flatnonzero(~has_real).tolist():
        problems[place] = f"{MASK} says that no frame is real"
    return problems


def _others_than_0_and_1(values: Values, name: str) -> dict[int, str]:
    """Return which rows hold other numbers than 0 and 1."""
    is_wrong = (values != values.astype(bool)).reshape(len(values), -1).any(axis=1)
    problem = f"{name} holds other numbers than 0 and 1"
    return dict.fromkeys(np.flatnonzero(is_wrong).tolist(), problem)


def _pooled(values: Values, is_real: Values | None, pooling: Pool) -> Values:
    """Return one vector of those of each row; of the real ones only."""
    vectors = values.reshape(len(values), -1, values.shape[-1])
    may_count = np.ones(vectors.shape[:2], dtype=bool)
    if is_real is not None:
        # Each frame may have several vectors.
        of_frames = is_real.astype(bool).reshape(len(values), -1)
        n_each = vectors.shape[1] // of_frames.shape[1]
        may_count = np.repeat(of_frames, n_each, axis=1)
    if pooling == "last":
        from_end = may_count[:, ::-1].argmax(axis=1)
        last = vectors.shape[1] - 1 - from_end
        of_last: Values = vectors[np.arange(len(vectors)), last]
        return of_last
    if is_real is not None:
        filler = -np.inf if pooling == "max" else 0
        vectors = np.where(may_count[:, :, None], vectors, filler)
    if pooling == "max":
        largest: Values = vectors.max(axis=1)
        return largest
    n_vectors = np.maximum(may_count.sum(axis=1, keepdims=True), 1)
    mean: Values = vectors.sum(axis=1, dtype=np.float64) / n_vectors
    return mean


def _not_finite(row: Values, stored: StoredArray) -> str:
    if np.isfinite(row).all():
        return f"{stored.name} has numbers too large for {stored.shape.dtype}"
    return f"{stored.name} holds NaN or infinity"
