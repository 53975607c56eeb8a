from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from obygaze_models.evaluation.metrics import evaluate
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.baselines import (
    Baseline,
    film_and_scene,
    film_prior,
    neighbour,
    prevalence,
)


def scores(baseline: Baseline, X: Any, y: Any, asked: Any = None) -> np.ndarray:
    """The scores of some clips, by default of the training clips."""
    rows = np.asarray(X, dtype=float)
    score = baseline(rows, np.asarray(y) == 1)
    return score(rows if asked is None else np.asarray(asked, dtype=float))


class TestBlind:
    X = np.zeros((4000, 1))
    y = np.arange(4000) % 4 == 0

    def test_prevalence_is_the_best_blind_probability(self) -> None:
        shares = scores(prevalence, self.X, self.y)
        found = evaluate(Predictions.of(self.y, shares))
        assert found["brier"] == pytest.approx(0.25 * 0.75)
        assert set(shares.tolist()) == {0.25}


class TestFilmPrior:
    X = film_and_scene(["a", "a", "a", "b"], [1, 2, 3, 1])

    def test_by_hand(self) -> None:
        # Two of three in a, none of one in b, one clip of the overall half added to each.
        asked = np.array([[0, 9], [1, 9], [7, 9]])
        found = scores(film_prior, self.X, [1, 1, 0, 0], asked)
        assert found == pytest.approx([2.5 / 4, 0.5 / 2, 0.5])


class TestNeighbour:
    def test_by_hand(self) -> None:
        # Scene 3 hears scene 1 (a positive, weight exp(-1)) and scene 4 (a negative, exp(-1/2)).
        X = film_and_scene(["a", "a", "a", "b"], [1, 4, 3, 3])
        (found,) = scores(neighbour, X[[0, 1, 3]], [1, 0, 1], X[[2]])
        votes = np.exp([-1.0, -0.5])
        assert found == pytest.approx(votes[0] / votes.sum())

    def test_a_film_without_training_clips(self) -> None:
        X = film_and_scene(["a", "a", "a", "b"], [1, 2, 3, 1])
        (found,) = scores(neighbour, X[:3], [1, 0, 1], X[3:])
        assert found == pytest.approx(2 / 3)

    def test_far_scenes_still_vote(self) -> None:
        X = film_and_scene(["a", "a", "a"], [1, 2, 100_000])
        (found,) = scores(neighbour, X[:2], [1, 0], X[2:])
        assert found == pytest.approx(1 / (1 + np.exp(0.5)))


def test_places() -> None:
    assert film_and_scene(["b", "a"], [3, 4]).tolist() == [[1, 3], [0, 4]]
