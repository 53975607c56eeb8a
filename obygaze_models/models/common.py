"""Shared parts of the estimators: errors, one thread of linear algebra, scaling, class numbers."""

import functools
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from obygaze_features.core.errors import FixInput

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Strings = NDArray[np.str_]
CLIPS_A_BLOCK = 128
# libsvm stores dot products of rows as float32, and perceptrons compute in float32. The largest
# float32 is 3e38.
LARGEST_VALUE = 1e15
NOT_FINITE = "failed: holds NaN or infinity as float32"  # why a clip has no features


class FixTraining(FixInput, ValueError):
    """An estimator cannot be fitted on the given rows, labels or settings.

    It is also a ValueError, because `load_state` refuses arrays if a check raises a ValueError.
    """

    @property
    def reason(self) -> str:
        """Why there is no fit. If `where` is stated, such as the concept, it comes first."""
        return f"{self.where}: {self.message}" if self.where else self.message


@functools.cache
def _pools() -> ThreadpoolController:
    # SciPy has its own BLAS. If it were loaded later, it would keep all of its threads.
    import scipy.linalg.blas  # noqa: F401

    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread for linear algebra, so that results do not depend on the number of cores.

    The last bits of the results still depend on the BLAS kernel for the processor.
    """
    with _pools().limit(limits=1, user_api="blas"):
        yield


def total_variance(X: Floats) -> float:
    """Return the mean squared distance of rows from their mean; 1 if all rows are equal.

    Grids of penalty strengths are in units of this variance, so that the grids do not depend on the
    scale and the number of features.
    """
    variance = float(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())
    return variance if variance > 0 else 1.0


def check_values(largest: float) -> None:
    """Raise an error if `largest` is so large that dot products of features may not be finite.

    `largest` is the largest absolute value of the features.
    """
    # With `not`, NaN is also an error: any comparison with NaN is false.
    if not largest <= LARGEST_VALUE:
        raise FixInput(
            f"the features have values up to {largest:.0e}, expected at most {LARGEST_VALUE:.0e}",
            hint="use --set data.scale=standard",
        )


def column_scales(X: Floats) -> Floats:
    """Return the standard deviation of each column; 1 for a constant column."""
    deviations: Floats = X.std(axis=0)
    return np.where(deviations > 0, deviations, 1.0)


def as_float32(X: Any) -> NDArray[np.float32]:
    """Return numbers as float32; numbers outside its range become infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(X, dtype=np.float32)


def iterate_blocks(X: Any) -> Iterator[NDArray[Any]]:
    """Yield the rows in blocks, so that only one block is in memory: X may be `StoreRows`."""
    for start in range(0, max(len(X), 1), CLIPS_A_BLOCK):
        yield np.asarray(X[start : start + CLIPS_A_BLOCK])


def row_hashes(X: Any) -> list[str]:
    """Return a hash of each row of features; equal rows have equal hashes."""
    hashes = []
    for block in iterate_blocks(X):
        # Adding 0 makes -0 and 0 equal.
        for row in np.ascontiguousarray(block + block.dtype.type(0)):
            hashes.append(hashlib.blake2b(row.tobytes(), digest_size=16).hexdigest())
    return hashes


def with_padding(X: NDArray[Any], real: Bools | None) -> NDArray[Any]:
    """Return frames or tokens of clips, with padding frames set to NaN.

    Without padding, return the same array.

    Args:
        X: Frames or tokens [clip, frame, ..., width].
        real: Which frames [clip, frame] are not padding, from the store; None if all are real.
    """
    if real is None or real.all():
        return X
    padded = X.astype(np.result_type(X.dtype, np.float16))
    padded[~real] = np.nan
    return padded


def find_padding(X: NDArray[Any]) -> Bools | None:
    """Return which frames [clip, frame] are padding (all NaN), or None without padding."""
    first_numbers = X.reshape(*X.shape[:2], -1)[:, :, 0]
    if not np.isnan(first_numbers).any():
        return None
    padding: Bools = np.isnan(X).all(axis=tuple(range(2, X.ndim)))
    clips_of_padding = np.flatnonzero(padding.all(axis=1))
    if len(clips_of_padding):
        raise FixTraining(
            f"all frames of clip {clips_of_padding[0]} are NaN, which is padding"
        )
    return padding if padding.any() else None


def groups_without_padding(X: NDArray[Any]) -> Iterator[tuple[Ints, NDArray[Any]]]:
    """Yield groups of clips with the same real frames: row numbers and frames [clip, frame, ...].

    Without padding, yield all clips as one group, in the same array.
    """
    padding = find_padding(X)
    if padding is None:
        yield np.arange(len(X)), X
        return
    patterns, pattern_of = np.unique(padding, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows = np.flatnonzero(pattern_of.ravel() == number)
        yield rows, X[np.ix_(rows, np.flatnonzero(~pattern))]


def encode_classes(y: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """Return the sorted classes and the class number of each row; require two classes."""
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise FixTraining(
            f"expected two classes, got one class in all training rows: {classes[0]}",
        )
    if len(classes) > 2:
        message = "Only binary classification is supported"
        raise FixTraining(f"{message}, got {len(classes)} classes")
    return classes, codes.astype(np.int64)


def balanced_weights(codes: Ints) -> Floats:
    """Return the weights that balance two classes: n / (2 x rows of the class)."""
    counts = np.bincount(codes, minlength=2)
    return np.asarray(len(codes) / (2 * np.maximum(counts, 1).astype(np.float64)))
