"""Turns folds into splits: which rows train, which choose, which test, and why those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.dealing import OUTSIDE, IntArray
from obygaze_models.protocols.folds import n_folds_of

BoolArray = NDArray[np.bool_]
Origin = Mapping[str, str | int | float | bool]
NO_ROWS = np.zeros(0, dtype=np.intp)


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

    def keep(
        self,
        rows: ArrayLike | None = None,
        *,
        train: ArrayLike | None = None,
        test: ArrayLike | None = None,
    ) -> Split:
        """The split within some rows, given as a mask over the table.

        `rows` bounds all parts (clips that have features); `train` bounds train and validation (the
        training task's clips), `test` the test part (the tested task's clips).
        """
        return replace(
            self,
            train=_within(self.train, rows, train),
            validation=_within(self.validation, rows, train),
            test=_within(self.test, rows, test),
        )

    def __repr__(self) -> str:
        sizes = f"{self.train.size} + {self.validation.size} -> {self.test.size}"
        return f"Split({self.name!r}, {sizes})"


@dataclass(frozen=True, eq=False)
class Nested:
    """An outer test, and the inner splits of its training rows in which settings are chosen."""

    outer: Split
    inner: tuple[Split, ...]


def rotate(
    folds: IntArray, *, validation: bool = True, origin: Origin | None = None
) -> list[Split]:
    """Each fold tests once, the fold after it validates, the others train."""
    k = _at_least(folds, 3 if validation else 2)
    splits = []
    for test in range(k):
        after = (test + 1) % k if validation else OUTSIDE
        choosing = (folds == after) & (folds != OUTSIDE)
        splits.append(
            Split(
                f"fold {test}",
                np.flatnonzero((folds != test) & ~choosing & (folds != OUTSIDE)),
                np.flatnonzero(choosing),
                np.flatnonzero(folds == test),
                {**(origin or {}), "test_fold": test, "validation_fold": after},
            )
        )
    return splits


def nested(folds: IntArray, *, origin: Origin | None = None) -> list[Nested]:
    """Each fold tests once; within the others, each validates once. Inner splits test nothing."""
    k = _at_least(folds, 3)
    rings = []
    for outer in rotate(folds, validation=False, origin=origin):
        test = outer.provenance["test_fold"]
        inner = tuple(
            Split(
                f"{outer.name}, inner {fold}",
                outer.train[folds[outer.train] != fold],
                outer.train[folds[outer.train] == fold],
                NO_ROWS,
                {**outer.provenance, "validation_fold": fold},
            )
            for fold in range(k)
            if fold != test
        )
        rings.append(Nested(outer, inner))
    return rings


def fixed(
    train: ArrayLike, test: ArrayLike, *, validation: ArrayLike | None = None, name: str = "fixed"
) -> Split:
    """One split given by masks over the table, for data sets that come with their own."""
    trains, tests = np.asarray(train, dtype=np.bool_), np.asarray(test, dtype=np.bool_)
    chosen = np.zeros_like(trains) if validation is None else np.asarray(validation, np.bool_)
    if np.any(trains & tests) or np.any(chosen & (trains | tests)):
        raise FixInput(f"split {name}: a row is in two parts")
    return Split(
        name,
        np.flatnonzero(trains),
        np.flatnonzero(chosen),
        np.flatnonzero(tests),
        {"kind": "fixed"},
    )


def cross(trained: Split, tested: Split) -> Split:
    """Train and choose as in one split, test as in another: the cells between two published files.

    Nothing is taken out, so a row can be on both sides. That is how the paper's cells leak.
    """
    origin = {**trained.provenance, "tested_on": tested.name}
    return Split(trained.name, trained.train, trained.validation, tested.test, origin)


def drop_near(split: Split, groups: ArrayLike, scenes: ArrayLike, reach: int) -> Split:
    """Open a gap: what is within `reach` scenes of a test clip neither trains nor validates.

    Train also keeps that distance from validation; the test rows are never touched.
    """
    movies, order = np.asarray(groups), np.asarray(scenes, dtype=np.intp)
    chosen = _far(split.validation, split.test, movies, order, reach)
    train = _far(split.train, np.concatenate([split.test, chosen]), movies, order, reach)
    origin = {**split.provenance, "gap": reach}
    return replace(split, train=train, validation=chosen, provenance=origin)


def _far(
    rows: IntArray, others: IntArray, movies: NDArray[np.generic], scenes: IntArray, reach: int
) -> IntArray:
    keep = np.ones(rows.size, dtype=np.bool_)
    for movie in np.unique(movies[rows]):
        mine = np.flatnonzero(movies[rows] == movie)
        there = scenes[others[movies[others] == movie]]
        if there.size:
            apart = np.abs(scenes[rows[mine]][:, None] - there[None, :]).min(axis=1)
            keep[mine] = apart > reach
    return rows[keep]


def _within(part: IntArray, *masks: ArrayLike | None) -> IntArray:
    for mask in masks:
        if mask is not None:
            part = part[np.asarray(mask, dtype=np.bool_)[part]]
    return part


def _at_least(folds: IntArray, least: int) -> int:
    k = n_folds_of(folds)
    if k < least:
        raise FixInput(f"{k} folds, but this scheme needs at least {least}")
    return k
