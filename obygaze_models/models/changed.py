"""Models of features that are scaled first, as the rows that a model learns from say.

Parts of joined features get one factor each (`joined`), or all features the same mean and deviation
(`common.Scaling`). A saved model reads features as they are stored: of parts it has the factors in
its coefficients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from obygaze_models.models.common import Ints, Scaling, as_float32
from obygaze_models.models.estimator import OUTPUTS
from obygaze_models.models.joined import FeaturePart, PartScaling
from obygaze_models.models.learner import Learner
from obygaze_models.models.lessons import FeatureRows, InnerScores, Lessons


@dataclass(frozen=True, eq=False)
class _Scaled:
    """A scaling that some rows gave, and all rows as it changes them."""

    scaling: PartScaling | Scaling
    rows: FeatureRows

    @property
    def n_bytes(self) -> int:
        return self.rows.n_bytes

    def changed(self, X: Any) -> Any:
        """Return features as the estimator inside reads them."""
        return _changed(self.scaling, X)


def _changed(scaling: PartScaling | Scaling, X: Any) -> Any:
    changed = scaling.scaled(X)
    return changed if isinstance(scaling, PartScaling) else as_float32(changed)


class ChangedFeatures(Learner):
    """An estimator of changed features, which is asked for features as they are.

    Args:
        inside: The estimator, unfitted.
        parts: The parts of joined features; without parts, each feature is scaled.
    """

    _scaled: _Scaled
    _core: Any

    def __init__(self, inside: Any, parts: Sequence[FeaturePart]) -> None:
        self.inside = inside
        self.parts = parts

    @property
    def reads_concepts(self) -> bool:
        """Whether the estimator inside does."""
        return bool(self.inside.reads_concepts)

    @property
    def facts(self) -> Mapping[str, Any]:
        """Those of the estimator inside, and the factors of parts."""
        scaling = self._scaled.scaling
        if isinstance(scaling, Scaling):
            return dict(self.core.facts)
        return {**self.core.facts, "part_factors": scaling.factors.tolist()}

    def learn_each(self, folds: Sequence[Lessons]) -> list[Any]:
        """Return a fit of each of some lessons that differ in their validation rows only."""
        scaled = self._scaled_by(folds[0])
        changed = [replace(lessons, rows=scaled.rows) for lessons in folds]
        fits = []
        for fitted in self.inside.learn_each(changed):
            outside = copy(self)
            outside._scaled = scaled
            outside._core = fitted
            fits.append(outside)
        return fits

    @property
    def core(self) -> Any:
        """The fitted estimator that reads the changed features."""
        return self._core

    def left_out_scores(self, lessons: Lessons) -> InnerScores | None:
        """Return those of the estimator inside, on the features that it has read."""
        inside = replace(lessons, rows=self._scaled.rows)
        known: InnerScores | None = self.core.left_out_scores(inside)
        return known

    def absorbed(self) -> Any:
        """Return the estimator inside, with the factors of parts in its coefficients."""
        scaling = self._scaled.scaling
        assert isinstance(scaling, PartScaling)
        return scaling.absorbed_by(self.core)

    def __getattr__(self, name: str) -> Any:
        """Return an output of the fitted estimator, which reads features as they are."""
        core = vars(self).get("_core")
        if name not in OUTPUTS or not hasattr(core, name):
            raise AttributeError(name)
        return lambda X: getattr(core, name)(self._scaled.changed(X))

    def _scaled_by(self, lessons: Lessons) -> _Scaled:
        teaching = lessons.train
        # Vectors, and the factors of parts before them, are found on rows of every class.
        if self.parts and self.reads_concepts:
            teaching = lessons.of_concepts
        key = ("scaled", self.parts != (), teaching.tobytes())
        scaled: _Scaled = lessons.rows.memo.of(
            key, lambda: self._scale(lessons.rows, teaching)
        )
        return scaled

    def _scale(self, rows: FeatureRows, teaching: Ints) -> _Scaled:
        scaling: PartScaling | Scaling
        if self.parts:
            scaling = PartScaling.of(rows.X[teaching], self.parts)
        else:
            scaling = Scaling.of(rows.X[teaching])
        return _Scaled(scaling, rows.changed(_changed(scaling, rows.X)))


def reading_changed(
    estimator: Any,
    *,
    parts: Sequence[FeaturePart] = (),
    scaled: bool = False,
) -> Any:
    """Return an estimator that learns from changed features; the same one if nothing changes.

    Args:
        estimator: The estimator.
        parts: The parts of joined features, each of which gets a factor.
        scaled: Whether features are scaled by the rows that train.
    """
    if scaled:
        of_its_own = estimator.scaled_inside()
        if of_its_own is not None:
            return of_its_own
    if not parts and not scaled:
        return estimator
    return ChangedFeatures(estimator, tuple(parts))
