"""Splits of a table's rows into training, validation and test rows, from a fold of each row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.folds import OUTSIDE, IntArray
from obygaze_models.evaluation.predictions import NO_ROWS, BoolArray

T = TypeVar("T")


class LazySequence(Sequence[T]):
    """A sequence that computes each item when it is read, and keeps none."""

    def __init__(self, n_items: int, make: Callable[[int], T]) -> None:
        self.n_items = n_items
        self.make = make

    def __len__(self) -> int:
        return self.n_items

    def __getitem__(self, number: Any) -> Any:
        # Iteration stops at this error.
        if not 0 <= number < self.n_items:
            raise IndexError(number)
        return self.make(number)


@dataclass(frozen=True, eq=False)
class Split:
    """Training, validation and test rows of one table, with the numbers of their folds.

    Each of the three arrays of rows is sorted, without duplicates. The arrays may overlap, for
    example in published splits of two tasks; `evaluation.leakage` counts the overlap. No fit may
    use the rows `outside`.
    """

    name: str
    train: IntArray
    validation: IntArray
    test: IntArray
    test_fold: int = 0
    validation_fold: int = OUTSIDE
    outside: IntArray = field(default_factory=lambda: NO_ROWS)

    def __post_init__(self) -> None:
        for part in ("train", "validation", "test"):
            rows = np.asarray(getattr(self, part), dtype=np.intp)
            # Increasing rows are sorted and without duplicates: splits can share the array.
            if rows.ndim == 1 and np.all(rows[1:] > rows[:-1]):
                object.__setattr__(self, part, rows)
                continue
            if rows.ndim != 1 or np.unique(rows).size != rows.size:
                raise FixInput(f"split {self.name}: {part} has a row twice")
            object.__setattr__(self, part, np.sort(rows))

    @property
    def rows(self) -> tuple[IntArray, IntArray, IntArray]:
        """The rows for training, validation and test."""
        return self.train, self.validation, self.test


def count_folds(folds: IntArray) -> int:
    """Return the number of folds, which is the highest fold number plus one."""
    if not np.any(folds != OUTSIDE):
        raise FixInput("no clip has a fold")
    return int(folds.max()) + 1


def rotate_folds(
    folds: IntArray,
    labels: ArrayLike,
    trains: BoolArray,
    never: Sequence[int] = (),
    *,
    validates: bool = True,
) -> Sequence[Split]:
    """Return a split for each fold that tests.

    The next fold that has both classes validates, and the other folds train.

    Args:
        folds: The fold of each row; all rows of a fold test.
        labels: The class of each row.
        trains: Which rows can train and validate.
        never: The folds that never test.
        validates: Whether a fold validates.
    """
    k = count_folds(folds)
    # The folds whose training rows have both classes.
    inside = trains & (folds != OUTSIDE)
    classes = np.column_stack([folds, np.asarray(labels)])[inside]
    fold_of_class = np.unique(classes, axis=0)[:, 0]
    with_both = np.flatnonzero(np.bincount(fold_of_class, minlength=k) == 2)
    tested_and_chosen = []
    for test in np.setdiff1d(np.arange(k), never).tolist():
        others = with_both[with_both != test]
        chosen = OUTSIDE
        # If only one other fold has both classes, it trains.
        if validates and len(others) > 1:
            chosen = int(others[np.searchsorted(others, test) % len(others)])
        tested_and_chosen.append((test, chosen))
    outside = np.flatnonzero(folds == OUTSIDE)

    def make(number: int) -> Split:
        test, chosen = tested_and_chosen[number]
        train = np.flatnonzero(inside & (folds != test) & (folds != chosen))
        validation = np.flatnonzero(inside & (folds == chosen))
        tested = np.flatnonzero(folds == test)
        name = f"fold {test}"
        return Split(name, train, validation, tested, test, chosen, outside)

    return LazySequence(len(tested_and_chosen), make)


def film_pairs(
    folds: IntArray,
    has_video: ArrayLike,
    never: Sequence[int] = (),
    trains: BoolArray | None = None,
) -> Sequence[Split]:
    """Return the splits for unseen films: one film tests, one validates, all other films train.

    There is a split for each pair of films. A film without a row that can train does not validate.
    The pairs (i, j) and (j, i) have the same training rows.

    Args:
        folds: The fold of each row.
        has_video: Which rows can be used.
        never: The folds that only train.
        trains: Which rows can train; a film needs such a row to validate. None: all rows that can
            be used.
    """
    usable = np.asarray(has_video, dtype=np.bool_) & (folds != OUTSIDE)
    films = [fold for fold in range(count_folds(folds)) if fold not in never]
    validating = set(folds[usable if trains is None else usable & trains].tolist())
    pairs = [pair for pair in permutations(films, 2) if pair[1] in validating]
    if len({chosen_on for _, chosen_on in pairs}) < 2:
        raise FixInput(
            "validation = 'each' needs at least two films outside splits.never that can validate,"
            " with features and a class"
        )
    outside = np.flatnonzero(folds == OUTSIDE)

    def make(number: int) -> Split:
        test, chosen_on = pairs[number]
        train = np.flatnonzero(usable & (folds != test) & (folds != chosen_on))
        validation = np.flatnonzero(usable & (folds == chosen_on))
        tested = np.flatnonzero(usable & (folds == test))
        name = f"test {test}, validate {chosen_on}"
        return Split(name, train, validation, tested, test, chosen_on, outside)

    return LazySequence(len(pairs), make)
