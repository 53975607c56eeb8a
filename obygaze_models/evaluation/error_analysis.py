"""Regress a model's success on factors of the clips, over all films and in each film.

Success is a correct decision for a clip. The odds ratio of a factor is the odds of success with the
factor, divided by the odds without it, if all other factors are equal. Factors are correlated: a
clip without a concept is an easy negative. Each clip has one annotation level. The coefficient of a
level is the log odds of success for clips of this level without any concept. `level_contrasts`
compares two levels. Each analysis states which factors have no coefficient, and why: they never
vary, follow from other factors, or fewer than five clips have or lack them. (With Firth's method, a
factor that only one clip has would have log odds of 1.1, which is log 3, in any film.)
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.logistic import fit_logistic
from obygaze_models.evaluation.predictions import FloatArray, as_codes, as_truth

ALL_FILMS = "all films"
LEVEL_FACTORS = ("level EN", "level HN", "level S")
# Smallest number of clips per factor of a regression, and of clips with and without a factor.
LEAST_CLIPS = 5


@dataclass(frozen=True)
class Factor:
    """The coefficient of one factor, in log odds of success.

    `n` is the number of clips for which the factor is not 0.
    """

    name: str
    log_odds: float
    se: float
    low: float
    high: float
    p: float
    n: int


@dataclass(frozen=True)
class Analysis:
    """One regression: its factors, its method, and why other factors have no coefficient."""

    film: str
    n: int
    n_success: int
    factors: tuple[Factor, ...] = ()
    intercept: float = float("nan")
    method: str = ""
    errors: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def paper_factors(
    concepts: Mapping[str, ArrayLike], levels: Sequence[str]
) -> dict[str, FloatArray]:
    """Return the eleven factors of the ObyGaze12 paper: eight concepts and levels EN, HN and S.

    The three levels of a clip sum to one. Therefore, a regression on all three must have no
    intercept (see `analyse`).

    Args:
        concepts: For each concept, whether each clip has the concept.
        levels: The annotation level of each clip.
    """
    level = np.asarray(levels, dtype=np.str_)
    columns = {
        name: as_truth(column).astype(np.float64) for name, column in concepts.items()
    }
    return columns | {
        f: (level == f.split()[1]).astype(np.float64) for f in LEVEL_FACTORS
    }


def analyse_success(
    success: ArrayLike,
    factors: Mapping[str, ArrayLike],
    films: ArrayLike,
    *,
    intercept: bool = True,
) -> list[Analysis]:
    """Return a regression over all films, followed by one regression for each film.

    The standard errors of the first regression are over films.

    Args:
        success: Whether the decision for each clip is correct.
        factors: A column of numbers for each factor.
        films: The film of each clip.
        intercept: Whether there is an intercept; must be False if some factors sum to one.
    """
    right = as_truth(success)
    names, codes = as_codes(films, right.size)
    table = {
        name: np.asarray(column, dtype=np.float64) for name, column in factors.items()
    }
    analyses = [analyse(right, table, clusters=codes, intercept=intercept)]
    for code, film in enumerate(names.tolist()):
        inside = codes == code
        of_film = {name: column[inside] for name, column in table.items()}
        analyses.append(analyse(right[inside], of_film, film=film, intercept=intercept))
    return analyses


def level_contrasts(
    success: ArrayLike, factors: Mapping[str, ArrayLike], films: ArrayLike
) -> list[Factor]:
    """Return the difference of the log odds of success for each pair of levels.

    The differences are coefficients of regressions over all films. In each regression, an intercept
    replaces one level, and the coefficient of another level is its difference from this level.
    """
    _, codes = as_codes(films, as_truth(success).size)
    contrasts = []
    for place, base in enumerate(LEVEL_FACTORS[:-1]):
        others = {name: column for name, column in factors.items() if name != base}
        later = LEVEL_FACTORS[place + 1 :]
        for factor in analyse(success, others, clusters=codes).factors:
            if factor.name in later:
                name = f"{factor.name} against {base.split()[1]}"
                contrasts.append(replace(factor, name=name))
    return contrasts


def analyse(
    success: ArrayLike,
    factors: Mapping[str, ArrayLike],
    *,
    film: str = ALL_FILMS,
    clusters: ArrayLike | None = None,
    intercept: bool = True,
) -> Analysis:
    """Return the regression of success on the factors that are linearly independent.

    A factor that fewer than five clips have, or that fewer than five clips lack, is in the
    regression, but its coefficient is not returned. If there are fewer than five times as many
    clips as factors, there is no regression.
    """
    right = as_truth(success)
    n_clips = right.size
    columns, left_out = independent_factors(factors, n_clips, intercept=intercept)
    empty = Analysis(film, n_clips, int(right.sum()), left_out=left_out)
    n_needed = max(LEAST_CLIPS * len(factors), len(columns) + 2)
    note = ""
    if right.all() or not right.any():
        note = f"every clip is {'right' if right.all() else 'wrong'}"
    elif not columns:
        note = "no factor varies"
    elif n_clips < n_needed:
        note = f"{len(factors)} factors need {n_needed} clips, got {n_clips}"
    if note:
        return replace(empty, note=note)
    by_film = None
    if clusters is not None and np.unique(clusters).size > 1:
        by_film = clusters
    X = np.column_stack([*columns.values()])
    try:
        fit = fit_logistic(X, right, clusters=by_film, intercept=intercept)
    except FixInput as error:
        # An error in one film must not stop the analyses of the other films.
        return replace(empty, note=error.message)
    all_estimates = np.stack([fit.beta, fit.se, fit.low, fit.high, fit.p])
    estimates = all_estimates[:, int(intercept) :]
    if fit.method == "firth":
        # The p-values of this method are far too small over films, and too large in one film
        # (docs/design/0007).
        estimates[1:] = np.nan
        note = "some factors predict success exactly"
    shown = []
    for (name, column), values in zip(columns.items(), estimates.T, strict=True):
        n_with = int(np.count_nonzero(column))
        n_of_rarer_side = min(n_with, n_clips - n_with)
        if np.isin(column, (0, 1)).all() and n_of_rarer_side < LEAST_CLIPS:
            side = "with" if n_of_rarer_side == n_with else "without"
            left_out[name] = f"only {n_of_rarer_side} of {n_clips} clips are {side} it"
            continue
        log_odds, se, low, high, p = values.tolist()
        shown.append(Factor(name, log_odds, se, low, high, p, n_with))
    if not shown:
        note = f"each factor has fewer than {LEAST_CLIPS} clips with or without it"
    return replace(
        empty,
        factors=tuple(shown),
        intercept=float(fit.beta[0]) if intercept else math.nan,
        method=fit.method,
        errors=fit.errors,
        note=note,
    )


def independent_factors(
    factors: Mapping[str, ArrayLike], n_rows: int, *, intercept: bool = True
) -> tuple[dict[str, FloatArray], dict[str, str]]:
    """Return the linearly independent factors, and for each other factor why it is excluded.

    A factor is excluded if it is a linear combination of the factors before it.
    """
    basis = [np.ones(n_rows)] if intercept else []
    independent: dict[str, FloatArray] = {}
    left_out: dict[str, str] = {}
    for name, values in factors.items():
        column = np.asarray(values, dtype=np.float64)
        if column.shape != (n_rows,) or not np.isfinite(column).all():
            raise FixInput(
                f"factor {name!r} must have one finite number for each of {n_rows} clips"
            )
        wider = [*basis, column / (np.linalg.norm(column) or 1.0)]
        if np.linalg.matrix_rank(np.column_stack(wider)) == len(wider):
            independent[name] = column
            basis = wider
        elif np.ptp(column) == 0:
            left_out[name] = "it never varies"
        else:
            left_out[name] = "it follows from the factors above"
    return independent, left_out
