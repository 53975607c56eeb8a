"""A head of few concepts, which can be checked by hand."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.metrics import log_loss

from obygaze_models.models.common import FixTraining, Floats, Ints, column_scales
from obygaze_models.models.concepts import inner_folds
from obygaze_models.models.heads import LinearHead

PRECISE = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-7}


@dataclass(eq=False, repr=False)
class SparseHead(LinearHead):
    """Logistic regression with an L1 penalty on standardised margins.

    The strength is the one with the least log loss over inner folds (whole films where groups are
    given), among those that use at most `max_concepts` concepts. `path_*_` holds every strength:
    C, coefficients in margin units, concepts in use, inner log loss.
    """

    max_concepts: int | None = None
    _: KW_ONLY
    n_strengths: int = 15
    inner_folds: int = 4

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        if self.max_concepts is not None and self.max_concepts < 0:
            raise FixTraining(
                f"max_concepts must be at least 0, got {self.max_concepts}"
            )
        self.mean_ = X.mean(axis=0)
        scale = column_scales(X)
        Z = (X - self.mean_) / scale
        slope = np.abs(Z.T @ (codes - codes.mean())).max()
        if slope == 0:
            raise FixTraining("no margin differs between the classes; nothing to fit")
        # Inverse strengths, from one that uses no concept to 10,000 times as much.
        self.path_C_ = (
            np.append(0.99, 1 + np.logspace(-2, 4, self.n_strengths - 1)) / slope
        )
        coef, intercept = _path(Z, codes, self.path_C_)
        self.path_coef_ = coef / scale
        self.path_n_concepts_ = (coef != 0).sum(axis=1)
        self.path_loss_ = self._losses(Z, codes, groups)
        limit = X.shape[1] if self.max_concepts is None else self.max_concepts
        allowed = self.path_n_concepts_ <= limit
        best = int(np.argmin(np.where(allowed, self.path_loss_, np.inf)))
        self.C_ = float(self.path_C_[best])
        self.coef_ = self.path_coef_[best]
        self.intercept_ = float(intercept[best] - self.mean_ @ self.coef_)

    def _losses(self, Z: Floats, codes: Ints, groups: NDArray[Any] | None) -> Floats:
        folds = inner_folds(codes == 1, groups, self.inner_folds)
        losses = np.zeros((len(folds), len(self.path_C_)))
        for i, fold in enumerate(folds):
            share = (~fold).mean()  # fewer rows, the same penalty for each
            coef, intercept = _path(Z[~fold], codes[~fold], self.path_C_ / share)
            for j, logit in enumerate((Z[fold] @ coef.T + intercept).T):
                losses[i, j] = log_loss(codes[fold], expit(logit), labels=[0, 1])
        # Without validation folds, the weakest penalty is taken.
        return (
            losses.mean(axis=0)
            if folds
            else -np.arange(len(self.path_C_), dtype=np.float64)
        )


def _path(Z: Floats, codes: Ints, strengths: Floats) -> tuple[Floats, Floats]:
    """Return coefficients and intercepts at each strength; each fit starts from the last one."""
    signs = np.where(codes == 1, 1.0, -1.0)
    width = Z.shape[1]
    share = codes.mean()
    # A weight is the difference of two parts that are at least 0, so that a weight of 0 is exact.
    bounds = [(0, None)] * (2 * width) + [(None, None)]
    free = np.append(np.zeros(2 * width), np.log(share / (1 - share)))
    solutions = []
    for C in strengths:
        work = partial(_loss, Z=Z, signs=signs, C=C)
        free = minimize(
            work, free, jac=True, method="L-BFGS-B", bounds=bounds, options=PRECISE
        ).x
        solutions.append(free)
    path = np.stack(solutions)
    return path[:, :width] - path[:, width:-1], path[:, -1]


def _loss(free: Floats, Z: Floats, signs: Floats, C: float) -> tuple[float, Floats]:
    width = Z.shape[1]
    pull = signs * (Z @ (free[:width] - free[width:-1]) + free[-1])
    slope = -C * signs * expit(-pull)
    down = Z.T @ slope
    value = C * np.logaddexp(0, -pull).sum() + free[:-1].sum()
    return float(value), np.concatenate([1 + down, 1 - down, [slope.sum()]])
