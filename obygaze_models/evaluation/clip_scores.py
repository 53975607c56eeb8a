"""The scores of single clips, from the table of tests: errors, success, and the page of a film."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.predictions import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class ClipScores:
    """The scores of the clips that one model tested, in the order of their ids.

    Attributes:
        ids: The ids of the clips.
        films: The film of each clip.
        y: The class of each clip.
        score: The mean score over the fits that tested the clip.
        low: The lowest of these scores.
        high: The highest of these scores.
        fits: How many fits tested the clip.
        threshold: The score above which a clip is positive.
    """

    ids: NDArray[Any]
    films: NDArray[Any]
    y: BoolArray
    score: FloatArray
    low: FloatArray
    high: FloatArray
    fits: IntArray
    threshold: float

    @property
    def is_positive(self) -> BoolArray:
        """Whether each clip is called positive, by its mean score."""
        return self.score > self.threshold


def clip_scores(tests: pd.DataFrame) -> ClipScores:
    """Return the scores of clips from the rows of one model in the table of tests."""
    ids, first, at = np.unique(
        tests["clip_id"].to_numpy(), return_index=True, return_inverse=True
    )
    scores = tests["score"].to_numpy()
    fits = np.bincount(at)
    of_clip = tests["score"].groupby(at)
    return ClipScores(
        ids,
        tests["movie_id"].to_numpy()[first],
        tests["y"].to_numpy()[first].astype(np.bool_),
        np.bincount(at, weights=scores) / fits,
        of_clip.min().to_numpy(),
        of_clip.max().to_numpy(),
        fits,
        0.5 if tests["is_probability"].all() else 0.0,
    )
