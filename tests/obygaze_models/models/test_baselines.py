"""Baselines without features; `support/plain_fits.py` computes the others plainly."""

from __future__ import annotations

import numpy as np
import pytest

from obygaze_models.models.baselines import film_and_scene, neighbour


def test_far_scenes_still_vote() -> None:
    """Their weights are smaller than any number."""
    X = film_and_scene(["a", "a", "a"], [1, 2, 100_000])
    score = neighbour(X[:2], np.array([True, False]))
    assert score(X[2:])[0] == pytest.approx(1 / (1 + np.exp(0.5)))
