"""What margins carry beyond their concepts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from obygaze_models.models.common import FixTraining
from obygaze_models.models.concept_report import (
    co_occurrence,
    concept_matrix,
    film_leak,
    leakage_scores,
    task_gain,
)
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


def test_leakage_is_what_margins_say_beyond_the_concepts() -> None:
    rng = np.random.default_rng(0)
    n, shift = 4000, 1.0
    y, has = rng.random(n) < 0.5, rng.random((n, 2)) < 0.5
    margins = rng.normal(size=(n, 2))
    clean = leakage_scores(margins, has, y)
    assert clean["ctl"] == pytest.approx(0, abs=0.02) and clean["icl"] == pytest.approx(0, abs=0.02)
    # The information of a normal margin at +1 or -1 about the class, by numerical integration.
    at = np.linspace(-9, 9, 20001)
    sides = np.stack([norm.pdf(at, shift), norm.pdf(at, -shift)])
    integrand = 0.5 * (sides * np.log(sides / sides.mean(axis=0))).sum(axis=0)
    expected = np.trapezoid(integrand, at) / np.log(2)
    margins[:, 0] += np.where(y, shift, -shift)
    one = leakage_scores(margins, has, y)
    assert one["ctl"] == pytest.approx(expected / 2, abs=0.02)  # one of two concepts
    assert one["icl"] == pytest.approx(clean["icl"], abs=0.02)
    # Where the true concept is the class, its margin cannot say more.
    true = np.column_stack([y, has[:, 1]])
    assert leakage_scores(margins, true, y)["ctl"] == pytest.approx(0, abs=0.02)
    same = np.repeat(margins[:, :1], 2, axis=1)
    assert leakage_scores(same, has, y)["icl"] == pytest.approx(1, abs=0.05)
    assert leakage_scores(same, np.repeat(has[:, :1], 2, axis=1), y)["icl"] < 0.05
    assert 0 <= one["icl_chance"] < 0.02 and 0 <= one["ctl_chance"] < 0.02
