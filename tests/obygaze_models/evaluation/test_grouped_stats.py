"""Statistics by film against the metrics of clips: the same numbers, whatever is drawn."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from obygaze_models.evaluation.grouped_stats import GroupedStats
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
