"""FittedSteps before an estimator: scale each feature, or the parts of joined features.

Joined features are vectors of several stores, concatenated. Each part is multiplied by one factor,
which is fitted on training clips, so that no part dominates by its width or scale. All parts then
have the same total variance. The total variance of a row is then the mean of the original total
variances of the parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from obygaze_models.models.common import FixTraining, Floats, as_float32, column_scales
from obygaze_models.models.estimator import (
    Transformer,
    check_features,
    check_training_rows,
)


@dataclass(eq=False)
class Scaling(Transformer):
    """Standardize each feature; a feature that is constant in the fitted rows is only centred.

    Rows become float32, as features of stores are.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the mean and the standard deviation of each feature."""
        rows = np.asarray(check_training_rows(self, X), dtype=np.float64)
        self.means_ = rows.mean(axis=0)
        self.deviations_ = column_scales(rows)
        return self

    def scale(self, X: Any) -> Floats:
        """Return standardized rows: mean 0 and standard deviation 1 over the fitted clips."""
        return np.asarray((check_features(self, X) - self.means_) / self.deviations_)

    def transform_rows(self, X: Any) -> NDArray[np.float32]:
        """Return standardized rows as float32."""
        return as_float32(self.scale(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def unscale_plane(self, coef: Floats, intercept: Any) -> tuple[Floats, Any]:
        """Convert planes for scaled rows into planes for unscaled rows with the same margins."""
        unscaled: Floats = coef / self.deviations_
        return unscaled, intercept - unscaled @ self.means_


class FeaturePart(NamedTuple):
    """A part of joined features: the name of its store, and the number of its columns."""

    name: str
    width: int


@dataclass(eq=False)
class PartScaling(Transformer):
    """Multiply each part by its factor: sqrt(mean(V) / (B * V_b)) for part b of B.

    V_b is the total variance of the part in the fitted rows. A part that is constant in these rows
    is refused. `parts` has a name and a number of columns for each part; without parts, all columns
    are one part.
    """

    parts: Sequence[FeaturePart] = ()

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the factors on some rows."""
        rows = check_training_rows(self, X, (np.float64, np.float32))
        variances = []
        first = 0
        for name, width in self._parts:
            columns = rows[:, first : first + width]
            of_part = np.asarray(columns, dtype=np.float64)
            variances.append(float(of_part.var(axis=0).sum()))
            if not variances[-1] > 0:
                raise FixTraining(f"{name} is the same for all training clips")
            first += width
        n_parts = len(self._parts)
        self.factors_ = np.sqrt(np.mean(variances) / (n_parts * np.array(variances)))
        return self

    def transform_rows(self, X: Any) -> Floats:
        """Return rows with each part multiplied by its factor."""
        widths = [width for _, width in self._parts]
        return np.asarray(check_features(self, X) * np.repeat(self.factors_, widths))

    @property
    def _parts(self) -> Sequence[FeaturePart]:
        return self.parts or [FeaturePart("every feature", self.n_features_in_)]
