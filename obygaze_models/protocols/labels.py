"""Turns levels and concepts into the classes of a task: 0, 1, ... and -1 for what is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_models.protocols.expression import LEVELS, Concepts, Expression

LabelArray = NDArray[np.int8]
LEFT_OUT = -1


def label_by_expression(
    positive: Expression,
    levels: Sequence[str],
    concepts: Concepts,
    *,
    negative: Expression | None = None,
) -> LabelArray:
    """Class of each clip: 1, 0, or -1 for left out; without `negative`, 0 is every other level."""
    ones = positive.evaluate(levels, concepts)
    if negative is None:
        zeros = ~ones & (np.asarray(levels, dtype=np.str_) != "")
    else:
        zeros = negative.evaluate(levels, concepts)
    both = int(np.sum(ones & zeros))
    if both:
        said = "the rest" if negative is None else negative.text
        raise FixInput(f"{both} clips are in both classes", where=f"{positive.text} / {said}")
    return np.where(ones, 1, np.where(zeros, 0, LEFT_OUT)).astype(np.int8)


def check_label_map(classes: Mapping[str, int], *, where: str | None = None) -> dict[str, int]:
    """A label map of known levels onto classes 0, 1, ... without a gap."""
    unknown = [level for level in classes if level not in LEVELS]
    if unknown:
        raise FixInput(
            f"no level is called {unknown[0]!r}", where=where, hint=f"use {', '.join(LEVELS)}"
        )
    numbers = set(classes.values())
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in classes.values())
    if not whole or len(numbers) < 2 or numbers != set(range(len(numbers))):
        raise FixInput(
            f"the classes of a label map must be 0, 1, ... without a gap, got {dict(classes)}",
            where=where,
            hint="for example { S = 1, EN = 0, HN = 0 }",
        )
    return dict(classes)


def label_by_map(classes: Mapping[str, int], levels: Sequence[str]) -> LabelArray:
    """Class of each clip by its level; -1 for levels that the map leaves out."""
    checked = check_label_map(classes)
    labels = (checked.get(str(level), LEFT_OUT) for level in levels)
    return np.fromiter(labels, np.int8, len(levels))
