"""Results on the clips that all of them tested. Only there, their numbers stand side by side.

Two models of a run may test other clips: a fold was left out for one of them, or their stores lack
other clips. Two runs may have other clips, folds or classes. `on_shared_clips` is the one place
that says which clips are left; differences, reports, learning curves and comparisons ask it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from obygaze_features.core.console import count
from obygaze_models.evaluation.predictions import BoolArray, IntArray
from obygaze_models.runner.scores import Cell


@dataclass(frozen=True, eq=False)
class SharedTest:
    """Cells on the clips that all of them tested with the same class.

    Attributes:
        cells: The cells, in the order in which they were given; a cell that tested no other clips
            is the same object. None where there are too few clips.
        n_clips: How many clips are shared.
        problem: Why these clips are too few; "" if they are not.
    """

    cells: Sequence[Cell]
    n_clips: int
    problem: str = ""


def on_shared_clips(cells: Sequence[Cell]) -> SharedTest:
    """Return cells on the clips that all of them tested with the same class.

    The classes of two runs differ where the annotations were changed between them. Clips of one
    class only are too few: nothing can be ranked.
    """
    first = cells[0]
    shared = first.clips
    for cell in cells[1:]:
        shared = np.intersect1d(shared, cell.clips)
    if not len(shared):
        return SharedTest((), 0, "no clip is tested in all of them")
    is_same_class = np.ones(len(shared), dtype=np.bool_)
    for cell in cells[1:]:
        is_same_class &= _classes_of(cell, shared) == _classes_of(first, shared)
    shared = shared[is_same_class]
    if not len(shared):
        return SharedTest((), 0, "no clip is tested with the same class in all of them")
    classes = _classes_of(first, shared)
    if classes.all() or not classes.any():
        name = "positive" if classes.all() else "negative"
        clips = count(len(shared), "clip")
        problem = f"the {clips} that all of them tested are all {name}"
        return SharedTest((), len(shared), problem)
    return SharedTest([cell.only(shared) for cell in cells], len(shared))


def _classes_of(cell: Cell, clips: IntArray) -> BoolArray:
    return cell.y[np.searchsorted(cell.clips, clips)]
