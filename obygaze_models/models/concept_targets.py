"""Which clips a concept is learned from: three ways to choose what it is told apart from."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from obygaze_models.models.ground import FixTraining, Ints

Against = Literal["EN", "absent", "HN+S"]

LEVELS = ("EN", "HN", "NS", "S")


def concept_targets(levels: NDArray[Any], has: NDArray[Any], against: Against = "absent") -> Ints:
    """Targets of a `ConceptBank`: 1 has the concept, 0 is what it is told apart from, -1 neither.

    Clips that have a concept are those of HN and S that carry it. They are told apart from EN
    clips only ("EN"), from every other EN, HN and S clip ("absent", as in the paper), or from HN
    and S clips that lack the concept ("HN+S"). Not-sure clips take no part.
    """
    levels, carries = np.asarray(levels, dtype=np.str_), np.asarray(has, dtype=bool)
    unknown = sorted(set(levels.tolist()) - set(LEVELS))
    if unknown:
        raise FixTraining(f"no level is called {unknown[0]!r}", hint=f"one of {', '.join(LEVELS)}")
    if len(carries) != len(levels):
        raise FixTraining(f"{len(levels)} levels, {len(carries)} rows of concepts")
    easy = (levels == "EN")[:, None]
    rated = np.isin(levels, ("HN", "S"))[:, None]
    lacks = rated & ~carries
    told_apart = {"EN": easy, "absent": easy | lacks, "HN+S": lacks}
    if against not in told_apart:
        raise FixTraining(
            f"a concept cannot be told apart from {against!r}", hint=f"one of {list(told_apart)}"
        )
    targets = np.full(carries.shape, -1, dtype=np.int64)
    targets[np.broadcast_to(told_apart[against], carries.shape)] = 0
    targets[rated & carries] = 1
    return targets
