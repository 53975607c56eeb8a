"""What nothing may learn from stays hidden, and what fits share is kept within its bytes."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from support.fold_data import fold_data_of

from obygaze_models.models.common import Floats
from obygaze_models.models.fold_data import FeatureRows, FoldData, Memo

FILMS = np.repeat(["a", "b", "c", "d"], 3)
NUMBERS = np.arange(12)


def twelve_rows(films: np.ndarray | None = FILMS) -> FoldData:
    """Four films of three rows, two of which are positive."""
    targets = np.zeros((12, 1), dtype=np.int64)
    X = NUMBERS[:, None] / 7
    return fold_data_of(X, (NUMBERS % 3 > 0).astype(np.int64), ["Look"], targets, films)


def test_whole_films_are_hidden_inside() -> None:
    """Also a row of a hidden film that neither trains nor is scored."""
    data = replace(twelve_rows(), validation=np.array([11]))
    inside = data.inside(train=np.array([0, 1, 6]), hidden=np.array([4]))
    assert np.flatnonzero(inside.may_learn).tolist() == [0, 1, 2, *range(6, 12)]
    assert inside.concept_rows.tolist() == [0, 1, 2, *range(6, 12)]
    assert inside.train.tolist() == [0, 1, 6]
    assert inside.validation.tolist() == [11]
    # What was hidden around it stays hidden.
    further = inside.inside(train=np.array([0]), hidden=np.array([7]))
    assert further.concept_rows.tolist() == [0, 1, 2, 9, 10, 11]
    assert data.may_learn.all()


def test_inner_splits_leave_out_whole_films_or_are_the_validation_rows() -> None:
    data = twelve_rows()
    for train, rows in data.inner_splits():
        assert not set(FILMS[train]) & set(FILMS[rows])
        assert sorted([*train, *rows]) == NUMBERS.tolist()
    validated = replace(data, train=NUMBERS[:9], validation=NUMBERS[9:])
    ((train, rows),) = validated.inner_splits()
    assert (train.tolist(), rows.tolist()) == ([*range(9)], [9, 10, 11])
    # Rows of one class choose nothing.
    of_one_class = replace(validated, validation=np.array([10, 11]))
    assert len([*of_one_class.inner_splits()]) == 3


def test_equal_rows_have_one_score() -> None:
    rows = FeatureRows(np.zeros((12, 1)), equal=NUMBERS // 2)
    scores = np.array([0.1, 0.5, 0.7, 0.9])
    assert rows.equalize(np.array([4, 9, 5, 2]), scores).tolist() == [
        0.1,
        0.5,
        0.1,
        0.9,
    ]
    assert replace(rows, equal=None).equalize(NUMBERS[:4], scores) is scores


def test_a_memo_drops_what_was_used_longest_ago() -> None:
    memo = Memo(most_bytes=100)
    made: list[str] = []

    @memo.cache
    def make(key: str) -> SimpleNamespace:
        made.append(key)
        return SimpleNamespace(n_bytes=40)

    for key in "abac":
        make(key)
    assert "".join(made) == "abc"
    # The third was one too many: b was used before a.
    assert memo.n_bytes == 80
    for key in "acbcba":
        make(key)
    assert "".join(made) == "abcba"


def test_a_memo_knows_arrays_by_their_values() -> None:
    made: list[float] = []

    @Memo().cache
    def total(X: Floats, groups: object) -> Floats:
        made.append(float(X.sum()))
        return X

    X = np.arange(6.0)
    names = np.array(["a", "b"], dtype=object)
    for rows in (X, X.copy(), X.reshape(2, 3), X.astype(np.float32), X + 1):
        total(rows, None)
    total(X, names)
    total(X, names.copy())
    total(X, names[::-1])
    assert made == [15, 15, 15, 21, 15, 15]
