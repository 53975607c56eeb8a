"""The records of the heads of bottlenecks: weights, trees, and the effect of corrected concepts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.predictions import FloatArray, IntArray
from obygaze_models.models.common import FixTraining
from obygaze_models.models.registry import build_head
from obygaze_models.protocols.kinds import candidates, for_task
from obygaze_models.protocols.runner.records import Record
from obygaze_models.protocols.runner.vectors import FoundVectors
from obygaze_models.protocols.schema import Model

NewHead = Callable[[], Any]
N_DRAWS = 5
WITHOUT_TASK = ("ordinal",)  # learns levels, whatever the task
SHOWN = ("C", "penalty", "scaled", "max_depth", "min_samples_leaf", "max_concepts", "max_points")


@dataclass(frozen=True, eq=False)
class HeadData:
    """The clips of a task: margins and true concepts of each, its class, its film, its fold."""

    margins: FloatArray
    has: NDArray[np.bool_]
    y: NDArray[np.int64]
    films: NDArray[np.str_]
    folds: IntArray

    def select(self, rows: NDArray[np.bool_]) -> HeadData:
        """Return the data of some clips."""
        return HeadData(
            self.margins[rows], self.has[rows], self.y[rows], self.films[rows], self.folds[rows]
        )

    def fit(self, head: Any) -> Any:
        """Return the head, fitted on all clips."""
        return head.fit(self.margins, self.y, groups=self.films)


def head_record(
    model: Model, found: FoundVectors, task: str, labels: NDArray[np.int8]
) -> Record | None:
    """Return the record of a head on all clips of a task, or None if it cannot be fitted.

    Task gain and interventions are evaluated on films that neither the head nor any vector of its
    margins was fitted on. Where a setting offers a choice, the first value is taken.
    """
    if model.kind in WITHOUT_TASK:
        return None
    settings = for_task(model.kind, candidates(model.settings)[0], task)
    new_head = partial(build_head, model.kind, settings)
    y = labels[found.clips].astype(np.int64)
    whole = HeadData(found.margins, found.has, y, found.films, found.head_folds)
    data = whole.select(y >= 0)
    try:
        head = data.fit(new_head())
    except FixTraining:
        return None
    margins = [found.margins_without(fold) for fold in np.unique(data.folds).tolist()]
    by_fold = [replace(data, margins=own[y >= 0]) for own in margins if own is not None]
    by_fold = by_fold if len(by_fold) == len(margins) else []
    tree = {"left": "left_", "right": "right_", "concept": "feature_"}
    tree |= {"threshold": "threshold_", "share": "share_", "n": "n_rows_"}
    weights = None
    if hasattr(head, "coef_"):
        weights = {
            "intercept": float(head.intercept_),
            "coef": head.coef_.tolist(),
            "sd": data.margins.std(axis=0).tolist(),
        }
    return {
        "task": task,
        "head": model.kind,
        "settings": {key: value for key, value in settings.items() if key in SHOWN},
        "n": len(data.y),
        "n_positive": int(data.y.sum()),
        "concepts": found.examples.names,
        "tree": {key: getattr(head, name).tolist() for key, name in tree.items()}
        if hasattr(head, "left_")
        else None,
        "weights": weights,
        "task_gain": _task_gain(new_head(), by_fold),
        "interventions": _interventions(new_head, by_fold, found),
    }


def _task_gain(head: Any, by_fold: Sequence[HeadData]) -> Record | None:
    """Return the average precision from margins and from true concepts."""
    from obygaze_models.models.concept_report import task_gain

    if not by_fold:
        return None
    data, margins = by_fold[0], np.stack([own.margins for own in by_fold])
    try:
        return task_gain(head, margins, data.has, data.y, data.folds)
    except FixTraining:
        return None


def _interventions(
    new_head: NewHead, by_fold: Sequence[HeadData], found: FoundVectors
) -> list[Record]:
    """Return one curve for each order: the mean over folds of whole films, by their clips.

    The curves of a fold are those of a head of the other folds.
    """
    from obygaze_models.models.bottleneck import TrueValues, intervene

    sizes: list[float] = []
    by_order: dict[str, list[Any]] = {"greedy": [], "uncertainty": [], "random": []}
    for fold, data in zip(np.unique(by_fold[0].folds) if by_fold else (), by_fold, strict=True):
        inside, outside = (data.select(rows) for rows in (data.folds == fold, data.folds != fold))
        if any(len(np.unique(part.y)) < 2 for part in (inside, outside)):
            continue
        try:
            values = TrueValues.from_training(outside.margins, outside.has)
        except FixTraining:  # a concept that no clip of the other films has cannot be corrected
            continue
        tested = (outside.fit(new_head()), inside.margins, inside.has, inside.y, values)
        fitting, seed = (outside.margins, outside.has, outside.y), found.examples.seed
        by_order["greedy"].append(intervene(*tested, order="greedy", fitting=fitting))
        by_order["uncertainty"].append(intervene(*tested, order="uncertainty"))
        by_order["random"].append(intervene(*tested, order="random", n_draws=N_DRAWS, seed=seed))
        sizes.append(float(len(inside.y)))
    return [
        {
            "order": order,
            "n_folds": len(curves),
            "f1": np.average([curve.f1 for curve in curves], axis=0, weights=sizes).tolist(),
            "ap": np.average([curve.ap for curve in curves], axis=0, weights=sizes).tolist(),
            "first": sorted(
                {found.examples.names[curve.sequence[0]] for curve in curves if curve.sequence}
            ),
        }
        for order, curves in by_order.items()
        if curves
    ]
