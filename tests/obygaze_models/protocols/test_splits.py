"""Splits: their parts, the rows they are kept within."""

from __future__ import annotations

import numpy as np
import pytest

from obygaze_features.core.errors import FixInput
from obygaze_models.protocols.splits import Split, n_folds_of


class TestSplit:
    def test_rows_are_sorted_and_unlike(self) -> None:
        assert Split("s", [3, 1], [], [2]).train.tolist() == [1, 3]
        with pytest.raises(FixInput, match="train has a row twice"):
            Split("s", [1, 1], [], [])


def test_number_of_folds() -> None:
    assert n_folds_of(np.array([-1, 0, 4])) == 5
    with pytest.raises(FixInput, match="no clip"):
        n_folds_of(np.array([-1]))
