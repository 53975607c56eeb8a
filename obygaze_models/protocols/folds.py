"""Reads fold columns: one master fold a clip, from which every split of every task is derived."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.folds import OUTSIDE, IntArray


def read_folds(column: Sequence[str | int], *, where: str | None = None) -> IntArray:
    """A published fold column as numbers; empty cells are outside the scheme."""
    try:
        folds = np.array(
            [OUTSIDE if str(cell).strip() == "" else int(cell) for cell in column], dtype=np.intp
        )
    except ValueError as error:
        raise FixInput(f"a fold must be a whole number: {error}", where=where) from error
    if folds.size and folds.min() < OUTSIDE:
        raise FixInput(f"a fold cannot be {folds.min()}", where=where)
    return folds


def n_folds_of(folds: IntArray) -> int:
    """How many folds there are, counted to the highest number."""
    used = folds[folds != OUTSIDE]
    if used.size == 0:
        raise FixInput("no clip has a fold")
    return int(used.max()) + 1
