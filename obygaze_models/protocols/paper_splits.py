"""The splits of the paper: as the released code makes them, and as the text describes them.

The two differ. The code chooses training folds after it has set the test and the validation fold
aside, from a list that still holds the test fold, leaves out fold 0, and leaves out the fold after
the validation fold instead of it. Clips without a video are removed before anything is counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.folds import OUTSIDE, IntArray
from obygaze_models.protocols.splits import Split, n_folds_of


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
    y, video = np.asarray(labels, dtype=np.intp), np.asarray(has_video, dtype=np.bool_)
    if not y.shape == folds.shape == video.shape:
        raise FixInput(
            f"expected one fold, label and video for each clip, got {folds.shape[0]} folds, "
            f"{y.shape[0]} labels and {video.shape[0]} videos"
        )
    if n_folds_of(folds) < 4:
        raise FixInput(f"published splits need at least four folds, got {n_folds_of(folds)}")
    usable, last = video & (folds != OUTSIDE) & (y >= 0), n_folds_of(folds) - 1
    splits, code = [], quirk == "authors"
    n_runs = last - 1 if balanced else last if code else 1
    for run in range(n_runs if validates else 1):
        chosen_on = (run if validates else OUTSIDE) if code else last - 1
        pool = usable & (folds != last) & (folds != chosen_on)
        if code:
            left_out, least, share = 1 + run % last, 0, 0.1
            listed = [fold for fold in range(1, last + 1) if fold != left_out]
        else:
            least, share = 1, 1.0
            listed = list(range(last - 1))
        sizes = {label: int((y[pool] == label).sum() * share) for label in np.unique(y[pool])}
        if code and balanced and validates and (not sizes or min(sizes.values()) == 0):
            raise FixInput(
                f"run {run} has fewer than ten training rows of a class, which the released code "
                "needs",
                hint='quirk = "text" or "none"',
            )
        whole = not (balanced and validates)
        train = pool if whole else np.zeros(y.size, dtype=np.bool_)
        for label, size in () if whole else sizes.items():
            n = max(least, round(min(sizes.values()) * len(listed) / size))
            chosen = [listed[(run * n + i) % len(listed)] for i in range(n)]
            train = train | pool & (y == label) & np.isin(folds, chosen)
        splits.append(
            Split(
                f"run {run}",
                np.flatnonzero(train),
                np.flatnonzero(usable & (folds == chosen_on)),
                np.flatnonzero(usable & (folds == last)),
                {
                    "kind": "published",
                    "quirk": quirk,
                    "test_fold": last,
                    "validation_fold": chosen_on,
                },
            )
        )
    return splits


def movie_pairs(folds: IntArray, has_video: ArrayLike, never: Sequence[int] = ()) -> list[Split]:
    """Return the splits for unseen films: each pair of films tests and validates, the rest train.

    Films in `never` only train. The pairs (i, j) and (j, i) have the same training rows and the
    same `training_set`.
    """
    usable = np.asarray(has_video, dtype=np.bool_) & (folds != OUTSIDE)
    movies = [fold for fold in range(n_folds_of(folds)) if fold not in never]
    if len(movies) < 2:
        raise FixInput("validation = 'each' needs at least two movies outside splits.never")
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
