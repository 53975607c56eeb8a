"""What every estimator stands on: one kind of error, one thread, one way to draw a seed."""

from __future__ import annotations

import functools
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


class FixTraining(FixInput, ValueError):
    """The rows, labels or settings given to an estimator cannot teach it anything.

    It is a ValueError too, because that is what scikit-learn's tools expect and catch.
    """


@functools.cache
def _pools() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for linear algebra: the same bits anywhere, and small products are faster."""
    with _pools().limit(limits=1, user_api="blas"):
        yield


def spread(X: Floats) -> float:
    """The mean squared distance of rows from their mean; 1 where all rows are alike.

    Strengths of penalties that are searched go with it, so that features ten times as long, or of
    ten times as many numbers, are searched as well.
    """
    found = float(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())
    return found if found > 0 else 1.0


def spreads(X: Floats) -> Floats:
    """The standard deviation of each column; 1 for one that never varies."""
    found: Floats = X.std(axis=0)
    return np.where(found > 0, found, 1.0)


def draw_seed(random_state: Any) -> int:
    """A seed from what scikit-learn calls a random state; a whole number is its own seed."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    from sklearn.utils import check_random_state  # late: it costs more than a small fit

    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def encode_classes(y: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """The classes in order and each row's class number; at least two classes are needed."""
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise FixTraining(
            f"the training rows hold one class only: {classes[0]}",
            hint="a split that gives each class some training rows",
        )
    return classes, codes.astype(np.int64)


def encode_two_classes(y: NDArray[Any], name: str) -> tuple[NDArray[Any], Ints]:
    """The same for an estimator that separates exactly two classes."""
    classes, codes = encode_classes(y)
    if len(classes) > 2:
        raise FixTraining(
            f"Only binary classification is supported by {name}; "
            f"the labels hold {len(classes)} classes"
        )
    return classes, codes


def balanced_weights(codes: Ints, n_classes: int) -> Floats:
    """One weight a class, so that all classes weigh the same: n / (classes x rows of the class)."""
    counts = np.bincount(codes, minlength=n_classes)
    weights: Floats = len(codes) / (n_classes * np.maximum(counts, 1).astype(np.float64))
    return weights
