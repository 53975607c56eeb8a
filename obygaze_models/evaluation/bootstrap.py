"""Bootstrap intervals over movies.

Clips of one movie are not independent: 1,600 clips of 12 movies have about as much information as
12 to 150 independent clips. So whole movies are drawn. The interval over single clips is computed
too, and the ratio of the two variances is the design effect.

Predictions pooled from the folds of a cross-validation vary more than their clips do, because each
clip also trained the models that the others tested. With `n_folds` an interval is widened for
that: for a linear probe on noise, over the published clips in folds of whole movies, the intervals
of AUC contained 0.5 in .78 to .88 of 60 runs without, and in .91 to 1.00 of 100 runs with it.
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

Statistics = Callable[[FloatArray], dict[str, FloatArray]]
# Blocks of this many weights limit the memory of a bootstrap to about 100 MB.
BLOCK = 2_000_000


@dataclass(frozen=True)
class Estimate:
    """A metric with intervals and standard errors over movies and over clips."""

    metric: str
    value: float
    by_movie: Interval
    by_clip: Interval
    se_movie: float
    se_clip: float

    @property
    def design_effect(self) -> float:
        """The ratio of the variances over movies and over clips; 1 for independent clips."""
        return (self.se_movie / self.se_clip) ** 2 if self.se_clip > 0 else float("nan")

    @property
    def n_effective(self) -> float:
        """The number of independent clips with the same variance."""
        return self.by_clip.n_units / self.design_effect if self.design_effect else float("nan")


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
    """Return each metric with its interval over movies, and over clips as if independent.

    Args:
        predictions: Labels, scores and decisions.
        groups: The movie of each clip.
        names: Names of metrics; the default is all.
        n_replicates: The number of bootstrap replicates.
        level: The level of the intervals.
        method: One of `intervals.METHODS`.
        seed: The seed of the draws.
        n_folds: The number of folds that the predictions were pooled from, if any.
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
    """Return the factor by which cross-validation raises the variance of a pooled metric.

    Each clip tests one model and trains the others, so errors of two clips are correlated. On noise
    the variance doubles; Nadeau and Bengio's correction for k folds, 1 + k / (k - 1), is a little
    larger. For a fixed test set (None) the factor is 1.
    """
    if n_folds is None:
        return 1.0
    if n_folds < 2:
        raise FixInput(f"n_folds must be at least 2, got {n_folds}")
    return 1 + n_folds / (n_folds - 1)


def resample(
    statistics: Statistics,
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
    """Return interval and standard error of each statistic, by drawing whole groups.

    Args:
        statistics: A function from rows of clip weights to values, one for each row.
        groups: The group of each clip.
        unit: What a group is, for the interval's field of this name.
        n_replicates: The number of draws.
        level: The level of the interval.
        method: One of `intervals.METHODS`.
        seed: The seed of the draws.
        within_unit: The statistics lie in [0, 1]; they are widened on the logit scale.
        inflation: A factor of the variance that the draws do not show (`reuse_inflation`).
    """
    if method not in METHODS:
        raise FixInput(f"unknown interval method {method!r}", hint="one of " + ", ".join(METHODS))
    if not 0 < level < 1 or n_replicates < 2:
        what = "level must be between 0 and 1 and n_replicates at least 2"
        raise FixInput(f"{what}, got {level} and {n_replicates}")
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
    """Yield how often each clip is in each replicate, if k groups are drawn with replacement."""
    rng = np.random.default_rng(seed)
    k = int(codes.max()) + 1
    step = max(1, BLOCK // max(codes.size, k))
    for start in range(0, n_replicates, step):
        rows = min(step, n_replicates - start)
        drawn = rng.integers(0, k, size=(rows, k)) + k * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * k).reshape(rows, k)
        yield counts[:, codes].astype(np.float64)


def leave_one_out_weights(codes: IntArray) -> Iterator[FloatArray]:
    """Yield weights of 1 for all clips but those of one group, for each group."""
    k = int(codes.max()) + 1
    step = max(1, BLOCK // codes.size)
    for start in range(0, k, step):
        absent = np.arange(start, min(start + step, k))
        yield (codes[None, :] != absent[:, None]).astype(np.float64)


def _collect(statistics: Statistics, blocks: Iterator[FloatArray]) -> dict[str, FloatArray]:
    found = [statistics(block) for block in blocks]
    return {name: np.concatenate([values[name] for values in found]) for name in found[0]}
