"""One factor for each part of joined features, so that neither width nor scale decides.

Features of a join are vectors of several stores side by side. Each part is multiplied by one
factor, which training clips give. All parts then have the same total variance, and the whole
row has the mean of what the parts had.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from obygaze_models.models.common import FixTraining, Floats


class FeaturePart(NamedTuple):
    """A part of joined features: the name of its store, and how many numbers a row has of it."""

    name: str
    width: int


@dataclass(frozen=True, eq=False)
class PartScaling:
    """The factor of each part, and of each feature: that of its part."""

    factors: Floats
    of_features: Floats

    @classmethod
    def of(cls, X: Any, parts: Sequence[FeaturePart]) -> Self:
        """Return the factors that some rows give: sqrt(mean(V) / (B * V_b)) for part b of B.

        V_b is the total variance of the part. A part that is the same in all rows has no factor.
        """
        variances = []
        first = 0
        for part in parts:
            columns = X[:, first : first + part.width]
            rows = np.asarray(columns, dtype=np.float64)
            variances.append(float(rows.var(axis=0).sum()))
            if not variances[-1] > 0:
                raise FixTraining(f"{part.name} is the same for all training clips")
            first += part.width
        factors = np.sqrt(np.mean(variances) / (len(parts) * np.array(variances)))
        return cls(factors, np.repeat(factors, [part.width for part in parts]))

    def scaled(self, X: Any) -> Floats:
        """Return rows with each part times its factor."""
        rows = np.asarray(X, dtype=np.float64)
        return np.asarray(rows * self.of_features)

    def merge_into(self, estimator: Any) -> Any:
        """Return an estimator that gives rows as they are the scores of scaled rows.

        Its coefficients are multiplied in place of the features.
        """
        merge_scaling = copy(estimator)
        if hasattr(estimator, "layers_"):
            first, *others = (layer.astype(np.float64) for layer in estimator.layers_)
            # The last row is the bias.
            first[:-1] *= self.of_features[:, None]
            merge_scaling.layers_ = [first, *others]
        elif hasattr(estimator, "bank_"):
            merge_scaling.bank_ = self.merge_into(estimator.bank_)
            if estimator.residual is not None:
                merge_scaling.residual_ = self.merge_into(estimator.residual_)
        else:
            merge_scaling.coef_ = estimator.coef_ * self.of_features
        return merge_scaling
