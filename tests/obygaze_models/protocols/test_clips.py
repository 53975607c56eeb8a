"""Fold columns as people write them."""

from __future__ import annotations

import pytest

from obygaze_features.core.errors import FixInput
from obygaze_models.protocols.clips import read_folds


class TestRead:
    def test_empty_cells_are_outside(self) -> None:
        assert read_folds(["3", "", " 0", 7]).tolist() == [3, -1, 0, 7]

    @pytest.mark.parametrize("column", [["x"], ["1.5"], ["-3"]])
    def test_what_is_no_fold(self, column: list[str]) -> None:
        with pytest.raises(FixInput, match="fold"):
            read_folds(column)
