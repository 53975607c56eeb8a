"""Statistics by film against the metrics of clips: the same numbers, whatever is drawn."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from obygaze_models.evaluation.grouped_stats import GroupedStats, mean_over_folds
from obygaze_models.evaluation.metrics import METRICS, replicate
from obygaze_models.evaluation.predictions import Predictions

NAMES = list(METRICS)


def drawn(
    n: int, n_units: int, seed: int, *, ties: bool
) -> tuple[Predictions, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    codes = np.concatenate([np.arange(n_units), rng.integers(0, n_units, n - n_units)])
    y = rng.random(n) < 0.4
    return Predictions.of(y, np.round(scores, 1) if ties else scores), codes


@given(
    n_units=st.integers(1, 8),
    n=st.integers(8, 60),
    seed=st.integers(0, 999),
    ties=st.booleans(),
)
def test_every_metric_under_weights_of_films(
    n_units: int, n: int, seed: int, ties: bool
) -> None:
    predictions, codes = drawn(n, n_units, seed, ties=ties)
    weights = np.random.default_rng(seed).integers(0, 3, (5, n_units)).astype(float)
    drawn_films = GroupedStats(predictions, codes).under(weights)
    ours = {name: METRICS[name].function(drawn_films) for name in NAMES}
    theirs = replicate(predictions, weights[:, codes], NAMES)
    for name in NAMES:
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-12, err_msg=name)


def test_a_film_that_is_drawn_twice_counts_twice_in_a_mean_over_films() -> None:
    """Two films, one all right and one all wrong: accuracy 1 and 0."""
    right = GroupedStats(Predictions.of([1, 0], [0.9, 0.1]), np.array([0, 0]))
    wrong = GroupedStats(Predictions.of([1, 0], [0.1, 0.9]), np.array([1, 1]))
    weights = np.array([[1.0, 1.0], [2.0, 1.0], [0.0, 1.0]])
    folds = [right.under(weights), wrong.under(weights)]
    found = mean_over_folds(folds, METRICS["accuracy"].function)
    assert found.tolist() == pytest.approx([0.5, 2 / 3, 0.0])


def test_a_random_order_has_the_mean_precision_of_all_orders() -> None:
    """Two films of six clips, two and no positives; the mean over the fifteen orders by sklearn."""
    y = np.zeros(12, dtype=bool)
    y[:2] = True
    codes = np.repeat([0, 1], 6)
    one_score = GroupedStats(Predictions.of(y, np.zeros(12)), codes)
    weights = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    found = one_score.under(weights).average_precision
    orders = [np.isin(np.arange(6), chosen) for chosen in combinations(range(6), 2)]
    both = [np.isin(np.arange(12), chosen) for chosen in combinations(range(12), 2)]
    means = [
        np.mean([average_precision_score(one, -np.arange(len(one))) for one in o])
        for o in (orders, both)
    ]
    assert found[0] == pytest.approx(means[0])
    assert np.isnan(found[1])  # nobody can rank what is not there
    assert found[2] == pytest.approx(means[1])
