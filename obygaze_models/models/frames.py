"""Probes on one vector per frame, pooled by maximum, by mean or by learned attention.

Frames are read in blocks [clips, frames, width] with labels; one block at a time is in memory. The
result does not depend on the size of the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from obygaze_models.models.common import FixTraining, Floats, Ints, encode_classes, one_thread
from obygaze_models.models.estimator import Classifier
from obygaze_models.models.linear import LogisticProbe
from obygaze_models.models.mlp_network import softmax

Block = tuple[NDArray[Any], NDArray[Any]]
BlockSource = Callable[[], Iterable[Block]]
Pooling = Literal["max", "mean", "attention"]

CLIPS_A_BLOCK = 128


@dataclass(eq=False, repr=False)
class FrameProbe(Classifier):
    """A classifier of clips from their frames; clips of one frame may be rows of a matrix.

    `max` (the paper) and `mean` pool the frames and fit `probe` (a `LogisticProbe()`) on the
    result. `attention` fits one query vector, which weights the frames, together with a linear
    layer of inverse strength C on the weighted mean of the frames.
    """

    pooling: Pooling = "max"
    _: KW_ONLY
    probe: Any = None
    C: float = 1.0
    max_passes: int = 60

    @property
    def fitted(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the fitted attributes, which depend on the pooling."""
        if self.pooling != "attention":
            return ("classes_", "probe_")
        return ("classes_", "mean_", "scale_", "query_", "coef_", "intercept_")

    def part(self, name: str) -> Any:
        """Return the unfitted probe on pooled frames."""
        part = super().part(name)
        return LogisticProbe() if part is None and name == "probe" else part

    def fit(self, X: Any, y: Any) -> FrameProbe:  # type: ignore[override]
        """Fit on an array [clips, frames, width], which may be mapped from a file."""
        if getattr(X, "ndim", 2) != 3:
            X, y = validate_data(self, X, y, ensure_min_samples=2)
            X = X[:, None]
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        parts = [slice(start, start + CLIPS_A_BLOCK) for start in range(0, len(y), CLIPS_A_BLOCK)]
        return self.fit_blocks(lambda: ((X[part], y[part]) for part in parts))

    def fit_blocks(self, source: BlockSource) -> FrameProbe:
        """Fit on blocks of (frames, labels); `source()` starts a pass over them.

        Pooling takes one pass, attention one for each step of its optimiser.
        """
        if self.pooling not in ("max", "mean", "attention"):
            raise FixTraining(f"unknown pooling {self.pooling!r}", hint="max, mean or attention")
        if hasattr(self, "n_features_in_"):
            del self.n_features_in_
        if self.pooling == "attention":
            with one_thread():
                self._fit_attention(source)
            return self
        pooled, labels = zip(*((self._pool(f), y) for f, y in self._pass(source)), strict=True)
        y = self._set_classes(labels)
        self.probe_ = clone(self.part("probe")).fit(np.concatenate(pooled), y)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class for each clip of an array."""
        check_is_fitted(self)
        if getattr(X, "ndim", 2) != 3:
            X = validate_data(self, X, reset=False)[:, None]
        starts = range(0, max(len(X), 1), CLIPS_A_BLOCK)
        return np.concatenate(
            list(self.stream_proba(X[start : start + CLIPS_A_BLOCK] for start in starts))
        )

    def stream_proba(self, blocks: Iterable[NDArray[Any]]) -> Iterator[Floats]:
        """Yield the same for each block of frames."""
        check_is_fitted(self)
        for block in blocks:
            frames = self._check_block(block)
            if self.pooling == "attention":
                z = (frames - self.mean_) / self.scale_
                yield softmax(attend(z, self.query_)[1] @ self.coef_ + self.intercept_)
            else:
                yield self.probe_.predict_proba(self._pool(frames))

    def attention(self, X: Any) -> Floats:
        """Return the weight of each frame of each clip; the weights of a clip sum to 1."""
        check_is_fitted(self)
        if self.pooling != "attention":
            raise FixTraining(f"a probe with {self.pooling} pooling has no attention")
        return attend((self._check_block(X) - self.mean_) / self.scale_, self.query_)[0]

    def _pool(self, frames: Floats) -> Floats:
        pooled: Floats = frames.max(axis=1) if self.pooling == "max" else frames.mean(axis=1)
        return pooled

    def _check_block(self, block: Any) -> Floats:
        """Return a block of frames after a check of its shape and its numbers."""
        if np.ndim(block) != 3:
            raise FixTraining(f"frames must be [clips, frames, width], got shape {np.shape(block)}")
        n_clips, n_frames, width = np.shape(block)
        flat = np.asarray(block).reshape(n_clips * n_frames, width)
        first = not hasattr(self, "n_features_in_")
        flat = validate_data(self, flat, reset=first, dtype=np.float64)
        checked: Floats = flat.reshape(n_clips, n_frames, width)
        return checked

    def _pass(self, source: BlockSource) -> Iterator[tuple[Floats, NDArray[Any]]]:
        n_blocks = 0
        for frames, labels in source():
            n_blocks += 1
            if len(frames) != len(labels):
                raise FixTraining(f"a block has {len(frames)} clips and {len(labels)} labels")
            yield self._check_block(frames), np.asarray(labels)
        if not n_blocks:
            raise FixTraining(
                "the source has no blocks to fit on",
                hint="pass a function that starts a new pass at each call, not an iterator",
            )

    def _fit_attention(self, source: BlockSource) -> None:
        labels, total, squares, n_frames = [], 0.0, 0.0, 0
        for frames, y in self._pass(source):
            labels.append(y)
            total = total + frames.sum(axis=(0, 1))
            squares = squares + (frames**2).sum(axis=(0, 1))
            n_frames += frames.shape[0] * frames.shape[1]
        self.mean_ = np.asarray(total / n_frames)
        spread = np.sqrt(np.maximum(squares / n_frames - self.mean_**2, 0))
        self.scale_ = np.where(spread > 1e-7 * np.abs(self.mean_).max(initial=0), spread, 1.0)
        self._set_classes(labels)
        width, n_classes = shape = len(self.mean_), len(self.classes_)
        free = minimize(
            self._attention_loss,
            np.zeros(width + width * n_classes + n_classes),
            args=(source, shape),
            jac=True,
            method="L-BFGS-B",
            options={"maxfun": self.max_passes, "gtol": 1e-4},
        ).x
        self.query_, self.coef_, self.intercept_ = _unpack(free, shape)

    def _set_classes(self, labels: Sequence[NDArray[Any]]) -> NDArray[Any]:
        y = np.concatenate(labels)
        check_classification_targets(y)
        self.classes_, _ = encode_classes(y)
        return y

    def _attention_loss(
        self, free: Floats, source: BlockSource, shape: tuple[int, int]
    ) -> tuple[float, Floats]:
        query, coef, intercept = _unpack(free, shape)
        value = float((query @ query + (coef**2).sum()) / (2 * self.C))
        slopes = [query / self.C, coef / self.C, np.zeros(shape[1])]
        for frames, y in self._pass(source):
            z = (frames - self.mean_) / self.scale_
            codes = np.searchsorted(self.classes_, y)
            loss, parts = _block_loss(z, codes, query, coef, intercept)
            value += loss
            slopes = [slope + part for slope, part in zip(slopes, parts, strict=True)]
        return value, np.concatenate([slope.ravel() for slope in slopes])


def store_blocks(store: Any, level: str, labels: Mapping[str, Any]) -> BlockSource:
    """Return a source of blocks for `fit_blocks`: frames of labelled clips, in the store's order.

    Args:
        store: A store; a clip that it does not have is an error.
        level: The feature level of the frames.
        labels: The label of each clip id.
    """

    def source() -> Iterator[Block]:
        for part in store.stream(level, clips=list(labels)):
            yield part.values, np.array([labels[str(clip)] for clip in part.clip_ids])

    return source


def attend(z: Floats, query: Floats) -> tuple[Floats, Floats]:
    """Return each frame's weight, and each clip's weighted mean of frames."""
    weights = softmax(z @ query / np.sqrt(len(query)))
    return weights, np.einsum("nt,ntd->nd", weights, z)


def _block_loss(
    z: Floats, codes: Ints, query: Floats, coef: Floats, intercept: Floats
) -> tuple[float, tuple[Floats, Floats, Floats]]:
    """Return the cross-entropy of a block, and its gradients (query, coefficients, intercepts)."""
    weights, pooled = attend(z, query)
    p = softmax(pooled @ coef + intercept)
    rows = np.arange(len(codes))
    loss = -float(np.log(np.maximum(p[rows, codes], 1e-300)).sum())
    p[rows, codes] -= 1
    by_frame = np.einsum("ntd,nd->nt", z, p @ coef.T)
    by_score = weights * (by_frame - (weights * by_frame).sum(axis=1, keepdims=True))
    by_query = np.einsum("nt,ntd->d", by_score, z) / np.sqrt(len(query))
    return loss, (by_query, pooled.T @ p, p.sum(axis=0))


def _unpack(free: Floats, shape: tuple[int, int]) -> tuple[Floats, Floats, Floats]:
    width, n_classes = shape
    query, rest = free[:width], free[width:]
    return query, rest[: width * n_classes].reshape(shape), rest[width * n_classes :]
