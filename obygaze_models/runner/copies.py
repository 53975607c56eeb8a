"""Clips whose features are those of another clip.

The same pictures under two names train and are tested. Equal rows are found by their hash. Nearly
equal ones are clips that are much nearer to a clip of another film than chance allows: around a
point in m dimensions the volume within the k-th of 20 neighbours follows a Beta distribution, and m
is found on the store itself, from the 10th and the 20th neighbour of each clip.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.predictions import IntArray
from obygaze_models.models.common import one_thread

# Neighbours that calibrate the nearest one.
MIDDLE = 10
OUTER = 20
MEDIAN_SHARE = (
    0.5  # of the volume of OUTER neighbours within the MIDDLE one: Beta(10, 10)
)
CHANCE = 0.001  # that any clip of a store is taken for a copy by chance
NEAR = 0.25  # a copy is nearer than this share of the distance to the OUTER neighbour
MAX_ROWS = 10_000  # above it, only equal rows are found: distances grow with the square
BLOCK_NUMBERS = 2_000_000  # of distances at a time; a few such blocks are in memory


@dataclass(frozen=True, eq=False)
class Copies:
    """The clips with the features of another clip.

    `group` is the number of the group of each of these clips. `n_equal` clips have equal features,
    `n_near` others nearly equal ones; None where there are too few or too many clips to tell.
    """

    group: Mapping[str, int]
    n_equal: int = 0
    n_near: int | None = 0


def find_copies(
    X: Any,
    row_hashes: Sequence[bytes],
    ids: Sequence[str],
    films: Sequence[str],
    clip_of: Mapping[str, str],
) -> Copies:
    """Return the clips with the features of another clip.

    Args:
        X: The features of each clip.
        row_hashes: The hash of the features of each clip.
        ids: The id of each clip.
        films: The film of each clip.
        clip_of: What is read for each id: rows about one clip are no copies.
    """
    names = np.array([clip_of[clip] for clip in ids], dtype=np.str_)
    codes = np.unique(np.array(row_hashes), return_inverse=True)[1].astype(np.intp)
    equal = _with_several_clips(codes, names)
    with one_thread():
        pairs = near_pairs(X, np.array(films, dtype=np.str_))
    joined = codes
    for first, second in pairs or ():
        joined = np.where(joined == joined[second], joined[first], joined)
    copied = _with_several_clips(joined, names)
    group = {ids[row]: int(joined[row]) for row in np.flatnonzero(copied).tolist()}
    n_near = None if pairs is None else int(np.sum(copied & ~equal))
    return Copies(group, int(equal.sum()), n_near)


def hashes_of(rows: NDArray[Any]) -> list[bytes]:
    """Return a hash of each row; equal rows have equal ones."""
    positive_zeros = np.ascontiguousarray(rows + rows.dtype.type(0))
    return [
        hashlib.blake2b(row.tobytes(), digest_size=16).digest()
        for row in positive_zeros
    ]


def _with_several_clips(codes: IntArray, names: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Return whether another clip has the number of each row; equal names are one clip."""
    distinct = np.unique(np.stack([codes.astype(np.str_), names], axis=1), axis=0)
    numbers, counts = np.unique(distinct[:, 0].astype(np.intp), return_counts=True)
    return np.isin(codes, numbers[counts > 1])


def near_pairs(X: Any, films: NDArray[np.str_]) -> list[tuple[int, int]] | None:
    """Return rows that are nearly equal to a row of another film, with that row.

    None where it is not known: of frames, and of too few or too many rows.
    """
    if np.ndim(X) != 2 or not OUTER < len(X) <= MAX_ROWS:
        return None
    values = np.asarray(X, dtype=np.float64)
    values = values - values.mean(axis=0)
    squares = np.einsum("ij,ij->i", values, values)
    codes = np.unique(films, return_inverse=True)[1]
    nearest = np.full(len(values), -1)
    # To the nearest, the MIDDLE and the OUTER neighbour.
    radii = np.full((len(values), 3), np.nan)
    step = max(1, BLOCK_NUMBERS // max(len(values), OUTER * values.shape[1]))
    for start in range(0, len(values), step):
        rows = np.arange(start, min(start + step, len(values)))
        squared = squares[rows, None] + squares - 2 * values[rows] @ values.T
        squared[codes[rows, None] == codes] = np.inf
        around = np.argpartition(squared, OUTER - 1, axis=1)[:, :OUTER]
        # Products of large numbers lose the small distances: those are computed again.
        apart = values[around]
        apart -= values[rows, None]
        exact = np.sqrt(np.einsum("ijk,ijk->ij", apart, apart))
        exact[np.isinf(np.take_along_axis(squared, around, axis=1))] = np.inf
        order = np.argsort(exact, axis=1, kind="stable")
        ordered = np.take_along_axis(exact, order, axis=1)
        nearest[rows] = np.take_along_axis(around, order, axis=1)[:, 0]
        radii[rows] = ordered[:, [0, MIDDLE - 1, OUTER - 1]]
    usable = np.isfinite(radii[:, 2]) & (radii[:, 1] > 0)
    if not usable.any():
        return None
    ratio = float(np.median(radii[usable, 1] / radii[usable, 2]))
    dimensions = np.log(MEDIAN_SHARE) / np.log(min(ratio, 1 - 1e-9))
    share = np.zeros(len(values))
    share[usable] = radii[usable, 0] / radii[usable, 2]
    # The chance that the nearest of OUTER neighbours is so near.
    p = -np.expm1((OUTER - 1) * np.log1p(-np.minimum(share**dimensions, 1 - 1e-15)))
    found = usable & (share < NEAR) & (p * len(values) < CHANCE)
    return [(int(row), int(nearest[row])) for row in np.flatnonzero(found)]
