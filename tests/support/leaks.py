"""The leak of a cell, from the names of its clips."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from obygaze_models.evaluation.leakage import Leak, LeakIndex, numbers_of


def count_leak(
    train: Iterable[str],
    validation: Iterable[str],
    test: Iterable[str],
    *,
    concepts: Iterable[str] = (),
    film_of_clip: Mapping[str, str] | None = None,
    cell: str = "",
) -> Leak:
    """The counts of a cell: `LeakIndex` takes the numbers of clips."""
    subsets = [[*train], [*validation], [*test], [*concepts]]
    ids = sorted({clip for subset in subsets for clip in subset})
    films = ["" if film_of_clip is None else film_of_clip[clip] for clip in ids]
    no_copies = np.full(len(ids), -1, dtype=np.intp)
    index = LeakIndex(ids, numbers_of(films), no_copies)
    rows = [
        np.array([ids.index(clip) for clip in subset], dtype=np.intp)
        for subset in subsets
    ]
    return index.count(*rows, cell=cell)
