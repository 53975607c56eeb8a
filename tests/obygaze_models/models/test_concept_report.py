"""The judgement of concept vectors: metrics and chance."""

from math import erf

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from obygaze_models.models.common import FixTraining
from obygaze_models.models.concept_report import concept_quality, shift_test


def test_metrics_are_those_of_sklearn_on_known_clips() -> None:
    rng = np.random.default_rng(0)
    targets = rng.integers(-1, 2, (300, 2))
    margins = rng.normal(size=(300, 2)) + targets * np.array([1.5, 0.0])
    judged = concept_quality(
        margins, targets, np.arange(300) // 30, ["Body", "Look"], n_replicates=50
    )
    assert [quality.concept for quality in judged] == ["Body", "Look"]
    for i, quality in enumerate(judged):
        known = targets[:, i] >= 0
        y, m = targets[known, i], margins[known, i]
        assert quality.n == known.sum()
        assert quality.n_positive == y.sum()
        values = {name: found.value for name, found in quality.metrics.items()}
        assert values["ap"] == pytest.approx(average_precision_score(y, m))
        assert values["auc"] == pytest.approx(roc_auc_score(y, m))
        assert values["f1_binary"] == pytest.approx(f1_score(y, m > 0))
        interval = quality.metrics["ap"].by_film
        assert interval.low <= values["ap"] <= interval.high
    planted, nothing = judged
    assert planted.p < 1e-6
    # Two concepts, the smaller counts twice.
    assert planted.p_holm == pytest.approx(2 * planted.p)
    assert nothing.p > 0.05


def gaussian_tail(deviations: float) -> float:
    return 1 - 0.5 * (1 + erf(deviations / np.sqrt(2)))


def test_the_shift_test_by_hand() -> None:
    # One film of 4: labels 1100 in a circle give rank sums 7, 5, 3, 5: mean 5, variance 2.
    scores, positive = (
        np.array([4.0, 3.0, 2.0, 1.0]),
        np.array([True, True, False, False]),
    )
    p = shift_test(scores, positive, np.zeros(4))
    assert p == pytest.approx(gaussian_tail(2 / np.sqrt(2)))
    # Two films, shifted one by one: ranks 8, 7, 4, 3 and 6, 5, 2, 1. The sums of a film are
    # 15, 11, 7, 11 and 11, 7, 3, 7: means 11 and 7, variances 8 and 8; the observed sum is 26.
    both = np.array([8.0, 7.0, 4.0, 3.0, 6.0, 5.0, 2.0, 1.0])
    p = shift_test(both, np.tile(positive, 2), np.repeat([0, 1], 4))
    assert p == pytest.approx(gaussian_tail(8 / np.sqrt(16)))


def test_the_shift_test_of_cross_fitted_scores_by_hand() -> None:
    # The same film: mean 5, variance 2, observed 7. Two folds widen the variance three times.
    scores, positive = (
        np.array([4.0, 3.0, 2.0, 1.0]),
        np.array([True, True, False, False]),
    )
    p = shift_test(scores, positive, np.zeros(4), 2)
    assert p == pytest.approx(gaussian_tail(2 / np.sqrt(6)))
    alike = np.ones(4, dtype=bool)  # every shift is the same: nothing can be told
    assert shift_test(scores, alike, np.zeros(4), 2) == 1.0


def test_a_concept_without_a_clip_is_named() -> None:
    with pytest.raises(FixTraining, match="both required") as refusal:
        concept_quality(np.zeros((4, 1)), np.zeros((4, 1)), np.zeros(4), ["Voice"])
    assert refusal.value.where == "Voice"
