from __future__ import annotations

import numpy as np
import pytest

from obygaze_models.evaluation.metrics import evaluate
from obygaze_models.evaluation.predictions import Predictions

Y = [1] * 4 + [0] * 6


def graded(seed: int, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Scores on a coarse grid, so that many are tied."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    return y, np.clip(rng.integers(0, 30, n) / 30 * 0.7 + 0.2 * y, 0, 1)


def test_equal_width_against_a_loop() -> None:
    y, score = graded(3)
    loss = 0.0
    for i in range(10):
        low = -1 if i == 0 else i / 10
        inside = (score > low) & (score <= (i + 1) / 10)
        if inside.any():
            loss += inside.mean() * abs(score[inside].mean() - y[inside].mean())
    assert evaluate(Predictions.of(y, score), ["ece_width"])[
        "ece_width"
    ] == pytest.approx(loss)


def test_equal_mass_against_sorted_tenths() -> None:
    rng = np.random.default_rng(0)
    score = rng.permutation(100) / 100  # without ties a tenth is a tenth
    y = rng.random(100) < score**2
    order = np.argsort(score)
    loss = np.mean([abs((score - y)[part].mean()) for part in np.split(order, 10)])
    assert evaluate(Predictions.of(y, score), ["ece"])["ece"] == pytest.approx(loss)


def test_a_calibrated_constant_and_a_wrong_one() -> None:
    for name in ("ece", "ece_width"):
        assert evaluate(Predictions.of(Y, [0.4] * 10), [name])[name] == pytest.approx(0)
        assert evaluate(Predictions.of(Y, [0.9] * 10), [name])[name] == pytest.approx(
            0.5
        )
