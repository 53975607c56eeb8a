from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.closed_form import closed_form
from support.published import SplitFile, split_file

from obygaze_features.manifest.folds import grouped_folds
from obygaze_models.evaluation.bootstrap import estimate
from obygaze_models.evaluation.metrics import average_precision, evaluate
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.baselines import (
    Baseline,
    film_and_scene,
    film_prior,
    neighbour,
    prevalence,
    random,
)


def scores(baseline: Baseline, X: Any, y: Any, asked: Any = None) -> np.ndarray:
    """The scores of some clips, by default of the training clips."""
    rows = np.asarray(X, dtype=float)
    score = baseline(rows, np.asarray(y) == 1)
    return score(rows if asked is None else np.asarray(asked, dtype=float))


def random_ap(n_positive: int, n: int) -> float:
    y = np.arange(n) < n_positive
    return average_precision(Predictions.of(y, np.zeros(n)))


class TestRandomAveragePrecision:
    def test_edges(self) -> None:
        assert (random_ap(5, 5), random_ap(1, 1)) == (1, 1)
        assert random_ap(300, 1000) == pytest.approx(0.3, abs=0.006)
        assert np.isnan(random_ap(0, 5))


class TestBlind:
    X = np.zeros((4000, 1))
    y = np.arange(4000) % 4 == 0

    def test_random_has_what_drawn_scores_come_to(self) -> None:
        rng = np.random.default_rng(0)
        drawn = evaluate(Predictions.of(self.y, rng.random(len(self.y))))
        shares = scores(random, self.X, self.y)
        found = evaluate(
            Predictions(
                self.y,
                shares,
                np.full(len(shares), 0.5),
                np.zeros(len(shares), dtype=np.intp),
            )
        )
        form = closed_form(0.25, 0.5)
        assert found["share_positive"] == 0.5
        for name in (
            "f1_binary",
            "f1_weighted",
            "f1_macro",
            "precision",
            "recall",
            "accuracy",
        ):
            assert found[name] == pytest.approx(getattr(form, name))
            assert found[name] == pytest.approx(drawn[name], abs=0.03)
        assert found["auc"] == 0.5
        assert found["ap"] == pytest.approx(drawn["ap"], abs=0.03)

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


def over_folds(
    table: SplitFile, folds: np.ndarray, X: np.ndarray, baseline: Baseline
) -> Predictions:
    """Each fold predicted from all the others."""
    score = np.zeros(table.y.size)
    for fold in np.unique(folds):
        test = folds == fold
        score[test] = scores(baseline, X[~test], table.y[~test], X[test])
    return Predictions.of(table.y, score, films=table.films)


class TestOnThePublishedFiles:
    def test_it_is_far_above_chance_there_and_not_on_films_it_has_not_seen(
        self,
    ) -> None:
        """The interval of AUC excludes chance on the published folds, and holds it by film."""
        table = split_file("02_HN_S.csv")
        X = film_and_scene(table.films, table.scenes)
        published = over_folds(table, table.folds, X, neighbour)
        found = estimate(published, ["auc"], n_folds=10)["auc"]
        assert found.by_film.low > 0.65
        by_film = grouped_folds(table.films, table.y, 4, seed=0)
        honest = over_folds(table, by_film, X, neighbour)
        assert np.unique(honest.score).size == 4, (
            "one prevalence for each fold, nothing more"
        )
        interval = estimate(honest, ["auc"], n_folds=4)["auc"].by_film
        assert interval.low <= 0.5 <= interval.high
