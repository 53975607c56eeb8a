"""The classes of a task: 0 or 1 for each clip, and -1 for clips outside of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.expression import Expression, parse
from obygaze_features.manifest.folds import OUTSIDE
from obygaze_features.manifest.model import LEVELS, Clip
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.schema import Task

LabelArray = NDArray[np.int8]
LEFT_OUT = -1


def task_labels(name: str, task: Task, table: ClipTable) -> LabelArray:
    """Return the class of each clip: 1, 0, or -1 for clips outside the task."""
    labels = _labels(name, task, table)
    if task.folds:
        labels = np.where(table.fold(task.folds) == OUTSIDE, LEFT_OUT, labels).astype(np.int8)
    found = {int(label) for label in np.unique(labels)} - {LEFT_OUT}
    if found != {0, 1}:
        missing = sorted({0, 1} - found)
        classes = " and no clip of ".join(f"class {n}{_meaning(task, n)}" for n in missing)
        folds = f" in the split {task.folds}" if task.folds else ""
        counts = ", ".join(
            f"{n} {level or 'without'}" for level, n in Counter(table.levels).items()
        )
        raise FixInput(
            f"the task {name} has no clip of {classes}{folds}",
            where=table.name,
            hint=f"the levels are {counts}; another task, or another view in [data]",
        )
    return labels


def _meaning(task: Task, value: int) -> str:
    """Return what a class of a task stands for, in parentheses."""
    words = [word for word, n in (task.classes or task.values or {}).items() if n == value]
    expression = task.positive if value else task.negative or f"not ({task.positive})"
    meaning = " or ".join(words) if words else expression if task.positive else ""
    return f" ({meaning})" if meaning else ""


def _labels(name: str, task: Task, table: ClipTable) -> LabelArray:
    if task.classes:
        return label_by_map(task.classes, table.levels)
    if task.positive:
        positive = parse(task.positive, where=f"tasks.{name}.positive")
        negative = parse(task.negative, where=f"tasks.{name}.negative") if task.negative else None
        return label_by_expression(positive, table.clips, negative=negative)
    cells = table.column(task.column)
    unknown = sorted({cell for cell in cells if cell and cell not in task.values})
    if unknown:
        raise FixInput(
            f"tasks.{name}.values has no class for {unknown[0]!r} of the column {task.column}",
            where=table.name,
            hint=f"it has {', '.join(task.values)}",
        )
    return np.array([task.values.get(cell, LEFT_OUT) for cell in cells], dtype=np.int8)


def label_by_expression(
    positive: Expression, clips: Iterable[Clip], *, negative: Expression | None = None
) -> LabelArray:
    """Return the class of each clip; without `negative`, 0 is every other clip with a level."""
    labels, both = [], 0
    for clip in clips:
        one = positive.holds(clip.values)
        zero = negative.holds(clip.values) if negative else bool(clip.level) and not one
        both += one and zero
        labels.append(1 if one else 0 if zero else LEFT_OUT)
    if both:
        other = "the rest" if negative is None else negative.text
        raise FixInput(
            f"{both} clips are in both classes",
            where=f"{positive.text} / {other}",
            hint="use two expressions that no clip satisfies both of",
        )
    return np.array(labels, dtype=np.int8)


def check_label_map(classes: Mapping[str, int]) -> None:
    """Raise an error unless a label map maps known levels to the classes 0 and 1, both used."""
    unknown = [level for level in classes if level not in LEVELS]
    if unknown:
        raise FixInput(f"unknown level {unknown[0]!r}", hint=f"use {', '.join(LEVELS)}")
    numbers = classes.values()
    if set(numbers) != {0, 1} or any(type(number) is not int for number in numbers):
        raise FixInput(
            f"the classes of a label map must be 0 and 1, both used, got {dict(classes)}",
            hint="for example { S = 1, EN = 0, HN = 0 }",
        )


def label_by_map(classes: Mapping[str, int], levels: Sequence[str]) -> LabelArray:
    """Return the class of each clip by its level; -1 for levels that are not in the map."""
    check_label_map(classes)
    labels = (classes.get(str(level), LEFT_OUT) for level in levels)
    return np.fromiter(labels, np.int8, len(levels))
