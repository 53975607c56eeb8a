import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn import metrics as sk
from support.ties import ap_by_brute_force, ap_by_places, ap_of_drawn_clips

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation import metrics
from obygaze_models.evaluation.metrics import METRICS, evaluate, values_under
from obygaze_models.evaluation.predictions import Predictions


@pytest.mark.parametrize("seed", range(5))
def test_equal_to_sklearn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.random(200) < 0.3
    # On a coarse grid, so that many are tied.
    score = np.clip(rng.integers(0, 30, 200) / 30 * 0.7 + 0.2 * y, 0, 1)
    predictions = Predictions.of(y, score, 0.45)
    d = predictions.decision
    found = evaluate(predictions)
    assert found["f1_binary"] == pytest.approx(sk.f1_score(y, d))
    assert found["f1_weighted"] == pytest.approx(sk.f1_score(y, d, average="weighted"))
    assert found["f1_macro"] == pytest.approx(sk.f1_score(y, d, average="macro"))
    assert found["precision"] == pytest.approx(sk.precision_score(y, d))
    assert found["recall"] == pytest.approx(sk.recall_score(y, d))
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(y, d))
    assert found["ap"] == pytest.approx(ap_by_places(y, score))
    assert found["auc"] == pytest.approx(sk.roc_auc_score(y, score))
    assert found["brier"] == pytest.approx(sk.brier_score_loss(y, score))


@settings(max_examples=50, deadline=None)
@given(
    hnp.arrays(np.bool_, 12),
    hnp.arrays(np.int8, 12, elements=st.integers(0, 4)),
    hnp.arrays(np.int8, 12, elements=st.integers(0, 3)),
)
def test_a_weight_is_a_repetition(y, score, times) -> None:
    if times.sum() == 0:
        times[0] = 1
    thick = Predictions.of(np.repeat(y, times), np.repeat(score / 4, times))
    # A clip that is drawn twice has one place in an order, two clips have two.
    names = [name for name in METRICS if name != "ap"]
    # Each clip is a film of its own.
    films = Predictions.of(y, score / 4, films=range(12))
    weighted = values_under(times[None].astype(float), [films], [0], names)
    found = {name: values[0] for name, values in weighted.items()}
    assert found == pytest.approx(evaluate(thick, names), nan_ok=True)


@settings(max_examples=40, deadline=None)
@given(
    hnp.arrays(np.bool_, 8),
    hnp.arrays(np.int8, 8, elements=st.integers(0, 3)),
    st.integers(1, 4),
)
def test_ties_are_broken_in_every_order(y, score, weight) -> None:
    """scikit-learn's value of each order; clips of one film are all drawn as often."""
    y[0] = True
    expected = ap_by_brute_force(y, score)
    assert expected == pytest.approx(ap_by_places(y, score))
    assert expected == pytest.approx(ap_of_drawn_clips(y, score, np.ones(8)))
    for films in (range(8), [0] * 8):
        predictions = Predictions.of(y, score / 4, films=films)
        weights = np.full((1, len({*films})), float(weight))
        found = values_under(weights, [predictions], [0], ["ap"])["ap"]
        assert found == pytest.approx(expected)


class TestEdges:
    def test_no_positive(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = evaluate(Predictions.of([0, 0, 0], [0.1, 0.2, 0.9]))
        assert np.isnan(found["ap"]) and np.isnan(found["auc"])
        assert found["recall"] == found["f1_binary"] == found["precision"] == 0
        assert found["f1_weighted"] == pytest.approx(0.8)
        assert found["f1_macro"] == pytest.approx(0.4)

    def test_constant_score(self) -> None:
        found = evaluate(Predictions.of([1, 0, 0, 0], [0.5] * 4))
        assert found["auc"] == 0.5
        # The positive clip is first, second, third or fourth.
        assert found["ap"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
        assert found["share_positive"] == 0, (
            "a tie of both classes is negative, as in an argmax"
        )

    def test_replicates_without_a_class_are_nan_alone(self) -> None:
        weights = np.array([[1.0, 1, 1], [0, 1, 1], [1, 0, 0]])
        films = Predictions.of([1, 0, 0], [0.9, 0.1, 0.2], films=range(3))
        found = values_under(weights, [films], [0], ["auc", "ap"])
        np.testing.assert_array_equal(found["auc"], [1, np.nan, np.nan])
        np.testing.assert_array_equal(found["ap"], [1, np.nan, 1])


def test_what_cannot_be_evaluated_is_refused() -> None:
    for y, scores, problem in (
        ([1, 0, 1], [0.1, np.nan, 0.3], "1 of 3 scores .*row 1"),
        ([1, 0, 1], [0.1, np.inf, 0.3], "1 of 3 scores .*row 1"),
        ([0, 1, 2], [0.1, 0.2, 0.3], "got 2"),
        ([0, 1], [0.1], "2 labels"),
        ([], [], "non-empty"),
    ):
        with pytest.raises(FixInput) as error:
            Predictions.of(y, scores)
        assert re.search(problem, " ".join(str(error.value).split()))
    margins = Predictions.of([0, 1], [-1.5, 2.0], 0)
    with pytest.raises(FixInput, match=r"-1\.5 to 2"):
        evaluate(margins, ["brier"])
    assert evaluate(margins, metrics.MARGIN_METRICS)["f1_binary"] == 1
