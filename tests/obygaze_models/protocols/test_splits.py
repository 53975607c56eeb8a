from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.dealing import block_folds, stratified_folds
from obygaze_models.protocols.splits import Split, cross, drop_near, fixed, nested, rotate

FOLDS = np.array([0, 1, 2, 3, -1, 0, 1, 2, 3, -1])


class TestRotate:
    def test_by_hand(self) -> None:
        splits = rotate(FOLDS, origin={"kind": "kfold", "seed": 3})
        assert [s.test.tolist() for s in splits] == [[0, 5], [1, 6], [2, 7], [3, 8]]
        assert [s.validation.tolist() for s in splits] == [[1, 6], [2, 7], [3, 8], [0, 5]]
        assert splits[0].train.tolist() == [2, 3, 7, 8]
        assert splits[3].provenance == {
            "kind": "kfold", "seed": 3, "test_fold": 3, "validation_fold": 0,
        }  # fmt: skip

    def test_without_validation(self) -> None:
        split = rotate(FOLDS, validation=False)[1]
        assert split.train.tolist() == [0, 2, 3, 5, 7, 8]
        assert split.validation.size == 0

    @settings(max_examples=40, deadline=None)
    @given(st.integers(3, 8), st.integers(20, 60), st.booleans())
    def test_each_row_tests_once_and_no_part_overlaps(self, k: int, n: int, validate: bool) -> None:
        folds = stratified_folds(np.arange(n) % 3, k, seed=0)
        splits = rotate(folds, validation=validate)
        assert sorted(np.concatenate([s.test for s in splits])) == list(range(n))
        for s in splits:
            parts = np.concatenate([s.train, s.validation, s.test])
            assert sorted(parts) == list(range(n))

    def test_too_few_folds(self) -> None:
        with pytest.raises(FixInput, match="2 folds"):
            rotate(np.array([0, 1]))


def test_one_master_fold_keeps_tasks_apart() -> None:
    """Train on one task, test on another, in every fold: never on the same clip."""
    rng = np.random.default_rng(0)
    level = rng.integers(0, 4, 200)
    folds = stratified_folds(level, 5, seed=0)
    for split in rotate(folds):
        cell = split.keep(train=np.isin(level, [1, 3]), test=np.isin(level, [0, 1, 3]))
        assert set(level[cell.train]) == set(level[cell.validation]) == {1, 3}
        assert set(level[cell.test]) == {0, 1, 3}
        assert not set(cell.test) & (set(cell.train) | set(cell.validation))


class TestNested:
    def test_inner_splits_share_out_the_outer_training_rows(self) -> None:
        rings = nested(FOLDS)
        assert len(rings) == 4
        for ring in rings:
            assert len(ring.inner) == 3
            chosen = np.concatenate([split.validation for split in ring.inner])
            assert sorted(chosen) == sorted(ring.outer.train)
            for split in ring.inner:
                assert split.test.size == 0
                seen = set(split.train) | set(split.validation)
                assert seen == set(ring.outer.train)
                assert not seen & set(ring.outer.test)

    def test_names_and_provenance(self) -> None:
        inner = nested(FOLDS)[2].inner[1]
        assert inner.name == "fold 2, inner 1"
        assert inner.provenance == {"test_fold": 2, "validation_fold": 1}


class TestFixed:
    def test_masks(self) -> None:
        split = fixed([1, 1, 0, 0], [0, 0, 0, 1], validation=[0, 0, 1, 0])
        assert (split.train.tolist(), split.validation.tolist(), split.test.tolist()) == (
            [0, 1],
            [2],
            [3],
        )
        assert fixed([1, 0], [0, 1]).validation.size == 0

    @pytest.mark.parametrize("validation", [[1, 0], [0, 1]])
    def test_overlap(self, validation: list[int]) -> None:
        with pytest.raises(FixInput, match="two parts"):
            fixed([1, 0], [0, 1], validation=validation)


class TestSplit:
    def test_rows_are_sorted_and_unlike(self) -> None:
        assert Split("s", [3, 1], [], [2]).train.tolist() == [1, 3]
        with pytest.raises(FixInput, match="twice in train"):
            Split("s", [1, 1], [], [])

    def test_keep(self) -> None:
        split = Split("s", [0, 1], [2, 3], [4, 5])
        kept = split.keep([1, 0, 1, 0, 1, 0])
        assert (kept.train.tolist(), kept.validation.tolist(), kept.test.tolist()) == (
            [0],
            [2],
            [4],
        )

    def test_short(self) -> None:
        assert repr(Split("fold 1", [0, 1], [2], [3])) == "Split('fold 1', 2 + 1 -> 1)"


def test_cross_takes_nothing_out() -> None:
    one, other = Split("run 0", [0, 1], [2], [3], {"quirk": "text"}), Split("run 1", [3], [], [1])
    cell = cross(one, other)
    assert (cell.train.tolist(), cell.validation.tolist(), cell.test.tolist()) == (
        [0, 1],
        [2],
        [1],
    )
    assert cell.provenance == {"quirk": "text", "tested_on": "run 1"}


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
        assert gap.provenance["gap"] == 1

    def test_training_keeps_away_from_validation_too(self) -> None:
        split = Split("s", [0, 1, 2], [3], [9])
        gap = drop_near(split, ["a"] * 10, list(range(10)), 1)
        assert gap.train.tolist() == [0, 1]

    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 3), st.integers(0, 100))
    def test_nothing_near_is_left(self, reach: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        movies, scenes = np.repeat([0, 1, 2], 30), rng.integers(0, 60, 90)
        for split in rotate(block_folds(movies, scenes, 4, seed=seed)):
            gap = drop_near(split, movies, scenes, reach)
            seen = np.concatenate([gap.train, gap.validation])
            for row in gap.test:
                same = movies[seen] == movies[row]
                apart = np.abs(scenes[seen][same] - scenes[row])
                assert apart.size == 0 or apart.min() > reach
            np.testing.assert_array_equal(gap.test, split.test)
