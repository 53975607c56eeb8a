"""Probes on frames: pooling, number formats, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from obygaze_models.models.common import FixTraining
from obygaze_models.models.frames import FrameProbe
from obygaze_models.models.linear import LogisticProbe


def clips(n: int = 200, n_frames: int = 6) -> tuple[NDArray[Any], NDArray[Any]]:
    """In each clip one marked frame tells the label; the other frames tell nothing."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, n_frames, 10))
    y = rng.integers(0, 2, n)
    X[np.arange(n), rng.integers(0, n_frames, n), :2] += np.stack(
        [np.full(n, 4.0), 6 * y - 3], 1
    )
    return X, np.where(y == 1, "S", "EN")


@pytest.mark.parametrize("number_format", [np.float16, np.float32, np.float64])
def test_frames_of_any_format_are_fitted_in_float64(number_format: Any) -> None:
    X, y = clips()
    X = (X + 1000).astype(number_format)
    pooled = X.astype(np.float64).mean(axis=1)
    expected = LogisticProbe(class_weight=None).fit(pooled, y).predict_proba(pooled)
    found = FrameProbe("mean").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_bad_clips_are_refused_in_words() -> None:
    X, y = clips()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        FrameProbe().fit(X, y[1:])
    with pytest.raises(FixTraining, match="clips, frames, width"):
        FrameProbe().fit(X[:, None, None], y)
    with pytest.raises(ValueError, match="NaN"):
        FrameProbe().fit(np.where(X > 3, np.nan, X), y)
    with pytest.raises(ValueError, match="10 features"):
        FrameProbe().fit(X, y).predict_proba(X[:, :, :9])
