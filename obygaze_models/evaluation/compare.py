"""Tests of the difference of two models on the same clips, and of many tests.

Every test is paired. Under the null hypothesis the unit that can be exchanged is a film, not a
clip: all differences of a film change sign together. k films have 2^k sign patterns; up to 2^16
are all evaluated, so that the p-value is exact, and of more a sample is drawn with a seed.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.predictions import FloatArray

MAX_EXACT = 16
# Differences that are mathematically equal differ in the last bits of their sums: by so much of
# the largest one.
TIE = 1e-9


def nadeau_bengio(differences: ArrayLike, *, n_train: float, n_test: float) -> float:
    """Return the p of Nadeau and Bengio's corrected resampled t-test.

    Folds share most of their training clips, so the variance of their differences is too small;
    the ratio of test to training size corrects it.

    Args:
        differences: One difference of two models for each fold or repetition.
        n_train: The mean number of training clips of a fold.
        n_test: The mean number of test clips of a fold.
    """
    d = _finite(differences, "fold differences", at_least=2)
    if n_train <= 0 or n_test <= 0:
        raise FixInput(
            f"n_train and n_test must be above 0, got {n_train:g} and {n_test:g}"
        )
    error = float(np.sqrt((1 / d.size + n_test / n_train) * d.var(ddof=1)))
    mean = float(d.mean())
    t = 0.0
    if error > 0:
        t = mean / error
    elif mean:
        t = float(np.copysign(np.inf, mean))
    return float(2 * special.stdtr(d.size - 1, -abs(t)))


def sign_flip(
    differences: ArrayLike,
    *,
    n_sampled: int = 50_000,
    seed: int = 0,
    greater: bool = False,
) -> tuple[float, bool]:
    """Return the p of the sign-flip test of the mean difference over films, two-sided by default.

    The second value is whether all patterns of signs were evaluated.

    Args:
        differences: One difference of two models for each film; NaN (no value) is left out.
        n_sampled: The number of sign patterns to draw where there are more than 2^16.
        seed: The seed of the draw.
        greater: Return the one-sided p, of a mean difference above 0.
    """
    d = np.asarray(differences, dtype=np.float64)
    per_film = _finite(d[~np.isnan(d)], "film differences", at_least=1)
    k = per_film.size
    exact = k <= MAX_EXACT
    if exact:
        changed = (np.arange(1 << k)[:, None] >> np.arange(k)) & 1
    else:
        changed = np.random.default_rng(seed).integers(0, 2, size=(n_sampled, k))
    means = (1 - 2 * changed) @ per_film / k
    observed = float(per_film.mean())
    tie = TIE * float(np.abs(per_film).max())
    is_extreme = np.abs(means) >= abs(observed) - tie
    if greater:
        is_extreme = means >= observed - tie
    extreme = int(np.sum(is_extreme))
    # All patterns include the observed one; a sample does not.
    p = extreme / means.size if exact else (extreme + 1) / (means.size + 1)
    return p, exact


def holm(p_values: ArrayLike) -> FloatArray:
    """Return Holm's adjusted p-values in the order given; tests may depend on each other."""
    p = _finite(p_values, "p-values", at_least=1)
    if p.min() < 0 or p.max() > 1:
        raise FixInput(f"p-values must be from 0 to 1, got {p.min():g} to {p.max():g}")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def _finite(values: ArrayLike, noun: str, at_least: int) -> FloatArray:
    row = np.asarray(values, dtype=np.float64)
    if row.ndim != 1 or row.size < at_least or not np.isfinite(row).all():
        raise FixInput(
            f"{noun} must be at least {at_least} finite numbers, got {values!r:.80}"
        )
    return row
