"""Tests that change the signs of films: of one difference, and of many differences of one run.

Under the null hypothesis, the two sides of a difference can be exchanged in each film: its sign
changes. k films have 2^k patterns of signs. Up to 2^20 are all counted, so that p is exact; of
more, a sample is drawn with a seed. Patterns are looked at in blocks of bounded size.

The differences of a run depend on each other, because they are computed on the same films. Changing
the signs of a film for all of them at once keeps this: in each pattern, the largest of the t values
says how far chance alone would take the most striking difference (Westfall and Young's max-t,
stepping down from the largest t).
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.predictions import FloatArray

MOST_COUNTED = 20  # films, whose patterns are all counted
N_SAMPLED = 50_000
# Differences that are mathematically equal differ in the last bits of their sums: by so much.
TIE = 1e-9
BLOCK_NUMBERS = 2_000_000
LEAST_FILMS = 2


def patterns(n_films: int, width: int = 1) -> Iterator[NDArray[np.int8]]:
    """Yield blocks of patterns of signs, 1 and -1, a row for each.

    A pattern and its opposite give the same two-sided result, so that the sign of the first film
    never changes.

    Args:
        n_films: The number of films.
        width: How many numbers a pattern is compared in.
    """
    is_exact = n_films <= MOST_COUNTED
    n_patterns = 1 << (n_films - 1) if is_exact else N_SAMPLED
    step = max(1, BLOCK_NUMBERS // max(n_films, width))
    rng = np.random.default_rng(0)
    for start in range(0, n_patterns, step):
        numbers = np.arange(start, min(start + step, n_patterns))
        if is_exact:
            changed = ((numbers[:, None] << 1 >> np.arange(n_films)) & 1).astype(
                np.int8
            )
        else:
            n_bytes = -(-n_films // 8)
            drawn = rng.integers(0, 256, size=(len(numbers), n_bytes), dtype=np.uint8)
            changed = np.unpackbits(drawn, axis=1)[:, :n_films].astype(np.int8)
        yield np.asarray(1 - 2 * changed, dtype=np.int8)


def sign_flip_p(differences: ArrayLike, *, greater: bool = False) -> tuple[float, bool]:
    """Return the p of the mean difference over films, two-sided, and whether it is exact.

    Args:
        differences: One difference of two models for each film; NaN (no value) is left out.
        greater: Return the one-sided p, of a mean difference above 0.
    """
    values = np.asarray(differences, dtype=np.float64)
    by_film = values[~np.isnan(values)]
    if values.ndim != 1 or not by_film.size or not np.isfinite(by_film).all():
        raise FixInput(
            f"film differences must be at least 1 finite number, got {differences!r:.80}"
        )
    is_exact = by_film.size <= MOST_COUNTED
    observed = float(by_film.sum())
    if not greater:
        observed = abs(observed)
    least = observed - TIE * by_film.size * float(np.abs(by_film).max())
    n_extreme = 0
    n_patterns = 0
    for signs in patterns(by_film.size):
        sums = signs @ by_film
        # Each pattern has an opposite, whose sum is the negative one.
        sums = np.concatenate([sums, -sums]) if greater else np.abs(sums)
        n_extreme += int(np.sum(sums >= least))
        n_patterns += len(sums)
    # All patterns include the observed one; a sample does not.
    if is_exact:
        return n_extreme / n_patterns, True
    return (n_extreme + 1) / (n_patterns + 1), False


def max_t_p(differences: ArrayLike, inflations: ArrayLike | None = None) -> FloatArray:
    """Return the p of each difference, corrected for all of them.

    NaN where a difference has fewer than two films, is 0 in all of them, or has an infinite
    inflation; it does not count as one of them.

    Args:
        differences: A row for each film, a column for each difference; NaN for no value.
        inflations: Of each difference, a factor of the variance of its mean that films do not show:
            each film also trained the models that others tested.
    """
    D = np.asarray(differences, dtype=np.float64)
    n_films, n_differences = D.shape
    factors = np.ones(n_differences)
    if inflations is not None:
        factors = np.asarray(inflations, dtype=np.float64)
    is_known = np.isfinite(D)
    n_of = is_known.sum(axis=0)
    D = np.where(is_known, D, 0.0)
    squares = (D**2).sum(axis=0)
    observed = _t_values(np.ones((1, n_films)), D, n_of, squares)[0] / factors**0.5
    is_tested = (n_of >= LEAST_FILMS) & np.isfinite(factors)
    is_tested &= squares > 0
    p_values = np.full(n_differences, np.nan)
    # From the smallest t to the largest: each is compared with the largest of those up to itself.
    tested = np.flatnonzero(is_tested)
    ascending = tested[np.argsort(observed[tested], kind="stable")]
    if not ascending.size:
        return p_values
    least = observed[ascending] * (1 - TIE)
    n_larger = np.zeros(ascending.size)
    n_patterns = 0
    for signs in patterns(n_films, n_differences):
        t = _t_values(signs, D[:, ascending], n_of[ascending], squares[ascending])
        largest = np.maximum.accumulate(t, axis=1)
        n_larger += (largest >= least).sum(axis=0)
        n_patterns += len(signs)
    p_ascending = (n_larger + 1) / (n_patterns + 1)
    if n_films <= MOST_COUNTED:
        p_ascending = np.maximum(n_larger, 1) / n_patterns
    # A difference is not more certain than a larger one.
    p_values[ascending[::-1]] = np.maximum.accumulate(p_ascending[::-1])
    return p_values


def _t_values(
    signs: NDArray[np.int8] | FloatArray,
    D: FloatArray,
    n_of: NDArray[np.intp],
    squares: FloatArray,
) -> FloatArray:
    """Return the size of Student's t of each difference (column) under each pattern (row)."""
    n = np.maximum(n_of, LEAST_FILMS)
    means = (signs @ D) / n
    # Changing signs changes means, but not squares.
    variances = np.maximum(squares / n - means**2, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        t: FloatArray = np.abs(means) * np.sqrt((n - 1) / variances)
    return np.nan_to_num(t, nan=0.0, posinf=np.inf)
