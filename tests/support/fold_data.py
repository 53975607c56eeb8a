"""Fold data of plain arrays, and bottlenecks that are fitted on them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.predictions import NO_ROWS
from obygaze_models.models.common import Floats, Ints
from obygaze_models.models.examples import concept_columns
from obygaze_models.models.fold_data import Concepts, FeatureRows, FoldData


def fold_data_of(
    X: Floats,
    y: NDArray[Any],
    names: Sequence[str],
    targets: Ints,
    films: NDArray[Any] | None,
) -> FoldData:
    """Return fold data in which every row trains and is an example of concepts."""
    every_row = np.arange(len(X))
    teaches = np.ones(len(X), dtype=np.bool_)
    units = every_row
    if films is not None:
        units = np.unique(films, return_inverse=True)[1]
    return FoldData(
        FeatureRows(X),
        y,
        every_row,
        NO_ROWS,
        np.full(len(X), "") if films is None else films,
        units,
        is_by_film=films is not None,
        may_learn=teaches,
        concepts=Concepts(
            tuple(names), dict.fromkeys(("EN", "absent"), targets), teaches
        ),
    )


def taught(
    bottleneck: Any, X: Any, y: Any, concepts: Any = None, films: Any = None
) -> Any:
    """Return a bottleneck that learned from rows, all of which train.

    Without concepts, the second class is the only one.
    """
    if concepts is None:
        concepts = (y == np.unique(y)[1])[:, None]
    targets = concept_columns(np.asarray(concepts, dtype=np.int64), len(X))
    return bottleneck.fit(X, y, concepts=targets, groups=films)
