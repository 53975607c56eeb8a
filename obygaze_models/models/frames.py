"""Probes on the frames or the spatial tokens of clips, pooled by a rule or by learned attention.

Clips [clips, frames, width] or [clips, frames, tokens, width] are read in blocks of rows, so that
an array that is mapped from a file, or `StoreRows`, may be larger than memory.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from obygaze_features.store import Store
from obygaze_models.models.common import (
    FixTraining,
    Floats,
    Ints,
    blocks_of,
    encode_classes,
    one_thread,
    padding_of,
    with_padding,
    without_padding,
)
from obygaze_models.models.estimator import Classifier
from obygaze_models.models.linear_solvers import logistic
from obygaze_models.models.mlp_network import softmax

Pooling = Literal["max", "mean", "last", "order", "attention"]
POOLINGS = get_args(Pooling)

NUMBERS_A_PIECE = 2**18  # 1 MB in float32, which the caches of a processor hold


@dataclass(frozen=True, eq=False)
class StoreRows:
    """The frames or tokens of clips of a store, which are read where they are sliced.

    Frames that pad a short clip, by the mask of the store, are NaN. An array of numbers or a mask
    selects clips without reading any.
    """

    store: Store
    array: str
    clips: Sequence[str] | NDArray[np.str_]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array that all clips would be."""
        return len(self.clips), *self.store.array(self.array).shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, part: Any) -> Any:
        clips = np.asarray(self.clips)[part]
        if isinstance(part, slice):
            matrix = self.store.matrix(self.array, clips=clips)
            return with_padding(
                matrix.values, self.store.real_frames(self.array, matrix.rows)
            )
        return replace(self, clips=clips)


@dataclass(eq=False, repr=False)
class FrameProbe(Classifier):
    """A classifier of clips from their frames or tokens; rows of a matrix are clips of one frame.

    Frames of NaN are padding: a clip is pooled, or attended to, as if it had only its other frames.

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

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit on clips. Pooling takes one pass, attention one for each step of its optimiser."""
        if self.pooling not in POOLINGS:
            raise FixTraining(
                f"unknown pooling {self.pooling!r}", hint=", ".join(POOLINGS)
            )
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
        pooled = np.concatenate(
            [pool(block, self.pooling) for block in self._blocks(X)]
        )
        coef, bias = logistic(pooled, codes, self.C)
        if len(coef) == 1:
            coef = np.stack([np.zeros_like(coef[0]), coef[0]])
            bias = np.array([0.0, *bias])
        self.coef_ = coef.T
        self.intercept_ = bias
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
        weights = [self._attend(block)[0] for block in self._blocks(X)]
        return np.concatenate(weights).reshape(len(X), *np.shape(X[:1])[1:-1], -1)

    def _pool(self, block: Floats) -> Floats:
        if self.pooling != "attention":
            return pool(block, self.pooling)
        return self._attend(block)[1].reshape(len(block), -1)

    def _attend(self, block: Floats) -> tuple[Floats, Floats]:
        """Return the weights and the standardised means of the clips of a block."""
        query = self.query_ / self.scale_
        attended = [attend(piece, query) for piece in _pieces(block, self.mean_)]
        weights, means = map(np.concatenate, zip(*attended, strict=True))
        return weights, means / self.scale_

    def _blocks(self, X: Any) -> Iterator[Floats]:
        """Yield checked blocks [clips, frames, tokens, width], one of which is in memory."""
        for block in blocks_of(X):
            if block.ndim not in (3, 4):
                form = "[clips, frames, width] or [clips, frames, tokens, width]"
                raise FixTraining(f"expected {form}, got shape {block.shape}")
            padding = padding_of(block)
            filled = block
            if padding is not None:
                filled = block.copy()
                filled[padding] = 0
            rows = filled.reshape(-1, block.shape[-1])
            rows = validate_data(
                self, rows, reset=False, dtype=[np.float32, np.float64]
            )
            sizes = block.shape[1:3] if block.ndim == 4 else (block.shape[1], 1)
            checked = rows.reshape(len(block), *sizes, -1)
            yield checked if padding is None else with_padding(checked, ~padding)

    def _fit_attention(self, X: Any, codes: Ints) -> None:
        total = 0.0
        squares = 0.0
        n = 0
        for block in self._blocks(X):
            for piece in _pieces(block, np.zeros(block.shape[-1])):
                flat = _real_tokens(piece).astype(np.float64)
                total = total + flat.sum(axis=0)
                n = n + len(flat)
                squares = squares + (flat**2).sum(axis=0)
        self.mean_ = np.asarray(total / n)
        spread = np.sqrt(np.maximum(squares / n - self.mean_**2, 0))
        self.scale_ = np.where(
            spread > 1e-7 * np.abs(self.mean_).max(initial=0), spread, 1.0
        )
        shape = (self.queries, len(self.mean_), len(self.classes_))
        start = np.zeros(shape[0] * shape[1] * (1 + shape[2]) + shape[2])
        if self.queries > 1:  # equal queries would stay equal
            drawn = np.random.default_rng(0).standard_normal(shape[0] * shape[1])
            start[: len(drawn)] = drawn
        solution = minimize(
            self._loss,
            start,
            args=(X, codes, shape),
            jac=True,
            method="L-BFGS-B",
            options={"maxfun": self.max_passes, "gtol": 1e-4},
        )
        self.query_, self.coef_, self.intercept_ = _unpack(solution.x, shape)

    def _loss(
        self, free: Floats, X: Any, codes: Ints, shape: tuple[int, int, int]
    ) -> tuple[float, Floats]:
        """Return the penalised cross-entropy of all clips, and its gradient."""
        # The weights are divided by the scale of each column, which costs less than the tokens.
        scale = np.tile(self.scale_, shape[0])
        units = np.concatenate([scale, np.repeat(scale, shape[2]), np.ones(shape[2])])
        weights = _unpack(free / units, shape)
        seen = 0
        value = float((free[: -shape[2]] ** 2).sum()) / (2 * self.C)
        slope = free / self.C
        slope[-shape[2] :] = 0
        for block in blocks_of(X):  # checked by the pass before
            for piece in _pieces(block, self.mean_):
                piece_codes = codes[seen : seen + len(piece)]
                seen = seen + len(piece)
                loss, gradient = _piece_loss(piece, piece_codes, *weights)
                value = value + loss
                slope = slope + gradient / units
        return value, slope


def _pieces(block: NDArray[Any], mean: Floats) -> Iterator[NDArray[Any]]:
    """Yield all tokens of a few clips, less their mean: [clips, frames * tokens, width]."""
    flat = block.reshape(len(block), -1, block.shape[-1])
    origin = mean.astype(np.result_type(block.dtype, np.float32))
    n_clips = max(NUMBERS_A_PIECE // max(math.prod(flat.shape[1:]), 1), 1)
    for start in range(0, len(flat), n_clips):
        yield flat[start : start + n_clips] - origin


def _real_tokens(piece: NDArray[Any]) -> NDArray[Any]:
    """Return the tokens [token, width] of all clips that are not padding."""
    flat = piece.reshape(-1, piece.shape[-1])
    padding = np.isnan(flat[:, 0])
    return flat[~padding] if padding.any() else flat


def pool(block: Floats, pooling: Pooling) -> Floats:
    """Return one vector for each clip of a block [clip, frame, token, width].

    For "order" it has twice the width. Frames of NaN are padding and do not count.
    """
    if padding_of(block) is None:
        return _pool_frames(block, pooling)
    all_rows = []
    parts = []
    for rows, frames in without_padding(block):
        part = _pool_frames(frames, pooling)
        if pooling == "order" and frames.shape[1] == 1:
            part[:, block.shape[-1] :] = 0.0  # one frame has no slope
        all_rows.append(rows)
        parts.append(part)
    return np.concatenate(parts)[np.argsort(np.concatenate(all_rows))]


def _pool_frames(block: Floats, pooling: Pooling) -> Floats:
    if pooling == "max":
        return np.asarray(block.max(axis=(1, 2)))
    frames = block.mean(axis=2)
    if pooling == "last":
        return np.asarray(frames[:, -1])
    mean = np.asarray(frames.mean(axis=1))
    if pooling == "mean":
        return mean
    time = np.linspace(-1, 1, frames.shape[1])
    return np.concatenate(
        [mean, np.einsum("ntd,t->nd", frames, time) / len(time)], axis=1
    )


def attend(z: NDArray[Any], query: Floats) -> tuple[NDArray[Any], Floats]:
    """Return weights [clips, tokens, queries], and weighted means [clips, queries, width].

    Tokens of NaN are padding, which has no weight.
    """
    padding = np.isnan(z[:, :, 0])
    if padding.any():
        z = np.where(padding[:, :, None], 0, z)
    flat = z.reshape(-1, z.shape[-1])
    same_type = query.astype(z.dtype)
    scores = (flat @ same_type.T / math.sqrt(len(same_type.T))).reshape(
        *z.shape[:2], -1
    )
    if padding.any():
        scores[padding] = -np.inf
    weights = softmax(scores)
    return weights, (np.swapaxes(weights, 1, 2) @ z).astype(np.float64)


def _piece_loss(
    z: NDArray[Any], codes: Ints, query: Floats, coef: Floats, intercept: Floats
) -> tuple[float, Floats]:
    """Return the cross-entropy of some clips, and its gradient, laid out as in `_unpack`."""
    weights, means = attend(z, query)
    padding = np.isnan(z[:, :, 0])
    if padding.any():
        z = np.where(padding[:, :, None], 0, z)
    flat = means.reshape(len(z), -1)
    rows = np.arange(len(codes))
    p = softmax(flat @ coef + intercept)
    loss = -float(np.log(np.maximum(p[rows, codes], 1e-300)).sum())
    p[rows, codes] -= 1
    by_mean = (p @ coef.T).reshape(means.shape).astype(z.dtype)
    by_token = z @ np.swapaxes(by_mean, 1, 2)
    by_score = weights * (by_token - (weights * by_token).sum(axis=1, keepdims=True))
    by_query = by_score.reshape(-1, len(query)).T @ z.reshape(-1, z.shape[-1])
    by_query /= math.sqrt(query.shape[1])
    return loss, np.concatenate([by_query.ravel(), (flat.T @ p).ravel(), p.sum(axis=0)])


def _unpack(free: Floats, shape: tuple[int, int, int]) -> tuple[Floats, Floats, Floats]:
    n_queries, width, n_classes = shape
    query = free[: n_queries * width]
    coef = free[n_queries * width : -n_classes]
    wide = coef.reshape(n_queries * width, n_classes)
    return query.reshape(n_queries, width), wide, free[-n_classes:]
