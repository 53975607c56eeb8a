"""The values of a cell, of six clips in two films, by hand; tables read back."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.closed_form import blind_f1
from support.run_tables import table_of
from support.tables import RunRow, a_table, cell_of, rows_of

from obygaze_models.evaluation import results as of_results
from obygaze_models.evaluation.basis import FILM_SEEN, LEAKED, UNSEEN
from obygaze_models.evaluation.results import RunSettings, results
from obygaze_models.evaluation.tables import MOSTLY_WHOLE, RUN_TABLES, as_csv, read_csv

IDS = ("a-0", "a-1", "a-2", "b-3", "b-4", "b-5")


def fold_of(fold, seed, clips, y, score) -> list[RunRow]:
    """The rows of a test of some of the six clips."""
    rows = []
    for clip, label, value in zip(clips, y, score, strict=True):
        test: RunRow = {"fold": fold, "seed": seed, "clip_id": IDS[clip], "y": label}
        rows.append({**test, "movie_id": IDS[clip][0], "score": value})
    return rows


def with_facts(rows: Sequence[RunRow], **facts: Any) -> list[RunRow]:
    """The same rows, each with these values; of a list each row has its own."""
    changed = []
    for number, row in enumerate(rows):
        own = {}
        for name, value in facts.items():
            own[name] = value[number] if isinstance(value, list) else value
        changed.append({**row, **own})
    return changed


# Decisions of seed 0: 1 1 0, 0 1 0; of seed 1: 0 0 1, 0 0 0.
A0 = fold_of("1", 0, [0, 1, 2], [1, 0, 1], [0.9, 0.6, 0.2])
B0 = fold_of("2", 0, [3, 4, 5], [0, 0, 0], [0.1, 0.7, 0.3])
A1 = fold_of("1", 1, [0, 1, 2], [1, 0, 1], [0.4, 0.2, 0.8])
SEED_0 = [*A0, *B0]


def values_of(rows: Sequence[RunRow], **settings: Any) -> list[RunRow]:
    """The rows of results.csv."""
    return rows_of(results(a_table(rows), RunSettings(replicates=60, **settings)))


def row_of(rows: Sequence[RunRow], metric: str, film: str = "") -> RunRow:
    (row,) = [row for row in rows if (row["metric"], row["film"]) == (metric, film)]
    return row


def test_how_much_the_variance_grows_where_clips_train_and_test() -> None:
    one_set = [*A0, *A1]
    assert cell_of(SEED_0).inflation == 3  # 1 + k / (k - 1) of two folds
    assert cell_of(one_set).inflation == 1
    assert cell_of(with_facts(SEED_0, is_trained=False)).inflation == 1
    # Nine clips train and validate for three that are tested, in one run or in several.
    assert cell_of(one_set, is_averaged=True).inflation == pytest.approx(1 + 3 / 9)
    of_known_films = cell_of(with_facts(one_set, seen="film"))
    assert of_known_films.basis == FILM_SEEN
    assert of_known_films.inflation == pytest.approx(1 + 3 / 9)
    assert cell_of(with_facts(SEED_0, seen="film")).inflation == 5  # 1 + 2 k / (k - 1)
    without_films = with_facts(SEED_0, seen="unknown", group="")
    assert cell_of(without_films).inflation == math.inf


def test_a_cell_with_leaked_clips_has_no_interval() -> None:
    rows = with_facts(SEED_0, seen=["clip", *["film"] * 5], leaked=[True, *[False] * 5])
    cell = cell_of(rows)
    assert (cell.basis, cell.inflation) == (LEAKED, math.inf)
    # Nothing leaks into what learns from no clip.
    untrained = cell_of(with_facts(rows, is_trained=False))
    assert (untrained.basis, untrained.inflation) == (UNSEEN, 1)
    # Where all clips are copies, the films of the training are not known to be others.
    assert cell_of(with_facts(SEED_0, seen="clip")).basis == FILM_SEEN
    # One clip by its id, another as a copy, and the third by its film, however often tested.
    first = with_facts(A0, seen=["clip", "clip", "film"], leaked=[True, False, False])
    counted = cell_of([*first, *with_facts(A1, seen="film")])
    assert (counted.leaked, counted.copies, counted.same_film) == (2, 1, 1)


def drawn_rows(y: Sequence[int], films: Sequence[str], n_folds: int) -> list[RunRow]:
    """Clips with random scores, in folds one after the other."""
    scores = np.random.default_rng(0).random(len(y)).tolist()
    rows = []
    for number, (label, film) in enumerate(zip(y, films, strict=True)):
        test: RunRow = {"clip_id": f"c{number:02d}", "movie_id": film, "y": label}
        fold = str(number * n_folds // len(y))
        rows.append({**test, "fold": fold, "score": scores[number]})
    return rows


def test_which_values_have_intervals() -> None:
    """Of a model, those of ranks; of what is not trained, all."""
    y = np.random.default_rng(0).permutation([1, 0, 0] * 8).tolist()
    rows = drawn_rows(y, [f"f{i % 6}" for i in range(24)], n_folds=2)
    found = values_of(rows)
    for name in ("ap", "auc"):
        assert row_of(found, name)["low"] < row_of(found, name)["high"]
    assert math.isnan(row_of(found, "accuracy")["low"])
    blind = values_of(with_facts(rows, is_model=False, is_trained=False))
    assert row_of(blind, "accuracy")["low"] < row_of(blind, "accuracy")["high"]


@pytest.mark.parametrize(
    ("n_positive", "n_negative", "n_films", "enough"),
    [(5, 5, 3, True), (4, 9, 3, False), (9, 4, 3, False), (9, 9, 2, False)],
)
def test_an_interval_needs_five_clips_of_each_class_and_three_films(
    n_positive, n_negative, n_films, enough
):
    y = [1] * n_positive + [0] * n_negative
    rows = drawn_rows(y, [str(i % n_films) for i in range(len(y))], n_folds=1)
    assert math.isfinite(row_of(values_of(rows), "auc")["low"]) == enough


def test_the_share_of_positives_varies_as_that_of_all_clips_of_the_films() -> None:
    """Two of three clips of a, and of b, are tested; one of b is of another task."""
    rows = fold_of("1", 0, [0, 1, 3, 4], [1, 0, 0, 0], [0.5] * 4)
    published = RunSettings(sizes={"T": {"a": (3, 2), "b": (2, 0)}})

    def inflation(rows: Sequence[RunRow], settings: RunSettings) -> float:
        return of_results._label_inflation(cell_of(rows), settings)

    # Of the test: (.5^2 + .5^2) / 4^2; of all: (.8^2 + .8^2) / 5^2.
    assert inflation(rows, published) == pytest.approx(0.0512 * 32)
    assert inflation(rows, RunSettings()) == 1
    assert inflation(SEED_0, published) == 1
    equal = fold_of("1", 0, [0, 1, 3, 4], [1, 0, 1, 0], [0.5] * 4)
    assert inflation(equal, published) == 1


PAPER = {
    **dict.fromkeys(("model", "feature", "train", "test", "backbone", "film"), ""),
    **{"metric": "ap", "mean": 0.5, "sd": 0.0},
}


def test_which_numbers_of_a_paper_are_about_a_cell() -> None:
    about = {"model": "ridge", "feature": "x", "train": "T", "test": "T"}
    for names, expected in (
        ({}, True),
        (about, True),
        ({**about, "model": "svm"}, False),
        ({**about, "train": "U"}, False),
        ({"backbone": "xclip-*"}, True),
        ({"backbone": "vivit-*"}, False),
    ):
        settings = {"paper": [{**PAPER, **names}], "backbones": {"x": "xclip-b32"}}
        row = row_of(values_of(SEED_0, **settings), "ap")
        assert math.isfinite(row["paper"]) == expected
    without_sd = {**PAPER, "metric": "auc", "sd": -1.0}
    rows = values_of(SEED_0, paper=[PAPER, without_sd])
    assert (row_of(rows, "ap")["paper"], row_of(rows, "ap")["paper_sd"]) == (0.5, 0.0)
    assert math.isnan(row_of(rows, "auc")["paper_sd"])
    assert math.isnan(row_of(rows, "accuracy")["paper"])


def test_a_random_order_has_the_values_that_chance_gives() -> None:
    """One score for all, and half of each clip called positive: the closed form of one half."""
    cell = cell_of(
        fold_of("1", 0, range(5), [1, 0, 1, 0, 0], [0.9, 0.1, 0.2, 0.3, 0.4])
    )
    random = cell.in_random_order()
    expected = {"precision": 2 / 5, "recall": 0.5, "accuracy": 0.5}
    f1 = ("f1_binary", "f1_weighted", "f1_macro")
    expected |= dict(zip(f1, blind_f1(2 / 5, 0.5), strict=True))
    for name, value in expected.items():
        assert random.value(name) == pytest.approx(value), name
    assert (random.value("share_positive"), random.value("auc")) == (0.5, 0.5)
    assert not random.is_model and "brier" not in random.values


VALUES: dict[type, st.SearchStrategy[Any]] = {
    str: st.text("aż, \n\r\"'=", max_size=4) | st.sampled_from(["nan", "1e5", "NA"]),
    float: st.floats(),
    bool: st.booleans(),
    int: st.integers(-9, 10**12),
}
WHOLE = st.integers(-9, 10**12) | st.sampled_from([0.5, math.nan])


@given(st.data())
def test_every_table_is_read_as_it_was_written(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(RUN_TABLES)))
    kinds = RUN_TABLES[name]
    columns = {key: VALUES[kind] for key, kind in kinds.items()}
    for key in MOSTLY_WHOLE:
        if kinds.get(key) is float:
            columns[key] = WHOLE
    table = table_of(name, data.draw(st.lists(st.fixed_dictionaries(columns))))
    again = read_csv(as_csv(table), kinds)
    pd.testing.assert_frame_equal(again, table, check_exact=True)
    assert as_csv(again) == as_csv(table)
