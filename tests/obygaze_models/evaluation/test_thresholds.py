from __future__ import annotations

import numpy as np
import pytest

from obygaze_models.evaluation.metrics import evaluate
from obygaze_models.evaluation.predictions import Predictions, tune_threshold


def test_the_nearest_of_equal_thresholds() -> None:
    found = tune_threshold([0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4])
    assert found == pytest.approx(0.25)


@pytest.mark.parametrize("seed", range(5))
def test_against_every_cut(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y, score = rng.random(50) < 0.4, rng.integers(0, 20, 50) / 20
    tuned = tune_threshold(y, score)
    assert tuned is not None
    every = [-1.0, *np.unique(score), tuned]
    *values, reached = (
        evaluate(Predictions.of(y, score, t), ["f1_binary"])["f1_binary"] for t in every
    )
    assert reached == pytest.approx(max(values))


@pytest.mark.parametrize("y", [[0, 0, 0], [1, 1, 1], []])
def test_one_class_says_nothing(y: list[int]) -> None:
    assert tune_threshold(y, [0.1, 0.2, 0.3][: len(y)]) is None


def test_no_threshold_is_between_scores_that_differ_by_rounding_alone() -> None:
    high = float(np.nextafter(-1.0, 0))
    # A cut between the two would have an F1 of 1; with both as found it is 2 / 3.
    for scores in ([-2.0, -1.0, high], [-2.0, high, -1.0]):
        assert tune_threshold([0, 0, 1], scores) == -1.5


def test_one_threshold_for_each_row() -> None:
    predictions = Predictions.of([1, 0], [0.3, 0.3], [0.2, 0.4])
    assert predictions.decision.tolist() == [True, False]
