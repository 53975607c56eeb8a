"""Compare two stores: recipes, clips, and how close the features of their common clips are."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import Progress, Quiet
from obygaze_features.store.format.recipe import RecipeDifference
from obygaze_features.store.read.reader import Store

CLIPS_AT_ONCE = 256


@dataclass(frozen=True)
class LevelDiff:
    """How close one level of two stores is, over the clips that are ok in both."""

    level: str
    n_clips: int
    n_identical: int
    least_cosine: float
    median_cosine: float
    greatest_difference: float
    note: str = ""


@dataclass
class Diff:
    """The differences of two stores."""

    recipe: list[RecipeDifference]
    only_first: list[str]
    only_second: list[str]
    common: list[str]
    states: dict[str, tuple[str, str]]
    arrays: list[str]
    levels: list[LevelDiff] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether recipe, clips, states and every number are equal."""
        return not (
            self.recipe or self.only_first or self.only_second or self.states or self.arrays
        ) and all(level.n_identical == level.n_clips and not level.note for level in self.levels)


def diff_stores(first: Store, second: Store, *, progress: Progress | None = None) -> Diff:
    """Compare two stores without holding more than a few hundred clips in memory.

    `progress` counts clips, once for each common level.
    """
    ids, others = first.clip_ids.tolist(), second.clip_ids.tolist()
    here, there = set(ids), set(others)
    common = [clip for clip in ids if clip in there]
    states = _states(first), _states(second)
    pairs = {clip: (states[0].get(clip, "ok"), states[1].get(clip, "ok")) for clip in common}
    found = Diff(
        recipe=first.recipe.diff(second.recipe),
        only_first=[clip for clip in ids if clip not in there],
        only_second=[clip for clip in others if clip not in here],
        common=common,
        states={clip: pair for clip, pair in pairs.items() if pair[0] != pair[1]},
        arrays=sorted(set(first.levels) ^ set(second.levels)),
    )
    both_ok = [clip for clip, pair in pairs.items() if pair == ("ok", "ok")]
    levels = [level for level in first.levels if level in second.levels]
    progress = progress or Quiet()
    progress.expect(len(levels) * len(both_ok))
    for level in levels:
        found.levels.append(_level(level, first, second, both_ok, progress))
    return found


def _states(store: Store) -> dict[str, str]:
    ids = store.clip_ids
    return {str(ids[row]): status.state for row, status in store.status().noted.items()}


def _level(
    level: str, first: Store, second: Store, clips: Sequence[str], progress: Progress
) -> LevelDiff:
    shapes = [store.plan.array(level).tail_shape for store in (first, second)]
    if shapes[0] != shapes[1]:
        nan = float("nan")
        return LevelDiff(level, 0, 0, nan, nan, nan, f"shapes {shapes[0]} and {shapes[1]}")
    angles, largest, n_identical = [], 0.0, 0
    for start in range(0, len(clips), CLIPS_AT_ONCE):
        part = clips[start : start + CLIPS_AT_ONCE]
        a, b = (store.matrix(level, clips=part).values for store in (first, second))
        angles.append(cosines(a, b))
        apart = np.abs(a.astype(np.float64) - b).reshape(len(part), -1).max(axis=1)
        n_identical += int((apart == 0).sum())
        largest = max(largest, float(apart.max()))
        progress.advance(len(part))
    every = np.concatenate(angles) if angles else np.array([np.nan])
    return LevelDiff(
        level, len(clips), n_identical, float(every.min()), float(np.median(every)), largest
    )


def cosines(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the cosine of each row of one array with the same row of another.

    Rows of several vectors count as one long vector. Two rows of zeros are the same: 1.
    """
    left = np.asarray(a, dtype=np.float64).reshape(len(a), -1)
    right = np.asarray(b, dtype=np.float64).reshape(len(b), -1)
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    equal = (left == right).all(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.einsum("ij,ij->i", left, right) / norms
    return np.where(equal, 1.0, np.where(norms > 0, found, 0.0))
