"""What margins carry beyond their concepts."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from obygaze_models.models.common import FixTraining
from obygaze_models.models.concept_report import co_occurrence, concept_matrix, film_leak, task_gain
from obygaze_models.models.heads import LogisticHead

rng = np.random.default_rng(0)
HAS = rng.random((600, 3)) < 0.4
FOLDS = np.arange(600) % 5


def test_margins_that_carry_the_task_gain_on_the_truth() -> None:
    y = np.where(HAS[:, 0] ^ (rng.random(600) < 0.3), "S", "HN")
    noisy = HAS + 0.2 * rng.normal(size=HAS.shape)
    leaking = noisy + 0.8 * (y == "S")[:, None]
    head = LogisticHead(10.0)
    honest = task_gain(head, noisy, HAS, y, FOLDS)
    leak = task_gain(head, leaking, HAS, y, FOLDS)
    assert abs(honest["gain"]) < 0.05
    assert leak["gain"] > 0.15
    assert honest["from_truth"] == leak["from_truth"]
    assert honest["prevalence"] == pytest.approx(np.mean(y == "S"))
    assert task_gain(head, HAS, HAS, y, FOLDS)["gain"] == 0


def test_the_matrix_is_one_auc_for_each_pair() -> None:
    margins = HAS + rng.normal(size=HAS.shape)
    targets = np.where(rng.random(HAS.shape) < 0.1, -1, HAS)
    table = concept_matrix(margins, targets)
    for i in range(3):
        for j in range(3):
            known = targets[:, j] >= 0
            expected = roc_auc_score(targets[known, j], margins[known, i])
            assert table[i, j] == pytest.approx(expected)
    assert (np.diag(table) > 0.7).all()
    assert np.abs(table[~np.eye(3, dtype=bool)] - 0.5).max() < 0.1


def test_a_concept_in_no_clip_has_no_auc() -> None:
    table = concept_matrix(np.eye(4)[:, :2], [[1, 0], [0, 0], [1, 0], [0, 0]])
    assert np.isnan(table[:, 1]).all()
    assert np.isfinite(table[:, 0]).all()


def test_concepts_that_come_together_are_seen_in_the_truth() -> None:
    table = co_occurrence([[1, 1], [1, 1], [0, 0], [0, 1]])
    # The second is in 3 of 4 clips: of the pairs with/without the first, 2 halves are ties.
    np.testing.assert_allclose(table, [[1.0, 5 / 6], [0.75, 1.0]])


def test_the_film_is_told_from_margins_that_name_it_and_not_from_noise() -> None:
    films = np.repeat(np.arange(4), 50)
    named = film_leak(np.eye(4)[films] + 0.01 * rng.normal(size=(200, 4)), films)
    nothing = film_leak(rng.normal(size=(200, 4)), films)
    assert named["balanced_accuracy"] == 1.0
    assert named["excess"] == 1.0
    assert nothing["chance"] == 0.25
    assert abs(nothing["excess"]) < 0.15


def test_films_with_too_few_clips_are_refused() -> None:
    with pytest.raises(FixTraining, match="5 clips each"):
        film_leak(np.zeros((6, 2)), [0, 0, 0, 0, 0, 1])
