"""Estimators with fitted preprocessing: before the fit, features are scaled.

The scaling is fitted on the training rows. Each part of joined features is multiplied by one factor
(`joined`), or each feature is standardized (`common.Scaling`). A saved model reads features as they
are stored: its coefficients include the factors of the parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from obygaze_models.models.common import Ints, Scaling, as_float32
from obygaze_models.models.estimator import OUTPUTS
from obygaze_models.models.fold_data import FeatureRows, FoldData, InnerScores
from obygaze_models.models.fold_estimator import FoldEstimator
from obygaze_models.models.joined import FeaturePart, PartScaling


@dataclass(frozen=True, eq=False)
class _Scaled:
    """A fitted scaling, and all rows scaled by it."""

    scaling: PartScaling | Scaling
    rows: FeatureRows

    @property
    def n_bytes(self) -> int:
        return self.rows.n_bytes

    def transform(self, X: Any) -> Any:
        """Return scaled features, as the inner estimator reads them."""
        return _transform(self.scaling, X)


def _transform(scaling: PartScaling | Scaling, X: Any) -> Any:
    scaled = scaling.scale(X)
    return scaled if isinstance(scaling, PartScaling) else as_float32(scaled)


class PreprocessedEstimator(FoldEstimator):
    """An estimator that scales features before an inner estimator reads them.

    Args:
        inside: The inner estimator, unfitted.
        parts: The parts of joined features; without parts, each feature is standardized.
    """

    _scaled: _Scaled
    _core: Any

    def __init__(self, inside: Any, parts: Sequence[FeaturePart]) -> None:
        self.inside = inside
        self.parts = parts

    @property
    def reads_concepts(self) -> bool:
        """Whether the fit of the inner estimator uses all examples of concepts."""
        return bool(self.inside.reads_concepts)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts of the inner estimator, and the factors of the parts."""
        scaling = self._scaled.scaling
        if isinstance(scaling, Scaling):
            return dict(self.core.facts)
        return {**self.core.facts, "part_factors": scaling.factors.tolist()}

    def fit_folds(self, folds: Sequence[FoldData]) -> list[Any]:
        """Return one fit per fold; the folds differ in their validation rows only."""
        scaled = self._scaled_by(folds[0])
        inner_folds = [replace(data, rows=scaled.rows) for data in folds]
        fits = []
        for fitted in self.inside.fit_folds(inner_folds):
            outside = copy(self)
            outside._scaled = scaled
            outside._core = fitted
            fits.append(outside)
        return fits

    @property
    def core(self) -> Any:
        """The fitted estimator that reads the scaled features."""
        return self._core

    def left_out_scores(self, data: FoldData) -> InnerScores | None:
        """Return the left-out scores of the inner estimator, on its scaled features."""
        inside = replace(data, rows=self._scaled.rows)
        known: InnerScores | None = self.core.left_out_scores(inside)
        return known

    def merge_scaling(self) -> Any:
        """Return the inner estimator, with the factors of the parts in its coefficients."""
        scaling = self._scaled.scaling
        assert isinstance(scaling, PartScaling)
        return scaling.merge_into(self.core)

    def __getattr__(self, name: str) -> Any:
        """Return an output method of the fitted estimator that reads unscaled features."""
        core = vars(self).get("_core")
        if name not in OUTPUTS or not hasattr(core, name):
            raise AttributeError(name)
        return lambda X: getattr(core, name)(self._scaled.transform(X))

    def _scaled_by(self, data: FoldData) -> _Scaled:
        fit_rows = data.train
        # Concept vectors are fitted on rows of every class, and so are the factors of their parts.
        if self.parts and self.reads_concepts:
            fit_rows = data.concept_rows
        key = ("scaled", self.parts != (), fit_rows.tobytes())
        scaled: _Scaled = data.rows.memo.get(
            key, lambda: self._scale(data.rows, fit_rows)
        )
        return scaled

    def _scale(self, rows: FeatureRows, fit_rows: Ints) -> _Scaled:
        scaling: PartScaling | Scaling
        if self.parts:
            scaling = PartScaling.of(rows.X[fit_rows], self.parts)
        else:
            scaling = Scaling.of(rows.X[fit_rows])
        return _Scaled(scaling, rows.with_features(_transform(scaling, rows.X)))


def with_preprocessing(
    estimator: Any,
    *,
    parts: Sequence[FeaturePart] = (),
    scaled: bool = False,
) -> Any:
    """Return an estimator that scales features first, or the estimator if nothing is scaled.

    Args:
        estimator: The estimator, unfitted.
        parts: The parts of joined features; each gets a factor.
        scaled: Whether features are standardized by the training rows.
    """
    if scaled:
        with_own_scaling = estimator.with_own_scaling()
        if with_own_scaling is not None:
            return with_own_scaling
    if not parts and not scaled:
        return estimator
    return PreprocessedEstimator(estimator, tuple(parts))
