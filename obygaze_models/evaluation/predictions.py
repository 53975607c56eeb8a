"""What every metric takes: truth, score and decision of the same clips, and rows of weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    as_codes,
    as_scores,
    as_truth,
)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Truth, score and decision of the same clips, checked once.

    `model` numbers the model that scored each clip, where predictions of several are pooled.
    """

    y: BoolArray
    score: FloatArray
    decision: BoolArray
    model: IntArray

    @classmethod
    def of(
        cls,
        y: ArrayLike,
        score: ArrayLike,
        threshold: ArrayLike = 0.5,
        *,
        model: ArrayLike | None = None,
    ) -> Predictions:
        """Decide "positive" where the score is above the threshold (one, or one for each row).

        Above, not at: a tie of two class probabilities is "negative", as an argmax has it.
        """
        truth = as_truth(y)
        scores = as_scores(score, truth.size)
        codes = np.zeros(truth.size, dtype=np.intp)
        if model is not None:
            codes = as_codes(model, truth.size)[1]
        return cls(truth, scores, scores > np.asarray(threshold, dtype=np.float64), codes)

    def take(self, rows: IntArray | BoolArray) -> Predictions:
        """The predictions of some rows."""
        return Predictions(self.y[rows], self.score[rows], self.decision[rows], self.model[rows])

    def beside(self, other: Predictions) -> Predictions:
        """The rows of both, one after the other; models keep apart."""
        apart = int(self.model.max()) + 1
        return Predictions(
            np.concatenate([self.y, other.y]),
            np.concatenate([self.score, other.score]),
            np.concatenate([self.decision, other.decision]),
            np.concatenate([self.model, other.model + apart]),
        )

    def __len__(self) -> int:
        return int(self.y.size)


def as_weights(weights: ArrayLike | None, n_rows: int) -> FloatArray:
    """Weights as a matrix (replicates, clips)."""
    if weights is None:
        return np.ones((1, n_rows))
    matrix = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    if matrix.ndim != 2 or matrix.shape[1] != n_rows or not np.isfinite(matrix).all():
        raise FixInput(f"{n_rows} clips but weights of shape {matrix.shape}, or not finite")
    if matrix.size and matrix.min() < 0:
        raise FixInput("weights must not be negative")
    return matrix
