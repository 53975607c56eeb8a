"""Splits: their parts, the rows they are kept within, the gap between what trains and tests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obygaze_features.core.errors import FixInput
from obygaze_models.protocols.splits import Split, drop_near, n_folds_of


def parts_of(split: Split) -> tuple[np.ndarray, ...]:
    return split.train, split.validation, split.test


class TestSplit:
    def test_rows_are_sorted_and_unlike(self) -> None:
        assert Split("s", [3, 1], [], [2]).train.tolist() == [1, 3]
        with pytest.raises(FixInput, match="train has a row twice"):
            Split("s", [1, 1], [], [])


class TestGap:
    def test_by_hand(self) -> None:
        movies = ["a"] * 6 + ["b"] * 2
        scenes = [1, 2, 3, 4, 5, 6, 3, 4]
        split = Split("s", [0, 1, 4, 5, 7], [3], [2, 6])
        gap = drop_near(split, movies, scenes, 1)
        # Scene 3 of both films tests: a's scenes 2 and 4 and b's scene 4 are too near.
        assert gap.validation.size == 0
        assert gap.train.tolist() == [0, 4, 5]
        assert gap.test.tolist() == [2, 6]
        assert gap.gap == 1

    def test_training_keeps_away_from_validation_too(self) -> None:
        split = Split("s", [0, 1, 2], [3], [9])
        gap = drop_near(split, ["a"] * 10, list(range(10)), 1)
        assert gap.train.tolist() == [0, 1]

    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 3), st.integers(0, 100))
    def test_nothing_near_is_left(self, reach: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        movies, scenes = np.repeat([0, 1, 2], 30), rng.integers(0, 60, 90)
        split = Split("s", *np.split(rng.permutation(90), [60, 75]))
        gap = drop_near(split, movies, scenes, reach)
        seen = np.concatenate([gap.train, gap.validation])
        for row in gap.test:
            same = movies[seen] == movies[row]
            apart = np.abs(scenes[seen][same] - scenes[row])
            assert apart.size == 0 or apart.min() > reach
        np.testing.assert_array_equal(gap.test, split.test)


def test_number_of_folds() -> None:
    assert n_folds_of(np.array([-1, 0, 4])) == 5
    with pytest.raises(FixInput, match="no clip"):
        n_folds_of(np.array([-1]))
