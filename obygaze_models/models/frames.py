"""Probes on the frames or the spatial tokens of clips, pooled by a rule.

Clips [clips, frames, width] or [clips, frames, tokens, width] are read in blocks of rows, so that a
memory-mapped array, or `StoreRows`, may be larger than memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from obygaze_features.store import Store
from obygaze_models.models.common import (
    FixTraining,
    Floats,
    encode_classes,
    find_padding,
    groups_without_padding,
    iterate_blocks,
    with_padding,
)
from obygaze_models.models.estimator import Classifier
from obygaze_models.models.linear_solvers import logistic
from obygaze_models.models.mlp_network import softmax
from obygaze_models.models.parameters import Positive

Pooling = Literal["max", "mean", "last"]


@dataclass(frozen=True, eq=False)
class StoreRows:
    """The frames or tokens of clips of a store; slicing reads them.

    Padding frames, by the mask of the store, are NaN. Indexing with an array selects clips without
    reading them.
    """

    store: Store
    array: str
    clips: Sequence[str] | NDArray[np.str_]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of all clips."""
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


@dataclass(eq=False)
class FrameProbe(Classifier):
    """A classifier of clips from their frames or tokens.

    In a matrix, each row is a clip of one frame. Frames of NaN are padding and are ignored.
    `pooling` reduces a clip to one vector: the maximum ("max", as in the ObyGaze12 paper), the
    mean, or the last frame. A logistic regression is fitted on these vectors; C is the inverse of
    the penalty strength.
    """

    pooling: Pooling = "max"
    _: KW_ONLY
    C: Positive = 1.0

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit on clips, which are read once."""
        if _are_frames(X):
            self.n_features_in_ = X.shape[-1]
            self.classes_, codes = encode_classes(np.asarray(y))
        else:
            X, codes = self._check_training(X, y)
        (coef,), bias = logistic(self._pooled(X), codes, self.C)
        self.coef_ = np.stack([np.zeros_like(coef), coef]).T
        self.intercept_ = np.array([0.0, *bias])
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class for each clip."""
        return softmax(self._pooled(X) @ self.coef_ + self.intercept_)

    def _pooled(self, X: Any) -> Floats:
        """Return one vector for each clip; in a matrix, each row is a clip of one frame."""
        if not _are_frames(X):
            X = self._check(X)[:, None]
        parts = [pool(block, self.pooling) for block in self._blocks(X)]
        return np.concatenate(parts)

    def _blocks(self, X: Any) -> Iterator[Floats]:
        """Yield checked blocks [clips, frames, tokens, width], so that one block is in memory."""
        for block in iterate_blocks(X):
            if block.ndim not in (3, 4):
                form = "[clips, frames, width] or [clips, frames, tokens, width]"
                raise FixTraining(f"expected {form}, got shape {block.shape}")
            frames = np.asarray(block, dtype=np.float64)
            if frames.ndim == 3:
                frames = frames[:, :, None]
            padding = find_padding(frames)
            real = frames if padding is None else frames[~padding]
            self._check(real.reshape(-1, frames.shape[-1]))
            yield frames


def _are_frames(X: Any) -> bool:
    """Return whether clips have frames; in a matrix, each row is a clip."""
    return getattr(X, "ndim", 0) > 2


def pool(block: Floats, pooling: Pooling) -> Floats:
    """Return one vector for each clip of a block [clip, frame, token, width].

    Frames of NaN are padding and are ignored.
    """
    if find_padding(block) is None:
        return _pool_frames(block, pooling)
    all_rows = []
    parts = []
    for rows, frames in groups_without_padding(block):
        all_rows.append(rows)
        parts.append(_pool_frames(frames, pooling))
    return np.concatenate(parts)[np.argsort(np.concatenate(all_rows))]


def _pool_frames(block: Floats, pooling: Pooling) -> Floats:
    if pooling == "max":
        return np.asarray(block.max(axis=(1, 2)))
    frames = block.mean(axis=2)
    if pooling == "last":
        return np.asarray(frames[:, -1])
    return np.asarray(frames.mean(axis=1))
