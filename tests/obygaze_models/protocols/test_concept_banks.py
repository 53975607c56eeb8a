"""Which clips find the vectors of concepts whose margins train a bottleneck: by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from obygaze_models.protocols.runner.banks import Banks

FILMS = np.array(["a", "a", "b", "b", "b", "c", "c"])


def cross_folds(rows: list[int], n_folds: int, *, grouped: bool) -> list[list[int]]:
    banks: Any = SimpleNamespace(grouped=grouped, seed=3)
    parts = Banks._cross_folds(banks, np.array(rows), FILMS, n_folds)
    return [part.tolist() for part in parts]


def test_films_stay_together_in_as_many_parts_as_there_are_films() -> None:
    assert cross_folds([0, 1, 2, 4], 5, grouped=True) == [[0, 1], [2, 4]]
    assert cross_folds([0, 2, 5, 6], 2, grouped=True) == [[0, 5, 6], [2]]
    assert cross_folds([2, 3, 4], 5, grouped=True) == []
    assert cross_folds([0, 2, 5, 6], 1, grouped=True) == []


def test_without_films_parts_of_clips_have_equal_sizes() -> None:
    parts = cross_folds([0, 1, 2, 3, 4, 5, 6], 3, grouped=False)
    assert sorted(len(part) for part in parts) == [2, 2, 3]
    assert sorted(row for part in parts for row in part) == list(range(7))
    # One film has no other, but its clips have.
    assert len(cross_folds([2, 3, 4], 2, grouped=False)) == 2
    assert cross_folds([2, 3, 4], 1, grouped=False) == []
