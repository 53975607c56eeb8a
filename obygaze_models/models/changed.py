"""Models of features that are changed first, by steps that the rows a model learns from fit.

Parts of joined features get one factor each (`joined`), features the same mean and deviation
(`common.Scaling`), and concepts are erased (`erasure`). A saved model reads features as they are
stored: of parts it has the factors in its coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from obygaze_features.store.joining import JoinedPart
from obygaze_models.models.common import Ints, Scaling, as_float32
from obygaze_models.models.erasure import fit_eraser
from obygaze_models.models.estimator import OUTPUTS
from obygaze_models.models.joined import PartScaling
from obygaze_models.models.learner import Learner
from obygaze_models.models.lessons import FeatureRows, InnerScores, Lessons

Step = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class _Steps:
    """Steps that some rows fitted, and all rows as these change them."""

    steps: Sequence[Step]
    rows: FeatureRows
    part_scaling: PartScaling | None = None

    @property
    def n_bytes(self) -> int:
        return self.rows.n_bytes


class ChangedFeatures(Learner):
    """An estimator of changed features, which is asked for features as they are.

    Args:
        inside: The estimator, unfitted.
        parts: The parts of joined features.
        scaled: Whether features are scaled.
        erased: The concepts that are erased.
    """

    _steps: _Steps
    _core: Any

    def __init__(
        self,
        inside: Any,
        parts: Sequence[JoinedPart],
        scaled: bool,
        erased: Sequence[str],
    ) -> None:
        self.inside = inside
        self.parts = parts
        self.scaled = scaled
        self.erased = erased

    @property
    def reads_concepts(self) -> bool:
        """Whether the estimator inside does."""
        return bool(self.inside.reads_concepts)

    @property
    def facts(self) -> Mapping[str, Any]:
        """Those of the estimator inside, and the factors of parts."""
        scaling = self._steps.part_scaling
        if scaling is None:
            return dict(self.core.facts)
        return {**self.core.facts, "part_factors": scaling.factors.tolist()}

    def learn_each(self, folds: Sequence[Lessons]) -> list[Any]:
        """Return a fit of each of some lessons that differ in their validation rows only."""
        steps = self._fitted_steps(folds[0])
        changed = [replace(lessons, rows=steps.rows) for lessons in folds]
        fits = []
        for fitted in self.inside.learn_each(changed):
            outside = copy(self)
            outside._steps = steps
            outside._core = fitted
            fits.append(outside)
        return fits

    @property
    def core(self) -> Any:
        """The fitted estimator that reads the changed features."""
        return self._core

    def left_out_scores(self, lessons: Lessons) -> InnerScores | None:
        """Return those of the estimator inside, on the features that it has read."""
        inside = replace(lessons, rows=self._steps.rows)
        known: InnerScores | None = self.core.left_out_scores(inside)
        return known

    def absorbed(self) -> Any:
        """Return the estimator inside, with the factors of parts in its coefficients."""
        scaling = self._steps.part_scaling
        assert scaling is not None and len(self._steps.steps) == 1
        return scaling.absorbed_by(self.core)

    def __getattr__(self, name: str) -> Any:
        """Return an output of the fitted estimator, which reads features as they are."""
        core = vars(self).get("_core")
        if name not in OUTPUTS or not hasattr(core, name):
            raise AttributeError(name)
        return lambda X: getattr(core, name)(self._changed(X))

    def _changed(self, X: Any) -> Any:
        for step in self._steps.steps:
            X = step(X)
        return X

    def _fitted_steps(self, lessons: Lessons) -> _Steps:
        teaching = lessons.train
        # Vectors, and the factors of parts before them, are found on rows of every class.
        if self.parts and self.reads_concepts:
            teaching = lessons.of_concepts
        key = ("steps", self.parts != (), self.scaled, *self.erased, teaching.tobytes())
        steps: _Steps = lessons.rows.memo.of(
            key, lambda: self._fit_steps(lessons, teaching)
        )
        return steps

    def _fit_steps(self, lessons: Lessons, teaching: Ints) -> _Steps:
        rows = lessons.rows
        if self.parts:
            scaling = PartScaling.of(rows.X[teaching], self.parts)
            changed = rows.changed(scaling.scaled(rows.X))
            return _Steps([scaling.scaled], changed, scaling)
        steps: list[Step] = []
        X = rows.X
        if self.scaled:
            steps.append(Scaling.of(X[teaching]).scaled)
            X = steps[-1](X)
        if self.erased:
            targets = lessons.concepts.only(self.erased).targets["absent"][teaching]
            eraser = fit_eraser(np.asarray(X)[teaching], targets, self.erased)
            steps.append(eraser.transform)
            X = eraser.transform(X)
        steps.append(as_float32)
        return _Steps(steps, rows.changed(as_float32(X)))


def reading_changed(
    estimator: Any,
    *,
    parts: Sequence[JoinedPart] = (),
    scaled: bool = False,
    erased: Sequence[str] = (),
) -> Any:
    """Return an estimator that learns from changed features; the same one if nothing changes.

    Args:
        estimator: The estimator.
        parts: The parts of joined features, each of which gets a factor.
        scaled: Whether features are scaled by the rows that train.
        erased: The concepts that are erased, by the rows that train.
    """
    if scaled and not erased:
        of_its_own = estimator.scaled_inside()
        if of_its_own is not None:
            return of_its_own
    if not parts and not scaled and not erased:
        return estimator
    return ChangedFeatures(estimator, tuple(parts), scaled, tuple(erased))
