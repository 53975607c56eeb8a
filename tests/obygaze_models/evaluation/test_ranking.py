from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from obygaze_models.evaluation.metrics import evaluate
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.baselines import Prevalence

AUC = ["auc", "auc_within"]


def pooled(seed: int, k: int = 4) -> tuple:
    rng = np.random.default_rng(seed)
    model = rng.integers(0, k, 120)
    y = rng.random(120) < 0.4
    return y, np.round(np.clip(rng.random(120) * 0.6 + 0.1 * model + 0.1 * y, 0, 1), 2), model


def test_one_model_is_plain_auc() -> None:
    y, score, _ = pooled(0)
    found = evaluate(Predictions.of(y, score), AUC)
    assert found == pytest.approx(dict.fromkeys(AUC, roc_auc_score(y, score)))


def test_against_sklearn_for_each_model() -> None:
    y, score, model = pooled(1)
    parts = [(y[model == m], score[model == m]) for m in range(4)]
    # Each model counts by its pairs over its clips.
    weights = [a.sum() * (~a).sum() / a.size for a, _ in parts]
    expected = np.average([roc_auc_score(*part) for part in parts], weights=weights)
    found = evaluate(Predictions.of(y, score, model=model), ["auc_within"])["auc_within"]
    assert found == pytest.approx(expected)


def test_a_shift_of_one_models_scores_does_not_matter() -> None:
    y, score, model = pooled(2)
    one, other = (Predictions.of(y, s, model=model) for s in (score, score / 2 + (model == 1) / 2))
    assert evaluate(one, AUC)["auc_within"] == pytest.approx(evaluate(other, AUC)["auc_within"])
    assert evaluate(one, AUC)["auc"] != pytest.approx(evaluate(other, AUC)["auc"])


def test_a_movie_drawn_twice_counts_twice() -> None:
    """Weight 2 on a model's clips is the same as a second such model, not four times its pairs."""
    y, score, model = pooled(3)
    twice = Predictions.of(y, score, model=model)
    rows = np.concatenate([np.arange(120), np.flatnonzero(model == 0)])
    copied = model[rows].copy()
    copied[120:] = 9
    copies = Predictions.of(y[rows], score[rows], model=copied)
    weighted = evaluate(twice, ["auc_within"], weights=1 + (model == 0))
    assert weighted == pytest.approx(evaluate(copies, ["auc_within"]))


def test_a_model_with_one_class_says_nothing() -> None:
    found = evaluate(Predictions.of([1, 1, 0, 1], [0.1, 0.2, 0.3, 0.4], model=[0, 0, 1, 1]), AUC)
    assert found["auc_within"] == 1
    none = evaluate(Predictions.of([1, 1, 0, 0], [0.1, 0.2, 0.3, 0.4], model=[0, 0, 1, 1]), AUC)
    assert np.isnan(none["auc_within"])


def test_pooled_auc_of_what_knows_nothing_falls_below_one_half() -> None:
    """Leave one movie out: the training share is low just where the tested movie has many."""
    rng = np.random.default_rng(0)
    movie = np.repeat(np.arange(12), 40)
    y = rng.random(480) < rng.uniform(0.1, 0.7, 12)[movie]
    score = np.zeros(480)
    # Within a film every score is the same, so what is won and lost is won and lost between films.
    for m in range(12):
        test = movie == m
        model = Prevalence().fit(np.zeros((480, 1))[~test], y[~test])
        score[test] = model.predict_proba(np.zeros((40, 1)))[:, 1]
    found = evaluate(Predictions.of(y, score, model=movie), AUC)
    assert found["auc"] < 0.4
    assert found["auc_within"] == 0.5
