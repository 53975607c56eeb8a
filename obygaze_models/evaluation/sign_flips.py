"""The sign-flip test of differences over films.

Under the null hypothesis, the sign of the difference of each film is random. k films have 2^k
patterns of signs. For up to 20 films, all patterns are counted, so that p is exact. For more films,
patterns are sampled with a fixed seed.
"""

import numpy as np
from numpy.typing import ArrayLike

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.predictions import FloatArray

MOST_COUNTED = 20  # largest number of films for which all patterns are counted
N_SAMPLED = 50_000
# Sums that differ by less than this, relative to their terms, differ by rounding and are equal.
TIE = 1e-9


def sign_flip_p(differences: ArrayLike, *, greater: bool = False) -> tuple[float, bool]:
    """Return the two-sided p of the mean difference over films, and whether the p is exact.

    Args:
        differences: The difference of two models in each film; NaN is ignored.
        greater: Whether p is one-sided, for a mean difference above 0.
    """
    values = np.asarray(differences, dtype=np.float64)
    by_film = values[~np.isnan(values)]
    if values.ndim != 1 or not by_film.size or not np.isfinite(by_film).all():
        raise FixInput(
            f"film differences must be at least 1 finite number, got {differences!r:.80}"
        )
    n_films = by_film.size

    def distance(sums: FloatArray) -> FloatArray:
        return sums if greater else np.abs(sums)

    least = distance(by_film.sum()) - TIE * n_films * float(np.abs(by_film).max())
    if n_films <= MOST_COUNTED:
        sums: FloatArray = np.zeros(1)
        for value in by_film:
            sums = np.concatenate([sums + value, sums - value])
        return float(np.mean(distance(sums) >= least)), True
    rng = np.random.default_rng(0)
    n_extreme = 0
    for _ in range(N_SAMPLED // 1000):
        signs = 1 - 2 * rng.integers(0, 2, size=(1000, n_films))
        n_extreme += int(np.sum(distance(signs @ by_film) >= least))
    # All patterns include the observed one; a sample does not.
    return (n_extreme + 1) / (N_SAMPLED + 1), False
