"""What a test clip had in common with training: counted for every cell, an error unless allowed.

Three ways a test is not one. A clip is tested that was trained on, chosen with (validation), or
used to find the concept vectors of a bottleneck: that is a leak. A clip is tested whose neighbour
in the film was trained on: the annotation runs on from scene to scene, so the answer was seen,
though the clip was not. And a film is tested that was trained on, which any split does that is not
grouped by movie.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from obygaze_features.core.errors import FixInput

Place = tuple[str, int]


class LeakedTest(FixInput):
    """Test clips were trained on: use one master fold, or allow it and show the count."""


@dataclass(frozen=True)
class Leak:
    """What one cell (a task, a training set, a split) let through.

    `leaked` clips were in train or validation, or among the clips that concept vectors were found
    on; `neighbours` were not, but a scene next to them was (`None` where scenes are not known);
    `same_movie` share only the film.
    """

    cell: str
    task: str
    n_train: int
    n_validation: int
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
        """Share of test clips that leaked."""
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
    task: str = "",
) -> Leak:
    """Compare the clip ids of one cell.

    `concepts` are the clips that concept vectors were found on, in any of the model's fits.
    `places` gives movie and scene of each clip; scenes up to `reach` apart are neighbours.
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
        task,
        len(trained),
        len(chosen),
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
    """Hand the leaks on, or refuse: a leaking cell is an error unless the protocol allows it."""
    bad = [leak for leak in leaks if leak.leaked]
    if bad and not allowed:
        worst = max(bad, key=lambda leak: leak.share)
        raise LeakedTest(
            f"{len(bad)} of {len(leaks)} cells test on clips they were trained or chosen on",
            where=f"worst: {worst.cell or 'cell'}, {worst.leaked} of {worst.n_test} test clips",
            hint='use splits from one master fold, or set leakage = "warn" in the protocol',
            details=[describe(leak) for leak in bad],
        )
    return leaks


def leaks_by_task(leaks: Iterable[Leak]) -> dict[str, dict[str, int]]:
    """Sums over the cells of each task."""
    table: dict[str, dict[str, int]] = {}
    for leak in leaks:
        row = table.setdefault(
            leak.task, {"cells": 0, "leaking_cells": 0, "tested": 0, "leaked": 0, "neighbours": 0}
        )
        row["cells"] += 1
        row["leaking_cells"] += leak.leaked > 0
        row["tested"] += leak.n_test
        row["leaked"] += leak.leaked
        row["neighbours"] += leak.neighbours or 0
    return table


def describe(leak: Leak) -> str:
    """One line for a list or a report."""
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
    lost = sorted((unseen | seen) - places.keys())
    if lost:
        raise FixInput(f"{len(lost)} clips have no movie and scene, for one {lost[0]}", where=cell)
    occupied = {places[clip] for clip in seen}
    movies = {movie for movie, _ in occupied}
    steps = range(-reach, reach + 1)
    near = sum(
        any((movie, scene + step) in occupied for step in steps)
        for movie, scene in (places[clip] for clip in unseen)
    )
    return near, sum(places[clip][0] in movies for clip in unseen)


def _distinct(ids: Iterable[str], part: str, cell: str) -> set[str]:
    listed = list(ids)
    distinct = set(listed)
    if len(distinct) != len(listed):
        raise FixInput(f"{len(listed) - len(distinct)} clips are twice in {part}", where=cell)
    return distinct
