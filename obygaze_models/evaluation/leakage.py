"""Count what the test clips of a cell share with its training; a leak is an error unless allowed.

A test clip leaked if it is also in train or validation, or was used to find the concept vectors of
a bottleneck. Rows of several annotators may be about one clip: what is counted is the clip that is
read. Three weaker forms are counted: a test clip whose features are equal or nearly equal to those
of a training clip, a test clip next to a training scene of its film, whose annotation is similar,
and a test clip of a training film, in every split not grouped by movie.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from obygaze_features.core.errors import FixInput


@dataclass(frozen=True)
class Leak:
    """Counts of leaked test clips of one cell (a task, a training set, a split).

    `leaked` clips are also in train or validation, or among the clips that concept vectors were
    found on. Of the others, `copies` have the features of one of those. The others are counted in
    `neighbours` too if a scene next to them is there, and in `same_movie` if a clip of their film
    is; both are None where scenes are unknown. `clips` are those that leaked and the copies.
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
    copies: tuple[str, ...] = field(default=(), repr=False)

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
        if self.copies:
            line += f", {len(self.copies)} more with the features of a training clip"
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
    clip_of: Mapping[str, str] | None = None,
    copies: Mapping[str, int] | None = None,
) -> Leak:
    """Return the leak counts of one cell, from its clip ids.

    Args:
        train: The training clips.
        validation: The validation clips.
        test: The test clips.
        concepts: The clips that concept vectors were found on, in any fit of the model.
        places: The movie and scene of each clip; scenes beside each other are neighbours.
        cell: The name of the cell, for messages.
        clip_of: What is read for each id, where several ids are rows about one clip.
        copies: The number of its group for each clip whose features another clip has too.
    """
    trained = _distinct(train, "train", cell)
    chosen = _distinct(validation, "validation", cell)
    tested = _distinct(test, "test", cell)
    found_on = _distinct(concepts, "concepts", cell)
    seen = trained | chosen | found_on
    in_train = _about(tested, trained, clip_of)
    in_validation = _about(tested, chosen, clip_of)
    in_concepts = _about(tested, found_on, clip_of)
    leaked = in_train | in_validation | in_concepts
    fresh = tested - leaked
    copied: set[str] = set()
    if copies:
        groups = {copies[clip] for clip in seen if clip in copies}
        copied = {clip for clip in fresh if copies.get(clip) in groups}
    near, same = None, None
    if places is not None:
        unplaced = sorted((tested | seen) - places.keys())
        if unplaced:
            what = f"{len(unplaced)} clips have no movie and scene, the first is {unplaced[0]}"
            raise FixInput(what, where=cell)
        occupied = {places[clip] for clip in seen}
        movies = {movie for movie, _ in occupied}
        unseen = [places[clip] for clip in fresh]
        near = sum(
            not occupied.isdisjoint((movie, scene + step) for step in (-1, 0, 1))
            for movie, scene in unseen
        )
        same = sum(movie in movies for movie, _ in unseen)
    return Leak(
        cell=cell,
        n_test=len(tested),
        in_train=len(in_train),
        in_validation=len(in_validation),
        in_concepts=len(in_concepts),
        leaked=len(leaked),
        neighbours=near,
        same_movie=same,
        clips=tuple(sorted(leaked | copied)),
        copies=tuple(sorted(copied)),
    )


def _about(
    tested: set[str], used: set[str], clip_of: Mapping[str, str] | None
) -> set[str]:
    """Return the test rows about a clip that was used."""
    if clip_of is None:
        return tested & used
    clips = {clip_of[row] for row in used}
    return {row for row in tested if clip_of[row] in clips}


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
        raise FixInput(
            f"{subset} contains {len(listed) - len(distinct)} clips twice", where=cell
        )
    return distinct
