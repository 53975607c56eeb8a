"""Count what the test clips of a cell share with its training; a leak is an error unless allowed.

A test clip leaked if it is also in train or validation, or was used to find the concept vectors of
a bottleneck. A test clip whose features are those of a training clip is counted beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.predictions import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class Leak:
    """Which test clips of a fit also trained, validated or found concept vectors.

    `is_copy` are those of the others that have exactly the features of such a clip.
    """

    cell: str
    in_train: BoolArray
    in_validation: BoolArray
    in_concepts: BoolArray
    is_copy: BoolArray

    @property
    def is_leaked(self) -> BoolArray:
        """Whether each test clip leaked by its name."""
        return self.in_train | self.in_validation | self.in_concepts

    @property
    def share(self) -> float:
        """The share of the test clips that leaked."""
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


def leak_of(
    train: IntArray,
    validation: IntArray,
    test: IntArray,
    concepts: IntArray,
    copies: IntArray,
    *,
    cell: str = "",
) -> Leak:
    """Return what leaked of one fit.

    Args:
        train: The numbers of the clips that trained.
        validation: Those that validated.
        test: Those that are tested.
        concepts: Those that concept vectors were found on.
        copies: Of each clip the number of its group of copies, -1 for none.
        cell: The name of the cell, for a text.
    """
    in_train = np.isin(test, train)
    in_validation = np.isin(test, validation)
    in_concepts = np.isin(test, concepts)
    is_leaked = in_train | in_validation | in_concepts
    seen = np.concatenate([train, validation, concepts])
    is_seen = np.zeros(int(copies.max(initial=-1)) + 2, dtype=np.bool_)
    is_seen[copies[seen]] = True
    is_seen[-1] = False  # the last entry is that of -1
    is_copy = is_seen[copies[test]] & ~is_leaked
    return Leak(cell, in_train, in_validation, in_concepts, is_copy)


def numbers_of(names: Sequence[str | bytes]) -> IntArray:
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
            f"{len(bad)} of {len(leaks)} cells test on clips of their training or validation",
            where=f"worst: {worst.cell}, {n_leaked} of {len(worst.is_leaked)} test clips",
            hint='use splits from one master fold, or set leakage = "warn" in the protocol',
            details=[leak.text for leak in bad],
        )
