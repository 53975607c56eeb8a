"""The leak of a cell, from the names of its clips."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from obygaze_models.evaluation.leakage import Leak, leak_of


def count_leak(
    train: Iterable[str],
    validation: Iterable[str],
    test: Iterable[str],
    *,
    cell: str = "",
) -> Leak:
    """What leaked of these clips: `leak_of` takes the numbers of clips."""
    # No clips of concepts.
    subsets: list[list[str]] = [[*train], [*validation], [*test], []]
    ids = sorted({clip for subset in subsets for clip in subset})
    rows = [
        np.array([ids.index(clip) for clip in subset], dtype=np.intp)
        for subset in subsets
    ]
    no_copies = np.full(len(ids), -1, dtype=np.intp)
    return leak_of(*rows, no_copies, no_copies, cell=cell)
