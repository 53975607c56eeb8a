"""Count what the test clips of a cell share with its training; a leak is an error unless allowed.

A test clip leaked if it is also in train or validation, or was used to find the concept vectors of
a bottleneck. Two weaker forms are counted: a test clip next to a training scene of its film, whose
annotation is similar, and a test clip of a training film, in every split not grouped by movie.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from obygaze_features.core.errors import FixInput


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

    @property
    def text(self) -> str:
        """One line about the leak."""
        line = (
            f"{self.cell or 'cell'}: {self.leaked} of {self.n_test} test clips leaked "
            f"({self.in_train} in train, {self.in_validation} in validation)"
        )
        if self.in_concepts:
            line += f", {self.in_concepts} used to find concept vectors"
        if self.neighbours is not None:
            line += f", {self.neighbours} more beside a training scene"
        return line


def count_leak(
    train: Iterable[str],
    validation: Iterable[str],
    test: Iterable[str],
    *,
    concepts: Iterable[str] = (),
    places: Mapping[str, tuple[str, int]] | None = None,
    cell: str = "",
) -> Leak:
    """Return the leak counts of one cell, from its clip ids.

    Args:
        train: The training clips.
        validation: The validation clips.
        test: The test clips.
        concepts: The clips that concept vectors were found on, in any fit of the model.
        places: The movie and scene of each clip; scenes beside each other are neighbours.
        cell: The name of the cell, for messages.
    """
    trained = _distinct(train, "train", cell)
    chosen = _distinct(validation, "validation", cell)
    tested = _distinct(test, "test", cell)
    found_on = _distinct(concepts, "concepts", cell)
    seen = trained | chosen | found_on
    leaked = tested & seen
    near, same = None, None
    if places is not None:
        unplaced = sorted((tested | seen) - places.keys())
        if unplaced:
            what = f"{len(unplaced)} clips have no movie and scene, the first is {unplaced[0]}"
            raise FixInput(what, where=cell)
        occupied = {places[clip] for clip in seen}
        movies = {movie for movie, _ in occupied}
        unseen = [places[clip] for clip in tested - seen]
        near = sum(
            not occupied.isdisjoint((movie, scene + step) for step in (-1, 0, 1))
            for movie, scene in unseen
        )
        same = sum(movie in movies for movie, _ in unseen)
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
        raise FixInput(
            f"{len(bad)} of {len(leaks)} cells test on clips of their training or validation",
            where=f"worst: {worst.cell or 'cell'}, {worst.leaked} of {worst.n_test} test clips",
            hint='use splits from one master fold, or set leakage = "warn" in the protocol',
            details=[leak.text for leak in bad],
        )
    return leaks


def _distinct(ids: Iterable[str], subset: str, cell: str) -> set[str]:
    listed = list(ids)
    distinct = set(listed)
    if len(distinct) != len(listed):
        raise FixInput(f"{subset} contains {len(listed) - len(distinct)} clips twice", where=cell)
    return distinct
