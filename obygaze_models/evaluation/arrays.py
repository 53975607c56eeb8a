"""The array types of the room, and the checks that turn what a caller has into them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]


def as_truth(y: ArrayLike) -> BoolArray:
    """Labels 0/1 as booleans; anything else is refused, so that a third class cannot slip in."""
    truth = np.asarray(y)
    if truth.ndim != 1 or truth.size == 0:
        raise FixInput(f"labels must be a non-empty row of 0 and 1, got shape {truth.shape}")
    if truth.dtype == np.bool_:
        return truth
    strange = sorted({str(v) for v in truth.tolist() if v not in (0, 1)})
    if strange:
        raise FixInput(
            f"labels must be 0 or 1, found {', '.join(strange[:5])}",
            hint="map the levels to two classes first",
        )
    return truth.astype(np.bool_)


def as_scores(score: ArrayLike, n_rows: int) -> FloatArray:
    """Finite scores, one a row: a NaN is a failed model, never a low score."""
    scores = np.asarray(score, dtype=np.float64)
    if scores.shape != (n_rows,):
        raise FixInput(f"{n_rows} labels but scores of shape {scores.shape}")
    bad = np.flatnonzero(~np.isfinite(scores))
    if bad.size:
        raise FixInput(
            f"{bad.size} of {n_rows} scores are not finite numbers",
            where=f"row {bad[0]}: {scores[bad[0]]}",
            hint="look for missing features or a fit that diverged",
        )
    return scores


def as_codes(groups: ArrayLike, n_rows: int) -> tuple[NDArray[Any], IntArray]:
    """Group names in sorted order, and for each row the number of its group."""
    names = np.asarray(groups)
    if names.shape != (n_rows,):
        raise FixInput(f"{n_rows} rows but groups of shape {names.shape}")
    unique, codes = np.unique(names, return_inverse=True)
    return unique, codes.astype(np.intp)


def divide(top: FloatArray, bottom: FloatArray, empty: float) -> FloatArray:
    """`top / bottom`, and `empty` where there is nothing to divide by."""
    out = np.full(np.broadcast(top, bottom).shape, empty)
    np.divide(top, bottom, out=out, where=bottom != 0)
    return out
