"""A split: which rows of a table train, which choose, which test, and why those."""

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
    """Rows of one table: to train on, to choose with, to test on; and how they were picked.

    The parts are sorted and hold no row twice. That they do not overlap is not checked here: the
    published cells do overlap, and `evaluation.leakage` counts it.
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
                raise FixInput(f"split {self.name}: a row is twice in {part}")
            object.__setattr__(self, part, np.sort(rows))

    def keep(self, *, train: ArrayLike | None = None, test: ArrayLike | None = None) -> Split:
        """The split within some rows, given as masks over the table.

        `train` bounds train and validation (the training task's clips), `test` the test part (the
        tested task's clips).
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
    """Open a gap: what is within `reach` scenes of a test clip neither trains nor validates.

    Train also keeps that distance from validation; the test rows are never touched.
    """
    chosen = far_from(split.validation, split.test, groups, scenes, reach)
    held_out = np.concatenate([split.test, chosen])
    train = far_from(split.train, held_out, groups, scenes, reach)
    origin = {**split.provenance, "gap": reach}
    return replace(split, train=train, validation=chosen, provenance=origin)


def far_from(
    rows: IntArray, others: IntArray, groups: ArrayLike, scenes: ArrayLike, reach: int
) -> IntArray:
    """The rows that are more than `reach` scenes away from each of `others` in their group."""
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
    """How many folds there are, counted to the highest number."""
    used = folds[folds != OUTSIDE]
    if used.size == 0:
        raise FixInput("no clip has a fold")
    return int(used.max()) + 1


def _within(part: IntArray, mask: ArrayLike | None) -> IntArray:
    return part if mask is None else part[np.asarray(mask, dtype=np.bool_)[part]]
