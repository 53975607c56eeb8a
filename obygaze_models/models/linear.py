"""Linear probes on clip features: logistic regression, ridge, support vector machine."""

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from obygaze_models.models.common import FixTraining, Floats, Ints, total_variance
from obygaze_models.models.estimator import Classifier, cached, warn_without_groups
from obygaze_models.models.linear_solvers import central_bias, logistic, machines_on
from obygaze_models.models.mlp_network import softmax
from obygaze_models.models.parameters import (
    ClassWeight,
    InFile,
    Positive,
    Solver,
)

# Smaller squared singular values, relative to the largest, are rounding errors.
SMALLEST = 1e-14
BLOCK_ROWS = 2_000  # rows of small groups that are solved together
# Left-out errors and scores are rounded to this number of decimals. Otherwise, rounding errors
# would decide ties, for example between equal rows or between fits without one of the classes.
DIGITS = 9
# Penalty strengths, in units of the total variance.
ALPHAS = tuple(float(alpha) for alpha in np.logspace(-5, 5, 21))


class LinearProbe(Classifier):
    """Base class of the linear probes: one hyperplane."""

    coef_: Floats
    intercept_: Floats

    def decision_function(self, X: Any) -> Floats:
        """Return the signed score of each row."""
        scores: Floats = self._check(X) @ self.coef_.T + self.intercept_
        return scores[:, 0]


@dataclass(eq=False)
class LogisticProbe(LinearProbe):
    """Logistic regression with an L2 penalty; the intercept is not penalised."""

    C: Positive = 1.0
    _: KW_ONLY
    class_weight: ClassWeight = "balanced"

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        weights = self._row_weights(codes, self.class_weight)
        self.coef_, self.intercept_ = logistic(X, codes, self.C, weights)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class for each row."""
        scores = self.decision_function(X)
        return softmax(np.stack([np.zeros_like(scores), scores], axis=1))


@dataclass(eq=False)
class RidgeProbe(LinearProbe):
    """Ridge regression on +1/-1 labels; leave-one-film-out errors choose the penalty strength.

    One decomposition gives the fits for all strengths, and leaving out a film needs no new fit. The
    errors of a left-out film are (I - H)^-1 r. Here, r contains the residuals of the film in the
    fit on all rows, and H is the block of the smoother matrix for the rows of the film. Without
    groups, each row is left out in turn.
    Strengths are in units of the total variance of the features. With `class_weight`, errors are
    weighted by class.
    """

    _: KW_ONLY
    class_weight: ClassWeight = None

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        if groups is None:
            warn_without_groups(self, "its penalty strength")
        targets = np.where(codes == 1, 1.0, -1.0)[:, None]
        path = RidgePath(X, targets, self._row_weights(codes, self.class_weight))
        alphas = np.array(ALPHAS) * total_variance(X)
        left_out = path.left_out(alphas, groups)
        self.errors_ = ((path.root * left_out) ** 2).mean(axis=(1, 2))
        best = int(np.round(self.errors_, DIGITS).argmin())
        self.alpha_ = float(alphas[best])
        self.coef_, self.intercept_ = path.plane(self.alpha_)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The chosen penalty strength."""
        return {"alpha": self.alpha_}


class RidgePath:
    """Ridge regressions of some targets on the same rows for all strengths, from one decomposition.

    Rows may be weighted. `root` is the square root of the weights; rows and targets are multiplied
    by it. If there are fewer rows than columns, the Gram matrix of the rows is decomposed into its
    eigenvectors; if not, the matrix of the dot products of the columns. This takes a third of the
    time of a singular value decomposition of the rows.
    """

    def __init__(
        self, X: Floats, targets: Floats, weights: Floats | None = None
    ) -> None:
        self.root = (
            np.ones((len(X), 1)) if weights is None else np.sqrt(weights)[:, None]
        )
        self.x_mean, self.t_mean = (
            np.average(a, axis=0, weights=weights) for a in (X, targets)
        )
        self.targets = self.root * (targets - self.t_mean)
        centred = self.centred = self.root * (X - self.x_mean)
        is_wide = X.shape[1] > len(X)
        squares, vectors = np.linalg.eigh(
            centred @ centred.T if is_wide else centred.T @ centred
        )
        large = squares > SMALLEST * squares[-1]
        self.squares = squares[large]
        vectors = vectors[:, large]
        self.U = vectors if is_wide else centred @ vectors / np.sqrt(self.squares)

    def plane(self, alpha: float) -> tuple[Floats, Floats]:
        """Return coefficients and intercepts at one strength; the intercept is not penalised."""
        coef: Floats = (
            (self.targets.T @ self.U / (self.squares + alpha)) @ self.U.T @ self.centred
        )
        return coef, self.t_mean - coef @ self.x_mean

    def left_out(self, alphas: ArrayLike, groups: NDArray[Any] | None) -> Floats:
        """Return the errors of the rows of each group, predicted from all other groups.

        No new fit is computed. The axes of the result are strengths, rows and targets.
        """
        keep = self.squares / (self.squares + np.asarray(alphas)[:, None])
        left_out: Floats = self.targets - self.U @ (
            keep[:, :, None] * (self.U.T @ self.targets)
        )
        if groups is None:
            share = self.root**2 / (self.root**2).sum()  # of each row in the intercept
            free = 1 - share - self.U**2 @ keep[:, :, None]
            left_out /= np.maximum(free, 1e-12)
            return left_out / self.root
        if np.all(groups == groups[:1]):
            raise FixTraining("leaving out groups requires at least two groups")
        share = self.root / np.sqrt((self.root**2).sum())
        factors = np.hstack([self.U, share])
        scales = np.ones((len(keep), 1))
        scales = np.hstack([np.sqrt(keep), scales])
        for rows in _rows_of_groups(groups):
            left_out[:, rows] = _solve_without(factors, scales, left_out, rows)
        return left_out / self.root


def _rows_of_groups(groups: NDArray[Any]) -> Iterator[Ints]:
    """Yield blocks of row numbers [group, row]; all groups of a block have the same size."""
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    rows_by_group = np.argsort(codes, kind="stable")
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes):
        first_rows = starts[sizes == size]
        n_together = max(1, BLOCK_ROWS // int(size))
        for begin in range(0, len(first_rows), n_together):
            block = first_rows[begin : begin + n_together]
            yield rows_by_group[block[:, None] + np.arange(size)]


def _solve_without(
    factors: Floats, scales: Floats, errors: Floats, rows: Ints
) -> Floats:
    """Return (I - half @ half.T)^-1 @ errors for each strength and group.

    All groups have the same size. `half` contains the factors of the rows of a group, multiplied by
    the scales of a strength. Two systems of equations are equivalent: one has an equation for each
    row of the group, the other has one for each column of `half`. The smaller one is solved.
    """
    solved = np.empty((len(scales), *rows.shape, errors.shape[2]))
    own_factors = factors[rows]
    n_rows, n_columns = own_factors.shape[1:]
    identity = np.eye(min(n_rows, n_columns))
    # One strength at a time, to limit memory: a film may have thousands of rows.
    for number, scale in enumerate(scales):
        half = own_factors * scale
        across = half.swapaxes(1, 2)
        own_errors = errors[number][rows]
        if n_rows <= n_columns:
            solved[number] = np.linalg.solve(identity - half @ across, own_errors)
        else:
            inner = np.linalg.solve(identity - across @ half, across @ own_errors)
            solved[number] = own_errors + half @ inner
    return solved


@dataclass(eq=False)
class SVMProbe(LinearProbe):
    """The linear support vector machine: of libsvm, or for many rows of the solver `primal`.

    With "auto", the solver is chosen by the number of rows. Both solve the same problem. With
    `memory`, fits on the same rows share the dot products of the rows.
    """

    C: Annotated[
        Positive,
        InFile(
            Annotated[
                Literal["published"] | Positive,
                Meta(description="a number, above 0, or published"),
            ]
        ),
    ] = 1.0
    _: KW_ONLY
    class_weight: ClassWeight = "balanced"
    solver: Solver = "auto"
    memory: Any = None

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        weight = self._row_weights(codes, self.class_weight)
        rows = np.arange(len(X))
        machines = cached(self.memory, machines_on)(X, self.solver)
        normal, bias = machines.svm(rows, codes == 1, self.C, weight)
        self.coef_ = normal[None]
        self.intercept_ = np.array([bias])
        middle = central_bias(X @ normal, codes == 1, weight, bias)
        self._facts = {
            "length": float(np.linalg.norm(normal)),
            "bias_shift": middle - bias,
        }

    @property
    def facts(self) -> Mapping[str, Any]:
        """`length` of the normal vector, and `bias_shift`.

        The shift is the most central optimal bias (`central_bias`) minus the bias of the fit.
        """
        return self._facts
