"""A test that changes the signs of films.

Under the null hypothesis, the two sides of a difference can be exchanged in each film: its sign
changes. k films have 2^k patterns of signs. Up to 2^20 are all counted, so that p is exact; of
more, a sample is drawn with a seed. Patterns are looked at in blocks of bounded size.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput

MOST_COUNTED = 20  # films, whose patterns are all counted
N_SAMPLED = 50_000
# Differences that are mathematically equal differ in the last bits of their sums: by so much.
TIE = 1e-9
BLOCK_NUMBERS = 2_000_000


def patterns(n_films: int) -> Iterator[NDArray[np.int8]]:
    """Yield blocks of patterns of signs, 1 and -1, a row for each.

    A pattern and its opposite give the same two-sided result, so that the sign of the first film
    never changes.
    """
    is_exact = n_films <= MOST_COUNTED
    n_patterns = 1 << (n_films - 1) if is_exact else N_SAMPLED
    step = max(1, BLOCK_NUMBERS // n_films)
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
