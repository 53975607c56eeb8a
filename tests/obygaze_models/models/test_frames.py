"""Probes on frames: pooling, attention, streaming."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import approx_fprime
from sklearn.metrics import roc_auc_score

from obygaze_models.models.common import FixTraining
from obygaze_models.models.estimator import load_state, save_state
from obygaze_models.models.frames import FrameProbe, attend, store_blocks
from obygaze_models.models.linear import LogisticProbe, RidgeProbe


def clips(n: int = 200, n_frames: int = 6) -> tuple[NDArray[Any], NDArray[Any]]:
    """In each clip one marked frame tells the label; the other frames tell nothing."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, n_frames, 10))
    y = rng.integers(0, 2, n)
    X[np.arange(n), rng.integers(0, n_frames, n), :2] += np.stack([np.full(n, 4.0), 6 * y - 3], 1)
    return X, np.where(y == 1, "S", "EN")


def blocks(X: Any, y: Any, size: int) -> Iterator[tuple[Any, Any]]:
    for start in range(0, len(y), size):
        yield X[start : start + size], y[start : start + size]


@pytest.mark.parametrize(("pooling", "pooled"), [("max", np.max), ("mean", np.mean)])
def test_pooling_is_a_probe_on_pooled_rows(pooling: Any, pooled: Any) -> None:
    X, y = clips()
    ours = FrameProbe(pooling, probe=RidgeProbe()).fit(X, y)
    theirs = RidgeProbe().fit(pooled(X, axis=1), y)
    np.testing.assert_allclose(ours.probe_.coef_, theirs.coef_, atol=1e-12)
    plain = FrameProbe(pooling).fit_blocks(lambda: blocks(X, y, 33))
    expected = LogisticProbe().fit(pooled(X, axis=1), y).predict_proba(pooled(X, axis=1))
    np.testing.assert_allclose(plain.predict_proba(X), expected, atol=1e-9)


@pytest.mark.parametrize("pooling", ["max", "mean", "attention"])
def test_where_blocks_are_cut_does_not_matter(pooling: Any) -> None:
    X, y = clips()
    whole = FrameProbe(pooling).fit(X, y)
    cut = FrameProbe(pooling).fit_blocks(lambda: blocks(X, y, 37))
    np.testing.assert_allclose(cut.predict_proba(X), whole.predict_proba(X), atol=1e-3)
    streamed = np.concatenate(list(whole.stream_proba(f for f, _ in blocks(X, y, 11))))
    np.testing.assert_allclose(streamed, whole.predict_proba(X), atol=1e-12)


def test_attention_learns_which_frame_to_look_at() -> None:
    X, y = clips(600)
    train, test = slice(0, 300), slice(300, 600)
    auc = {}
    for pooling in ("mean", "attention"):
        probe = FrameProbe(pooling).fit(X[train], y[train])  # type: ignore[arg-type]
        auc[pooling] = roc_auc_score(y[test], probe.predict_proba(X[test])[:, 1])
    assert auc["attention"] > max(0.97, auc["mean"])
    weights = probe.attention(X[test])
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    marked = X[test][:, :, 0].argmax(axis=1)
    assert np.mean(weights.argmax(axis=1) == marked) > 0.8


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_slope_of_attention_is_the_slope_of_its_loss(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3, 4)) * 2 + 1, np.arange(12) % n_classes
    probe = FrameProbe("attention", C=0.7).fit(X, y)

    def source() -> Iterator[Any]:
        return blocks(X, y, 5)

    shape = (4, n_classes)
    free = rng.normal(size=4 + 4 * n_classes + n_classes)
    numeric = approx_fprime(free, lambda f: probe._attention_loss(f, source, shape)[0], 1e-6)
    np.testing.assert_allclose(probe._attention_loss(free, source, shape)[1], numeric, atol=2e-4)


def test_a_query_of_zero_is_the_mean() -> None:
    X, _ = clips()
    weights, pooled = attend(X, np.zeros(10))
    np.testing.assert_allclose(weights, 1 / 6)
    np.testing.assert_allclose(pooled, X.mean(axis=1), atol=1e-12)


@pytest.mark.parametrize("pooling", ["max", "attention"])
def test_no_more_than_two_blocks_are_ever_held(pooling: Any) -> None:
    X, y = clips()
    alive: list[weakref.ref[Any]] = []
    most = 0

    def source() -> Iterator[Any]:
        nonlocal most
        for frames, labels in blocks(X, y, 20):
            block = np.array(frames, dtype=np.float16)
            alive.append(weakref.ref(block))
            yield block, labels
            del block
            most = max(most, sum(ref() is not None for ref in alive))

    FrameProbe(pooling, max_passes=5).fit_blocks(source)
    assert most <= 2


def test_frames_stream_from_a_store_with_the_labels_of_their_clips(tmp_path: Path) -> None:
    from support.stores import sealed_store, some_ids

    from obygaze_features.core.errors import ObygazeError
    from obygaze_features.store.read.reader import open_store

    values = sealed_store(tmp_path / "store.zarr")
    frames = next(name for name, array in values.items() if array.ndim == 3)
    ids = some_ids(23)[0]
    rows = [20, 3, 8, 11, 0, 17, 5]  # asked for in another order than the store's
    labels = {ids[row]: "S" if row % 2 else "EN" for row in rows}
    source = store_blocks(open_store(tmp_path / "store.zarr"), frames, labels)
    streamed = FrameProbe().fit_blocks(source)
    plain = FrameProbe().fit(values[frames][rows], [labels[ids[row]] for row in rows])
    np.testing.assert_allclose(streamed.probe_.coef_, plain.probe_.coef_, atol=1e-6)
    with pytest.raises(ObygazeError) as refusal:
        FrameProbe().fit_blocks(
            store_blocks(open_store(tmp_path / "store.zarr"), frames, {**labels, "tt9-1": "S"})
        )
    assert "tt9-1" in str(refusal.value) + str(refusal.value.details)


def test_an_iterator_that_is_used_up_is_told_from_a_source() -> None:
    X, y = clips()
    once = blocks(X, y, 50)
    with pytest.raises(FixTraining, match="no blocks") as refusal:
        FrameProbe("attention").fit_blocks(lambda: once)
    assert "new pass" in str(refusal.value)


def test_bad_blocks_are_refused_in_words() -> None:
    X, y = clips()
    with pytest.raises(FixTraining, match="200 clips and 199 labels"):
        FrameProbe().fit_blocks(lambda: [(X, y[1:])])
    with pytest.raises(FixTraining, match="clips, frames, width"):
        FrameProbe().fit_blocks(lambda: [(X[:, 0], y)])
    with pytest.raises(ValueError, match="NaN"):
        FrameProbe().fit(np.where(X > 3, np.nan, X), y)
    with pytest.raises(ValueError, match="10 features"):
        FrameProbe().fit(X, y).predict(X[:, :, :9])
    with pytest.raises(FixTraining, match="unknown pooling"):
        FrameProbe("sum").fit(X, y)  # type: ignore[arg-type]
    with pytest.raises(FixTraining, match="no attention"):
        FrameProbe().fit(X, y).attention(X)


def test_a_second_fit_may_have_another_width() -> None:
    X, y = clips()
    probe = FrameProbe().fit(X, y).fit(X[:, :, :4], y)
    assert probe.n_features_in_ == 4


@pytest.mark.parametrize("pooling", ["max", "attention"])
def test_saved_as_arrays_it_answers_the_same(pooling: Any) -> None:
    X, y = clips()
    probe = FrameProbe(pooling).fit(X, y)
    description, arrays = save_state(probe)
    again: Any = load_state(json.loads(json.dumps(description)), arrays)
    np.testing.assert_array_equal(again.predict_proba(X), probe.predict_proba(X))
