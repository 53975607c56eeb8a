"""Select positive and negative examples of each concept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from obygaze_features.core.errors import FixInput, near
from obygaze_models.models.common import Bools, FixTraining, Ints, Strings
from obygaze_models.models.fold_data import Concepts, FoldData
from obygaze_models.models.registry import MIN_CLIPS

Against = Literal["EN", "absent"]

# Clips of these levels are examples of their concepts, and of the absence of other concepts.
RATED = ("HN", "S")


def known_concepts(
    names: Sequence[str], levels: Strings, has: Bools, is_open: Bools
) -> Concepts:
    """Return the concepts of clips.

    A clip without a level is not an example. A clip whose annotators differ on a concept is not an
    example of this concept.

    Args:
        names: The names of the concepts.
        levels: The level of each clip; "" without a level.
        has: Whether each clip has each concept.
        is_open: Whether annotators differ on each concept of each clip.
    """
    targets = {}
    for against in get_args(Against):
        targets[against] = concept_targets(levels, has, against)
        targets[against][is_open] = -1
    return Concepts(tuple(names), targets, levels != "")


def concept_targets(levels: Strings, has: Bools, against: Against = "absent") -> Ints:
    """Return targets of a `CAV`: 1 positive, 0 negative, -1 not used.

    The levels are EN (easy negative), HN (hard negative), S (sure) and not sure. Positive clips are
    HN and S clips with the concept. With "EN", negative clips are the EN clips. With "absent", as
    in the ObyGaze12 paper, they are the EN clips, and the HN and S clips without the concept.
    Not-sure clips and clips without a level are not used.
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
    """Return checked targets, one column per concept; a one-dimensional array is one concept."""
    targets = np.asarray(y)
    if len(targets) != n_rows:
        raise FixTraining(f"expected {n_rows} rows of targets, got {len(targets)}")
    values = np.unique(targets).tolist()
    if not {*values} <= {-1, 0, 1}:
        raise FixTraining(
            "concept targets must be 1 (present), 0 (absent) or -1 (not used); "
            f"got {', '.join(map(str, values[:5]))}"
        )
    if not targets.size:
        raise FixTraining("expected a column for each concept, got none")
    columns: Ints = targets.reshape(n_rows, -1).astype(np.int64)
    return columns


def check_concepts(concepts: Concepts, asked: Sequence[str] = ()) -> None:
    """Raise an error if no clip has a level, or if a concept is unknown.

    Args:
        concepts: The concepts of the clips.
        asked: The names of concepts that must be among them.
    """
    if not concepts.is_example.any():
        raise FixTraining(
            "no clip has a level, and only clips with a level are examples of concepts"
        )
    for name in asked:
        if name not in concepts.names:
            raise FixInput(
                f"the clips have no concept {name!r}{near(name, concepts.names)}",
                hint=f"name some of {', '.join(concepts.names)}",
            )


def concept_example_rows(data: FoldData, against: Against) -> Ints:
    """Return the rows that are an example of at least one concept with a vector."""
    rows = data.concept_rows
    targets = data.concepts.targets[against][rows]
    is_example = (targets[:, findable_columns(targets)] >= 0).any(axis=1)
    examples: Ints = rows[is_example]
    return examples


def findable_columns(targets: Ints) -> list[int]:
    """Return the columns of concepts with enough positive and negative examples."""
    n_positive = np.count_nonzero(targets == 1, axis=0)
    n_negative = np.count_nonzero(targets == 0, axis=0)
    columns = np.flatnonzero(np.minimum(n_positive, n_negative) >= MIN_CLIPS)
    if not len(columns):
        raise FixTraining(
            f"no concept has {MIN_CLIPS} training clips with it and {MIN_CLIPS} without"
        )
    return [int(column) for column in columns]
