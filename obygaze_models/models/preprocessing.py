"""Preprocessing before an estimator: a pipeline of scikit-learn whose steps scale the features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from obygaze_models.models.estimator import Estimator
from obygaze_models.models.scaling import FeaturePart, PartScaling, Scaling

OUTPUTS = (
    "predict_proba",
    "decision_function",
    "margins",
    "contributions",
    "transform_rows",
)
# Estimators that scale the rows of their concept vectors themselves.
OWN_SCALING = ("scaled", "bank__scaled")


class FittedSteps:
    """Fitted steps, which compute what a fitted pipeline of scikit-learn computes.

    A saved model is read without scikit-learn, whose import takes a second.
    """

    def __init__(self, steps: Sequence[tuple[str, Any]]) -> None:
        self.steps = list(steps)

    @property
    def n_features_in_(self) -> Any:
        """The number of features that the first step reads."""
        return self.steps[0][1].n_features_in_

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the last step; its outputs are of rows for the first step."""
        if name.startswith("__") or "steps" not in vars(self):
            raise AttributeError(name)
        found = getattr(self.steps[-1][1], name)
        return (
            (lambda X: found(apply_steps(self.steps[:-1], X)))
            if name in OUTPUTS
            else found
        )


def with_preprocessing(
    estimator: Any,
    *,
    parts: Sequence[FeaturePart] = (),
    scaled: bool = False,
) -> Any:
    """Return a pipeline that scales features first, or the estimator if nothing is scaled.

    Args:
        estimator: The estimator, unfitted.
        parts: The parts of joined features; each gets a factor.
        scaled: Whether features are standardized by the training rows.
    """
    if scaled and isinstance(estimator, Estimator):
        known = estimator.get_params()
        of_vectors = [name for name in OWN_SCALING if name in known]
        if of_vectors:
            return estimator.set_params(**{of_vectors[0]: True})
    if not parts and not scaled:
        return estimator
    from sklearn.pipeline import Pipeline

    scaling = PartScaling(tuple(parts)) if parts else Scaling()
    return Pipeline([("scaling", scaling), ("model", estimator)])


def steps_of(estimator: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Return the steps before the last one of a pipeline, and the last; else the estimator."""
    steps = getattr(estimator, "steps", None)
    if not isinstance(steps, list):
        return [], estimator
    return steps[:-1], steps[-1][1]


def apply_steps(steps: Sequence[tuple[str, Any]], X: Any) -> Any:
    """Return rows that fitted steps have transformed."""
    for _, step in steps:
        if step is None or step == "passthrough":
            continue
        transform = getattr(step, "transform_rows", None) or step.transform
        X = transform(X)
    return X


def last_step(estimator: Any) -> Any:
    """Return the estimator that ends a pipeline, or the estimator."""
    return steps_of(estimator)[1]
