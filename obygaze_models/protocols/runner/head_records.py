"""The records of the heads of bottlenecks: weights, trees, and the effect of corrected concepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.models.common import FixTraining
from obygaze_models.models.registry import build_head
from obygaze_models.protocols.kinds import candidates, for_task
from obygaze_models.protocols.runner.found_vectors import FoundVectors
from obygaze_models.protocols.runner.records import Record
from obygaze_models.protocols.schema import Model

Floats = NDArray[np.float64]
NewHead = Callable[[], Any]
ORDERS = ("greedy", "uncertainty", "random")
N_DRAWS = 5
WITHOUT_TASK = ("ordinal",)  # learns levels, whatever the task
SHOWN = ("C", "penalty", "scaled", "max_depth", "min_samples_leaf", "max_concepts", "max_points")


@dataclass(frozen=True, eq=False)
class HeadData:
    """The clips of a task: margins and true concepts of each, its class, its film, its fold."""

    margins: Floats
    has: NDArray[np.bool_]
    y: NDArray[np.int64]
    films: NDArray[np.str_]
    folds: NDArray[np.int64]

    def select(self, rows: NDArray[np.bool_]) -> HeadData:
        """Return the data of some clips."""
        return HeadData(
            self.margins[rows], self.has[rows], self.y[rows], self.films[rows], self.folds[rows]
        )


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
        head = _fitted(new_head, data)
    except FixTraining:
        return None
    margins = [found.margins_without(fold) for fold in np.unique(data.folds).tolist()]
    by_fold = [replace(data, margins=own[y >= 0]) for own in margins if own is not None]
    by_fold = by_fold if len(by_fold) == len(margins) else []
    return {
        "task": task,
        "head": model.kind,
        "settings": {key: value for key, value in settings.items() if key in SHOWN},
        "n": len(data.y),
        "n_positive": int(data.y.sum()),
        "concepts": found.names,
        "tree": _tree(head),
        "weights": _weights(head, data.margins),
        "task_gain": _task_gain(new_head(), by_fold),
        "interventions": _interventions(new_head, by_fold, found.names, found.seed),
    }


def _fitted(new_head: NewHead, data: HeadData) -> Any:
    return new_head().fit(data.margins, data.y, groups=data.films)


def _tree(head: Any) -> Record | None:
    if not hasattr(head, "left_"):
        return None
    names = {"left": "left_", "right": "right_", "concept": "feature_"}
    names |= {"threshold": "threshold_", "share": "share_", "n": "n_rows_"}
    return {key: getattr(head, name).tolist() for key, name in names.items()}


def _weights(head: Any, margins: Floats) -> Record | None:
    if not hasattr(head, "coef_"):
        return None
    return {
        "intercept": float(head.intercept_),
        "coef": head.coef_.tolist(),
        "sd": margins.std(axis=0).tolist(),
    }


def _task_gain(head: Any, by_fold: Sequence[HeadData]) -> Record | None:
    from obygaze_models.models.concept_report import task_gain

    if not by_fold:
        return None
    data, margins = by_fold[0], np.stack([own.margins for own in by_fold])
    try:
        return task_gain(head, margins, data.has, data.y, data.folds)
    except FixTraining:
        return None


def _interventions(
    new_head: NewHead, by_fold: Sequence[HeadData], names: list[str], seed: int
) -> list[Record]:
    """Return one curve for each order: the mean over folds of whole films, by their clips."""
    found = list(_by_fold(new_head, by_fold, seed))
    sizes = [n for n, _ in found]
    by_order = zip(*(curves for _, curves in found), strict=True)
    return [
        {
            "order": order,
            "n_folds": len(curves),
            "f1": np.average([curve.f1 for curve in curves], axis=0, weights=sizes).tolist(),
            "ap": np.average([curve.ap for curve in curves], axis=0, weights=sizes).tolist(),
            "first": sorted({names[curve.sequence[0]] for curve in curves if curve.sequence}),
        }
        for order, curves in zip(ORDERS, by_order, strict=False)
    ]


def _by_fold(
    new_head: NewHead, by_fold: Sequence[HeadData], seed: int
) -> Iterator[tuple[float, tuple[Any, Any, Any]]]:
    """Yield the number of clips of a fold and its curves, by heads of the other folds."""
    from obygaze_models.models.bottleneck import TrueValues, intervene

    folds = np.unique(by_fold[0].folds) if by_fold else ()
    for fold, data in zip(folds, by_fold, strict=True):
        inside, outside = (data.select(rows) for rows in (data.folds == fold, data.folds != fold))
        if any(len(np.unique(part.y)) < 2 for part in (inside, outside)):
            continue
        try:
            values = TrueValues.from_training(outside.margins, outside.has)
        except FixTraining:  # a concept that no clip of the other films has cannot be corrected
            continue
        tested = (_fitted(new_head, outside), inside.margins, inside.has, inside.y, values)
        fitting = (outside.margins, outside.has, outside.y)
        yield (
            float(len(inside.y)),
            (
                intervene(*tested, order="greedy", fitting=fitting),
                intervene(*tested, order="uncertainty"),
                intervene(*tested, order="random", n_draws=N_DRAWS, seed=seed),
            ),
        )
