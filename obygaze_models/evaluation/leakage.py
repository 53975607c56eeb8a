"""Count tested clips of a fit that were also used in its training.

A tested clip leaked if it is also in train or validation, or was used to fit concept vectors. A
leak is an error unless the protocol allows it. Tested clips with the features of a training clip,
and tested clips of training films, are counted separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.predictions import BoolArray, IntArray
from obygaze_models.evaluation.tables import (
    CLIP_WAS_SEEN,
    FILM_WAS_SEEN,
    NOT_KNOWN,
    NOTHING_SEEN,
)

NO_GROUP = -1  # for a clip without a group, such as a clip of an unknown film


@dataclass(frozen=True, eq=False)
class Leak:
    """Tested clips of a fit that were used in training, validation or for concept vectors.

    `is_copy` states which other tested clips have exactly the features of a clip that was used in
    training, validation or for concept vectors. `seen` is the column `seen` of the table of tests.
    """

    cell: str
    in_train: BoolArray
    in_validation: BoolArray
    in_concepts: BoolArray
    is_copy: BoolArray
    seen: NDArray[np.str_]

    @property
    def is_leaked(self) -> BoolArray:
        """For each test clip, whether its id was used in training or for concept vectors.

        Training includes validation.
        """
        return self.in_train | self.in_validation | self.in_concepts

    @property
    def share(self) -> float:
        """The number of leaked test clips, divided by the number of test clips."""
        return float(np.mean(self.is_leaked)) if len(self.is_leaked) else 0.0

    @property
    def text(self) -> str:
        """One line about the leak."""
        line = (
            f"{self.cell}: {self.is_leaked.sum()} of {len(self.is_leaked)} test clips leaked "
            f"({self.in_train.sum()} in train, {self.in_validation.sum()} in validation)"
        )
        if self.in_concepts.any():
            line += f", {self.in_concepts.sum()} used to find concept vectors"
        if self.is_copy.any():
            line += f", {self.is_copy.sum()} more with the features of a training clip"
        return line


def find_leak(
    train: IntArray,
    validation: IntArray,
    test: IntArray,
    concepts: IntArray,
    copies: IntArray,
    films: IntArray,
    *,
    cell: str = "",
) -> Leak:
    """Return the overlap of the tested clips of a fit with its training.

    Args:
        train: The numbers of the training clips.
        validation: The numbers of the validation clips.
        test: The numbers of the tested clips.
        concepts: The numbers of the clips that concept vectors were fitted on.
        copies: For each clip, the number of its group of clips with equal features; -1: no group.
        films: For each clip, the number of its film; -1 if the film is unknown.
        cell: The name of the cell, for messages.
    """
    in_train = np.isin(test, train)
    in_validation = np.isin(test, validation)
    in_concepts = np.isin(test, concepts)
    is_leaked = in_train | in_validation | in_concepts
    taught = np.concatenate([train, validation, concepts])
    is_copy = is_in_groups_of(copies, taught)[test] & ~is_leaked
    seen = np.where(is_in_groups_of(films, taught)[test], FILM_WAS_SEEN, NOTHING_SEEN)
    seen = np.where(films[test] == NO_GROUP, NOT_KNOWN, seen)
    seen = np.where(is_leaked | is_copy, CLIP_WAS_SEEN, seen)
    return Leak(cell, in_train, in_validation, in_concepts, is_copy, seen)


def is_in_groups_of(groups: IntArray, clips: IntArray) -> BoolArray:
    """Return for each clip whether its group contains one of some clips.

    Args:
        groups: The number of the group of each clip, -1 for none.
        clips: The numbers of the clips whose groups count.
    """
    counts = np.zeros(int(groups.max(initial=NO_GROUP)) + 2, dtype=np.bool_)
    counts[groups[clips]] = True
    counts[NO_GROUP] = False
    return counts[groups]


def number_names(names: Sequence[str | bytes]) -> IntArray:
    """Return a number for each name; equal names have equal numbers."""
    number_of: dict[str | bytes, int] = {}
    for name in names:
        number_of.setdefault(name, len(number_of))
    return np.array([number_of[name] for name in names], dtype=np.intp)


def check_leaks(leaks: Sequence[Leak], *, allowed: bool = False) -> None:
    """Raise an error if a cell leaks, unless the protocol allows it."""
    bad = [leak for leak in leaks if leak.is_leaked.any()]
    if bad and not allowed:
        worst = max(bad, key=lambda leak: leak.share)
        n_leaked = worst.is_leaked.sum()
        raise FixInput(
            f"{len(bad)} of {len(leaks)} cells test clips that were used in training or validation",
            where=f"worst: {worst.cell}, {n_leaked} of {len(worst.is_leaked)} test clips",
            hint='use splits from one master fold, or set leakage = "warn" in the protocol',
            details=[leak.text for leak in bad],
        )
