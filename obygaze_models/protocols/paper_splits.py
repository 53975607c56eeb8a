"""The training sets of Table 2 of the ObyGaze12 paper, by its released code and by its text.

Code and text use the published folds of one file; the last fold tests. To balance classes, only a
subset of the folds of a larger class trains, a different subset in each of eight runs. Code and
text differ. The code removes the clips of the test fold and of the validation fold. It then chooses
training folds from a list that still contains the test fold. The list should lack the validation
fold. Instead, it lacks fold 0 and the fold after the validation fold. Clips without a video are
removed before clips are counted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.folds import OUTSIDE, IntArray
from obygaze_models.evaluation.predictions import BoolArray
from obygaze_models.protocols.splits import Split, count_folds

SHARE_THAT_THE_CODE_COUNTS = 0.1


@dataclass(frozen=True, eq=False)
class _File:
    """One published file: fold and class of each clip, and whether the clip can be used."""

    folds: IntArray
    labels: NDArray[np.intp]
    usable: BoolArray

    @property
    def last_fold(self) -> int:
        return count_folds(self.folds) - 1

    def rows_without(self, *folds: int) -> BoolArray:
        """Return which clips can be used and are not in these folds."""
        return self.usable & ~np.isin(self.folds, folds)

    def split(self, run: int, train: BoolArray, validation_fold: int) -> Split:
        """Return the split of one run."""
        validation = self.usable & (self.folds == validation_fold)
        test = self.usable & (self.folds == self.last_fold)
        return Split(
            f"run {run}",
            np.flatnonzero(train),
            np.flatnonzero(validation),
            np.flatnonzero(test),
            self.last_fold,
            validation_fold,
        )


def code_splits(
    folds: IntArray,
    labels: ArrayLike,
    has_video: ArrayLike,
    *,
    balanced: bool = True,
    validates: bool = True,
) -> list[Split]:
    """Return the splits of the released code of ObyGaze12.

    The last fold tests, and each of the folds before the last two validates in turn.

    Args:
        folds: The fold of each clip.
        labels: The class of each clip; negative for clips outside the task.
        has_video: Whether each clip has a video.
        balanced: Whether larger classes use a rotating subset of folds. If False, all folds train
            that neither test nor validate, and each fold before the last validates in turn. The
            released code does this for concept vectors.
        validates: Whether a fold validates. If False, there is one split, in which all folds before
            the last train. The released code does this for the heads of bottlenecks.
    """
    file = _file(folds, labels, has_video)
    last = file.last_fold
    if not validates:
        return [file.split(0, file.rows_without(last), OUTSIDE)]
    n_runs = last - 1 if balanced else last
    splits = []
    for run in range(n_runs):
        train = file.rows_without(last, run)
        if balanced:
            # As released: the list contains the test fold and lacks a wrong fold.
            listed = [fold for fold in range(1, last + 1) if fold != 1 + run % last]
            sizes = _class_sizes(file, train, SHARE_THAT_THE_CODE_COUNTS)
            if not sizes or min(sizes.values()) == 0:
                raise FixInput(
                    f"run {run} has fewer than ten training rows of a class; the released code"
                    " needs ten",
                    hint='use scheme = "none", or text_splits instead of code_splits',
                )
            train = _folds_in_turn(file, train, sizes, listed, run, at_least=0)
        splits.append(file.split(run, train, run))
    return splits


def text_splits(
    folds: IntArray,
    labels: ArrayLike,
    has_video: ArrayLike,
    *,
    balanced: bool = True,
    validates: bool = True,
) -> list[Split]:
    """Return the splits of the text of the ObyGaze12 paper.

    The last fold tests, and the fold before it validates.

    Args:
        folds: The fold of each clip.
        labels: The class of each clip; negative for clips outside the task.
        has_video: Whether each clip has a video.
        balanced: Whether larger classes use a rotating subset of folds. If False, all training
            folds train, in one split.
        validates: Whether heads are chosen on validation rows. If False, there is one split with
            all training folds.
    """
    file = _file(folds, labels, has_video)
    last = file.last_fold
    train = file.rows_without(last, last - 1)
    if not (balanced and validates):
        return [file.split(0, train, last - 1)]
    listed = list(range(last - 1))
    sizes = _class_sizes(file, train, 1.0)
    splits = []
    for run in range(last - 1):
        in_turn = _folds_in_turn(file, train, sizes, listed, run, at_least=1)
        splits.append(file.split(run, in_turn, last - 1))
    return splits


def _file(folds: IntArray, labels: ArrayLike, has_video: ArrayLike) -> _File:
    n_folds = count_folds(folds)
    if n_folds < 4:
        raise FixInput(f"published splits need at least four folds, got {n_folds}")
    classes = np.asarray(labels, dtype=np.intp)
    with_video = np.asarray(has_video, dtype=np.bool_)
    return _File(folds, classes, with_video & (folds != OUTSIDE) & (classes >= 0))


def _class_sizes(file: _File, rows: BoolArray, share: float) -> dict[int, int]:
    """Return the number of rows of each class, multiplied by a share and rounded down."""
    sizes = {}
    for label in np.unique(file.labels[rows]):
        n_rows = (file.labels[rows] == label).sum()
        sizes[int(label)] = int(n_rows * share)
    return sizes


def _folds_in_turn(
    file: _File,
    rows: BoolArray,
    sizes: dict[int, int],
    listed: Sequence[int],
    run: int,
    *,
    at_least: int,
) -> BoolArray:
    """Return the training rows of one run; larger classes use a rotating subset of folds."""
    train = np.zeros(len(rows), dtype=np.bool_)
    smallest = min(sizes.values(), default=0)
    for label, size in sizes.items():
        n_folds = max(at_least, round(smallest * len(listed) / size))
        first = run * n_folds
        chosen = [listed[(first + step) % len(listed)] for step in range(n_folds)]
        train |= rows & (file.labels == label) & np.isin(file.folds, chosen)
    return train


# The schemes by their names in protocols.
SHIPPED_SCHEMES: Mapping[str, Callable[..., list[Split]]] = {
    f"{__name__}:code_splits": code_splits,
    f"{__name__}:text_splits": text_splits,
}
