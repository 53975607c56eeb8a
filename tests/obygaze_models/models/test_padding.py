"""Frames that pad a short clip count in no mean, maximum, map or probe: values by hand."""

from typing import Any

import numpy as np
import pytest
from support.experiments import films
from support.stores import made_store

from obygaze_features.store import Array, Row
from obygaze_models.models.common import FixTraining
from obygaze_models.models.frames import FrameProbe, pool
from obygaze_models.models.linear import LogisticProbe
from obygaze_models.protocols.clips import clip_table
from obygaze_models.protocols.schema import Data
from obygaze_models.runner import features
from obygaze_models.runner.features import ALL_PADDING, read_store

NAN = np.nan
# Clips of one real frame, of two (the padding is between them), and of three.
FRAMES = np.array(
    [
        [[1.0, 0.0], [9.0, 9.0], [9.0, 9.0]],
        [[2.0, 4.0], [9.0, 9.0], [0.0, 6.0]],
        [[1.0, 1.0], [2.0, 0.0], [3.0, -1.0]],
    ],
    dtype=np.float32,
)
REAL = np.array([[1, 0, 0], [1, 0, 1], [1, 1, 1]], dtype=np.bool_)
MARKED = np.where(REAL[:, :, None], FRAMES, np.float32(NAN))
MEANS = [[1.0, 0.0], [1.0, 5.0], [2.0, 0.0]]
ARRAYS = (
    Array.of("frames", "float32", (3, 2), ("frame", "feature")),
    Array.of("mask", "bool", (3,), ("frame",)),
)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("mean", MEANS),
        ("max", [[1.0, 0.0], [2.0, 6.0], [3.0, 1.0]]),
        ("last", [[1.0, 0.0], [0.0, 6.0], [3.0, -1.0]]),
    ],
)
def test_a_clip_is_pooled_over_its_real_frames(pooling: Any, expected: Any) -> None:
    np.testing.assert_allclose(pool(MARKED[:, :, None], pooling), expected, rtol=1e-6)
    # Of tokens: here each frame has two places, which are equal.
    tokens = np.stack([MARKED, MARKED], axis=2)
    np.testing.assert_allclose(pool(tokens, pooling), expected, rtol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "max", "last"])
def test_a_probe_of_padded_clips_is_that_of_the_shorter_clips(pooling: Any) -> None:
    rng = np.random.default_rng(5)
    short, y = rng.normal(size=(60, 3, 4)), np.arange(60) % 2
    short[y == 1, 1, 0] += 2
    padded = np.concatenate([short, np.full((60, 2, 4), NAN)], axis=1)
    alone = FrameProbe(pooling).fit(short, y).predict_proba(short)
    probe = FrameProbe(pooling).fit(padded, y)
    np.testing.assert_allclose(probe.predict_proba(padded), alone, atol=1e-9)
    np.testing.assert_allclose(probe.predict_proba(short), alone, atol=1e-9)


def test_what_is_no_padding_is_refused() -> None:
    y = np.array([0, 1, 0])
    with pytest.raises(FixTraining, match="all frames of clip 1 are NaN"):
        FrameProbe("mean").fit(
            np.where([[[False]], [[True]], [[False]]], NAN, FRAMES), y
        )
    with pytest.raises(ValueError, match="NaN"):
        FrameProbe("mean").fit(np.where(FRAMES == 6, NAN, FRAMES), y)
    with pytest.raises(FixTraining, match="clips, frames, width"):
        FrameProbe().fit(FRAMES[:, None, None], y)
    with pytest.raises(ValueError, match="2 features"):
        FrameProbe().fit(FRAMES, y).predict_proba(FRAMES[:, :, :1])


def test_frames_of_float16_are_pooled_and_fitted_in_float64() -> None:
    rng = np.random.default_rng(3)
    X = (rng.normal(size=(60, 6, 4)) + 1000).astype(np.float16)
    y = np.arange(60) % 2
    pooled = X.astype(np.float64).mean(axis=1)
    expected = LogisticProbe(class_weight=None).fit(pooled, y).predict_proba(pooled)
    found = FrameProbe("mean").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("is_large", [False, True])
def test_a_run_reads_real_frames(tmp_path, monkeypatch, is_large) -> None:
    monkeypatch.setattr(features, "LARGE_BYTES", 0 if is_large else 10**9)
    manifest = films(2, 2)
    ids = [clip.clip_id for clip in manifest]
    # A fourth clip has nothing but padding.
    frames = np.concatenate([FRAMES, np.ones((1, 3, 2))])
    real = np.concatenate([REAL, np.zeros((1, 3), dtype=np.bool_)])
    rows = [Row(clip.clip_id, clip.movie_id) for clip in manifest]
    values = {"frames": frames.astype(np.float32), "mask": real}
    store = made_store(tmp_path / "s", rows, values, arrays=ARRAYS)
    data = Data(array=("frames",))
    table = clip_table(manifest, data)
    joined = read_store("x", store, table, data, of_frames=True)
    np.testing.assert_array_equal(joined.X[:], MARKED)
    assert joined.missing == {ids[3]: ALL_PADDING}
