"""A head that uses few concepts: the whole path of penalties, with the concepts in use at each."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.metrics import log_loss

from obygaze_models.models.concepts import inner_folds
from obygaze_models.models.ground import FixTraining, Floats, Ints, spreads
from obygaze_models.models.heads import LinearHead

PRECISE = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-7}


class SparseHead(LinearHead):
    """Logistic regression with an L1 penalty on standardised margins, along its path.

    The strength is the one with the least log loss over inner folds (whole films where groups are
    given), among those that use at most `max_concepts` concepts. `path_*_` holds every strength:
    C, coefficients in margin units, concepts in use, inner log loss.
    """

    fitted: ClassVar[tuple[str, ...]] = (
        *LinearHead.fitted,
        *("path_C_", "path_coef_", "path_n_concepts_", "path_loss_", "C_"),
    )

    def __init__(
        self, max_concepts: int | None = None, *, n_strengths: int = 15, inner_folds: int = 4
    ) -> None:
        self.max_concepts = max_concepts
        self.n_strengths = n_strengths
        self.inner_folds = inner_folds

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        if self.max_concepts is not None and self.max_concepts < 0:
            raise FixTraining("max_concepts is at least 0")
        self.mean_, scale = X.mean(axis=0), spreads(X)
        Z = (X - self.mean_) / scale
        self.path_C_ = _strengths(Z, codes, self.n_strengths)
        coef, intercept = _path(Z, codes, self.path_C_)
        self.path_coef_ = coef / scale
        self.path_n_concepts_ = (coef != 0).sum(axis=1)
        self.path_loss_ = self._losses(Z, codes, groups)
        best = self._best()
        self.C_, self.coef_ = float(self.path_C_[best]), self.path_coef_[best]
        self.intercept_ = float(intercept[best] - self.mean_ @ self.coef_)

    @property
    def n_concepts(self) -> int:
        """How many concepts the chosen head uses."""
        return int((self.coef_ != 0).sum())

    def _losses(self, Z: Floats, codes: Ints, groups: NDArray[Any] | None) -> Floats:
        folds = inner_folds(codes == 1, groups, self.inner_folds)
        losses = np.zeros((len(folds), len(self.path_C_)))
        for i, fold in enumerate(folds):
            share = (~fold).mean()  # fewer rows, the same penalty for each
            coef, intercept = _path(Z[~fold], codes[~fold], self.path_C_ / share)
            for j, logit in enumerate((Z[fold] @ coef.T + intercept).T):
                losses[i, j] = log_loss(codes[fold], expit(logit), labels=[0, 1])
        # Without validation every strength looks the same, and the weakest penalty is taken.
        return losses.mean(axis=0) if folds else -np.arange(len(self.path_C_), dtype=np.float64)

    def _best(self) -> int:
        limit = len(self.mean_) if self.max_concepts is None else self.max_concepts
        allowed = self.path_n_concepts_ <= limit
        return int(np.argmin(np.where(allowed, self.path_loss_, np.inf)))


def _strengths(Z: Floats, codes: Ints, n_strengths: int) -> Floats:
    """From a penalty with no concept in use, closely spaced at first, to 10,000 times less."""
    slope = np.abs(Z.T @ (codes - codes.mean())).max()
    if slope == 0:
        raise FixTraining("no margin differs between the classes")
    path: Floats = np.append(0.99, 1 + np.logspace(-2, 4, n_strengths - 1)) / slope
    return path


def _path(Z: Floats, codes: Ints, strengths: Floats) -> tuple[Floats, Floats]:
    """Coefficients and free intercepts at each strength, each found from the one before."""
    signs, width = np.where(codes == 1, 1.0, -1.0), Z.shape[1]
    share = codes.mean()
    # A weight is the difference of two parts that cannot be negative: smooth, and 0 is exactly 0.
    bounds = [(0, None)] * (2 * width) + [(None, None)]
    free = np.append(np.zeros(2 * width), np.log(share / (1 - share)))
    found = []
    for C in strengths:
        work = partial(_loss, Z=Z, signs=signs, C=C)
        free = minimize(work, free, jac=True, method="L-BFGS-B", bounds=bounds, options=PRECISE).x
        found.append(free)
    path = np.stack(found)
    return path[:, :width] - path[:, width:-1], path[:, -1]


def _loss(free: Floats, Z: Floats, signs: Floats, C: float) -> tuple[float, Floats]:
    width = Z.shape[1]
    pull = signs * (Z @ (free[:width] - free[width:-1]) + free[-1])
    slope = -C * signs * expit(-pull)
    down = Z.T @ slope
    value = C * np.logaddexp(0, -pull).sum() + free[:-1].sum()
    return float(value), np.concatenate([1 + down, 1 - down, [slope.sum()]])
