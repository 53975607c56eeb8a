"""The input of every metric: labels, scores and decisions of clips, and weights."""

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
    """Label, score and decision of each clip, checked once.

    `model` is the number of the model that scored each clip, where several are pooled.
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
        """Return checked predictions; a clip is positive where its score is above the threshold.

        A score equal to the threshold is negative, as with the argmax of two equal probabilities.

        Args:
            y: The labels, 0 or 1.
            score: The score of each clip.
            threshold: One threshold, or one for each clip.
            model: The model that scored each clip; by default one model scored all.
        """
        truth = as_truth(y)
        scores = as_scores(score, truth.size)
        codes = np.zeros(truth.size, dtype=np.intp)
        if model is not None:
            codes = as_codes(model, truth.size)[1]
        return cls(truth, scores, scores > np.asarray(threshold, dtype=np.float64), codes)

    def take(self, rows: IntArray | BoolArray) -> Predictions:
        """Return the predictions of some rows."""
        return Predictions(self.y[rows], self.score[rows], self.decision[rows], self.model[rows])

    def append(self, other: Predictions) -> Predictions:
        """Return the rows of both; the models of `other` get new numbers."""
        offset = int(self.model.max()) + 1
        return Predictions(
            np.concatenate([self.y, other.y]),
            np.concatenate([self.score, other.score]),
            np.concatenate([self.decision, other.decision]),
            np.concatenate([self.model, other.model + offset]),
        )

    def __len__(self) -> int:
        return int(self.y.size)


def as_weights(weights: ArrayLike | None, n_rows: int) -> FloatArray:
    """Return weights as a matrix (replicates, clips); without weights, one row of ones."""
    if weights is None:
        return np.ones((1, n_rows))
    matrix = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    if matrix.ndim != 2 or matrix.shape[1] != n_rows or not np.isfinite(matrix).all():
        raise FixInput(
            f"weights must be finite, one for each of {n_rows} clips, got shape {matrix.shape}"
        )
    if matrix.size and matrix.min() < 0:
        raise FixInput(f"weights must be at least 0, got {matrix.min():g}")
    return matrix
