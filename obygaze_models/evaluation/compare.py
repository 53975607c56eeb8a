"""Is one model better than another: tests that know what was shared between the two.

Two models are compared on the same clips, so every test here is paired. What is exchangeable under
"no difference" is a movie, not a clip: all of a movie's predictions are swapped, or all of its
differences change sign, together. With k movies there are 2^k such worlds; up to 2^16 of them are
counted one by one, which makes the p-value exact, and beyond that they are drawn with a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.arrays import FloatArray, IntArray, as_codes
from obygaze_models.evaluation.bootstrap import resample, reuse_inflation
from obygaze_models.evaluation.intervals import Interval
from obygaze_models.evaluation.metrics import replicate
from obygaze_models.evaluation.predictions import Predictions

MAX_EXACT = 16
BLOCK = 4_000_000
# Differences that are equal on paper differ in the last bits of their sums.
TIE = 1e-9


@dataclass(frozen=True)
class TTest:
    """A corrected t-test over re-samplings, with its interval."""

    mean: float
    low: float
    high: float
    t: float
    df: int
    p: float


@dataclass(frozen=True)
class PermutationTest:
    """A two-sided permutation test: how many worlds were looked at, and whether that was all."""

    difference: float
    p: float
    n_movies: int
    n_left_out: int
    n_worlds: int
    exact: bool


@dataclass(frozen=True)
class Difference:
    """First model minus second, with its interval over movies."""

    metric: str
    first: float
    second: float
    value: float
    interval: Interval
    se: float


def nadeau_bengio(
    differences: ArrayLike, *, n_train: float, n_test: float, level: float = 0.95
) -> TTest:
    """Nadeau and Bengio's corrected resampled t over one difference for each fold or repetition.

    Folds share most of their training clips, so their variance is too small by the part that the
    ratio of test to training size adds back.
    """
    d = _finite_row(differences, "fold differences", at_least=2)
    if n_train <= 0 or n_test <= 0:
        raise FixInput("the corrected t-test needs how many clips trained and tested each fold")
    error = float(np.sqrt((1 / d.size + n_test / n_train) * d.var(ddof=1)))
    df = d.size - 1
    mean = float(d.mean())
    t = mean / error if error > 0 else float(np.copysign(np.inf, mean)) if mean else 0.0
    reach = float(stats.t.ppf((1 + level) / 2, df)) * error
    return TTest(mean, mean - reach, mean + reach, t, df, float(2 * stats.t.sf(abs(t), df)))


def sign_flip(differences: ArrayLike, *, n_sampled: int = 50_000, seed: int = 0) -> PermutationTest:
    """Sign-flip test of one difference for each movie; NaN (no value for a movie) is left out."""
    d = np.asarray(differences, dtype=np.float64)
    kept = _finite_row(d[~np.isnan(d)], "movie differences", at_least=1)
    exact = kept.size <= MAX_EXACT
    means = [(1 - 2 * world) @ kept / kept.size for world in _worlds(kept.size, n_sampled, seed)]
    observed = float(kept.mean())
    p, n_worlds = _tail(np.concatenate(means), observed, exact)
    return PermutationTest(observed, p, kept.size, d.size - kept.size, n_worlds, exact)


def swap_test(
    first: Predictions,
    second: Predictions,
    groups: ArrayLike,
    metric: str,
    *,
    n_sampled: int = 2_000,
    seed: int = 0,
) -> PermutationTest:
    """Permutation test of a pooled metric: whole movies change sides between the two models.

    For metrics without a value in a movie that has no positive clip, where `sign_flip` must leave
    the movie out.
    """
    names, codes = _paired(first, second, groups)
    exact = names.size <= MAX_EXACT
    both = first.beside(second)
    found = []
    for world in _worlds(names.size, n_sampled, seed, max_rows=max(1, BLOCK // (2 * codes.size))):
        side = world[:, codes].astype(np.float64)
        one = replicate(both, np.hstack([1 - side, side]), [metric])[metric]
        other = replicate(both, np.hstack([side, 1 - side]), [metric])[metric]
        found.append(one - other)
    values = np.concatenate(found)
    observed = float(values[0])
    p, n_worlds = _tail(values, observed, exact)
    return PermutationTest(observed, p, names.size, 0, n_worlds, exact)


def paired_bootstrap(
    first: Predictions,
    second: Predictions,
    groups: ArrayLike,
    metrics: Sequence[str],
    *,
    n_replicates: int = 2000,
    level: float = 0.95,
    method: str = "expanded",
    seed: int = 0,
    n_folds: int | None = None,
) -> dict[str, Difference]:
    """Difference of two models on the same clips, both read off the same drawn movies.

    `n_folds` says that both were pooled from that many folds.
    """
    _paired(first, second, groups)

    def statistics(weights: FloatArray) -> dict[str, FloatArray]:
        a, b = replicate(first, weights, metrics), replicate(second, weights, metrics)
        return {name: a[name] - b[name] for name in metrics}

    drawn = resample(
        statistics,
        groups,
        n_replicates=n_replicates,
        level=level,
        method=method,
        seed=(seed, 2),
        inflation=reuse_inflation(n_folds),
    )
    a, b = replicate(first, None, metrics), replicate(second, None, metrics)
    return {
        name: Difference(
            name, float(a[name][0]), float(b[name][0]), float(a[name][0] - b[name][0]), *drawn[name]
        )
        for name in metrics
    }


def movie_differences(
    first: Predictions, second: Predictions, groups: ArrayLike, metric: str
) -> dict[str, float]:
    """First minus second within each movie; NaN where the metric has no value there.

    F1 is taken to have none in a movie without a positive clip: 0 against 0 would count as a tie.
    """
    names, codes = _paired(first, second, groups)
    weights = (codes[None, :] == np.arange(names.size)[:, None]).astype(np.float64)
    difference = (
        replicate(first, weights, [metric])[metric] - replicate(second, weights, [metric])[metric]
    )
    if metric in ("f1_binary", "recall"):
        difference = np.where(weights @ first.y > 0, difference, np.nan)
    return dict(zip(map(str, names), difference.tolist(), strict=True))


def holm(p_values: ArrayLike) -> FloatArray:
    """Holm's adjusted p-values, in the order given; they hold whatever the tests share."""
    p = _finite_row(p_values, "p-values", at_least=1)
    if p.min() < 0 or p.max() > 1:
        raise FixInput("p-values lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def _worlds(
    k: int, n_sampled: int, seed: int, max_rows: int = 1 << MAX_EXACT
) -> Iterator[IntArray]:
    """Rows of 0 (as observed) and 1 (flipped); the first row is the world as observed."""
    if k <= MAX_EXACT:
        for start in range(0, 1 << k, max_rows):
            numbers = np.arange(start, min(start + max_rows, 1 << k))
            yield (numbers[:, None] >> np.arange(k)) & 1
        return
    rng = np.random.default_rng(seed)
    yield np.zeros((1, k), dtype=np.intp)
    for start in range(0, n_sampled, max_rows):
        yield rng.integers(0, 2, size=(min(max_rows, n_sampled - start), k))


def _tail(values: FloatArray, observed: float, exact: bool) -> tuple[float, int]:
    """Share of worlds at least as far from 0; the observed one counts beside sampled ones."""
    drawn = values if exact else values[1:]
    defined = drawn[np.isfinite(drawn)]
    if not np.isfinite(observed):
        return float("nan"), 0
    extreme = int(np.sum(np.abs(defined) >= abs(observed) - TIE))
    if exact:
        return extreme / defined.size, defined.size
    return (extreme + 1) / (defined.size + 1), defined.size


def _paired(
    first: Predictions, second: Predictions, groups: ArrayLike
) -> tuple[FloatArray, IntArray]:
    if len(first) != len(second) or not np.array_equal(first.y, second.y):
        raise FixInput(
            "the two models were not tested on the same clips in the same order",
            hint="join their predictions on clip_id first",
        )
    return as_codes(groups, len(first))


def _finite_row(values: ArrayLike, what: str, at_least: int) -> FloatArray:
    row = np.asarray(values, dtype=np.float64)
    if row.ndim != 1 or row.size < at_least or not np.isfinite(row).all():
        raise FixInput(f"{what} must be a row of at least {at_least} finite numbers")
    return row
