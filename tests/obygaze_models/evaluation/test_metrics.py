from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn import metrics as sk

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation import metrics
from obygaze_models.evaluation.metrics import METRICS, GroupedStats, evaluate
from obygaze_models.evaluation.predictions import Predictions

# Four positives among ten clips; the decision is right on three of them and on five negatives.
Y = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]
SCORE = [0.9, 0.8, 0.6, 0.2, 0.7, 0.4, 0.3, 0.1, 0.1, 0.0]


def truth_and_score(
    seed: int, n: int = 200, ties: int = 30
) -> tuple[np.ndarray, np.ndarray]:
    """Scores on a coarse grid, so that many are tied."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    return y, np.clip(rng.integers(0, ties, n) / ties * 0.7 + 0.2 * y, 0, 1)


def test_by_hand() -> None:
    found = evaluate(Predictions.of(Y, SCORE))
    # tp 3, fp 1, fn 1, tn 5
    assert found["precision"] == found["recall"] == found["f1_binary"] == 0.75
    assert found["f1_macro"] == pytest.approx((0.75 + 5 / 6) / 2)
    assert found["f1_weighted"] == pytest.approx(0.4 * 0.75 + 0.6 * 5 / 6)
    assert found["accuracy"] == 0.8
    assert found["prevalence"] == found["share_positive"] == 0.4
    # Positives stand at ranks 1, 2, 4 and 7.
    assert found["ap"] == pytest.approx((1 / 1 + 2 / 2 + 3 / 4 + 4 / 7) / 4)
    # Of 24 pairs, .6 loses to .7 and .2 loses to .7, .4 and .3.
    assert found["auc"] == pytest.approx(20 / 24)
    errors = [0.1, 0.2, 0.4, 0.8, 0.7, 0.4, 0.3, 0.1, 0.1, 0.0]
    assert found["brier"] == pytest.approx(sum(e * e for e in errors) / 10)


def test_confusion_by_hand() -> None:
    counts = GroupedStats(Predictions.of(Y, SCORE), np.arange(10)).outcomes.sum(axis=0)
    assert counts.tolist() == [3, 1, 1, 5]


@pytest.mark.parametrize("seed", range(5))
def test_equal_to_sklearn(seed: int) -> None:
    y, score = truth_and_score(seed)
    predictions = Predictions.of(y, score, 0.45)
    d = predictions.decision
    found = evaluate(predictions)
    assert found["f1_binary"] == pytest.approx(sk.f1_score(y, d))
    assert found["f1_weighted"] == pytest.approx(sk.f1_score(y, d, average="weighted"))
    assert found["f1_macro"] == pytest.approx(sk.f1_score(y, d, average="macro"))
    assert found["precision"] == pytest.approx(sk.precision_score(y, d))
    assert found["recall"] == pytest.approx(sk.recall_score(y, d))
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(y, d))
    assert found["ap"] == pytest.approx(sk.average_precision_score(y, score))
    assert found["auc"] == pytest.approx(sk.roc_auc_score(y, score))
    assert found["brier"] == pytest.approx(sk.brier_score_loss(y, score))


@pytest.mark.parametrize("seed", range(5))
def test_equal_to_sklearn_with_weights(seed: int) -> None:
    y, score = truth_and_score(seed)
    w = np.random.default_rng(seed).integers(0, 4, y.size).astype(float)
    predictions = Predictions.of(y, score, 0.45)
    d = predictions.decision
    found = evaluate(predictions, weights=w)
    weighted = {"sample_weight": w}
    assert found["f1_binary"] == pytest.approx(sk.f1_score(y, d, **weighted))
    assert found["f1_weighted"] == pytest.approx(
        sk.f1_score(y, d, average="weighted", **weighted)
    )
    assert found["ap"] == pytest.approx(
        sk.average_precision_score(y, score, **weighted)
    )
    assert found["auc"] == pytest.approx(sk.roc_auc_score(y, score, **weighted))
    assert found["brier"] == pytest.approx(sk.brier_score_loss(y, score, **weighted))


@settings(max_examples=50, deadline=None)
@given(
    hnp.arrays(np.bool_, 12),
    hnp.arrays(np.int8, 12, elements=st.integers(0, 4)),
    hnp.arrays(np.int8, 12, elements=st.integers(0, 3)),
)
def test_a_weight_is_a_repetition(
    y: np.ndarray, score: np.ndarray, times: np.ndarray
) -> None:
    if times.sum() == 0:
        times[0] = 1
    thick = Predictions.of(np.repeat(y, times), np.repeat(score / 4, times))
    names = (*metrics.MARGIN_METRICS, "brier")
    weighted = evaluate(Predictions.of(y, score / 4), names, weights=times)
    assert weighted == pytest.approx(evaluate(thick, names), nan_ok=True)


def test_many_weightings_at_once_are_the_same_as_one_by_one() -> None:
    y, score = truth_and_score(1, n=60)
    weights = np.random.default_rng(0).integers(0, 3, (7, 60))
    predictions = Predictions.of(y, score)
    together = metrics.replicate(predictions, weights)
    for i, row in enumerate(weights):
        assert {k: float(v[i]) for k, v in together.items()} == pytest.approx(
            evaluate(predictions, weights=row)
        )


class TestEdges:
    def test_no_positive(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = evaluate(Predictions.of([0, 0, 0], [0.1, 0.2, 0.9]))
        assert np.isnan(found["ap"]) and np.isnan(found["auc"])
        assert found["recall"] == found["f1_binary"] == found["precision"] == 0
        assert found["f1_weighted"] == pytest.approx(0.8)
        assert found["f1_macro"] == pytest.approx(0.4)

    def test_only_positives(self) -> None:
        found = evaluate(Predictions.of([1, 1], [0.9, 0.1]))
        assert found["ap"] == 1
        assert np.isnan(found["auc"])
        assert found["f1_binary"] == pytest.approx(2 / 3)

    def test_nothing_called_positive(self) -> None:
        found = evaluate(Predictions.of([1, 0], [0.2, 0.1]))
        assert found["precision"] == found["f1_binary"] == found["share_positive"] == 0

    def test_constant_score(self) -> None:
        found = evaluate(Predictions.of([1, 0, 0, 0], [0.5] * 4))
        assert found["auc"] == 0.5
        assert found["ap"] == 0.25
        assert found["share_positive"] == 0, (
            "a tie of both classes is negative, as in an argmax"
        )

    def test_replicates_without_a_class_are_nan_alone(self) -> None:
        weights = [[1, 1, 1], [0, 1, 1], [1, 0, 0]]
        found = metrics.replicate(
            Predictions.of([1, 0, 0], [0.9, 0.1, 0.2]), weights, ["auc", "ap"]
        )
        np.testing.assert_array_equal(found["auc"], [1, np.nan, np.nan])
        np.testing.assert_array_equal(found["ap"], [1, np.nan, 1])


class TestRefusals:
    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_scores_that_are_no_numbers(self, bad: float) -> None:
        with pytest.raises(FixInput, match="1 of 3 scores") as error:
            Predictions.of([1, 0, 1], [0.1, bad, 0.3])
        assert "row 1" in str(error.value)

    def test_a_third_class(self) -> None:
        with pytest.raises(FixInput, match="got 2"):
            Predictions.of([0, 1, 2], [0.1, 0.2, 0.3])

    def test_lengths(self) -> None:
        with pytest.raises(FixInput, match="2 labels"):
            Predictions.of([0, 1], [0.1])

    def test_nothing(self) -> None:
        with pytest.raises(FixInput, match="non-empty"):
            Predictions.of([], [])

    def test_calibration_of_margins(self) -> None:
        margins = Predictions.of([0, 1], [-1.5, 2.0], 0)
        with pytest.raises(FixInput, match=r"-1\.5 to 2"):
            evaluate(margins, ["brier"])
        assert evaluate(margins, metrics.MARGIN_METRICS)["f1_binary"] == 1

    def test_unknown_metric(self) -> None:
        with pytest.raises(FixInput, match="unknown metric 'f2'"):
            evaluate(Predictions.of(Y, SCORE), ["f2"])

    @pytest.mark.parametrize("weights", [[1, 1], [[-1, 1, 1]], [[np.nan, 1, 1]]])
    def test_weights(self, weights: list) -> None:
        with pytest.raises(FixInput, match="weights"):
            evaluate(Predictions.of([1, 0, 1], [0.1, 0.2, 0.3]), ["ap"], weights)


def test_all_metrics_are_named() -> None:
    assert set(METRICS) == {
        "f1_binary", "f1_weighted", "f1_macro", "precision", "recall", "accuracy", "prevalence",
        "share_positive", "ap", "auc", "brier",
    }  # fmt: skip
