"""Count what the test clips of a cell share with its training; a leak is an error unless allowed.

A test clip leaked if it is also in train or validation, or was used to find the concept vectors of
a bottleneck. Two weaker forms are counted: a test clip next to a training scene of its film, whose
annotation is similar, and a test clip of a training film, in every split not grouped by movie.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from obygaze_features.core.errors import FixInput

Place = tuple[str, int]


class LeakedTest(FixInput):
    """Test clips are also training clips; use splits from one master fold, or allow leaks."""


@dataclass(frozen=True)
class Leak:
    """Counts of leaked test clips of one cell (a task, a training set, a split).

    `leaked` clips are also in train or validation, or among the clips that concept vectors were
    found on. The others are counted in `neighbours` if a scene next to them is, and in `same_movie`
    if a clip of their film is; both are None where scenes are unknown.
    """

    cell: str
    n_test: int
    in_train: int
    in_validation: int
    in_concepts: int
    leaked: int
    neighbours: int | None
    same_movie: int | None
    clips: tuple[str, ...] = field(repr=False)

    @property
    def share(self) -> float:
        """The share of test clips that leaked."""
        return self.leaked / self.n_test if self.n_test else 0.0


def count_leak(
    train: Iterable[str],
    validation: Iterable[str],
    test: Iterable[str],
    *,
    concepts: Iterable[str] = (),
    places: Mapping[str, Place] | None = None,
    reach: int = 1,
    cell: str = "",
) -> Leak:
    """Return the leak counts of one cell, from its clip ids.

    Args:
        train: The training clips.
        validation: The validation clips.
        test: The test clips.
        concepts: The clips that concept vectors were found on, in any fit of the model.
        places: The movie and scene of each clip.
        reach: Scenes up to this distance are neighbours.
        cell: The name of the cell, for messages.
    """
    trained = _distinct(train, "train", cell)
    chosen = _distinct(validation, "validation", cell)
    tested = _distinct(test, "test", cell)
    found_on = _distinct(concepts, "concepts", cell)
    seen = trained | chosen | found_on
    leaked = tested & seen
    near, same = (None, None)
    if places is not None:
        near, same = _count_near(tested - seen, seen, places, reach, cell)
    return Leak(
        cell,
        len(tested),
        len(tested & trained),
        len(tested & chosen),
        len(tested & found_on),
        len(leaked),
        near,
        same,
        tuple(sorted(leaked)),
    )


def check_leaks(leaks: Sequence[Leak], *, allowed: bool = False) -> Sequence[Leak]:
    """Return the leaks; raise an error if a cell leaks, unless the protocol allows it."""
    bad = [leak for leak in leaks if leak.leaked]
    if bad and not allowed:
        worst = max(bad, key=lambda leak: leak.share)
        raise LeakedTest(
            f"{len(bad)} of {len(leaks)} cells test on clips of their training or validation",
            where=f"worst: {worst.cell or 'cell'}, {worst.leaked} of {worst.n_test} test clips",
            hint='use splits from one master fold, or set leakage = "warn" in the protocol',
            details=[describe(leak) for leak in bad],
        )
    return leaks


def describe(leak: Leak) -> str:
    """Return one line about a leak."""
    line = (
        f"{leak.cell or 'cell'}: {leak.leaked} of {leak.n_test} test clips leaked "
        f"({leak.in_train} in train, {leak.in_validation} in validation)"
    )
    if leak.in_concepts:
        line += f", {leak.in_concepts} used to find concept vectors"
    if leak.neighbours is not None:
        line += f", {leak.neighbours} more beside a training scene"
    return line


def _count_near(
    unseen: set[str], seen: set[str], places: Mapping[str, Place], reach: int, cell: str
) -> tuple[int, int]:
    unplaced = sorted((unseen | seen) - places.keys())
    if unplaced:
        what = f"{len(unplaced)} clips have no movie and scene, the first is {unplaced[0]}"
        raise FixInput(what, where=cell)
    occupied = {places[clip] for clip in seen}
    movies = {movie for movie, _ in occupied}
    steps = range(-reach, reach + 1)
    near = sum(
        any((movie, scene + step) in occupied for step in steps)
        for movie, scene in (places[clip] for clip in unseen)
    )
    return near, sum(places[clip][0] in movies for clip in unseen)


def _distinct(ids: Iterable[str], subset: str, cell: str) -> set[str]:
    listed = list(ids)
    distinct = set(listed)
    if len(distinct) != len(listed):
        raise FixInput(f"{subset} contains {len(listed) - len(distinct)} clips twice", where=cell)
    return distinct
