"""A split: the rows of a table for training, validation and test, and how they were chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.folds import OUTSIDE, IntArray

BoolArray = NDArray[np.bool_]
Origin = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of one table for training, validation and test; and how they were chosen.

    Each of the three is sorted and has no row twice. They may overlap, as published splits of two
    tasks do; `evaluation.leakage` counts it.
    """

    name: str
    train: IntArray
    validation: IntArray
    test: IntArray
    provenance: Origin = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in ("train", "validation", "test"):
            rows = np.asarray(getattr(self, part), dtype=np.intp)
            if rows.ndim != 1 or np.unique(rows).size != rows.size:
                raise FixInput(f"split {self.name}: {part} has a row twice")
            object.__setattr__(self, part, np.sort(rows))

    def keep(self, *, train: ArrayLike | None = None, test: ArrayLike | None = None) -> Split:
        """Return the split without the rows that a mask over the table leaves out.

        `train` limits training and validation rows (to the clips of the training task), `test` the
        test rows (to those of the test task).
        """
        return replace(
            self,
            train=_within(self.train, train),
            validation=_within(self.validation, train),
            test=_within(self.test, test),
        )

    def __repr__(self) -> str:
        sizes = f"{self.train.size} + {self.validation.size} -> {self.test.size}"
        return f"Split({self.name!r}, {sizes})"


def drop_near(split: Split, groups: ArrayLike, scenes: ArrayLike, reach: int) -> Split:
    """Remove training and validation rows within `reach` scenes of a test clip.

    Training rows keep that distance from validation rows, too; test rows stay.
    """
    chosen = far_from(split.validation, split.test, groups, scenes, reach)
    held_out = np.concatenate([split.test, chosen])
    train = far_from(split.train, held_out, groups, scenes, reach)
    origin = {**split.provenance, "gap": reach}
    return replace(split, train=train, validation=chosen, provenance=origin)


def far_from(
    rows: IntArray, others: IntArray, groups: ArrayLike, scenes: ArrayLike, reach: int
) -> IntArray:
    """Return the rows that are more than `reach` scenes away from `others` of their group."""
    movies, order = np.asarray(groups), np.asarray(scenes, dtype=np.intp)
    keep = np.ones(rows.size, dtype=np.bool_)
    for movie in np.unique(movies[rows]):
        mine = np.flatnonzero(movies[rows] == movie)
        there = order[others[movies[others] == movie]]
        if there.size:
            apart = np.abs(order[rows[mine]][:, None] - there[None, :]).min(axis=1)
            keep[mine] = apart > reach
    return rows[keep]


def n_folds_of(folds: IntArray) -> int:
    """Return the number of folds, counted to the highest number."""
    used = folds[folds != OUTSIDE]
    if used.size == 0:
        raise FixInput("no clip has a fold")
    return int(used.max()) + 1


def _within(part: IntArray, mask: ArrayLike | None) -> IntArray:
    return part if mask is None else part[np.asarray(mask, dtype=np.bool_)[part]]
