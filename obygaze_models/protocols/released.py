"""The paper's own splits: as the released code makes them, and as its text says.

The two differ. The code chooses training folds after it has set the test and the validation fold
aside, from a list that still holds the test fold, leaves out fold 0, and leaves out the fold after
the validation fold in its place. Rows without a video are gone before anything is counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.folds import OUTSIDE, IntArray
from obygaze_models.protocols.splits import Origin, Split, n_folds_of

BoolArray = NDArray[np.bool_]


def authors_splits(folds: IntArray, labels: ArrayLike, has_video: ArrayLike) -> list[Split]:
    """The released loop over one file: the last fold tests, folds 0 to 7 validate in turn."""
    y, usable = _columns(folds, labels, has_video)
    last = n_folds_of(folds) - 1
    splits = []
    for run in range(last - 1):
        pool = usable & (folds != last) & (folds != run)
        taken = _authors_folds(y[pool], run, last)
        train = pool & _in_chosen(y, folds, taken)
        splits.append(_split("authors", run, last, train, usable & (folds == run), usable, folds))
    return splits


def _authors_folds(pool: IntArray, run: int, last: int) -> dict[int, list[int]]:
    """Which folds each class trains on; the slice walks on through the list run by run."""
    size = {int(c): int(np.sum(pool == c) * 0.1) for c in np.unique(pool)}
    if not size or min(size.values()) == 0:
        raise FixInput(
            f"the released scheme needs ten training rows of each class, run {run} has fewer",
            hint='quirk = "text" or "none"',
        )
    skipped = 1 + run % last
    listed = [fold for fold in range(1, last + 1) if fold != skipped]
    taken = {}
    for label, rows in size.items():
        n = round(min(size.values()) * (last - 1) / rows)
        taken[label] = [listed[i % len(listed)] for i in range(run * n, (run + 1) * n)]
    return taken


def text_splits(folds: IntArray, labels: ArrayLike, has_video: ArrayLike) -> list[Split]:
    """The paper's text: the last fold tests, each other fold validates once, the rest train.

    Of a larger class only so many folds train as balance the smallest class, another set of them
    for each validation fold.
    """
    y, usable = _columns(folds, labels, has_video)
    last = n_folds_of(folds) - 1
    splits = []
    for run in range(last):
        listed = [fold for fold in range(last) if fold != run]
        pool = usable & np.isin(folds, listed)
        taken = _balanced_folds(y[pool], run, listed)
        train = pool & _in_chosen(y, folds, taken)
        splits.append(_split("text", run, last, train, usable & (folds == run), usable, folds))
    return splits


def _balanced_folds(pool: IntArray, run: int, listed: Sequence[int]) -> dict[int, list[int]]:
    rows = {int(c): int(np.sum(pool == c)) for c in np.unique(pool)}
    taken = {}
    for label, count in rows.items():
        n = max(1, round(min(rows.values()) * len(listed) / count))
        taken[label] = [listed[(run * n + i) % len(listed)] for i in range(n)]
    return taken


def movie_pairs(folds: IntArray, has_video: ArrayLike, never: Sequence[int] = ()) -> list[Split]:
    """The unseen-movie experiment: each pair of movies tests and validates, all else trains.

    Movies in `never` only train. The pairs (i, j) and (j, i) share their training rows; both carry
    the same `training_set`, so that a runner can train once.
    """
    usable = np.asarray(has_video, dtype=np.bool_) & (folds != OUTSIDE)
    movies = [fold for fold in range(n_folds_of(folds)) if fold not in never]
    if len(movies) < 2:
        raise FixInput("the unseen-movie experiment needs two movies that can be tested")
    return [
        Split(
            f"test {i}, validate {j}",
            np.flatnonzero(usable & (folds != i) & (folds != j)),
            np.flatnonzero(usable & (folds == j)),
            np.flatnonzero(usable & (folds == i)),
            {
                "kind": "movie_pairs",
                "test_fold": i,
                "validation_fold": j,
                "training_set": f"without {min(i, j)} and {max(i, j)}",
            },
        )
        for i in movies
        for j in movies
        if i != j
    ]


def _columns(
    folds: IntArray, labels: ArrayLike, has_video: ArrayLike
) -> tuple[IntArray, BoolArray]:
    y, video = np.asarray(labels, dtype=np.intp), np.asarray(has_video, dtype=np.bool_)
    if not y.shape == folds.shape == video.shape:
        raise FixInput(f"{folds.shape} folds, {y.shape} labels: one each a clip is needed")
    if n_folds_of(folds) < 4:
        raise FixInput(f"the published scheme needs four folds, found {n_folds_of(folds)}")
    return y, video & (folds != OUTSIDE) & (y >= 0)


def _in_chosen(y: IntArray, folds: IntArray, taken: dict[int, list[int]]) -> BoolArray:
    chosen = np.zeros(y.size, dtype=np.bool_)
    for label, listed in taken.items():
        chosen |= (y == label) & np.isin(folds, listed)
    return chosen


def _split(
    quirk: str,
    run: int,
    last: int,
    train: BoolArray,
    validation: BoolArray,
    usable: BoolArray,
    folds: IntArray,
) -> Split:
    origin: Origin = {
        "kind": "published",
        "quirk": quirk,
        "test_fold": last,
        "validation_fold": run,
    }
    test = usable & (folds == last)
    return Split(
        f"run {run}",
        np.flatnonzero(train),
        np.flatnonzero(validation),
        np.flatnonzero(test),
        origin,
    )
