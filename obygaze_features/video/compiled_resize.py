"""The sums of resizing, compiled by Numba: the bits of the others, in less than half of the time.

The functions here are plain Python that Numba can compile; without it they are not used.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

# Importing Numba and reading compiled code takes as long as resizing some hundred pictures.
COMPILED_AFTER = 200
# Weights are whole numbers of fractions of 2 to the power of these bits, as Pillow's are.
BITS = 22
# How many rows are resized at once, and how many weights are added at once.
_ROWS = 48
_TAPS = 4

Pixels = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Weights = npt.NDArray[np.int32]

_n_resized = 0


def kernels_after(n_pictures: int) -> Kernels | None:
    """Count pictures; return the compiled functions once there were many, if there are any."""
    global _n_resized
    _n_resized += n_pictures
    return compiled_kernels() if _n_resized > COMPILED_AFTER else None


@cache
def compiled_kernels() -> Kernels | None:
    """Return the compiled functions; None where Numba is missing or cannot be used."""
    if importlib.util.find_spec("numba") is None:
        return None
    try:
        numba = importlib.import_module("numba")
    except ImportError:  # it was made for another version of NumPy
        return None
    try:
        compile_cached = numba.njit(cache=True, nogil=True)
        return Kernels(compile_cached(_across), compile_cached(_down))
    except RuntimeError:  # no folder for compiled code can be written to
        compile_now = numba.njit(nogil=True)
        return Kernels(compile_now(_across), compile_now(_down))


class Kernels:
    """Resizing along an axis by compiled functions."""

    def __init__(self, across: Any, down: Any) -> None:
        self._compiled_across = across
        self._compiled_down = down

    def across(
        self, picture: Pixels, part: slice, first: Ints, weights: Weights
    ) -> Pixels:
        """Resize a part of the columns of a picture [H, W, 3], with `padded` weights."""
        rows = np.ascontiguousarray(picture).reshape(len(picture), -1)
        resized = np.empty((len(rows), 3 * len(first)), np.uint8)
        columns = rows[:, 3 * part.start : 3 * part.stop]
        self._compiled_across(columns, first, weights, resized)
        return resized.reshape(len(rows), -1, 3)

    def down(self, picture: Pixels, first: Ints, weights: Weights) -> Pixels:
        """Resize a picture [H, W, 3] down, with `padded` weights."""
        rows = np.ascontiguousarray(picture).reshape(len(picture), -1)
        resized = np.empty((len(first), rows.shape[1]), np.uint8)
        self._compiled_down(rows, first, weights, resized)
        return resized.reshape(len(first), -1, 3)


def padded(weights: Weights) -> Weights:
    """Return weights with zeros behind them, so that they can be added by fours."""
    n_more = -weights.shape[1] % _TAPS
    return np.pad(weights, ((0, 0), (0, n_more)))


def _across(rows: Any, first: Any, weights: Any, resized: Any) -> None:
    """Resize rows [H, W * 3] across.

    Some rows at once are turned, so that the same column of all of them lies together.
    """
    n_rows, n_values = rows.shape
    n_out, n_taps = weights.shape
    lanes = 3 * _ROWS
    half = np.int32(1 << (BITS - 1))
    turned = np.zeros((n_values + 3 * n_taps) * _ROWS, np.uint8)
    sums = np.zeros(lanes, np.int32)
    levels = np.zeros(lanes, np.uint8)
    for top in range(0, n_rows, _ROWS):
        height = min(_ROWS, n_rows - top)
        for x in range(n_values):
            for y in range(height):
                turned[x * _ROWS + y] = rows[top + y, x]
        for out in range(n_out):
            begin = first[out] * lanes
            for lane in range(lanes):
                sums[lane] = half
            for tap in range(0, n_taps, _TAPS):
                at = begin + tap * lanes
                part = turned[at : at + _TAPS * lanes]
                a = weights[out, tap]
                b = weights[out, tap + 1]
                c = weights[out, tap + 2]
                d = weights[out, tap + 3]
                for lane in range(lanes):
                    sums[lane] += (
                        a * np.int32(part[lane])
                        + b * np.int32(part[lanes + lane])
                        + c * np.int32(part[2 * lanes + lane])
                        + d * np.int32(part[3 * lanes + lane])
                    )
            for lane in range(lanes):
                level = sums[lane] >> BITS
                levels[lane] = min(np.int32(255), max(np.int32(0), level))
            for y in range(height):
                for channel in range(3):
                    resized[top + y, 3 * out + channel] = levels[channel * _ROWS + y]


def _down(rows: Any, first: Any, weights: Any, resized: Any) -> None:
    """Resize rows [H, W * 3] down."""
    last = len(rows) - 1
    n_values = rows.shape[1]
    half = np.int32(1 << (BITS - 1))
    sums = np.zeros(n_values, np.int32)
    for out in range(len(first)):
        for x in range(n_values):
            sums[x] = half
        for tap in range(0, weights.shape[1], 2):
            a = weights[out, tap]
            b = weights[out, tap + 1]
            # Beyond the last row the weights are 0.
            row = rows[min(first[out] + tap, last)]
            next_row = rows[min(first[out] + tap + 1, last)]
            for x in range(n_values):
                sums[x] += a * np.int32(row[x]) + b * np.int32(next_row[x])
        for x in range(n_values):
            level = sums[x] >> BITS
            resized[out, x] = min(np.int32(255), max(np.int32(0), level))
