"""Student's t-tests of mean differences over films: for one difference, and for many of one run.

If each film is left out in turn, a film tests one model and trains the models that test the other
films. If models learn nothing that holds for other films, the results of two of k films have the
correlation 1 / (k - 1). Then the mean over k films has twice the variance of a mean over k
independent films. The variance that is estimated from the spread of the films is too small: its
expected value is the true variance of one film times 1 - 1 / (k - 1). `training_factor` is the
ratio of these two factors, 2 / (1 - 1 / (k - 1)).

The differences of a run depend on each other, because they are computed on the same films. A random
rotation of the films, the same for all differences, keeps this dependence. The largest t of each
rotation gives the null distribution of the largest t (Westfall and Young's step-down max-t). The p
of a single difference is the p of Student's t-test.
"""

import math
from collections.abc import Iterator

import numpy as np
from scipy import special

from obygaze_models.evaluation.bootstrap import CONFIDENCE, LEAST_GROUPS, Interval
from obygaze_models.evaluation.predictions import ROUNDING, FloatArray

FILMS_OF_A_TEST = 5
N_ROTATIONS = 20_000
BLOCK_NUMBERS = 2_000_000


def training_factor(n_films: int) -> float:
    """Return the true variance of a mean over films, divided by the variance estimated from films.

    The estimate is too small, because each film trained the models of the other films. The ratio is
    infinite for fewer than 3 films.
    """
    if n_films < LEAST_GROUPS:
        return math.inf
    return 2 * (n_films - 1) / (n_films - 2)


def mean_over_films(
    by_film: FloatArray, factor: float, most: float
) -> tuple[float, Interval]:
    """Return the mean of a difference over films, and Student's interval of this mean.

    The ends are NaN for fewer than three films, for an infinite factor, and if all films have the
    same difference. Equal differences mean that there are too few clips, and not that the mean is
    certain.

    Args:
        by_film: The difference of each film; NaN for no value.
        factor: The true variance of the mean, divided by the variance that is estimated from the
            spread of the films.
        most: The largest difference that is possible.
    """
    known = by_film[np.isfinite(by_film)]
    if not known.size:
        return math.nan, Interval(math.nan, math.nan)
    mean = float(known.mean())
    has_interval = known.size >= LEAST_GROUPS and math.isfinite(factor)
    if not has_interval or np.ptp(known) < ROUNDING:
        return mean, Interval(math.nan, math.nan)
    error = float(known.std(ddof=1)) * math.sqrt(factor / known.size)
    half = float(special.stdtrit(known.size - 1, (1 + CONFIDENCE) / 2)) * error
    return mean, Interval(max(mean - half, -most), min(mean + half, most))


def p_alone(
    differences: FloatArray, factors: FloatArray, *, greater: bool = False
) -> FloatArray:
    """Return, for each difference, the p of a t-test of its mean over films.

    The p is NaN for a difference with fewer than five films, for an infinite factor, and for a
    difference that is 0 in all films. Any other difference that is equal in all films has the p of
    a sign test, because it does not show how much films differ.

    Args:
        differences: A row for each film, a column for each difference; NaN for no value.
        factors: For each difference, the number by which the variance of its mean is multiplied;
            see `training_factor`.
        greater: Whether p is one-sided, for a mean above 0.
    """
    t = _student_t(differences, factors)
    n_films = np.isfinite(differences).sum(axis=0)
    sides = 1 if greater else 2
    p = sides * special.stdtr(n_films - 1, -t if greater else -np.abs(t))
    is_same = np.isinf(t) & ((t > 0) | (not greater))
    p = np.where(is_same, sides * 0.5**n_films, p)
    is_tested = (n_films >= FILMS_OF_A_TEST) & np.isfinite(factors)
    return np.where(is_tested, p, np.nan)


def p_among_all(
    differences: FloatArray, factors: FloatArray, *, greater: bool = False
) -> FloatArray:
    """Return the p of each difference, corrected for all differences with a p (see `p_alone`).

    Equal differences are one comparison.
    """
    alone = p_alone(differences, factors, greater=greater)
    tested = np.flatnonzero(np.isfinite(alone))
    D = differences[:, tested]
    if np.unique(np.nan_to_num(D), axis=1).shape[1] < 2:
        return alone
    t = _student_t(D, factors[tested])
    size = t if greater else np.abs(t)
    order = np.argsort(size, kind="stable")
    n_larger = np.zeros(tested.size)
    for by_chance in _t_of_rotations(D[:, order]):
        if not greater:
            by_chance = np.abs(by_chance)
        # Each t is compared with the largest t by chance of the differences with at most this t.
        largest = np.maximum.accumulate(by_chance, axis=1)
        n_larger += (largest >= size[order]).sum(axis=0)
    ascending = (n_larger + 1) / (N_ROTATIONS + 1)
    among = np.empty(tested.size)
    # A difference is not more certain than a larger one.
    among[order[::-1]] = np.maximum.accumulate(ascending[::-1])
    p = alone.copy()
    p[tested] = np.maximum(alone[tested], among)
    return p


def _student_t(differences: FloatArray, factors: FloatArray) -> FloatArray:
    """Return Student's t of each column, if its variance is multiplied by the column's factor."""
    is_known = np.isfinite(differences)
    n_films = is_known.sum(axis=0)
    mean = np.where(is_known, differences, 0.0).sum(axis=0) / np.maximum(n_films, 1)
    apart = np.where(is_known, differences - mean, 0.0)
    # Films that differ by rounding count as equal.
    apart[np.abs(apart) < ROUNDING] = 0.0
    variance = (apart**2).sum(axis=0) / np.maximum(n_films - 1, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        t: FloatArray = mean / np.sqrt(variance * factors / n_films)
    return t


def _t_of_rotations(differences: FloatArray) -> Iterator[FloatArray]:
    """Yield blocks of Student's t: a row is a random rotation of the films, a column a difference.

    A rotation turns the direction of the mean over films into a random direction.
    """
    is_known = np.isfinite(differences)
    n_films = is_known.sum(axis=0)
    D = np.where(is_known, differences, 0.0)
    squares = (D**2).sum(axis=0)
    rng = np.random.default_rng(0)
    step = max(1, BLOCK_NUMBERS // max(D.shape))
    for start in range(0, N_ROTATIONS, step):
        n_rows = min(step, N_ROTATIONS - start)
        directions = rng.normal(size=(n_rows, len(D)))
        along = (directions @ D) / np.sqrt(directions**2 @ is_known)
        rest = np.maximum(squares - along**2, np.finfo(float).tiny)
        yield along * np.sqrt((n_films - 1) / rest)
