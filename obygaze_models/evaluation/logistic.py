"""Logistic regression: coefficients with standard errors.

If a linear combination of factors separates the two classes, the maximum likelihood estimate does
not exist. Linear programming finds exactly whether there is such a combination. Firth's penalised
likelihood then gives finite estimates. With films, standard errors are from the sandwich estimator
over films, with the correction of Bell and McCaffrey for few films (CR2). Intervals and p are
Student's, with one degree of freedom less than the number of films.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.predictions import (
    BoolArray,
    FloatArray,
    as_codes,
    as_truth,
)

MAX_ITERATIONS = 10_000  # Fisher steps of a nearly separated film take thousands
# Near its maximum, the likelihood is flat up to rounding. So smaller steps are not compared.
TOLERANCE = 1e-7
MAX_STEP = 5.0
CONFIDENCE = 0.95  # level of the intervals
NEXT_TO_ZERO = 1e-6
OVER_FILMS = "films"  # `errors` of a fit with clusters


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """Coefficients on the log-odds scale, intercept first, with standard errors and intervals."""

    beta: FloatArray
    se: FloatArray
    low: FloatArray
    high: FloatArray
    p: FloatArray
    method: str  # "ml" or "firth"
    errors: str  # "films" or "independent"


def fit_logistic(
    X: ArrayLike,
    y: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    intercept: bool = True,
) -> LogisticFit:
    """Return the logistic regression of `y` on the columns of X and an intercept.

    Firth's method is used if the likelihood has no maximum.

    Args:
        X: One row of factors for each clip.
        y: The outcome, 0 or 1.
        clusters: The film of each clip, for standard errors over films.
        intercept: Whether there is an intercept; must be False if columns of X sum to one.
    """
    truth = as_truth(y)
    design = with_intercept(X, truth.size)[:, 0 if intercept else 1 :]
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise FixInput(
            "the factors are linearly dependent",
        )
    firth = is_separated(design, truth)
    # Optimize for orthogonal columns of equal length.
    base, mix = np.linalg.qr(design)
    size = np.sqrt(len(design))
    coefficients = _newton(size * base, truth, firth)
    beta = np.asarray(np.linalg.solve(mix, size * coefficients), dtype=np.float64)
    variance, df = _variances(design, truth, beta, firth, clusters)
    se = np.sqrt(variance)
    reach = special.stdtrit(df, (1 + CONFIDENCE) / 2) * se
    p = 2 * special.stdtr(df, -np.abs(beta / se))
    errors = "independent" if clusters is None else OVER_FILMS
    method = "firth" if firth else "ml"
    return LogisticFit(beta, se, beta - reach, beta + reach, p, method, errors)


def with_intercept(X: ArrayLike, n_rows: int) -> FloatArray:
    """Return a column of ones, followed by the columns of X."""
    table = np.asarray(X, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != n_rows or not np.isfinite(table).all():
        raise FixInput(
            f"factors must be finite, one row for each of {n_rows} clips, got shape {table.shape}"
        )
    return np.hstack([np.ones((n_rows, 1)), table])


def is_separated(design: FloatArray, y: BoolArray) -> bool:
    """Return whether a linear combination of the columns separates the two classes.

    If it does, the likelihood has no maximum.
    """
    signed = design * np.where(y, 1.0, -1.0)[:, None]
    scaled = signed / np.abs(design).max(axis=0)
    # Imported here, because reports do not need it.
    from scipy import optimize

    solution = optimize.linprog(
        -scaled.sum(axis=0), A_ub=-scaled, b_ub=np.zeros(len(scaled)), bounds=(-1, 1)
    )
    return bool(solution.status == 0 and -solution.fun > 1e-7)


def _newton(design: FloatArray, y: BoolArray, firth: bool) -> FloatArray:
    """Return the coefficients with the largest likelihood, found by Newton steps.

    A step is halved until the likelihood does not decrease. With Firth's penalty, the likelihood is
    penalised, and the steps are Fisher scoring steps, which ignore the curvature of the penalty.
    """
    beta = np.zeros(design.shape[1])
    value = _likelihood(design, y, beta, firth)
    for _ in range(MAX_ITERATIONS):
        rows, information = _scores(design, y, beta, firth)
        step = np.linalg.solve(information, rows.sum(axis=0))
        step *= MAX_STEP / max(float(np.abs(step).max()), MAX_STEP)
        while np.abs(step).max() > TOLERANCE:
            candidate = _likelihood(design, y, beta + step, firth)
            if candidate >= value:
                beta = beta + step
                value = candidate
                break
            step /= 2
        else:
            return np.asarray(beta + step, dtype=np.float64)
    raise FixInput("the logistic fit did not converge")


def _likelihood(
    design: FloatArray, y: BoolArray, beta: FloatArray, firth: bool
) -> float:
    margin = design @ beta
    value = float(-np.logaddexp(0, np.where(y, -margin, margin)).sum())
    if firth:  # minus infinity where the information is singular
        p = special.expit(margin)
        value += 0.5 * float(
            np.linalg.slogdet(design.T @ (design * (p * (1 - p))[:, None]))[1]
        )
    return value


def _scores(
    design: FloatArray, y: BoolArray, beta: FloatArray, firth: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the gradient of the log likelihood of each clip, and the information matrix."""
    p = special.expit(design @ beta)
    information = np.asarray(design.T @ (design * (p * (1 - p))[:, None]))
    residual = y - p
    if firth:
        half = np.linalg.solve(information, design.T)
        hat = (design.T * half).sum(axis=0) * p * (1 - p)
        residual = residual + hat * (0.5 - p)
    return design * residual[:, None], information


def _variances(
    design: FloatArray,
    y: BoolArray,
    beta: FloatArray,
    firth: bool,
    clusters: ArrayLike | None,
) -> tuple[FloatArray, float]:
    """Return the variance of each coefficient, and the degrees of freedom of all variances.

    Without films, the degrees of freedom are infinite. The variance is NaN for a factor that varies
    in one film only. Such a factor has no variance between films, and the sandwich estimate would
    be far too small.
    """
    rows, information = _scores(design, y, beta, firth)
    bread = np.asarray(np.linalg.inv(information), dtype=np.float64)
    independent = np.diag(bread)
    if clusters is None:
        return independent, np.inf
    names, codes = as_codes(clusters, y.size)
    if len(names) < 2:
        raise FixInput("standard errors over films require at least two films, got 1")
    values, axes = np.linalg.eigh(bread)
    root = axes * np.sqrt(np.maximum(values, 0))
    p = special.expit(design @ beta)
    weighted = design * (p * (1 - p))[:, None]
    variance = np.zeros(len(beta))
    for film in range(len(names)):
        of_film = codes == film
        # Residuals of a film are too small, because the fit follows its clips.
        follows = root.T @ (design[of_film].T @ weighted[of_film]) @ root
        left, axes = np.linalg.eigh(np.eye(len(beta)) - follows)
        scale = np.where(left > NEXT_TO_ZERO, np.maximum(left, NEXT_TO_ZERO) ** -0.5, 0)
        gradient = root.T @ rows[of_film].sum(axis=0)
        variance += (root @ (axes * scale) @ axes.T @ gradient) ** 2
    has_variance = variance > 1e-9 * independent
    for i, column in enumerate(design.T):
        values, counts = np.unique(column, return_counts=True)
        varies_in = codes[column != values[np.argmax(counts)]]
        has_variance[i] &= len(values) == 1 or np.unique(varies_in).size > 1
    return np.where(has_variance, variance, np.nan), float(len(names) - 1)
