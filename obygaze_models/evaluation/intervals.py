"""Turns replicates into the two ends of an interval.

With a dozen films the plain percentile interval is too short, because it treats the spread between
k films as if it were known (Student against Gauss, k - 1 against k). The default is the percentile
interval with its quantiles moved outwards by exactly those two factors (Hesterberg's expanded
percentile): it follows a skewed distribution and stays inside [0, 1].

How often a 95 % interval held the truth in 400 simulated tests of 12 films with the sizes of the
published ones and a design effect of 11; lowest, mean and highest over five metrics (binary and
weighted F1, AP, AUC, precision) of a model that knows nothing and of one that knows something:

    expanded .91 .94 .96    percentile .88 .90 .94    bca .86 .90 .94    jackknife .93 .95 .97

BCa is there to compare with: its correction for bias is misled by how AUC behaves under doubled
films. The delete-one-movie jackknife (Student's t, for shares on the logit scale) covers best and
draws nothing, but is symmetric by construction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from obygaze_models.evaluation.arrays import FloatArray

METHODS = ("expanded", "percentile", "bca", "jackknife")
NEXT_TO_ZERO = 1e-6


@dataclass(frozen=True)
class Interval:
    """An interval, how it was made, and how many replicates had no value."""

    low: float
    high: float
    level: float
    method: str
    unit: str
    n_units: int
    n_replicates: int
    n_undefined: int
    inflation: float

    def covers(self, value: float) -> bool:
        """Does the interval hold this value?"""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Scale:
    """On which scale, logit or plain, and how far a distribution is stretched."""

    within_unit: bool
    stretch: float

    def to(self, values: FloatArray | float) -> FloatArray:
        """From a statistic to the scale."""
        if self.within_unit:
            values = special.logit(np.clip(values, NEXT_TO_ZERO, 1 - NEXT_TO_ZERO))
        return np.asarray(values, dtype=np.float64)

    def back(self, values: FloatArray) -> FloatArray:
        """From the scale to the statistic."""
        if not self.within_unit:
            return values
        # What was 0 or 1 before the logit is so again: an F1 of 0 lies within 0 to 0.
        edge = special.logit(1 - NEXT_TO_ZERO) - 1e-9
        inside = special.expit(values)
        return np.asarray(np.where(np.abs(values) < edge, inside, np.round(inside)))

    def widen(self, draws: FloatArray) -> FloatArray:
        """The draws, moved away from their median."""
        if self.stretch == 1:
            return draws
        centre = self.to(float(np.median(draws)))
        return self.back(centre + self.stretch * (self.to(draws) - centre))


def bounds(
    method: str,
    draws: FloatArray,
    point: float,
    left_out: FloatArray,
    k: int,
    alpha: float,
    scale: Scale,
) -> tuple[float, float]:
    """Both ends; NaN where one group alone, or no replicate with a value, says nothing."""
    if k < 2 or draws.size == 0 or not np.isfinite(point):
        return float("nan"), float("nan")
    if method == "jackknife":
        return _jackknife_bounds(point, left_out, k, alpha, scale)
    if method == "bca":
        tails = _bca_tails(draws, point, left_out, alpha)
    else:
        tail = alpha / 2 if method == "percentile" else expanded_tail(k, alpha)
        tails = (tail, 1 - tail)
    low, high = np.quantile(scale.widen(draws), tails)
    return float(low), float(high)


def expanded_tail(k: int, alpha: float = 0.05) -> float:
    """The tail that makes k groups as wide as Student's t with the unbiased variance would."""
    return float(stats.norm.cdf(np.sqrt(k / (k - 1)) * stats.t.ppf(alpha / 2, k - 1)))


def _jackknife_bounds(
    point: float, left_out: FloatArray, k: int, alpha: float, scale: Scale
) -> tuple[float, float]:
    """Student's t around the point."""
    if left_out.size < 2:
        return float("nan"), float("nan")
    values = scale.to(left_out)
    error = np.sqrt((values.size - 1) / values.size * ((values - values.mean()) ** 2).sum())
    reach = scale.stretch * stats.t.ppf(1 - alpha / 2, k - 1) * error
    low, high = scale.back(scale.to(point) + np.array([-1.0, 1.0]) * reach)
    return float(low), float(high)


def _bca_tails(
    draws: FloatArray, point: float, left_out: FloatArray, alpha: float
) -> tuple[float, float]:
    """Percentiles corrected for bias (median of the draws) and for skew (jackknife)."""
    below = (np.sum(draws < point) + np.sum(draws <= point)) / (2 * draws.size)
    bias = special.ndtri(np.clip(below, 1 / draws.size, 1 - 1 / draws.size))
    away = left_out.mean() - left_out
    scale = float((away**2).sum()) ** 1.5
    skew = float((away**3).sum()) / (6 * scale) if scale > 0 else 0.0
    z = bias + special.ndtri(np.array([alpha / 2, 1 - alpha / 2]))
    low, high = special.ndtr(bias + z / (1 - skew * z))
    return float(low), float(high)
