"""Regress a model's success on factors of the clips, over all films and in each film.

The odds ratio of a factor is that of a correct decision with the factor to one without it, other
factors being equal. Factors are correlated (a clip without a concept is an easy negative), so each
analysis has variance inflation factors and the condition number, and lists the factors that it
leaves out because they never vary or follow from others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.arrays import FloatArray, as_codes, as_truth
from obygaze_models.evaluation.logistic import (
    LogisticFit,
    condition_number,
    fit_logistic,
    variance_inflation,
)

ALL_FILMS = "all films"
INFLATED = 10.0
ILL_CONDITIONED = 30.0


@dataclass(frozen=True)
class Factor:
    """The coefficient of one factor, in log-odds of success."""

    name: str
    log_odds: float
    se: float
    low: float
    high: float
    p: float
    inflation: float


@dataclass(frozen=True)
class Analysis:
    """One regression: its factors, its method, and the factors left out with the reason."""

    film: str
    n: int
    n_success: int
    factors: tuple[Factor, ...] = ()
    intercept: float = float("nan")
    method: str = ""
    errors: str = ""
    condition: float = float("nan")
    left_out: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def is_collinear(self) -> bool:
        """Whether the factors are too collinear to interpret single coefficients."""
        inflated = any(factor.inflation > INFLATED for factor in self.factors)
        return inflated or self.condition > ILL_CONDITIONED


def paper_factors(
    concepts: Mapping[str, ArrayLike], levels: Sequence[str], length_s: ArrayLike
) -> dict[str, FloatArray]:
    """Return the factors of each clip: concepts, the annotation levels HN and S, and length.

    The length is a logarithm to base 2, so that its coefficient is per doubling.

    Args:
        concepts: For each concept whether each clip has it.
        levels: The annotation level of each clip.
        length_s: The length of each clip in seconds.
    """
    length = np.asarray(length_s, dtype=np.float64)
    level = np.asarray(levels, dtype=np.str_)
    if length.shape != level.shape or not np.all(length > 0):
        raise FixInput(
            "levels and length_s must have one value per clip, and each length must be above 0"
        )
    columns = {name: as_truth(column).astype(np.float64) for name, column in concepts.items()}
    columns |= {f"level {name}": (level == name).astype(np.float64) for name in ("HN", "S")}
    columns["length (doubling)"] = np.log2(length)
    return columns


def analyse_success(
    success: ArrayLike, factors: Mapping[str, ArrayLike], movies: ArrayLike, *, level: float = 0.95
) -> list[Analysis]:
    """Return the regression over all films, with standard errors over films, then one per film.

    Args:
        success: Whether the decision for each clip is correct.
        factors: A column of numbers for each factor.
        movies: The film of each clip.
        level: The level of the intervals.
    """
    right = as_truth(success)
    names, codes = as_codes(movies, right.size)
    table = {name: np.asarray(column, dtype=np.float64) for name, column in factors.items()}
    pooled = analyse(right, table, film=ALL_FILMS, clusters=codes, level=level)
    alone = [
        analyse(
            right[codes == i],
            {name: column[codes == i] for name, column in table.items()},
            film=str(film),
            level=level,
        )
        for i, film in enumerate(names)
    ]
    return [pooled, *alone]


def analyse(
    success: ArrayLike,
    factors: Mapping[str, ArrayLike],
    *,
    film: str = ALL_FILMS,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
) -> Analysis:
    """Return the regression of success on the factors that are linearly independent."""
    right = as_truth(success)
    n_success = int(right.sum())
    kept, left_out = independent_factors(factors, right.size)
    if n_success in (0, right.size):
        note = "every clip is right" if n_success else "every clip is wrong"
        return Analysis(film, right.size, n_success, left_out=left_out, note=note)
    if not kept or right.size <= len(kept) + 1:
        note = f"{right.size} clips are too few for {len(kept)} factors"
        return Analysis(film, right.size, n_success, left_out=left_out, note=note)
    X = np.column_stack(list(kept.values()))
    by_film = clusters if clusters is not None and np.unique(clusters).size > 1 else None
    try:
        fit = fit_logistic(X, right, clusters=by_film, level=level)
    except FixInput as error:
        # An error in one film must not stop the analysis of the others.
        return Analysis(film, right.size, n_success, left_out=left_out, note=error.what)
    return Analysis(
        film,
        right.size,
        n_success,
        _read_factors(list(kept), fit, variance_inflation(X)),
        float(fit.beta[0]),
        fit.method,
        fit.errors,
        condition_number(X),
        left_out,
        "" if fit.method == "ml" else "some factors foretell success without error (Firth)",
    )


def independent_factors(
    factors: Mapping[str, ArrayLike], n_rows: int
) -> tuple[dict[str, FloatArray], dict[str, str]]:
    """Return the factors that vary and do not follow from earlier ones; why others are left out."""
    basis = [np.full(n_rows, 1 / np.sqrt(n_rows))]
    kept: dict[str, FloatArray] = {}
    left_out: dict[str, str] = {}
    for name, values in factors.items():
        column = np.asarray(values, dtype=np.float64)
        if column.shape != (n_rows,) or not np.isfinite(column).all():
            raise FixInput(
                f"factor {name!r} must have one finite number for each of {n_rows} clips"
            )
        rest = column.copy()
        for _ in range(2):  # Twice, because one pass of Gram-Schmidt loses digits.
            rest -= sum((vector @ rest) * vector for vector in basis)
        size = float(np.linalg.norm(rest))
        if np.ptp(column) == 0:
            left_out[name] = "never varies"
        elif size <= 1e-8 * float(np.linalg.norm(column)):
            left_out[name] = "follows from the factors before it"
        else:
            kept[name] = column
            basis.append(rest / size)
    return kept, left_out


def _read_factors(
    names: Sequence[str], fit: LogisticFit, inflation: FloatArray
) -> tuple[Factor, ...]:
    columns = (fit.beta[1:], fit.se[1:], fit.low[1:], fit.high[1:], fit.p[1:], inflation)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(Factor(name, *row) for name, row in zip(names, rows, strict=True))
