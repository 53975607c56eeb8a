"""The released fold use, against counts of the published files made apart from the package."""

import numpy as np
import pytest
from support.published import SplitFile, split_file

from obygaze_features.core.errors import FixInput
from obygaze_models.protocols.paper_splits import code_splits, text_splits
from obygaze_models.protocols.splits import film_pairs


def authors(table: SplitFile) -> list:
    return code_splits(table.folds, table.y, table.has_video)


class TestAuthors:
    @pytest.mark.parametrize(
        ("name", "sizes"),
        [
            ("02_EN_S.csv", [459, 345, 345, 347, 388, 381, 342, 347]),
            ("02_HN_S.csv", [414, 323, 322, 323, 360, 359, 359, 359]),
        ],
    )
    def test_training_sizes(self, name: str, sizes: list[int]) -> None:
        """From 322 to 459 clips train in the cells of Table 2."""
        assert [s.train.size for s in authors(split_file(name))] == sizes

    def test_by_hand_on_made_up_folds(self) -> None:
        """Thirty negatives and ten positives in each of ten folds; run 2.

        Eight folds may train: 240 and 80 rows, tenths 24 and 8; so 8 folds of positives and
        round(8 * 8 / 24) = 3 of negatives. Fold 3 is skipped; of 1 2 4 5 6 7 8 9 the negatives take
        numbers 6, 7 and 8, that is 8, 9 and (from the start) 1; 9 tests. Positives take them all
        but 2 and 9.
        """
        folds = np.repeat(np.arange(10), 40)
        y = np.tile([0] * 30 + [1] * 10, 10)
        split = code_splits(folds, y, np.ones(400))[2]
        negatives, positives = (
            split.train[y[split.train] == 0],
            split.train[y[split.train] == 1],
        )
        assert set(folds[negatives]) == {8, 1}
        assert set(folds[positives]) == {1, 4, 5, 6, 7, 8}
        assert (negatives.size, positives.size) == (60, 60)

    def test_rows_without_video_or_class_take_no_part(self) -> None:
        folds = np.repeat(np.arange(10), 40)
        y = np.tile([0] * 30 + [1] * 10, 10)
        y[5] = -1
        video = np.ones(400)
        video[390:] = 0
        for split in code_splits(folds, y, video):
            parts = np.concatenate([split.train, split.validation, split.test])
            assert 5 not in parts and parts.max() < 390

    def test_too_few_rows(self) -> None:
        folds = np.repeat(np.arange(10), 4)
        with pytest.raises(FixInput, match="ten training rows"):
            code_splits(folds, np.tile([0, 0, 0, 1], 10), np.ones(40))


@pytest.mark.parametrize(
    ("splits_of", "options", "runs"),
    [
        (
            code_splits,
            {"balanced": False},
            [(set(range(9)) - {i}, {i}) for i in range(9)],
        ),
        (code_splits, {"validates": False}, [(set(range(9)), set())]),
        (text_splits, {"balanced": False}, [(set(range(8)), {8})]),
        (text_splits, {"validates": False}, [(set(range(8)), {8})]),
    ],
)
def test_vectors_and_heads_train_on_whole_folds(splits_of, options, runs) -> None:
    table = split_file("02_EN_HN_S.csv")
    found = splits_of(table.folds, table.y, table.has_video, **options)
    folds = [
        [set(table.folds[r].tolist()) for r in (s.train, s.validation)] for s in found
    ]
    assert [tuple(pair) for pair in folds] == runs
    used = np.isin(table.folds, list(runs[0][0])) & table.has_video
    assert found[0].train.tolist() == np.flatnonzero(used).tolist()


class TestFilmPairs:
    def test_ninety_runs_of_forty_five_training_sets(self) -> None:
        table = split_file("by_movie/HN_S.csv")
        splits = list(film_pairs(table.folds, table.has_video, never=(3, 7)))
        assert len(splits) == 90
        sets = {
            frozenset((s.test_fold, s.validation_fold)): tuple(s.train) for s in splits
        }
        assert len(sets) == len(set(sets.values())) == 45
        for split in splits:
            assert split.train.size + split.validation.size + split.test.size == 589
            assert {3, 7} <= set(table.folds[split.train].tolist())
            pair = frozenset((split.test_fold, split.validation_fold))
            assert tuple(split.train) == sets[pair]

    def test_nothing_to_test(self) -> None:
        with pytest.raises(FixInput, match="two films"):
            list(film_pairs(np.array([0, 1, 2]), np.ones(3), never=(0, 1)))


def test_refusals() -> None:
    with pytest.raises(FixInput, match="four folds"):
        text_splits(np.array([0, 1, 2]), [0, 1, 0], [1, 1, 1])


def test_of_a_larger_class_another_fold_trains_in_each_run_of_the_text() -> None:
    # Folds 0 and 1 train, 2 validates, 3 tests; in each 1 row of class 0 and 9 of class 1.
    folds, labels = np.repeat(np.arange(4), 10), np.tile([0] + [1] * 9, 4)
    splits = text_splits(folds, labels, np.ones(40))
    assert [split.train.tolist() for split in splits] == [
        [*range(10), 10],
        [0, *range(10, 20)],
    ]
    assert {tuple(split.validation) for split in splits} == {tuple(range(20, 30))}
    assert {tuple(split.test) for split in splits} == {tuple(range(30, 40))}
