"""The input of all metrics: labels, scores, decisions and films of the tested clips of a fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]
NO_ROWS: IntArray = np.zeros(0, dtype=np.intp)
# Smaller differences are rounding and count as equal.
ROUNDING = 1e-12


def rounded_difference(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """Return a - b; a difference of less than 1e-12 is rounding, and is returned as 0."""
    apart = np.subtract(a, b)
    return np.where(np.abs(apart) < ROUNDING, 0.0, apart)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Label, score, decision and film number of each clip.

    A decision is a number from 0 (negative) to 1 (positive); 0.5 is a random decision.
    """

    y: BoolArray
    score: FloatArray
    decision: BoolArray | FloatArray
    films: IntArray

    @classmethod
    def of(
        cls,
        y: ArrayLike,
        score: ArrayLike,
        threshold: float = 0.5,
        films: ArrayLike | None = None,
    ) -> Self:
        """Return checked predictions; a clip is positive if its score is above the threshold.

        A clip whose score equals the threshold is negative: the argmax of two equal probabilities
        is also the first class.

        Args:
            y: The labels, 0 or 1.
            score: The score of each clip.
            threshold: The threshold.
            films: The film of each clip; by default all are of one film.
        """
        truth = as_truth(y)
        scores = as_scores(score, truth.size)
        codes = np.zeros(truth.size, dtype=np.intp)
        if films is not None:
            _, codes = as_codes(films, truth.size)
        return cls(truth, scores, scores > threshold, codes)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the predictions of all parts, concatenated."""
        return cls(
            np.concatenate([part.y for part in parts]),
            np.concatenate([part.score for part in parts]),
            np.concatenate([part.decision for part in parts]),
            np.concatenate([part.films for part in parts]),
        )

    def take(self, rows: IntArray | BoolArray) -> Self:
        """Return the predictions of some rows."""
        return type(self)(
            self.y[rows], self.score[rows], self.decision[rows], self.films[rows]
        )

    def __len__(self) -> int:
        return int(self.y.size)


def as_truth(y: ArrayLike) -> BoolArray:
    """Return labels 0 and 1 as booleans; raise an error for any other label."""
    truth = np.asarray(y)
    if truth.ndim != 1 or truth.size == 0:
        raise FixInput(
            f"labels must be a non-empty list of 0 and 1, got shape {truth.shape}"
        )
    if truth.dtype == np.bool_:
        return truth
    unknown = sorted({str(v) for v in truth.tolist() if v not in (0, 1)})
    if unknown:
        raise FixInput(f"labels must be 0 or 1, got {', '.join(unknown[:5])}")
    return truth.astype(np.bool_)


def as_scores(score: ArrayLike, n_rows: int) -> FloatArray:
    """Return scores as float64; raise an error unless each row has one finite score."""
    scores = np.asarray(score, dtype=np.float64)
    if scores.shape != (n_rows,):
        raise FixInput(
            f"expected one score for each of {n_rows} labels, got shape {scores.shape}"
        )
    bad = np.flatnonzero(~np.isfinite(scores))
    if bad.size:
        raise FixInput(
            f"{bad.size} of {n_rows} scores are not finite",
            where=f"row {bad[0]}: {scores[bad[0]]}",
        )
    return scores


def as_codes(groups: ArrayLike, n_rows: int) -> tuple[NDArray[Any], IntArray]:
    """Return the sorted group names, and the number of each row's group."""
    names = np.asarray(groups)
    if names.shape != (n_rows,):
        raise FixInput(
            f"expected one group for each of {n_rows} rows, got shape {names.shape}"
        )
    unique, codes = np.unique(names, return_inverse=True)
    return unique, codes.astype(np.intp)
