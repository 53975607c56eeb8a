"""How far a number would move with other films: intervals by resampling movies, not clips.

Clips of one film share a look, a plot and an annotation session, so a test of 1,600 clips from
12 films knows about as much as one of 12 to 150 independent clips. Every interval here is therefore
made by drawing whole movies; the interval that pretends clips are independent stands beside it,
and the ratio of the two variances is the design effect.

Predictions pooled from the folds of a cross-validation vary more than their clips do, because each
clip also trained the models that the others tested. Said so (`n_folds`), an interval is widened for
it: of a linear probe on noise, over the published clips in folds of whole movies, the intervals of
AUC held one half in .78 to .88 of 60 runs before, and in .91 to 1.00 of 100 after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.arrays import FloatArray, IntArray, as_codes
from obygaze_models.evaluation.intervals import METHODS, Interval, Scale, bounds
from obygaze_models.evaluation.metrics import METRICS, replicate
from obygaze_models.evaluation.predictions import Predictions

__all__ = [
    "Estimate",
    "Interval",
    "Spread",
    "design_effect",
    "draw_weights",
    "estimate",
    "leave_one_out_weights",
    "resample",
    "reuse_inflation",
    "seed_spread",
]

# A block of this many weights at a time keeps a bootstrap of any size within about 100 MB.
BLOCK = 2_000_000


@dataclass(frozen=True)
class Estimate:
    """A metric with what is known about it: both intervals, both errors, and their ratio."""

    metric: str
    value: float
    by_movie: Interval
    by_clip: Interval
    se_movie: float
    se_clip: float

    @property
    def design_effect(self) -> float:
        """By how much clustering inflates the variance: 1 for independent clips."""
        return (self.se_movie / self.se_clip) ** 2 if self.se_clip > 0 else float("nan")

    @property
    def n_effective(self) -> float:
        """How many independent clips would tell as much."""
        return self.by_clip.n_units / self.design_effect if self.design_effect else float("nan")


@dataclass(frozen=True)
class Spread:
    """What re-training changes: the spread between seeds, which is no uncertainty of the test."""

    mean: float
    sd: float
    n: int


def seed_spread(values: ArrayLike) -> Spread:
    """Mean and sample SD of one number over re-trainings on the same clips."""
    v = np.asarray(values, dtype=np.float64)
    if v.ndim != 1 or v.size == 0:
        raise FixInput("a spread between seeds needs a row of values")
    return Spread(float(v.mean()), float(v.std(ddof=1)) if v.size > 1 else float("nan"), v.size)


def estimate(
    predictions: Predictions,
    groups: ArrayLike,
    names: Iterable[str] = METRICS,
    *,
    n_replicates: int = 2000,
    level: float = 0.95,
    method: str = "expanded",
    seed: int = 0,
    n_folds: int | None = None,
) -> dict[str, Estimate]:
    """Every metric with its interval over movies and, beside it, over independent clips.

    `n_folds` says that the predictions were pooled from that many folds (`reuse_inflation`).
    """
    names = list(names)

    def statistics(weights: FloatArray) -> dict[str, FloatArray]:
        return replicate(predictions, weights, names)

    n = len(predictions)
    drawn = partial(
        resample,
        statistics,
        n_replicates=n_replicates,
        level=level,
        method=method,
        within_unit=True,
        inflation=reuse_inflation(n_folds),
    )
    movies = drawn(groups, unit="movie", seed=(seed, 0))
    clips = drawn(np.arange(n), unit="clip", seed=(seed, 1))
    point = statistics(np.ones((1, n)))
    return {
        name: Estimate(
            name,
            float(point[name][0]),
            movies[name][0],
            clips[name][0],
            movies[name][1],
            clips[name][1],
        )
        for name in names
    }


def reuse_inflation(n_folds: int | None) -> float:
    """By how much cross-validation raises the variance beyond that of its test clips.

    Each clip tests one model and trains the others, so two clips meet twice: what one gains by
    chance the other gains too. On noise the variance doubles; Nadeau and Bengio's correction of
    1 + k / (k - 1) for k folds is that and a little more. A fixed test set has none of it.
    """
    if n_folds is None:
        return 1.0
    if n_folds < 2:
        raise FixInput(f"{n_folds} folds are no cross-validation")
    return 1 + n_folds / (n_folds - 1)


def resample(
    statistics: Callable[[FloatArray], dict[str, FloatArray]],
    groups: ArrayLike,
    *,
    unit: str = "movie",
    n_replicates: int = 2000,
    level: float = 0.95,
    method: str = "expanded",
    seed: int | tuple[int, ...] = 0,
    within_unit: bool = False,
    inflation: float = 1.0,
) -> dict[str, tuple[Interval, float]]:
    """Interval and standard error of any statistics of weighted clips, by drawing whole groups.

    `within_unit` says that the statistics lie in [0, 1]: what is stretched or taken for Gaussian is
    then their logit. `inflation` is a factor for the variance that the draws cannot show.
    """
    if method not in METHODS:
        raise FixInput(f"no interval method {method!r}", hint="one of " + ", ".join(METHODS))
    if not 0 < level < 1 or n_replicates < 2:
        raise FixInput("an interval needs a level between 0 and 1 and at least 2 replicates")
    labels = np.asarray(groups)
    _, codes = as_codes(labels, labels.size)
    k = int(codes.max()) + 1
    scale = Scale(within_unit, inflation**0.5)
    draws = _collect(statistics, draw_weights(codes, n_replicates, seed))
    point = statistics(np.ones((1, codes.size)))
    left_out = {}
    if method in ("bca", "jackknife"):
        left_out = _collect(statistics, leave_one_out_weights(codes))
    results = {}
    for name, values in draws.items():
        defined = values[np.isfinite(values)]
        away = left_out.get(name, np.zeros(0))
        away = away[np.isfinite(away)]
        low, high = bounds(method, defined, float(point[name][0]), away, k, 1 - level, scale)
        error = float(defined.std(ddof=1)) if defined.size > 1 and k > 1 else float("nan")
        undefined = int(values.size - defined.size)
        interval = Interval(low, high, level, method, unit, k, n_replicates, undefined, inflation)
        results[name] = (interval, error * inflation**0.5)
    return results


def draw_weights(
    codes: IntArray, n_replicates: int, seed: int | tuple[int, ...]
) -> Iterator[FloatArray]:
    """How often each clip is in each replicate, when k groups are drawn with replacement."""
    rng = np.random.default_rng(seed)
    k = int(codes.max()) + 1
    step = max(1, BLOCK // max(codes.size, k))
    for start in range(0, n_replicates, step):
        rows = min(step, n_replicates - start)
        drawn = rng.integers(0, k, size=(rows, k)) + k * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * k).reshape(rows, k)
        yield counts[:, codes].astype(np.float64)


def leave_one_out_weights(codes: IntArray) -> Iterator[FloatArray]:
    """All clips but those of one group, for each group."""
    k = int(codes.max()) + 1
    step = max(1, BLOCK // codes.size)
    for start in range(0, k, step):
        absent = np.arange(start, min(start + step, k))
        yield (codes[None, :] != absent[:, None]).astype(np.float64)


def design_effect(values: ArrayLike, groups: ArrayLike) -> float:
    """By how much clustering inflates the variance of a mean: robust over independent variance."""
    v = np.asarray(values, dtype=np.float64)
    names, codes = as_codes(groups, v.size)
    k = names.size
    if k < 2 or v.std() == 0:
        return float("nan")
    residual = np.bincount(codes, weights=v - v.mean())
    clustered = float((residual**2).sum()) * k / (k - 1)
    return clustered / (v.size * float(v.var(ddof=1)))


def _collect(
    statistics: Callable[[FloatArray], dict[str, FloatArray]], blocks: Iterator[FloatArray]
) -> dict[str, FloatArray]:
    parts = [statistics(block) for block in blocks]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
