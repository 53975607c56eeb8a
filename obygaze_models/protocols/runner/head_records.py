"""The heads of bottlenecks opened: weights, trees, and what correcting concepts would bring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.models.common import FixTraining
from obygaze_models.models.registry import build_head
from obygaze_models.protocols.kinds import candidates, for_task
from obygaze_models.protocols.runner.records import Record
from obygaze_models.protocols.schema import Model

if TYPE_CHECKING:
    from obygaze_models.protocols.runner.concept_records import FoundVectors

Floats = NDArray[np.float64]
ORDERS = ("greedy", "uncertainty", "random")
MOST_FOLDS = 4
N_DRAWS = 5
WITHOUT_TASK = ("ordinal",)  # learns levels, whatever the task


def head_record(
    model: Model, opened: FoundVectors, task: str, labels: NDArray[np.int8]
) -> Record | None:
    """A head on all clips of a task, and heads of other films to judge corrections with.

    Where a setting offers a choice, the first value is taken. None where nothing can be learned.
    """
    if model.kind in WITHOUT_TASK:
        return None
    settings = for_task(model.kind, candidates(model.settings)[0], task)
    y = labels[opened.clips].astype(np.int64)
    rows = np.flatnonzero(y >= 0)
    try:
        head = build_head(model.kind, settings)
        head.fit(opened.margins[rows], y[rows], groups=opened.films[rows])
    except FixTraining:
        return None
    return {
        "task": task,
        "head": model.kind,
        "settings": {key: value for key, value in settings.items() if key in SHOWN},
        "n": len(rows),
        "n_positive": int(y[rows].sum()),
        "concepts": opened.names,
        "tree": _tree(head),
        "weights": _weights(head, opened.margins[rows]),
        "task_gain": _task_gain(model, settings, opened, y, rows),
        "interventions": _interventions(model, settings, opened, y, rows),
    }


SHOWN = ("C", "penalty", "scaled", "max_depth", "min_samples_leaf", "max_concepts", "max_points")


def _tree(head: Any) -> Record | None:
    if not hasattr(head, "left_"):
        return None
    return {
        "left": head.left_.tolist(),
        "right": head.right_.tolist(),
        "concept": head.feature_.tolist(),
        "threshold": head.threshold_.tolist(),
        "share": head.share_.tolist(),
        "n": head.n_rows_.tolist(),
    }


def _weights(head: Any, margins: Floats) -> Record | None:
    if not hasattr(head, "coef_"):
        return None
    return {
        "intercept": float(head.intercept_),
        "coef": head.coef_.tolist(),
        "sd": margins.std(axis=0).tolist(),
    }


def _folds(opened: FoundVectors, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Parts that were left out together, joined to few folds, so that each has clips to rank."""
    folds: NDArray[np.int64] = opened.parts[rows] % MOST_FOLDS
    return folds


def _task_gain(
    model: Model,
    settings: Mapping[str, Any],
    opened: FoundVectors,
    y: NDArray[np.int64],
    rows: NDArray[np.intp],
) -> Record | None:
    from obygaze_models.models.concept_report import task_gain

    head, folds = build_head(model.kind, settings), _folds(opened, rows)
    try:
        found = task_gain(head, opened.margins[rows], opened.has[rows], y[rows], folds)
    except FixTraining:
        return None
    return {
        "from_margins": found.from_margins,
        "from_truth": found.from_truth,
        "gain": found.gain,
        "prevalence": found.prevalence,
    }


def _interventions(
    model: Model,
    settings: Mapping[str, Any],
    opened: FoundVectors,
    y: NDArray[np.int64],
    rows: NDArray[np.intp],
) -> list[Record]:
    """One curve an order: the mean over folds of whole films, by their clips."""
    found: dict[str, list[tuple[int, Any]]] = {order: [] for order in ORDERS}
    for inside, curves in _by_fold(model, settings, opened, y, rows):
        for order, curve in zip(ORDERS, curves, strict=True):
            found[order].append((len(inside), curve))
    return [_joined(order, own, opened.names) for order, own in found.items() if own]


def _by_fold(
    model: Model,
    settings: Mapping[str, Any],
    opened: FoundVectors,
    y: NDArray[np.int64],
    rows: NDArray[np.intp],
) -> Iterator[tuple[NDArray[np.intp], list[Any]]]:
    from obygaze_models.models.interventions import TrueValues, intervene

    folds = _folds(opened, rows)
    margins, has = opened.margins, opened.has
    for fold in np.unique(folds):
        inside, outside = rows[folds == fold], rows[folds != fold]
        if any(len(np.unique(y[part])) < 2 for part in (inside, outside)):
            continue
        try:
            values = TrueValues.from_training(margins[outside], has[outside])
        except FixTraining:  # a concept that no clip of the other films has cannot be corrected
            continue
        head = build_head(model.kind, settings)
        head.fit(margins[outside], y[outside], groups=opened.films[outside])
        tested = (head, margins[inside], has[inside], y[inside], values)
        fitting = (margins[outside], has[outside], y[outside])
        greedy = intervene(*tested, order="greedy", fitting=fitting)
        unsure = intervene(*tested, order="uncertainty")
        drawn = intervene(*tested, order="random", n_draws=N_DRAWS, seed=opened.seed)
        yield inside, [greedy, unsure, drawn]


def _joined(order: str, curves: list[tuple[int, Any]], names: list[str]) -> Record:
    clips = np.array([n for n, _ in curves], dtype=np.float64)
    return {
        "order": order,
        "n_folds": len(curves),
        "f1": np.average([curve.f1 for _, curve in curves], axis=0, weights=clips).tolist(),
        "ap": np.average([curve.ap for _, curve in curves], axis=0, weights=clips).tolist(),
        "first": sorted({names[curve.sequence[0]] for _, curve in curves if curve.sequence}),
    }
