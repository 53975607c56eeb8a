"""Ways to find the direction of a concept: each takes rows with and without it, and gives a plane.

`svm` is the paper's. `liblinear` solves another problem (its intercept is penalised), so it has a
name of its own and never stands in for the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

from obygaze_models.models.gram import Gram
from obygaze_models.models.ground import Bools, FixTraining, Floats, Ints, balanced_weights
from obygaze_models.models.solved import logistic

Plane = tuple[Floats, float]


@dataclass(frozen=True)
class Task:
    """Which rows have the concept (`positive`, one value for each of `rows`), and how strictly.

    `C` is the margin tolerance of a machine and the inverse strength of logistic and ridge (with
    alpha = 1 / 2C); mean difference and LDA have none. `balanced` lets both sides weigh the same.
    A machine is that of libsvm, or where libsvm stops too early the `exact` one.
    """

    gram: Gram
    rows: Ints
    positive: Bools
    C: float
    balanced: bool
    exact: bool = False

    @property
    def X(self) -> Floats:
        """The rows' features."""
        return self.gram.X[self.rows]

    @property
    def weights(self) -> Floats | None:
        """A weight for each row, or none."""
        if not self.balanced:
            return None
        return balanced_weights(self.positive.astype(np.int64), 2)[self.positive.astype(np.int64)]


def _svm(task: Task) -> Plane:
    weights = task.weights
    return task.gram.machine(task.rows, task.positive, task.C, weights, exact=task.exact)


def _liblinear(task: Task) -> Plane:
    model = LinearSVC(C=task.C, loss="hinge", max_iter=20000, random_state=0)
    return _plane(model.fit(task.X, task.positive, sample_weight=task.weights))


def _logistic(task: Task) -> Plane:
    coef, intercept = logistic(task.X, task.positive.astype(np.int64), task.C, task.weights)
    return coef[0], float(intercept[0])


def _ridge(task: Task) -> Plane:
    signs = np.where(task.positive, 1.0, -1.0)
    model = Ridge(alpha=1 / (2 * task.C)).fit(task.X, signs, sample_weight=task.weights)
    return model.coef_, float(model.intercept_)


def _mean_difference(task: Task) -> Plane:
    X = task.X
    with_it, without = X[task.positive].mean(axis=0), X[~task.positive].mean(axis=0)
    normal: Floats = with_it - without
    return normal, float(-normal @ (with_it + without) / 2)


def _lda(task: Task) -> Plane:
    priors = [0.5, 0.5] if task.balanced else None
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto", priors=priors)
    return _plane(model.fit(task.X, task.positive))


def _plane(model: Any) -> Plane:
    coef: NDArray[np.float64] = np.asarray(model.coef_, dtype=np.float64)
    return coef[0], float(model.intercept_[0])


METHODS: dict[str, Callable[[Task], Plane]] = {
    "svm": _svm,
    "liblinear": _liblinear,
    "logistic": _logistic,
    "ridge": _ridge,
    "mean-difference": _mean_difference,
    "lda": _lda,
}
WITHOUT_TOLERANCE = ("mean-difference", "lda")


def find_plane(method: str, task: Task) -> Plane:
    """The normal vector towards the concept and the bias, by one of METHODS."""
    if method not in METHODS:
        raise FixTraining(
            f"no way to find a concept is called {method!r}", hint=f"one of {', '.join(METHODS)}"
        )
    if task.positive.all() or not task.positive.any():
        raise FixTraining("rows with the concept and rows without it are both needed")
    normal, bias = METHODS[method](task)
    if not np.linalg.norm(normal) > 0:
        raise FixTraining(f"{method} found no direction: rows with and without it are alike")
    return normal, bias
