"""Probes on frames: pooling, attention, streaming."""

from __future__ import annotations

import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import approx_fprime
from sklearn.metrics import average_precision_score, roc_auc_score
from support.stores import sealed_store, some_ids

from obygaze_features.store import open_store
from obygaze_models.models import common
from obygaze_models.models.common import FixTraining
from obygaze_models.models.estimator import load_state, save_state
from obygaze_models.models.frames import (
    POOLINGS,
    FrameProbe,
    StoreRows,
    _piece_loss,
    attend,
)
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


@pytest.mark.parametrize(("pooling", "pooled"), [("max", np.max), ("mean", np.mean)])
def test_pooling_is_a_probe_on_pooled_rows(pooling: Any, pooled: Any) -> None:
    X, y = clips()
    plain = FrameProbe(pooling).fit(X, y)
    expected = (
        LogisticProbe().fit(pooled(X, axis=1), y).predict_proba(pooled(X, axis=1))
    )
    np.testing.assert_allclose(plain.predict_proba(X), expected, atol=1e-9)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_where_blocks_are_cut_does_not_matter(
    pooling: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = clips()
    whole = FrameProbe(pooling).fit(X, y)
    monkeypatch.setattr(common, "CLIPS_A_BLOCK", 37)
    cut = FrameProbe(pooling).fit(X, y)
    np.testing.assert_allclose(cut.predict_proba(X), whole.predict_proba(X), atol=1e-3)


def test_attention_learns_which_frame_to_look_at() -> None:
    X, y = clips(600)
    train, test = slice(0, 300), slice(300, 600)
    auc = {}
    for pooling in ("mean", "attention"):
        probe = FrameProbe(pooling).fit(X[train], y[train])  # type: ignore[arg-type]
        auc[pooling] = roc_auc_score(y[test], probe.predict_proba(X[test])[:, 1])
    assert auc["attention"] > max(0.97, auc["mean"])
    weights = probe.attention(X[test])[:, :, 0]
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    marked = X[test][:, :, 0].argmax(axis=1)
    assert np.mean(weights.argmax(axis=1) == marked) > 0.8


@pytest.mark.parametrize(("n_classes", "queries"), [(2, 1), (3, 2)])
def test_the_slope_of_attention_is_the_slope_of_its_loss(
    n_classes: int, queries: int
) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3, 2, 4)) * 2 + 1, np.arange(12) % n_classes
    probe = FrameProbe("attention", C=0.7, queries=queries).fit(X, y)
    shape = (queries, 4, n_classes)
    free = rng.normal(size=queries * 4 * (1 + n_classes) + n_classes)
    numeric = approx_fprime(free, lambda f: probe._loss(f, X, y, shape)[0], 1e-6)
    np.testing.assert_allclose(probe._loss(free, X, y, shape)[1], numeric, atol=2e-4)


def test_attention_on_one_column_by_hand() -> None:
    # Weights are softmax(query * token) = 1/4 and 3/4; the last token is padding.
    tokens = np.array([[[0.0], [1.0], [np.nan]]])
    weights, means = attend(tokens, np.array([[np.log(3)]]))
    np.testing.assert_allclose(weights[0, :, 0], [0.25, 0.75, 0.0], atol=1e-15)
    np.testing.assert_allclose(means, [[[0.75]]])
    # Two classes with logits 0 and 2 * 0.75: the loss is log(1 + exp(-1.5)).
    query, coef = np.array([[np.log(3)]]), np.array([[0.0, 2.0]])
    loss, slope = _piece_loss(tokens, np.array([1]), query, coef, np.zeros(2))
    assert loss == pytest.approx(np.log1p(np.exp(-1.5)))
    # The slope of the mean by the query is its variance, 3/16; p of class 0 is 1/(1 + e^1.5).
    p = 1 / (1 + np.exp(1.5))
    expected = [-2 * p * 3 / 16, 0.75 * p, -0.75 * p, p, -p]
    np.testing.assert_allclose(slope, expected, rtol=1e-12)


def test_attention_on_features_of_zero_knows_the_share_of_each_class() -> None:
    y = np.array(["EN", "EN", "EN", "S"])
    probe = FrameProbe("attention").fit(np.zeros((4, 3, 2)), y)
    expected = np.tile([0.75, 0.25], (4, 1))
    np.testing.assert_allclose(
        probe.predict_proba(np.zeros((4, 3, 2))), expected, atol=1e-4
    )


def test_a_query_of_zero_is_the_mean() -> None:
    X, _ = clips()
    weights, means = attend(X, np.zeros((2, 10)))
    np.testing.assert_allclose(weights, 1 / 6)
    np.testing.assert_allclose(means[:, 1], X.mean(axis=1), atol=1e-12)


class Watched:
    """An array of clips that counts how many of the blocks that were read are alive."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.values, self.ndim = values, values.ndim
        self.shape = values.shape
        self.alive: list[weakref.ref[Any]] = []
        self.most = 0

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: slice) -> NDArray[Any]:
        block = self.values[part].astype(np.float16)
        self.alive.append(weakref.ref(block))
        self.most = max(self.most, sum(ref() is not None for ref in self.alive))
        return block


@pytest.mark.parametrize("pooling", ["max", "attention"])
def test_no_more_than_two_blocks_are_ever_held(
    pooling: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "CLIPS_A_BLOCK", 20)
    X, y = clips()
    watched = Watched(X)
    FrameProbe(pooling, max_passes=5).fit(watched, y).predict_proba(watched)
    assert watched.most <= 2
    assert len(watched.alive) > 10


def bound(n: int, seed: int, n_frames: int = 8, n_tokens: int = 16) -> Any:
    """One token of one frame is red and round (S); or one is red and another is round (EN)."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, n_frames, n_tokens, 12)), rng.integers(0, 2, n)
    flat = X.reshape(n, -1, 12)
    for clip in range(n):
        one, other = rng.choice(n_frames * n_tokens, 2, replace=False)
        flat[clip, one, 0] += 6
        flat[clip, one if y[clip] else other, 1] += 6
    return X, y


def test_a_signal_in_one_token_of_one_frame_is_found_where_the_mean_fails() -> None:
    (X, y), (X_test, y_test) = bound(400, 0), bound(200, 1)
    ap = {}
    for pooling in ("mean", "max", "attention"):
        probe = FrameProbe(pooling, queries=4, max_passes=200).fit(X, y)  # type: ignore[arg-type]
        ap[pooling] = average_precision_score(y_test, probe.predict_proba(X_test)[:, 1])
    assert ap["attention"] > 0.9
    assert abs(ap["mean"] - y_test.mean()) < 0.1
    assert probe.attention(X_test).shape == (200, 8, 16, 4)


def test_only_the_order_sensitive_head_tells_a_before_b() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 8, 6)), rng.integers(0, 2, 400)
    for clip in range(400):
        first, second = np.sort(rng.choice(8, 2, replace=False))
        a, b = (first, second) if y[clip] else (second, first)
        X[clip, a, 0] += 5
        X[clip, b, 1] += 5
    ap = {}
    for pooling in ("mean", "max", "attention", "order"):
        probe = FrameProbe(pooling).fit(X[:200], y[:200])  # type: ignore[arg-type]
        ap[pooling] = average_precision_score(
            y[200:], probe.predict_proba(X[200:])[:, 1]
        )
    assert ap["order"] > 0.9
    assert max(ap["mean"], ap["max"], ap["attention"]) < y[200:].mean() + 0.15


def test_frames_are_read_from_a_store_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = sealed_store(tmp_path / "store")["frames"]
    store, rows = open_store(tmp_path / "store"), [20, 3, 8, 11, 0, 17, 5]
    y = np.where(np.array(rows) % 2, "S", "EN")
    monkeypatch.setattr(common, "CLIPS_A_BLOCK", 3)
    X = StoreRows(store, "frames", [some_ids(23)[0][row] for row in rows])
    for pooling in ("max", "attention"):
        ours = FrameProbe(pooling).fit(X, y)  # type: ignore[arg-type]
        plain = FrameProbe(pooling).fit(values[rows], y)  # type: ignore[arg-type]
        np.testing.assert_array_equal(ours.coef_, plain.coef_)
        np.testing.assert_array_equal(
            ours.predict_proba(X), plain.predict_proba(values[rows])
        )


def test_bad_clips_are_refused_in_words() -> None:
    X, y = clips()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        FrameProbe().fit(X, y[1:])
    with pytest.raises(FixTraining, match="clips, frames, width"):
        FrameProbe().fit(X[:, None, None], y)
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
