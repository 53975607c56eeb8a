"""Count what the test clips of a cell share with its training; a leak is an error unless allowed.

A test clip leaked if it is also in train or validation, or was used to find the concept vectors of
a bottleneck. Two weaker forms are counted: a test clip whose features are those of a training clip,
and a test clip of a training film.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.predictions import BoolArray, IntArray


@dataclass(frozen=True)
class Leak:
    """Counts of leaked test clips of one cell (a task, a training set, a split).

    `leaked` clips are also in train or validation, or among the clips that concept vectors were
    found on. Of the others, `copies` have the features of one of those, and `same_film` counts
    those with a clip of their film there. `clips` are those that leaked and the copies.
    """

    cell: str
    n_test: int
    in_train: int
    in_validation: int
    in_concepts: int
    leaked: int
    same_film: int
    clips: tuple[str, ...] = field(repr=False)
    copies: tuple[str, ...] = field(default=(), repr=False)

    @property
    def text(self) -> str:
        """One line about the leak."""
        line = (
            f"{self.cell or 'cell'}: {self.leaked} of {self.n_test} test clips leaked "
            f"({self.in_train} in train, {self.in_validation} in validation)"
        )
        if self.in_concepts:
            line += f", {self.in_concepts} used to find concept vectors"
        if self.copies:
            line += f", {len(self.copies)} more with the features of a training clip"
        return line


@dataclass(frozen=True, eq=False)
class LeakIndex:
    """Clips by number, so that the leak of a cell is counted without a look at every name.

    Of each clip: the number of its film, -1 for one that is not known; and of its group of copies,
    -1 for none.
    """

    ids: Sequence[str]
    films: IntArray
    copies: IntArray

    def count(
        self,
        train: IntArray,
        validation: IntArray,
        test: IntArray,
        concepts: IntArray,
        *,
        cell: str = "",
    ) -> Leak:
        """Return the leak counts of one cell, from the numbers of its clips."""
        in_train = np.isin(test, train)
        in_validation = np.isin(test, validation)
        in_concepts = np.isin(test, concepts)
        is_leaked = in_train | in_validation | in_concepts
        seen = np.concatenate([train, validation, concepts])
        fresh = test[~is_leaked]
        copied = fresh[_among(self.copies, seen)[self.copies[fresh]]]
        leaked = test[is_leaked]
        of_same_film = _among(self.films, seen)[self.films[fresh]]
        return Leak(
            cell=cell,
            n_test=len(test),
            in_train=int(in_train.sum()),
            in_validation=int(in_validation.sum()),
            in_concepts=int(in_concepts.sum()),
            leaked=len(leaked),
            same_film=int(of_same_film.sum()),
            clips=self._names([*leaked.tolist(), *copied.tolist()]),
            copies=self._names(copied.tolist()),
        )

    def _names(self, rows: Sequence[int]) -> tuple[str, ...]:
        return tuple(sorted(self.ids[row] for row in rows))


def numbers_of(names: Sequence[str | bytes]) -> IntArray:
    """Return a number for each name; equal names have equal numbers."""
    number_of: dict[str | bytes, int] = {}
    for name in names:
        number_of.setdefault(name, len(number_of))
    return np.array([number_of[name] for name in names], dtype=np.intp)


def _among(numbers: IntArray, rows: IntArray) -> BoolArray:
    """Return whether each number is that of one of the rows; the last entry, of -1, is False."""
    is_there = np.zeros(int(numbers.max(initial=-1)) + 2, dtype=np.bool_)
    is_there[numbers[rows]] = True
    is_there[-1] = False
    return is_there


def check_leaks(leaks: Sequence[Leak], *, allowed: bool = False) -> Sequence[Leak]:
    """Return the leaks; raise an error if a cell leaks, unless the protocol allows it."""
    bad = [leak for leak in leaks if leak.leaked]
    if bad and not allowed:
        worst = max(bad, key=lambda leak: leak.leaked / leak.n_test)
        raise FixInput(
            f"{len(bad)} of {len(leaks)} cells test on clips of their training or validation",
            where=f"worst: {worst.cell or 'cell'}, {worst.leaked} of {worst.n_test} test clips",
            hint='use splits from one master fold, or set leakage = "warn" in the protocol',
            details=[leak.text for leak in bad],
        )
    return leaks
