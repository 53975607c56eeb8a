"""Scale the parts of joined features, so that no part dominates by its width or scale.

Joined features are vectors of several stores, concatenated. Each part is multiplied by one factor,
which is fitted on training clips. All parts then have the same total variance. The total variance
of a row is then the mean of the original total variances of the parts.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from obygaze_models.models.common import FixTraining, Floats


class FeaturePart(NamedTuple):
    """A part of joined features: the name of its store, and the number of its columns."""

    name: str
    width: int


@dataclass(frozen=True, eq=False)
class PartScaling:
    """The factor of each part, and the same factors repeated for each feature."""

    factors: Floats
    of_features: Floats

    @classmethod
    def of(cls, X: Any, parts: Sequence[FeaturePart]) -> Self:
        """Fit the factors on some rows: sqrt(mean(V) / (B * V_b)) for part b of B.

        V_b is the total variance of the part. A part that is constant in these rows is refused.
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

    def scale(self, X: Any) -> Floats:
        """Return rows with each part multiplied by its factor."""
        rows = np.asarray(X, dtype=np.float64)
        return np.asarray(rows * self.of_features)

    def merge_into(self, estimator: Any) -> Any:
        """Return an equivalent estimator of unscaled rows.

        The factors are merged into its coefficients.
        """
        merged = copy(estimator)
        if hasattr(estimator, "layers_"):
            first, *others = (layer.astype(np.float64) for layer in estimator.layers_)
            # The last row is the bias.
            first[:-1] *= self.of_features[:, None]
            merged.layers_ = [first, *others]
        elif hasattr(estimator, "bank_"):
            merged.bank_ = self.merge_into(estimator.bank_)
            if estimator.residual is not None:
                merged.residual_ = self.merge_into(estimator.residual_)
        else:
            merged.coef_ = estimator.coef_ * self.of_features
        return merged
