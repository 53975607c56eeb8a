from __future__ import annotations

import numpy as np
import pytest

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.calibration import tune_threshold
from obygaze_models.evaluation.metrics import DECISION_METRICS, evaluate
from obygaze_models.evaluation.predictions import Predictions

Y = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]
SCORE = [0.9, 0.8, 0.6, 0.2, 0.7, 0.4, 0.3, 0.1, 0.1, 0.0]


def test_by_hand() -> None:
    # F1 above each cut from the top: 2/5, 4/6, 4/7, 6/8, 6/9, 6/10, 8/11, 8/13 (a tie), 8/14.
    found = tune_threshold(validation_y=Y, validation_score=SCORE)
    assert found == 0.5


def test_the_nearest_of_equal_thresholds() -> None:
    found = tune_threshold(validation_y=[0, 0, 1, 1], validation_score=[0.1, 0.2, 0.3, 0.4])
    assert found == pytest.approx(0.25)


@pytest.mark.parametrize("metric", DECISION_METRICS)
def test_against_every_cut(metric: str) -> None:
    rng = np.random.default_rng(5)
    y, score = rng.random(50) < 0.4, rng.integers(0, 20, 50) / 20
    tuned = tune_threshold(validation_y=y, validation_score=score, metric=metric)
    reached = evaluate(Predictions.of(y, score, tuned), [metric])[metric]
    every = [-1.0, *np.unique(score)]
    best = max(evaluate(Predictions.of(y, score, t), [metric])[metric] for t in every)
    assert reached == pytest.approx(best)


@pytest.mark.parametrize("y", [[0, 0, 0], [1, 1, 1]])
def test_one_class_says_nothing(y: list[int]) -> None:
    assert tune_threshold(validation_y=y, validation_score=[0.1, 0.2, 0.3]) == 0.5


def test_neighbouring_floats() -> None:
    low = 0.3
    high = float(np.nextafter(low, 1))
    tuned = tune_threshold(validation_y=[0, 1], validation_score=[low, high])
    assert low <= tuned < high


def test_ranking_metrics_have_no_threshold() -> None:
    with pytest.raises(FixInput, match="'ap'"):
        tune_threshold(validation_y=[0, 1], validation_score=[0, 1], metric="ap")


def test_one_threshold_for_each_row() -> None:
    predictions = Predictions.of([1, 0], [0.3, 0.3], [0.2, 0.4])
    assert predictions.decision.tolist() == [True, False]
