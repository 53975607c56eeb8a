"""Splits of a table's rows into training, validation and test rows, made from a fold of each row.

The splits of the paper are as the released code makes them, and as the text describes them. The
two differ. The code chooses training folds after it has set the test and the validation fold
aside, from a list that still holds the test fold, leaves out fold 0, and leaves out the fold after
the validation fold instead of it. Clips without a video are removed before anything is counted.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.folds import OUTSIDE, IntArray

BoolArray = NDArray[np.bool_]
NO_ROWS = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of one table for training, validation and test; and the folds that they are.

    Each of the three is sorted and has no row twice. They may overlap, as published splits of two
    tasks do; `evaluation.leakage` counts it.
    """

    name: str
    train: IntArray
    validation: IntArray
    test: IntArray
    test_fold: int = 0
    validation_fold: int = OUTSIDE

    def __post_init__(self) -> None:
        for part in ("train", "validation", "test"):
            rows = np.asarray(getattr(self, part), dtype=np.intp)
            # Rows that rise already are sorted, and none is there twice: splits can share them.
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


def n_folds_of(folds: IntArray) -> int:
    """Return the number of folds, counted to the highest number."""
    if not np.any(folds != OUTSIDE):
        raise FixInput("no clip has a fold")
    return int(folds.max()) + 1


def rotated(
    folds: IntArray,
    labels: ArrayLike,
    trains: BoolArray,
    never: Sequence[int] = (),
    *,
    validates: bool = True,
) -> list[Split]:
    """Let each fold test once; the next fold that has both classes validates, the others train.

    Args:
        folds: The fold of each row; all rows of a fold test.
        labels: The class of each row.
        trains: Which rows train and validate.
        never: The folds that never test.
        validates: Whether a fold validates.
    """
    y = np.asarray(labels)
    k = n_folds_of(folds)
    splits = []
    # Each fold with each class that it trains; then the folds with two of them.
    fold_classes = set(zip(folds[trains].tolist(), y[trains].tolist(), strict=True))
    n_classes = Counter(fold for fold, _ in fold_classes)
    has_both = [n_classes[fold] == 2 for fold in range(k)]
    for test in range(k):
        if test in never:
            continue
        # The first two are enough: where there is only one, it trains.
        steps = ((test + step) % k for step in range(1, k))
        both = list(islice((fold for fold in steps if has_both[fold]), 2))
        chosen = both[0] if validates and len(both) > 1 else OUTSIDE
        inside = trains & (folds != test) & (folds != OUTSIDE)
        train = np.flatnonzero(inside & (folds != chosen))
        validation = np.flatnonzero(inside & (folds == chosen))
        tested = np.flatnonzero(folds == test)
        splits.append(Split(f"fold {test}", train, validation, tested, test, chosen))
    return splits


def paper_splits(
    quirk: str,
    folds: IntArray,
    labels: ArrayLike,
    has_video: ArrayLike,
    *,
    balanced: bool = True,
    validates: bool = True,
) -> list[Split]:
    """Return the splits of one file: the last fold tests.

    In the released code each of the first eight folds validates in turn; in the text the last fold
    but one always validates. If `balanced`, of a larger class only so many folds train as balance
    the smallest class, another set of them for each of eight runs. Else all train, as for concept
    vectors: in the code with nine validation folds in turn, in the text once.

    Args:
        quirk: "authors" for the released code, or "text".
        folds: The fold of each clip.
        labels: The class of each clip; negative for clips outside the task.
        has_video: Whether each clip has a video.
        balanced: Whether the folds of a larger class take turns.
        validates: Whether a fold of the released code validates. If not, there is one split, as for
            the heads of bottlenecks.
    """
    y = np.asarray(labels, dtype=np.intp)
    video = np.asarray(has_video, dtype=np.bool_)
    if n_folds_of(folds) < 4:
        raise FixInput(
            f"published splits need at least four folds, got {n_folds_of(folds)}"
        )
    usable = video & (folds != OUTSIDE) & (y >= 0)
    last = n_folds_of(folds) - 1
    splits = []
    is_of_code = quirk == "authors"
    if not validates:
        n_runs = 1
    elif balanced:
        n_runs = last - 1
    elif is_of_code:
        n_runs = last
    else:
        n_runs = 1
    for run in range(n_runs):
        chosen_on = last - 1
        if is_of_code:
            chosen_on = run if validates else OUTSIDE
        pool = usable & (folds != last) & (folds != chosen_on)
        train = pool
        if balanced and validates:
            train = _in_turn(quirk, run, folds, y, pool, last)
        train_rows = np.flatnonzero(train)
        validation = np.flatnonzero(usable & (folds == chosen_on))
        tested = np.flatnonzero(usable & (folds == last))
        splits.append(
            Split(f"run {run}", train_rows, validation, tested, last, chosen_on)
        )
    return splits


def _in_turn(
    quirk: str, run: int, folds: IntArray, y: IntArray, pool: BoolArray, last: int
) -> BoolArray:
    """Return the rows that train in one of eight runs: of a larger class a few folds in turn."""
    if quirk == "authors":
        listed = [f for f in range(1, last + 1) if f != 1 + run % last]
        least = 0
        share = 0.1
    else:
        listed = list(range(last - 1))
        least = 1
        share = 1.0
    sizes = {
        label: int((y[pool] == label).sum() * share) for label in np.unique(y[pool])
    }
    if quirk == "authors" and (not sizes or min(sizes.values()) == 0):
        raise FixInput(
            f"run {run} has fewer than ten training rows of a class, which the released code needs",
            hint='quirk = "text" or "none"',
        )
    train = np.zeros(y.size, dtype=np.bool_)
    for label, size in sizes.items():
        n = max(least, round(min(sizes.values()) * len(listed) / size))
        chosen = [listed[(run * n + i) % len(listed)] for i in range(n)]
        train |= pool & (y == label) & np.isin(folds, chosen)
    return train


def movie_pairs(
    folds: IntArray, has_video: ArrayLike, never: Sequence[int] = ()
) -> list[Split]:
    """Return the splits for unseen films: each pair of films tests and validates, the rest train.

    Films in `never` only train. The pairs (i, j) and (j, i) have the same training rows.
    """
    usable = np.asarray(has_video, dtype=np.bool_) & (folds != OUTSIDE)
    movies = [fold for fold in range(n_folds_of(folds)) if fold not in never]
    if len(movies) < 2:
        raise FixInput(
            "validation = 'each' needs at least two movies outside splits.never"
        )
    splits = []
    for test, chosen_on in permutations(movies, 2):
        train = np.flatnonzero(usable & (folds != test) & (folds != chosen_on))
        validation = np.flatnonzero(usable & (folds == chosen_on))
        tested = np.flatnonzero(usable & (folds == test))
        name = f"test {test}, validate {chosen_on}"
        splits.append(Split(name, train, validation, tested, test, chosen_on))
    return splits
