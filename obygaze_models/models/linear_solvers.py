"""Solvers of support vector machines and of logistic regression."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core import system
from obygaze_features.core.console import human
from obygaze_features.core.errors import FixInput
from obygaze_models.models.common import (
    Bools,
    FixTraining,
    Floats,
    Ints,
    check_values,
    one_thread,
    total_variance,
)
from obygaze_models.models.fold_data import Memo, digest_of
from obygaze_models.models.primal import NARROW, WIDTHS, hinge_plane
from obygaze_models.models.registry import PRIMAL, choose_solver

Plane = tuple[Floats, float]

TOLERANCE = 1e-3  # the stopping tolerance of libsvm by default
LOGISTIC_TOLERANCE = 1e-8
AT_BOUND = 1e-6
EQUAL = 1e-12
MAX_FITS = 4
MAX_STEPS = 50  # steps per row of a repeated fit; most fits take a few
MOST_STEPS = 500  # steps per row of a fit that may not converge
FEW_ROWS = 100
FAR_APART = 1.5  # above 1, no fit is repeated; the rest is a reserve for rounding
# The largest total variance of features, times the tolerance. On 112 clips that no plane separates,
# libsvm takes seconds below this bound and minutes above it. Features of networks have a hundredth
# of this variance.
MOST_VARIANCE = 5e4
# libsvm stores dot products of rows as float32, which is too coarse for rows far from 0. If the
# squared length of the mean of the rows, divided by their variance, is larger, libsvm is not used.
FAR_MEAN = 100
MIN_RANGE = 0.01  # in units of the decision; the margin is 2 units wide


def machines_on(X: NDArray[Any], solver: str = "auto") -> Machines:
    """Return the support vector machines of some rows.

    Args:
        X: The rows.
        solver: "libsvm", "primal", or "auto" for the default of this number of rows.
    """
    if solver == "auto":
        solver = choose_solver(len(X))
    return PrimalRows(X) if solver == PRIMAL else Gram(X)


class RowMemory(Memo):
    """A cache of results for fits on rows of one matrix: they share the dot products of its rows.

    Rows are found by their values. The products are computed when a fit needs them first.
    """

    def __init__(self, X: NDArray[Any]) -> None:
        super().__init__()
        self.X = X
        self._last: tuple[bytes, Any] = (b"", None)

    def cache(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its results remembered by its arguments."""
        return self._machines if function is machines_on else super().cache(function)

    def _machines(self, X: Floats, solver: str) -> Any:
        """Return the machines of rows. Only the last are kept, because their products are large."""
        key = digest_of(X, solver)
        if self._last[0] != key:
            machines = machines_on(X, solver)
            rows = [self._numbers.get(key_of_row, -1) for key_of_row in _row_keys(X)]
            if isinstance(machines, Gram) and -1 not in rows:
                machines.products = self._all.products[np.ix_(rows, rows)]
            self._last = key, machines
        return self._last[1]

    @cached_property
    def _all(self) -> Gram:
        return Gram(self.X)

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        return {key: number for number, key in enumerate(_row_keys(self.X))}


def _row_keys(X: NDArray[Any]) -> list[bytes]:
    """Return a hash of the values of each row."""
    rows = np.ascontiguousarray(X, dtype=np.float64)
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]


class Scales:
    """Checks of the scale of the rows that a fit uses; all other rows may have any values.

    The results for the rows that were checked last are cached.
    """

    def __init__(self, X: Floats) -> None:
        self.X = X
        self._last: tuple[bytes, float, float, Floats] = (b"", 0.0, 0.0, X[:0])

    def check(self, rows: Ints, C: float) -> int:
        """Return the largest number of steps, or -1 for no limit; refuse rows of large scale.

        The number of steps of libsvm grows with the product of the variance and the tolerance C.
        Rows are refused if the variance times min(C, 1) is too large. If C is above 1, and only the
        variance times C is too large, rows are not refused, because the user chose this C. The
        number of steps is then limited.
        """
        key = rows.tobytes()
        if self._last[0] != key:
            fitted = self.X[rows]
            largest = float(np.abs(fitted).max(initial=0.0))
            self._last = key, largest, total_variance(fitted), fitted.mean(axis=0)
        _, largest, variance, _ = self._last
        check_values(largest)
        most = MOST_VARIANCE / min(C, 1.0)
        if variance > most:
            raise FixInput(
                f"expected features with a total variance of at most {most:.1g}, got"
                f" {variance:.1g}: a support vector machine of tolerance {C:g} may not converge",
                hint="use --set data.scale=standard",
            )
        is_long = variance * C > MOST_VARIANCE
        return MOST_STEPS * max(len(rows), 1000) if is_long else -1

    @property
    def far_mean(self) -> Floats | None:
        """The mean of the rows that were checked last, or None if the mean is not large.

        The mean is large if its squared length is more than 100 times the total variance.
        """
        _, _, variance, mean = self._last
        return mean if mean @ mean > FAR_MEAN * variance else None


def most_bytes() -> int:
    """Return the memory limit for a Gram matrix: half of the machine's memory."""
    return system.memory_bytes() // 2


class Gram:
    """Rows with their Gram matrix, which contains the dot products of all pairs of rows.

    Support vector machines are fitted on any subset of the rows. libsvm spends most of its time on
    dot products. Computing them once reduces the time of a fit of the ObyGaze12 paper from seconds
    to milliseconds; results are equal up to rounding.
    """

    def __init__(self, X: NDArray[Any]) -> None:
        self.X: Floats = np.ascontiguousarray(X, dtype=np.float64)
        self._scales = Scales(self.X)
        self._last: tuple[bytes, Floats] = (b"", self.X[:0])
        self._last_means: tuple[bytes, tuple[Floats, float, float] | None] = (b"", None)

    @cached_property
    def products(self) -> Floats:
        """The dot products of all pairs of rows, computed when they are needed first."""
        n_bytes = 8 * len(self.X) ** 2
        if n_bytes > most_bytes():
            raise FixInput(
                f"the products of {len(self.X):,} clips need {human(n_bytes)}, more than half of"
                " the memory of this machine",
                hint="use fewer clips (data.where), or a model without concept vectors (ridge)",
            )
        with one_thread():
            return np.asarray(self.X @ self.X.T)

    @property
    def n_bytes(self) -> int:
        """Bytes of the rows, and of their dot products if these are computed."""
        has_products = "products" in vars(self)
        return self.X.nbytes + (self.products.nbytes if has_products else 0)

    def svm(
        self,
        rows: Ints,
        positive: Bools,
        C: float,
        weight: Floats | None = None,
        *,
        exact: bool = False,
    ) -> Plane:
        """Return the normal vector and the bias of the soft-margin classifier on some rows.

        `weight` contains a factor for each row, by which the tolerance C is multiplied. If feature
        vectors are short, all decisions may be closer together than the width of the margin, and
        libsvm stops too early. With `exact`, such a fit is repeated with a smaller stopping
        tolerance, or computed without libsvm. If rounding prevents convergence of the repeated fit
        within `MAX_STEPS` steps per row, the plane of the fit before it is returned.
        """
        most_steps = self._scales.check(rows, C)
        weights = np.ones(len(rows)) if weight is None else weight
        means = self._compute_means(rows, positive, weights) if exact else None
        if means is not None and C * (means[1] - means[2]) <= 2:
            return C * means[0], -C * (means[1] + means[2]) / 2
        if self._scales.far_mean is not None:
            return PrimalRows(self.X).svm(rows, positive, C, weight)
        most = C * weights
        products = self._compute_products(rows)
        tolerance = TOLERANCE
        svm = _fit_svm(products, positive, C, weight, tolerance, most_steps)
        if svm.fit_status_:
            raise FixInput(
                f"a support vector machine of tolerance {C:g} did not converge in {most_steps:,}"
                " steps",
                hint="use --set data.scale=standard, or a smaller tolerance",
            )
        for _ in range(MAX_FITS - 1):
            dual = svm.dual_coef_[0]
            bound = np.abs(dual) >= (1 - AT_BOUND) * most[svm.support_]
            # If the weight of every row is at its bound, the solution is unique. If not, the
            # solution may be inexact.
            if not exact or bound.sum() == len(rows):
                break
            duals = np.zeros(len(rows))
            duals[svm.support_] = dual
            # If decisions of a few rows are far apart, the decisions of all rows are not needed.
            if np.ptp(products[:FEW_ROWS] @ duals) > FAR_APART:
                break
            needed = TOLERANCE * min(1.0, float(np.ptp(products @ duals)) / 2)
            if not 0 < needed < tolerance / 2:
                break
            tolerance = needed
            steps = MAX_STEPS * max(len(rows), 1000)
            closer = _fit_svm(products, positive, C, weight, tolerance, steps)
            if closer.fit_status_:
                break
            svm = closer
        dual = svm.dual_coef_[0]
        normal = dual @ self.X[rows[svm.support_]]
        if not np.isfinite(normal).all():
            raise FixTraining(
                "the support vector machine has a vector that is not finite"
            )
        return normal, float(svm.intercept_[0])

    def _compute_means(
        self, rows: Ints, positive: Bools, weights: Floats
    ) -> tuple[Floats, float, float] | None:
        """Return a vector, its largest product with positive rows and smallest with negative.

        The vector is the weighted sum of positive rows minus the weighted sum of negative rows.
        Return None unless both sides have equal weight. If C is so small that the weight of every
        row is at its bound and all decisions are between the margins, C times the vector is the
        solution. An interval of biases is then optimal, and the two products give its ends. Callers
        use its middle, because the bias of libsvm depends on rounding. The last result is cached.
        """
        key = b"|".join(part.tobytes() for part in (rows, positive, weights))
        if self._last_means[0] != key:
            duals = np.zeros(len(self.X))
            means = None
            duals[rows] = np.where(positive, weights, -weights)
            if abs(duals.sum()) <= EQUAL * weights.sum():
                normal = duals @ self.X
                along = (self.X @ normal)[rows]
                means = (
                    normal,
                    float(along[positive].max()),
                    float(along[~positive].min()),
                )
            self._last_means = key, means
        return self._last_means[1]

    def _compute_products(self, rows: Ints) -> Floats:
        """Return the dot products of all pairs of some rows; the last result is cached."""
        if np.array_equal(rows, np.arange(len(self.X))):
            return self.products
        key = rows.tobytes()
        if self._last[0] != key:
            self._last = key, self.products[np.ix_(rows, rows)]
        return self._last[1]


class PrimalRows:
    """Rows on which support vector machines are fitted without a Gram matrix (see `primal`)."""

    def __init__(self, X: NDArray[Any]) -> None:
        self.X: Floats = np.ascontiguousarray(X, dtype=np.float64)
        self._scales = Scales(self.X)
        self._last: tuple[bytes, Floats, Floats] = (b"", self.X[:0], self.X[:0])
        self._last_plane: tuple[bytes, Floats | None] = (b"", None)

    @property
    def n_bytes(self) -> int:
        """Bytes of the rows."""
        return self.X.nbytes

    def svm(
        self,
        rows: Ints,
        positive: Bools,
        C: float,
        weight: Floats | None = None,
        *,
        exact: bool = False,
    ) -> Plane:
        """Return the normal vector and the bias of the soft-margin classifier on some rows.

        The parameters are those of `Gram.svm`, but every plane is exact, also without `exact`. If
        the fit before had the same rows and weights, and only a different C, this fit starts from
        its plane.
        """
        self._scales.check(rows, C)
        weights = np.ones(len(rows)) if weight is None else weight
        key = rows.tobytes()
        if self._last[0] != key:
            far = self._scales.far_mean
            origin = np.zeros(self.X.shape[1]) if far is None else far
            self._last = key, self.X[rows] - origin, origin
        _, around, origin = self._last
        of_machine = b"|".join((key, positive.tobytes(), weights.tobytes()))
        known, start = self._last_plane
        plane = hinge_plane(
            around,
            positive,
            C * weights,
            start if known == of_machine else None,
            WIDTHS if self._scales.far_mean is None else NARROW,
        )
        self._last_plane = of_machine, plane
        normal = plane[:-1]
        return normal, float(plane[-1]) - float(normal @ origin)


Machines = Gram | PrimalRows


def _fit_svm(
    products: Floats,
    positive: Bools,
    C: float,
    weight: Floats | None,
    tolerance: float,
    steps: int = -1,
) -> Any:
    """Return the fit of libsvm; `fit_status_` is 1 if it did not converge within `steps`."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import SVC

    svm = SVC(kernel="precomputed", C=C, tol=tolerance, max_iter=steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return svm.fit(products, positive.astype(np.int64), sample_weight=weight)


def central_bias(
    along: Floats, positive: Bools, weights: Floats | None, bias: float
) -> float:
    """Return the optimal bias of a support vector machine; of several optimal ones, a central one.

    If C is small, all rows can be inside the margin. Many biases then have the same loss, and
    rounding would decide between them. The normal vector is short in this case. Therefore, the bias
    divided by the length of the vector would be very large and differ between folds, and no head
    could be fitted on the margins. The most central bias is the optimal bias nearest to the one
    that puts the plane in the middle between the means of the two classes.
    """
    low, high = optimal_biases(
        along, positive, np.ones(len(along)) if weights is None else weights
    )
    if high - low < MIN_RANGE:
        return bias
    middle = -float(along[positive].mean() + along[~positive].mean()) / 2
    return min(max(middle, low), high)


def optimal_biases(
    along: Floats, positive: Bools, weights: Floats
) -> tuple[float, float]:
    """Return the lowest and the highest bias with the smallest weighted hinge loss.

    The slope of the loss changes only where a row crosses the margin.
    """
    at = np.where(positive, 1.0, -1.0) - along
    order = np.argsort(at, kind="stable")
    slope = np.cumsum(weights[order]) - weights[positive].sum()
    level = 1e-9 * weights.sum()
    first = int(np.argmax(slope >= -level))
    flat = abs(slope[first]) <= level and first + 1 < len(order)
    return float(at[order[first]]), float(at[order[first + int(flat)]])


def logistic(
    X: Floats, codes: Ints, C: float, weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return coefficients, in one row, and the intercept.

    scikit-learn stops if gradients are below a fixed number. If the features are of small scale,
    the first gradient is already below it; if they are of large scale, convergence is slow.
    Therefore, an equivalent problem is solved: rows are centred and divided so that their mean
    squared length is 1, and C is multiplied by their total variance.
    """
    from sklearn.linear_model import LogisticRegression

    mean = X.mean(axis=0)
    scale = float(np.sqrt(total_variance(X)))
    model = LogisticRegression(C=C * scale**2, tol=LOGISTIC_TOLERANCE, max_iter=10_000)
    model.fit((X - mean) / scale, codes, sample_weight=weights)
    coef: Floats = model.coef_ / scale
    return coef, model.intercept_ - coef @ mean
