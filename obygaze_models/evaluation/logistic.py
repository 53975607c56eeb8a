"""Logistic regression for inference, not prediction: estimates, errors, and how shaky they are.

Maximum likelihood where it exists. Where some mix of factors tells success from failure without
an error (found exactly, by a linear programme), it does not exist; there Firth's penalised
likelihood gives finite estimates, and the fit says so. Standard errors come from the sandwich over
movies if movies are given, with Student's t on the number of movies less one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special, stats

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.arrays import BoolArray, FloatArray, IntArray, as_codes, as_truth

MAX_ITERATIONS = 200
# Near the top the likelihood is flat to its last digits, and no step can be judged by it.
TOLERANCE = 1e-7
SETTLED = 1e-4
MAX_STEP = 5.0


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients on the log-odds scale, the intercept first, with errors and intervals."""

    beta: FloatArray
    se: FloatArray
    low: FloatArray
    high: FloatArray
    p: FloatArray
    method: str  # "ml" or "firth"
    errors: str  # "movies" or "independent"
    n_clusters: int


def fit_logistic(
    X: ArrayLike,
    y: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    method: str = "auto",
    level: float = 0.95,
) -> Fit:
    """Fit `y` on the columns of X and an intercept; "auto" is Firth's method only if it must be."""
    truth = as_truth(y)
    design = with_intercept(X, truth.size)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise FixInput("the factors determine one another, no fit can tell them apart")
    method = _choose(method, design, truth)
    beta = _maximise(design, truth, firth=method == "firth")
    variance, df, k = _variances(design, truth, beta, method == "firth", clusters)
    se = np.sqrt(variance)
    reach = stats.t.ppf((1 + level) / 2, df) * se
    p = 2 * stats.t.sf(np.abs(beta / se), df)
    errors = "independent" if clusters is None else "movies"
    return Fit(beta, se, beta - reach, beta + reach, p, method, errors, k)


def with_intercept(X: ArrayLike, n_rows: int) -> FloatArray:
    """The columns of X after a column of ones."""
    table = np.asarray(X, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != n_rows or not np.isfinite(table).all():
        raise FixInput(f"{n_rows} clips need a table of finite factors, got shape {table.shape}")
    return np.hstack([np.ones((n_rows, 1)), table])


def is_separated(design: FloatArray, y: BoolArray) -> bool:
    """Is there a mix of the columns that is never wrong, so that the likelihood has no maximum?"""
    signed = design * np.where(y, 1.0, -1.0)[:, None]
    scaled = signed / np.abs(design).max(axis=0)
    found = optimize.linprog(
        -scaled.sum(axis=0), A_ub=-scaled, b_ub=np.zeros(len(scaled)), bounds=(-1, 1)
    )
    return bool(found.status == 0 and -found.fun > 1e-7)


def condition_number(X: ArrayLike) -> float:
    """Belsley's condition number of intercept and columns at unit length: above 30 is trouble."""
    table = np.asarray(X, dtype=np.float64)
    design = with_intercept(table, len(table))
    return float(np.linalg.cond(design / np.linalg.norm(design, axis=0)))


def variance_inflation(X: ArrayLike) -> FloatArray:
    """By how much each column's variance is inflated by the others: 1 is none, above 10 trouble."""
    table = np.asarray(X, dtype=np.float64)
    centred = table - table.mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=0)
    return np.asarray(np.diag(np.linalg.inv(unit.T @ unit)), dtype=np.float64)


def _choose(method: str, design: FloatArray, y: BoolArray) -> str:
    if method not in ("auto", "ml", "firth"):
        raise FixInput(f"no method {method!r}", hint="auto, ml or firth")
    if method == "firth" or not is_separated(design, y):
        return "firth" if method == "firth" else "ml"
    if method == "ml":
        raise FixInput(
            "the factors foretell success without an error, so the likelihood has no maximum",
            hint='method "firth" or "auto"',
        )
    return "firth"


def _maximise(design: FloatArray, y: BoolArray, *, firth: bool) -> FloatArray:
    """The best coefficients; found for orthogonal columns of one size, then put back."""
    base, mix = np.linalg.qr(design)
    size = np.sqrt(len(design))
    climb = _climb_firth if firth else _climb
    return np.asarray(np.linalg.solve(mix, size * climb(size * base, y)), dtype=np.float64)


def _climb(design: FloatArray, y: BoolArray) -> FloatArray:
    """Newton steps, bounded and halved until the likelihood does not fall."""
    beta = np.zeros(design.shape[1])
    value = _likelihood(design, y, beta, False)
    for _ in range(MAX_ITERATIONS):
        rows, information = _scores(design, y, beta, False)
        step = np.linalg.solve(information, rows.sum(axis=0))
        step *= MAX_STEP / max(float(np.abs(step).max()), MAX_STEP)
        while np.abs(step).max() > TOLERANCE:
            candidate = _likelihood(design, y, beta + step, False)
            if candidate >= value:
                beta, value = beta + step, candidate
                break
            step /= 2
        else:
            return np.asarray(beta + step, dtype=np.float64)
    raise _unsettled()


def _climb_firth(design: FloatArray, y: BoolArray) -> FloatArray:
    """BFGS: the penalty's curvature is not in the information, so Newton steps would creep."""
    start = np.zeros(design.shape[1])
    found = optimize.minimize(
        lambda beta: -_likelihood(design, y, beta, True),
        start,
        jac=lambda beta: -_scores(design, y, beta, True)[0].sum(axis=0),
        method="BFGS",
        options={"gtol": TOLERANCE},
    )
    if not np.abs(found.jac).max() <= SETTLED:
        raise _unsettled()
    return np.asarray(found.x, dtype=np.float64)


def _unsettled() -> FixInput:
    return FixInput("the logistic fit did not settle", hint="fewer factors, or more clips")


def _likelihood(design: FloatArray, y: BoolArray, beta: FloatArray, firth: bool) -> float:
    margin = design @ beta
    value = float(-np.logaddexp(0, np.where(y, -margin, margin)).sum())
    if firth:
        value += 0.5 * float(np.linalg.slogdet(_information(design, special.expit(margin)))[1])
    return value


def _information(design: FloatArray, p: FloatArray) -> FloatArray:
    return np.asarray(design.T @ (design * (p * (1 - p))[:, None]))


def _scores(
    design: FloatArray, y: BoolArray, beta: FloatArray, firth: bool
) -> tuple[FloatArray, FloatArray]:
    """What each clip adds to the gradient, and the information."""
    p = special.expit(design @ beta)
    information = _information(design, p)
    residual = y - p
    if firth:
        half = np.linalg.solve(information, design.T)
        hat = (design.T * half).sum(axis=0) * p * (1 - p)
        residual = residual + hat * (0.5 - p)
    return design * residual[:, None], information


def _variances(
    design: FloatArray, y: BoolArray, beta: FloatArray, firth: bool, clusters: ArrayLike | None
) -> tuple[FloatArray, float, int]:
    """Variance of each coefficient, its degrees of freedom, and the number of clusters.

    A factor found in one movie only has no spread between movies: its variance is NaN there,
    where the sandwich would pretend to know it well.
    """
    rows, information = _scores(design, y, beta, firth)
    bread = np.asarray(np.linalg.inv(information), dtype=np.float64)
    independent = np.diag(bread)
    if clusters is None:
        return independent, np.inf, y.size
    names, codes = as_codes(clusters, y.size)
    k = names.size
    if k < 2:
        raise FixInput("errors by movie need at least two movies")
    reach = _sum_by(rows, codes, k) @ bread
    n, width = design.shape
    correction = k / (k - 1) * (n - 1) / max(n - width, 1)
    variance = correction * (reach**2).sum(axis=0)
    known = (variance > 1e-9 * independent) & _in_two_clusters(design, codes)
    return np.where(known, variance, np.nan), float(k - 1), k


def _in_two_clusters(design: FloatArray, codes: IntArray) -> BoolArray:
    """Is each column, where it leaves its most common value, in two clusters at least?"""
    found = [True]
    for column in design.T[1:]:
        values, counts = np.unique(column, return_counts=True)
        rare = column != values[np.argmax(counts)]
        found.append(np.unique(codes[rare]).size > 1)
    return np.array(found)


def _sum_by(rows: FloatArray, codes: IntArray, k: int) -> FloatArray:
    summed = np.zeros((k, rows.shape[1]))
    np.add.at(summed, codes, rows)
    return summed
