"""Recalibrated probabilities, against scikit-learn and on scores with a known distortion."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from obygaze_models.evaluation import Predictions, evaluate
from obygaze_models.evaluation.logistic import recalibrate


@pytest.fixture
def overconfident():
    """Scores whose log odds are three times the true ones, of eight films."""
    rng = np.random.default_rng(1)
    odds = rng.normal(-1, 1, 1600)
    y = rng.random(1600) < expit(odds)
    return expit(3 * odds), y, np.repeat(np.arange(8), 200)


def test_each_film_has_the_regression_of_the_others(overconfident):
    score, y, films = overconfident
    found = recalibrate(score, y, films)
    out = films == 3
    odds = np.log(score / (1 - score))[:, None]
    other = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(
        odds[~out], y[~out]
    )
    np.testing.assert_allclose(
        found[out], other.predict_proba(odds[out])[:, 1], atol=1e-5
    )
    # The labels of a film do not change its own probabilities.
    again = recalibrate(score, np.where(out, ~y, y), films)
    np.testing.assert_allclose(again[out], found[out], atol=1e-12)


def test_a_known_distortion_is_undone(overconfident):
    score, y, films = overconfident
    before, after = (
        evaluate(Predictions.of(y, values), ("brier", "ece"))
        for values in (score, recalibrate(score, y, films))
    )
    assert before["ece"] > 0.1 > 0.04 > after["ece"]
    assert after["brier"] < before["brier"]


def test_scores_stay_where_no_regression_exists():
    score, y = np.array([0.1, 0.2, 0.8, 0.9]), np.array([0, 0, 1, 1])
    np.testing.assert_array_equal(recalibrate(score, y, np.arange(4)), score)
