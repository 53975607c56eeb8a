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

TOLERANCE = 1e-3  # libsvm's own: how far decisions may be from where the optimum has them
AT_BOUND = 1e-6
MOST_FITS = 4


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
        self,
        rows: Ints,
        positive: Bools,
        C: float,
        weight: Floats | None = None,
        *,
        exact: bool = False,
    ) -> tuple[Floats, float]:
        """The normal vector and the bias of the soft-margin machine on these rows.

        `weight` multiplies the tolerance C of each row. Where all decisions lie closer together
        than the margin is wide, as on features of small length, libsvm stops before they are told
        apart; `exact` asks it again there, as closely as they ask for.
        """
        products = self.products[np.ix_(rows, rows)]
        most = C * (np.ones(len(rows)) if weight is None else weight)
        tolerance = TOLERANCE
        for _ in range(MOST_FITS):
            svm = SVC(kernel="precomputed", C=C, tol=tolerance)
            svm.fit(products, positive.astype(np.int64), sample_weight=weight)
            dual = svm.dual_coef_[0]
            needed = TOLERANCE * min(1.0, float(np.ptp(products[:, svm.support_] @ dual)) / 2)
            bound = np.abs(dual) >= (1 - AT_BOUND) * most[svm.support_]
            # Where every row has all the weight it may have, nothing is left to be found.
            if not exact or bound.sum() >= len(rows) - 1 or not 0 < needed < tolerance / 2:
                break
            tolerance = needed
        normal = dual @ self.X[rows[svm.support_]]
        if not np.isfinite(normal).all():
            raise FixTraining("a support vector machine did not end in numbers")
        return normal, float(svm.intercept_[0])
