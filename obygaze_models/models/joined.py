"""One factor for each part of joined features, so that neither width nor scale decides.

Features of a joined store are vectors of several stores side by side. Each part is multiplied by
one factor, which training clips give. All parts then have the same total variance, and the whole
row has the mean of what the parts had.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from obygaze_features.store.joining import JoinedPart, part_names, part_slices
from obygaze_models.models.common import FixTraining, Floats


@dataclass(frozen=True, eq=False)
class PartScaling:
    """The factor of each part, and of each feature: that of its part."""

    factors: Floats
    of_features: Floats

    @classmethod
    def of(cls, X: Any, parts: Sequence[JoinedPart]) -> Self:
        """Return the factors that some rows give: sqrt(mean(V) / (B * V_b)) for part b of B.

        V_b is the total variance of the part. A part that is the same in all rows has no factor.
        """
        variances = []
        for name, columns in zip(part_names(parts), part_slices(parts), strict=True):
            rows = np.asarray(X[:, columns], dtype=np.float64)
            variances.append(float(rows.var(axis=0).sum()))
            if not variances[-1] > 0:
                raise FixTraining(f"{name} is the same for all training clips")
        factors = np.sqrt(np.mean(variances) / (len(parts) * np.array(variances)))
        return cls(factors, np.repeat(factors, [part.width for part in parts]))

    def scaled(self, X: Any) -> Floats:
        """Return rows with each part times its factor."""
        rows = np.asarray(X, dtype=np.float64)
        return np.asarray(rows * self.of_features)

    def absorbed_by(self, estimator: Any) -> Any:
        """Return an estimator that gives rows as they are the scores of scaled rows.

        Its coefficients are multiplied in place of the features.
        """
        absorbed = copy(estimator)
        if hasattr(estimator, "layers_"):
            first, *others = (layer.astype(np.float64) for layer in estimator.layers_)
            # The last row is the bias.
            first[:-1] *= self.of_features[:, None]
            absorbed.layers_ = [first, *others]
        elif hasattr(estimator, "bank_"):
            absorbed.bank_ = self.absorbed_by(estimator.bank_)
            if estimator.residual is not None:
                absorbed.residual_ = self.absorbed_by(estimator.residual_)
        else:
            absorbed.coef_ = estimator.coef_ * self.of_features
        return absorbed
