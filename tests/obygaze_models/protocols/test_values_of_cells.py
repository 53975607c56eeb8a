"""The values of a cell and its record, of six clips in two films: by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from obygaze_models.runner.results import Evaluation, cell_results
from obygaze_models.runner.rows import table_bytes
from obygaze_models.runner.scores import Cell, ScoredFold, deviation, expected_random
from sklearn.metrics import average_precision_score
from support.experiments import quick

from obygaze_features.manifest.model import Clip
from obygaze_models.evaluation.basis import FILM_SEEN, FILM_UNKNOWN, LEAKED, UNSEEN
from obygaze_models.evaluation.bootstrap import resample
from obygaze_models.evaluation.leakage import Leak
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.schema import PaperValue
from obygaze_models.runner import results
from obygaze_models.runner.about import fit_facts
from obygaze_models.runner.files import prediction_rows

FILMS = np.array(["a", "a", "a", "b", "b", "b"])
NO_LEAK = Leak("", 3, 0, 0, 0, 0, 0, ())


def fold_of(
    fold: str, seed: int, rows: Sequence[int], y: Sequence[int], score: Sequence[float]
) -> ScoredFold:
    predictions = Predictions.of(y, score)
    return ScoredFold(fold, seed, np.array(rows), predictions, 7, 2, NO_LEAK)


# Decisions of seed 0: 1 1 0, 0 1 0; of seed 1: 0 0 1, 0 0 0.
A0 = fold_of("1", 0, [0, 1, 2], [1, 0, 1], [0.9, 0.6, 0.2])
B0 = fold_of("2", 0, [3, 4, 5], [0, 0, 0], [0.1, 0.7, 0.3])
A1 = fold_of("1", 1, [0, 1, 2], [1, 0, 1], [0.4, 0.2, 0.8])
B1 = fold_of("2", 1, [3, 4, 5], [0, 0, 0], [0.2, 0.1, 0.1])
SEED_0 = Cell("T", "T", "ridge", "x", True, [A0, B0])
BOTH = Cell("T", "T", "ridge", "x", True, [A0, B0, A1, B1])


def test_the_clips_of_a_cell() -> None:
    cell = replace(BOTH, tested=[B1, A0])
    assert cell.clips.tolist() == [0, 1, 2, 3, 4, 5]
    assert cell.y.tolist() == [True, False, True, False, False, False]
    assert BOTH.n_test_sets == 2
    assert BOTH.mean_scores == pytest.approx([0.65, 0.4, 0.5, 0.15, 0.4, 0.2])


def test_some_clips_of_a_cell() -> None:
    cell = replace(SEED_0, tested=[A0, B0])
    (left,) = cell.only(np.array([0, 2])).tested
    assert left.rows.tolist() == [0, 2]
    assert left.predictions.score.tolist() == [0.9, 0.2]


def test_decisions_are_pooled_over_folds_and_ranks_are_not() -> None:
    """Of seed 0: a hit, two false alarms, a miss, two right refusals."""
    value = SEED_0.value
    assert value["precision"] == pytest.approx(1 / 3)
    assert value["recall"] == pytest.approx(1 / 2)
    assert value["accuracy"] == pytest.approx(1 / 2)
    assert value["f1_binary"] == pytest.approx(2 / 5)
    assert value["f1_macro"] == pytest.approx((2 / 5 + 4 / 7) / 2)
    assert value["f1_weighted"] == pytest.approx(2 / 5 / 3 + 4 / 7 * 2 / 3)
    squares = 0.01 + 0.36 + 0.64 + 0.01 + 0.49 + 0.09
    assert value["brier"] == pytest.approx(squares / 6)
    # The second fold has no positive clip, so that it ranks none.
    assert value["auc"] == pytest.approx(1 / 2)
    assert value["ap"] == pytest.approx((1 + 2 / 3) / 2)
    assert BOTH.value("accuracy") == pytest.approx((1 / 2 + 5 / 6) / 2)
    assert BOTH.means("accuracy", lambda t: t.fold) == pytest.approx(
        {"1": (1 / 3 + 2 / 3) / 2, "2": (2 / 3 + 1) / 2}
    )


def test_a_film_without_a_positive_clip_has_no_recall() -> None:
    names, values = SEED_0.by_film(FILMS, ["f1_binary", "recall", "accuracy"])
    assert names == ["a", "b"]
    assert values["f1_binary"] == pytest.approx([1 / 2, np.nan], nan_ok=True)
    assert values["recall"] == pytest.approx([1 / 2, np.nan], nan_ok=True)
    assert values["accuracy"] == pytest.approx([1 / 3, 2 / 3])


def test_how_much_the_variance_grows_where_clips_train_and_test() -> None:
    one_set = replace(SEED_0, tested=[A0, A1])
    assert SEED_0.inflation == 3  # 1 + k / (k - 1) of two folds
    assert one_set.inflation == 1
    assert replace(SEED_0, is_trained=False).inflation == 1
    # Nine clips train and validate for three that are tested, in one run or in several.
    assert replace(one_set, is_averaged=True).inflation == pytest.approx(1 + 3 / 9)
    of_known_films = replace(one_set, basis_of_folds=FILM_SEEN)
    assert of_known_films.inflation == pytest.approx(1 + 3 / 9)
    assert replace(SEED_0, basis_of_folds=FILM_SEEN).inflation == 5  # 1 + 2 k / (k - 1)
    assert replace(SEED_0, basis_of_folds=FILM_UNKNOWN).inflation == math.inf


def test_a_cell_with_leaked_clips_has_no_interval() -> None:
    leaked = replace(A0, leak=replace(A0.leak, leaked=1))
    cell = replace(SEED_0, tested=[leaked, B0], basis_of_folds=FILM_SEEN)
    assert (cell.basis, cell.inflation) == (LEAKED, math.inf)
    # Nothing leaks into what learns from no clip.
    untrained = replace(cell, is_trained=False)
    assert (untrained.basis, untrained.inflation) == (UNSEEN, 1)


def test_thresholds_that_other_clips_chose() -> None:
    cell = replace(SEED_0, tested=[replace(A0, tuned=0.65), B0])
    assert SEED_0.tuned() == {}
    # A hit, a miss and, at the threshold of one half, a false alarm.
    assert cell.tuned()["f1_binary"] == pytest.approx(2 / 4)
    assert set(cell.tuned()) == {"f1_binary", "f1_weighted", "f1_macro"}
    assert replace(cell, share=0.5).tuned() == {}


def evaluated(
    cell: Cell, films: np.ndarray = FILMS, labels: np.ndarray | None = None
) -> list[dict[str, Any]]:
    """The rows of a cell in results.csv."""
    if labels is None:
        labels = np.array([1, 0, 1, 0, 0, 0], dtype=np.int8)
    evaluation = Evaluation(quick(), films, {"T": labels}, {"x": "made up"})
    return list(cell_results(cell, evaluation))


def row_of(rows: list[dict[str, Any]], metric: str, film: str = "") -> dict[str, Any]:
    (row,) = [
        row for row in rows if row["metric"] == metric and row.get("film", "") == film
    ]
    return row


def test_deviations_over_folds_and_over_the_fits_of_a_film() -> None:
    rows = evaluated(BOTH)
    # The means of folds are 1/2 and 5/6; of film a, the fits have 1/3 and 2/3.
    whole = row_of(rows, "accuracy")
    assert whole["sd"] == pytest.approx(1 / 3 / math.sqrt(2))
    of_film = row_of(rows, "accuracy", "a")
    assert (of_film["clips"], of_film["fits"]) == (3, 2)
    assert of_film["sd"] == pytest.approx(1 / 3 / math.sqrt(2))
    assert "sd" not in row_of(evaluated(SEED_0), "accuracy", "a")
    mixed = replace(A1, rows=np.array([0, 1, 3]))
    crossed = replace(SEED_0, tested=[A0, B0, mixed])
    assert "sd" not in row_of(evaluated(crossed), "accuracy", "a")


def test_a_deviation_is_that_of_what_is_defined() -> None:
    nan = float("nan")
    for values, sd in (([nan], nan), ([nan, 2.0], nan), ([1.0, nan, 3.0], 2**0.5)):
        assert deviation(values) == pytest.approx(sd, nan_ok=True)


def test_probabilities_are_recalibrated_where_all_fits_were() -> None:
    """Brier's score of recalibrated probabilities .5, .5, .5 and 0, 1, 0, by hand."""
    half = replace(A0, recalibrated=np.array([0.5, 0.5, 0.5]))
    sure = replace(B0, recalibrated=np.array([0.0, 1.0, 0.0]))
    cell = replace(SEED_0, tested=[half, sure])
    assert cell.recalibrated()["brier"] == pytest.approx((3 * 0.25 + 1) / 6)
    assert replace(SEED_0, tested=[half, B0]).recalibrated() == {}
    # The same probabilities are as wrong as they were: of seeds and of runs, errors are means.
    for cell in (SEED_0, BOTH, replace(BOTH, is_averaged=True)):
        tested = [replace(t, recalibrated=t.predictions.score) for t in cell.tested]
        again = replace(cell, tested=tested).recalibrated()
        assert again == pytest.approx({name: cell.value[name] for name in again})


def test_which_values_have_intervals_and_that_whole_films_are_drawn() -> None:
    """Of a model, those of ranks; of what is not trained, all."""
    random = np.random.default_rng(0)
    y = random.permutation([1, 0, 0] * 8)
    scores = random.random(24).tolist()
    folds = [
        fold_of(str(start), 0, rows, y[rows].tolist(), scores[start : start + 12])
        for start, rows in ((0, range(12)), (12, range(12, 24)))
    ]
    films = np.array([f"f{i % 6}" for i in range(24)])
    cell = replace(SEED_0, tested=folds)
    labels = y.astype(np.int8)
    rows = evaluated(cell, films, labels)
    drawn = resample(
        cell.statistics(films, ("ap", "auc", "prevalence")),
        np.unique(films),
        n_replicates=60,
        seed=(quick().fit.seed, 0),
        within_unit=True,
        inflation=3,
        counts={name: cell.groups_behind(films, name) for name in ("ap", "auc")},
    )
    for name in ("ap", "auc"):
        interval = drawn[name]
        row = row_of(rows, name)
        assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))
    assert math.isnan(row_of(rows, "accuracy")["low"])
    blind = evaluated(replace(cell, is_model=False, is_trained=False), films, labels)
    assert row_of(blind, "accuracy")["low"] < row_of(blind, "accuracy")["high"]


def test_a_model_with_too_few_clips_has_no_interval() -> None:
    row = row_of(evaluated(SEED_0), "auc")
    assert math.isnan(row["low"]) and math.isnan(row["high"])
    assert (row["clips"], row["films"], row["fits"]) == (6, 2, 2)
    assert row_of(evaluated(SEED_0), "prevalence")["value"] == 2 / 6


@pytest.mark.parametrize(
    ("n_positive", "n_negative", "n_films", "enough"),
    [(5, 5, 3, True), (4, 9, 3, False), (9, 4, 3, False), (9, 9, 2, False)],
)
def test_an_interval_needs_five_clips_of_each_class_and_three_films(
    n_positive: int, n_negative: int, n_films: int, enough: bool
) -> None:
    y = [1] * n_positive + [0] * n_negative
    films = np.array([str(i % n_films) for i in range(len(y))])
    fold = fold_of("1", 0, range(len(y)), y, [0.5] * len(y))
    cell = replace(SEED_0, tested=[fold])
    evaluation = Evaluation(quick(), films, {}, {})
    assert results._has_enough(cell, evaluation) == enough


def test_leaked_clips_are_counted_once_and_places_in_the_first_seed() -> None:
    first = Leak("", 3, 2, 0, 0, 2, 3, ("p", "q"), ("q",))
    second = Leak("", 3, 1, 0, 0, 1, 1, ("q",), ("q",))
    cell = replace(
        BOTH,
        tested=[
            replace(A0, leak=first),
            replace(B0, leak=second),
            replace(A1, leak=replace(first, same_film=9)),
        ],
    )
    assert row_of(evaluated(cell), "ap")["leaked"] == 2
    facts = fit_facts(cell, FILMS)
    # q leaked under its own name in no fold; film mates are counted in the first seed.
    assert (facts["copies"], facts["same_film"]) == (1, 4)
    assert fit_facts(replace(cell, is_averaged=True), FILMS)["same_film"] == 3
    assert fit_facts(SEED_0, FILMS)["copies"] == 0


def test_the_share_of_positives_varies_as_that_of_all_clips_of_the_films() -> None:
    """Two of three clips of a, and of b, are tested; one of b is of another task."""
    fold = fold_of("1", 0, [0, 1, 3, 4], [1, 0, 0, 0], [0.5] * 4)
    cell = replace(SEED_0, tested=[fold])
    labels = np.array([1, 0, 1, 0, 0, -1], dtype=np.int8)

    def inflation(cell: Cell, kind: str) -> float:
        protocol: Any = SimpleNamespace(splits=SimpleNamespace(kind=kind))
        evaluation = Evaluation(protocol, FILMS, {"T": labels}, {})
        return results._label_inflation(cell, evaluation)

    # Of the test: (.5^2 + .5^2) / 4^2; of all: (.8^2 + .8^2) / 5^2.
    assert inflation(cell, "published") == pytest.approx(0.0512 * 32)
    assert inflation(cell, "nested") == 1
    assert inflation(SEED_0, "published") == 1
    equal = fold_of("1", 0, [0, 1, 3, 4], [1, 0, 1, 0], [0.5] * 4)
    assert inflation(replace(SEED_0, tested=[equal]), "published") == 1


def test_which_numbers_of_a_paper_are_about_a_cell() -> None:
    about = {"model": "ridge", "feature": "x", "train": "T", "test": "T"}
    for paper, expected in (
        (PaperValue(), True),
        (PaperValue(**about), True),
        (PaperValue(**{**about, "model": "svm"}), False),
        (PaperValue(**{**about, "train": "U"}), False),
        (PaperValue(backbone="xclip-*"), True),
        (PaperValue(backbone="vivit-*"), False),
    ):
        assert results._is_about(paper, SEED_0, "xclip-b32") == expected
    values = (PaperValue(metric="ap", mean=0.5, sd=0.0), PaperValue(metric="auc"))
    protocol: Any = replace(quick(), paper=values)
    labels = np.array([1, 0, 1, 0, 0, 0], dtype=np.int8)
    rows = list(cell_results(SEED_0, Evaluation(protocol, FILMS, {"T": labels}, {})))
    assert (row_of(rows, "ap")["paper"], row_of(rows, "ap")["paper_sd"]) == (0.5, 0.0)
    assert math.isnan(row_of(rows, "auc")["paper_sd"])
    assert "paper" not in row_of(rows, "accuracy")


def test_the_facts_of_each_fit() -> None:
    fold = replace(A0, tuned=0.7, chosen={"C": 1})
    (facts,) = fit_facts(replace(SEED_0, tested=[fold]), FILMS)["folds"]
    assert (facts["n_train"], facts["n_validation"], facts["leaked"]) == (7, 2, 0)
    assert facts["threshold"] == 0.7 and facts["chosen"] == {"C": 1}


def test_predictions_have_a_line_for_each_test_of_each_clip() -> None:
    clips = [Clip(f"{film}-{i}", film) for i, film in enumerate("aaabbb")]
    table = ClipTable("m", clips, ())
    closed = replace(BOTH, share=0.5)
    cell = replace(SEED_0, train="U", tested=[B0, A1])
    data = table_bytes("predictions.csv", prediction_rows([closed, cell], table))
    lines = data.decode().splitlines()
    assert lines[0].startswith("task,train,test,store,model,fold,seed,clip_id,movie_id")
    assert lines[1:] == [
        "T,U,T,x,ridge,2,0,b-3,b,0,0.1,0",
        "T,U,T,x,ridge,2,0,b-4,b,0,0.7,1",
        "T,U,T,x,ridge,2,0,b-5,b,0,0.3,0",
        "T,U,T,x,ridge,1,1,a-0,a,1,0.4,0",
        "T,U,T,x,ridge,1,1,a-1,a,0,0.2,0",
        "T,U,T,x,ridge,1,1,a-2,a,1,0.8,1",
    ]


def test_what_a_random_share_is_expected_to_have() -> None:
    """Two of five clips are positive, and three of ten are called so."""
    y = np.array([1, 0, 1, 0, 0], dtype=np.bool_)
    compute = expected_random(y, np.zeros(5, dtype=np.intp), 1, 0.3)
    values = {name: drawn.item() for name, drawn in compute(np.ones((1, 1))).items()}
    called = 2 * 0.4 * 0.3 / (0.4 + 0.3)
    not_called = 2 * 0.6 * 0.7 / (0.6 + 0.7)
    orders = permutations(range(5))
    ranked = [average_precision_score(y, order) for order in orders]
    assert values == pytest.approx(
        {
            "f1_binary": called,
            "f1_weighted": 0.4 * called + 0.6 * not_called,
            "f1_macro": (called + not_called) / 2,
            "precision": 0.4,
            "recall": 0.3,
            "accuracy": 0.4 * 0.3 + 0.6 * 0.7,
            "prevalence": 0.4,
            "share_positive": 0.3,
            "ap": np.mean(ranked),
            "auc": 0.5,
        }
    )
    # Metrics of the expected counts are these closed forms.
    names = ("precision", "recall", "accuracy", "f1_macro")
    of_counts = expected_random(y, np.zeros(5, dtype=np.intp), 1, 0.3, names)
    counted = of_counts(np.ones((1, 1)))
    for name in names:
        assert counted[name].item() == pytest.approx(values[name])
    # A film of negatives alone, drawn twice beside one of both.
    codes = np.array([0, 0, 0, 1, 1])
    drawn = expected_random(y, codes, 2, 0.3)(np.array([[1.0, 2.0], [0.0, 1.0]]))
    assert drawn["prevalence"].tolist() == [2 / 7, 0.0]
    assert drawn["recall"].tolist() == [0.3, 0.0]
    assert drawn["f1_binary"][1] == 0.0
    assert math.isnan(drawn["auc"][1])


def test_a_random_order_of_positives_alone_has_no_auc() -> None:
    """A film of two positives; a film of one positive and one negative."""
    y = np.array([1, 1, 1, 0], dtype=np.bool_)
    codes = np.array([0, 0, 1, 1])
    films = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    drawn = expected_random(y, codes, 2, 0.3)(films)
    assert drawn["prevalence"].tolist() == [1.0, 0.5, 0.75]
    assert math.isnan(drawn["auc"][0])
    assert drawn["auc"][1:].tolist() == [0.5, 0.5]
