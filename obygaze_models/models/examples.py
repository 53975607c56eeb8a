"""Which rows are positive and negative examples of each concept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from obygaze_models.models.common import Bools, FixTraining, Ints, Strings
from obygaze_models.models.lessons import Concepts, Lessons
from obygaze_models.models.registry import MIN_CLIPS

Against = Literal["EN", "absent"]

# The levels of clips that are examples of their concepts, and of the absence of others.
RATED = ("HN", "S")


def known_concepts(
    names: Sequence[str], levels: Strings, has: Bools, is_open: Bools
) -> Concepts:
    """Return what is known of the concepts of clips.

    A clip without a level is no example, and neither is one whose annotators differ on a concept.

    Args:
        names: The names of the concepts.
        levels: The level of each clip, "" without one.
        has: Whether each clip has each concept.
        is_open: Whether annotators differ on it.
    """
    targets = {}
    for against in get_args(Against):
        targets[against] = concept_targets(levels, has, against)
        targets[against][is_open] = -1
    return Concepts(tuple(names), targets, levels != "")


def concept_targets(levels: Strings, has: Bools, against: Against = "absent") -> Ints:
    """Return targets of a `ConceptBank`: 1 positive, 0 negative, -1 not used.

    Positive clips are those of HN and S with the concept. Negative clips are EN clips only
    ("EN"), or all other EN, HN and S clips ("absent", as in the paper). Not-sure clips, and those
    without a level, are not used.
    """
    is_rated = np.isin(levels, RATED)[:, None]
    is_negative = (levels == "EN")[:, None]
    if against == "absent":
        is_negative = is_negative | (is_rated & ~has)
    targets = np.full(has.shape, -1, dtype=np.int64)
    targets[np.broadcast_to(is_negative, has.shape)] = 0
    targets[is_rated & has] = 1
    return targets


def concept_columns(y: Any, n_rows: int) -> Ints:
    """Return checked targets, a column for each concept; one concept may be a flat array."""
    if y is None:
        raise FixTraining("requires y to be passed, but the target y is None")
    from sklearn.utils import check_array

    targets = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    targets = targets.reshape(len(targets), -1)
    if len(targets) != n_rows:
        raise FixTraining(f"expected {n_rows} rows of targets, got {len(targets)}")
    left_out = targets == -1
    values = np.unique(targets[~left_out])
    if len(values) > 2:
        raise FixTraining(
            "concept targets must be 1 (present), 0 (absent) or -1 (not used); "
            f"got {', '.join(str(value) for value in values[:5])}"
        )
    # Any two numbers are allowed, as for every classifier; the larger one means present.
    present = targets == (values[-1] if len(values) == 2 else 1)
    return np.where(left_out, -1, present.astype(np.int64))


def concept_names(names: Sequence[str] | None, n_concepts: int) -> list[str]:
    """Return a name for each column of targets: those that are given, or numbered ones."""
    if names is None:
        return [f"concept{number}" for number in range(n_concepts)]
    if len(names) != n_concepts:
        raise FixTraining(
            f"concepts must have {n_concepts} names, one per column of targets,"
            f" got {len(names)}"
        )
    if len(set(names)) < n_concepts:
        raise FixTraining(f"concepts must not have a name twice, got {[*names]}")
    return list(names)


def fewest_examples(targets: Ints) -> Ints:
    """Return the number of positive, or of negative, examples of each concept, if it is smaller."""
    n_positive = np.count_nonzero(targets == 1, axis=0)
    n_negative = np.count_nonzero(targets == 0, axis=0)
    fewer: Ints = np.minimum(n_positive, n_negative)
    return fewer


def rows_of_vectors(lessons: Lessons, against: Against) -> Ints:
    """Return the rows that are a positive or a negative example of some concept with a vector."""
    rows = lessons.of_concepts
    targets = lessons.concepts.targets[against][rows]
    is_example = (targets[:, findable(targets)] >= 0).any(axis=1)
    examples: Ints = rows[is_example]
    return examples


def findable(targets: Ints) -> list[int]:
    """Return the columns of concepts with enough positive and negative examples."""
    columns = np.flatnonzero(fewest_examples(targets) >= MIN_CLIPS)
    if not len(columns):
        raise FixTraining(
            f"no concept has {MIN_CLIPS} training clips with it and {MIN_CLIPS} without"
        )
    return [int(column) for column in columns]
