"""Splits: their parts, the rows they are kept within."""

from __future__ import annotations

import numpy as np
import pytest

from obygaze_features.core.errors import FixInput
from obygaze_models.protocols.splits import (
    Split,
    n_folds_of,
    rotated,
)


class TestSplit:
    def test_rows_are_sorted_and_unlike(self) -> None:
        assert Split("s", [3, 1], [], [2]).train.tolist() == [1, 3]
        with pytest.raises(FixInput, match="train has a row twice"):
            Split("s", [1, 1], [], [])


# Rows 0 to 5 are three folds with both classes, row 6 a fold of one class, row 7 is in no fold.
FOLDS = np.array([0, 0, 1, 1, 2, 2, 3, -1])
LABELS = np.array([0, 1, 0, 1, 0, 1, 1, 1])


def rows_of(splits: list[Split]) -> list[list[list[int]]]:
    return [[part.tolist() for part in split.rows] for split in splits]


def test_a_fold_that_never_tests_and_rows_that_do_not_train() -> None:
    trains = np.arange(8) != 3  # so that fold 1 cannot validate
    splits = list(rotated(FOLDS, LABELS, trains, never=[3]))
    assert rows_of(splits) == [
        [[2, 4, 5, 6], [], [0, 1]],
        [[0, 1, 6], [4, 5], [2, 3]],
        [[0, 1, 2, 6], [], [4, 5]],
    ]


def test_number_of_folds() -> None:
    assert n_folds_of(np.array([-1, 0, 4])) == 5
    with pytest.raises(FixInput, match="no clip"):
        n_folds_of(np.array([-1]))
