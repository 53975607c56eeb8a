"""Linear support vector machines, fast: one Gram matrix for all concepts, folds and tolerances.

libsvm spends its time on products of rows. Computed once, they turn the paper's machines, the
same to rounding, from seconds into milliseconds. (liblinear solves another problem: its
intercept is penalised.)
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from obygaze_models.models.ground import Bools, FixTraining, Floats, Ints, one_thread


class Gram:
    """Rows with their products; machines are trained on any of its rows."""

    def __init__(self, X: NDArray[Any]) -> None:
        self.X: Floats = np.ascontiguousarray(X, dtype=np.float64)

    @cached_property
    def products(self) -> Floats:
        """The product of each row with each other, made when first asked for."""
        with one_thread():
            products: Floats = self.X @ self.X.T
        return products

    def machine(
        self, rows: Ints, positive: Bools, C: float, weight: Floats | None = None
    ) -> tuple[Floats, float]:
        """The normal vector and the bias of the soft-margin machine on these rows.

        `weight` multiplies the tolerance C of each row.
        """
        svm = SVC(kernel="precomputed", C=C)
        svm.fit(self.products[np.ix_(rows, rows)], positive.astype(np.int64), sample_weight=weight)
        normal = svm.dual_coef_[0] @ self.X[rows[svm.support_]]
        if not np.isfinite(normal).all():
            raise FixTraining("a support vector machine did not end in numbers")
        return normal, float(svm.intercept_[0])
