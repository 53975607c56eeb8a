"""Probes on the frames or the spatial tokens of clips, pooled by a rule or by learned attention.

Clips [clips, frames, width] or [clips, frames, tokens, width] are read in blocks of rows, so that
an array that is mapped from a file, or `StoreRows`, may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from obygaze_features.store import Store
from obygaze_models.models.common import FixTraining, Floats, Ints, encode_classes, one_thread
from obygaze_models.models.estimator import Classifier
from obygaze_models.models.linear_solvers import logistic
from obygaze_models.models.mlp_network import softmax

Pooling = Literal["max", "mean", "last", "order", "attention"]
POOLINGS = get_args(Pooling)

CLIPS_A_BLOCK = 128


@dataclass(frozen=True, eq=False)
class StoreRows:
    """The frames or tokens of clips of a store, which are read where they are sliced."""

    store: Store
    level: str
    clips: Sequence[str]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return 1 + len(self.store.plan.array(self.level).tail_shape)

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, part: slice) -> NDArray[Any]:
        return self.store.matrix(self.level, clips=self.clips[part]).values


@dataclass(eq=False, repr=False)
class FrameProbe(Classifier):
    """A classifier of clips from their frames or tokens; rows of a matrix are clips of one frame.

    `max` (the paper), `mean` and `last` (frame) pool a clip to one vector, and `order` to two: the
    mean and the slope over time, which tells A before B from B before A. A logistic regression of
    inverse strength C is fitted on the result. `attention` fits `queries` vectors, each of which
    weights all tokens of a clip, together with a linear layer on the weighted means (after V-JEPA's
    attentive probe and Efficient Probing, arXiv 2506.10178).
    """

    fitted: ClassVar = ("classes_", "mean_", "scale_", "query_", "coef_", "intercept_")

    pooling: Pooling = "max"
    _: KW_ONLY
    C: float = 1.0
    queries: int = 1
    max_passes: int = 60

    def fit(self, X: Any, y: Any, groups: Any = None) -> FrameProbe:
        """Fit on clips. Pooling takes one pass, attention one for each step of its optimiser."""
        if self.pooling not in POOLINGS:
            raise FixTraining(f"unknown pooling {self.pooling!r}", hint=", ".join(POOLINGS))
        if getattr(X, "ndim", 2) < 3:
            X, y = validate_data(self, X, y, ensure_min_samples=2)
            X = X[:, None]
        else:
            self.n_features_in_ = np.shape(X[:1])[-1]
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        check_classification_targets(y)
        self.classes_, codes = encode_classes(y)
        if self.pooling == "attention":
            with one_thread():
                self._fit_attention(X, codes)
            return self
        pooled = np.concatenate([pool(block, self.pooling) for block in self._blocks(X)])
        coef, bias = logistic(pooled, codes, self.C)
        if len(coef) == 1:
            coef, bias = np.stack([np.zeros_like(coef[0]), coef[0]]), np.array([0.0, *bias])
        self.coef_, self.intercept_ = coef.T, bias
        self.mean_ = self.scale_ = self.query_ = np.zeros(0)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class for each clip."""
        check_is_fitted(self)
        if getattr(X, "ndim", 2) < 3:
            X = validate_data(self, X, reset=False)[:, None]
        pooled = np.concatenate([self._pool(block) for block in self._blocks(X)])
        return softmax(pooled @ self.coef_ + self.intercept_)

    def attention(self, X: Any) -> Floats:
        """Return the weights [clips, frames, (tokens,) queries]; those of a query sum to 1."""
        check_is_fitted(self)
        if self.pooling != "attention":
            raise FixTraining(f"a probe with {self.pooling} pooling has no attention")
        found = [attend(self._scaled(block), self.query_)[0] for block in self._blocks(X)]
        return np.concatenate(found).reshape(len(X), *np.shape(X[:1])[1:-1], -1)

    def _pool(self, block: Floats) -> Floats:
        if self.pooling != "attention":
            return pool(block, self.pooling)
        return attend(self._scaled(block), self.query_)[1].reshape(len(block), -1)

    def _blocks(self, X: Any) -> Iterator[Floats]:
        """Yield checked blocks [clips, frames, tokens, width], one of which is in memory."""
        for start in range(0, max(len(X), 1), CLIPS_A_BLOCK):
            block = np.asarray(X[start : start + CLIPS_A_BLOCK])
            if block.ndim not in (3, 4):
                form = "[clips, frames, width] or [clips, frames, tokens, width]"
                raise FixTraining(f"expected {form}, got shape {block.shape}")
            rows = block.reshape(-1, block.shape[-1])
            rows = validate_data(self, rows, reset=False, dtype=np.float64)
            sizes = block.shape[1:3] if block.ndim == 4 else (block.shape[1], 1)
            yield rows.reshape(len(block), *sizes, -1)

    def _scaled(self, block: Floats) -> Floats:
        """Return all tokens of each clip, standardised: [clips, frames * tokens, width]."""
        flat = block.reshape(len(block), -1, block.shape[-1])
        return np.asarray((flat - self.mean_) / self.scale_)

    def _fit_attention(self, X: Any, codes: Ints) -> None:
        total, squares, n = 0.0, 0.0, 0
        for block in self._blocks(X):
            flat = block.reshape(-1, block.shape[-1])
            total, n = total + flat.sum(axis=0), n + len(flat)
            squares = squares + (flat**2).sum(axis=0)
        self.mean_ = np.asarray(total / n)
        spread = np.sqrt(np.maximum(squares / n - self.mean_**2, 0))
        self.scale_ = np.where(spread > 1e-7 * np.abs(self.mean_).max(initial=0), spread, 1.0)
        shape = (self.queries, len(self.mean_), len(self.classes_))
        start = np.zeros(shape[0] * shape[1] * (1 + shape[2]) + shape[2])
        if self.queries > 1:  # equal queries would stay equal
            drawn = np.random.default_rng(0).standard_normal(shape[0] * shape[1])
            start[: len(drawn)] = drawn
        found = minimize(
            self._loss,
            start,
            args=(X, codes, shape),
            jac=True,
            method="L-BFGS-B",
            options={"maxfun": self.max_passes, "gtol": 1e-4},
        )
        self.query_, self.coef_, self.intercept_ = _unpack(found.x, shape)

    def _loss(
        self, free: Floats, X: Any, codes: Ints, shape: tuple[int, int, int]
    ) -> tuple[float, Floats]:
        """Return the penalised cross-entropy of all clips, and its gradient."""
        query, coef, intercept = _unpack(free, shape)
        value = float(((query**2).sum() + (coef**2).sum()) / (2 * self.C))
        slope, seen = free / self.C, 0
        slope[-shape[2] :] = 0
        for block in self._blocks(X):
            own, seen = codes[seen : seen + len(block)], seen + len(block)
            loss, gradient = _block_loss(self._scaled(block), own, query, coef, intercept)
            value, slope = value + loss, slope + gradient
        return value, slope


def pool(block: Floats, pooling: Pooling) -> Floats:
    """Return one vector for each clip of a block, for "order" of twice the width."""
    if pooling == "max":
        return np.asarray(block.max(axis=(1, 2)))
    frames = block.mean(axis=2)
    if pooling == "last":
        return np.asarray(frames[:, -1])
    mean = np.asarray(frames.mean(axis=1))
    if pooling == "mean":
        return mean
    time = np.linspace(-1, 1, frames.shape[1])
    return np.concatenate([mean, np.einsum("ntd,t->nd", frames, time) / len(time)], axis=1)


def attend(z: Floats, query: Floats) -> tuple[Floats, Floats]:
    """Return weights [clips, tokens, queries], and weighted means [clips, queries, width]."""
    weights = softmax(z @ query.T / np.sqrt(query.shape[1]))
    return weights, np.einsum("ntq,ntd->nqd", weights, z)


def _block_loss(
    z: Floats, codes: Ints, query: Floats, coef: Floats, intercept: Floats
) -> tuple[float, Floats]:
    """Return the cross-entropy of a block, and its gradient, laid out as in `_unpack`."""
    weights, means = attend(z, query)
    flat, rows = means.reshape(len(z), -1), np.arange(len(codes))
    p = softmax(flat @ coef + intercept)
    loss = -float(np.log(np.maximum(p[rows, codes], 1e-300)).sum())
    p[rows, codes] -= 1
    by_token = z @ np.moveaxis((p @ coef.T).reshape(means.shape), 1, -1)
    by_score = weights * (by_token - (weights * by_token).sum(axis=1, keepdims=True))
    by_query = np.einsum("ntq,ntd->qd", by_score, z) / np.sqrt(query.shape[1])
    return loss, np.concatenate([by_query.ravel(), (flat.T @ p).ravel(), p.sum(axis=0)])


def _unpack(free: Floats, shape: tuple[int, int, int]) -> tuple[Floats, Floats, Floats]:
    n_queries, width, n_classes = shape
    query, coef = free[: n_queries * width], free[n_queries * width : -n_classes]
    wide = coef.reshape(n_queries * width, n_classes)
    return query.reshape(n_queries, width), wide, free[-n_classes:]
