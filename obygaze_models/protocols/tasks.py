"""Who is positive and who is negative: a task of a protocol over the clips of a manifest."""

from __future__ import annotations

import numpy as np

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.folds import OUTSIDE
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.expression import parse
from obygaze_models.protocols.labels import (
    LEFT_OUT,
    LabelArray,
    label_by_expression,
    label_by_map,
)
from obygaze_models.protocols.schema import Task


def task_labels(name: str, task: Task, table: ClipTable) -> LabelArray:
    """Class of each clip: 1, 0, or -1 for what the task leaves out."""
    labels = _labels(name, task, table)
    if task.folds:
        labels = np.where(table.fold(task.folds) == OUTSIDE, LEFT_OUT, labels).astype(np.int8)
    found = {int(label) for label in np.unique(labels)} - {LEFT_OUT}
    if found != {0, 1}:
        lacking = "no clip of either class" if not found else f"no clip of class {1 - min(found)}"
        raise FixInput(
            f"the task {name} has {lacking} among these clips",
            where=table.name,
            hint="obygaze manifest stats, and the view in [data]",
        )
    return labels


def _labels(name: str, task: Task, table: ClipTable) -> LabelArray:
    if task.classes:
        return label_by_map(task.classes, table.levels)
    if task.positive:
        positive = parse(task.positive, where=f"tasks.{name}.positive")
        negative = parse(task.negative, where=f"tasks.{name}.negative") if task.negative else None
        return label_by_expression(positive, table.levels, table.concepts, negative=negative)
    cells = table.column(task.column)
    strange = sorted({cell for cell in cells if cell and cell not in task.values})
    if strange:
        raise FixInput(
            f"the column {task.column} holds {strange[0]!r}, which the task {name} does not map",
            where=table.name,
            hint=f"known: {', '.join(task.values)}",
        )
    return np.array([task.values.get(cell, LEFT_OUT) for cell in cells], dtype=np.int8)
