"""The concept vectors of a store, with margins of each film by vectors of the other films."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.predictions import FloatArray, IntArray
from obygaze_models.models.common import FixTraining
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.runner.banks import (
    MIN_ROWS,
    Examples,
    targets_of,
    tolerances_of,
)
from obygaze_models.protocols.runner.features import Features

if TYPE_CHECKING:
    from obygaze_models.models.concepts import ConceptBank

MOST_PARTS = 12
MOST_FOLDS = 4


@dataclass(frozen=True, eq=False)
class FoundVectors:
    """Concept vectors of one store: found on all clips, and margins by vectors of other films.

    Rows are those of the store's matrix. `parts` is the number of the part that a row was left out
    with. Columns are the concepts of `known`, which are columns of the clip table.
    """

    features: Features
    table: ClipTable
    examples: Examples
    known: list[int]
    left_out: Mapping[str, str]
    bank: ConceptBank
    margins: FloatArray
    parts: IntArray
    part_names: tuple[str, ...]
    without: dict[frozenset[int], ConceptBank | None] = field(default_factory=dict)

    @cached_property
    def clips(self) -> IntArray:
        """The row of the clip table of each row."""
        return np.flatnonzero(self.features.present)

    @cached_property
    def films(self) -> NDArray[np.str_]:
        """The film of each row."""
        return self.table.films[self.clips]

    @cached_property
    def has(self) -> NDArray[np.bool_]:
        """Which of the known concepts each row has."""
        return self.table.has_concept[self.clips][:, self.known]

    @property
    def head_folds(self) -> IntArray:
        """The fold of each row in which heads are evaluated: a few parts together.

        Each part alone would have too few clips to rank.
        """
        return self.parts % MOST_FOLDS

    def margins_without(self, fold: int) -> FloatArray | None:
        """Return margins by vectors that no clip of a head fold was used for.

        Those of the fold itself are by vectors of all other folds; those of another fold, on which
        a head is fitted, by vectors of the rest. None if a concept has too few examples there.
        """
        margins = np.empty_like(self.margins)
        for other in np.unique(self.head_folds).tolist():
            key = frozenset({fold, other})
            if key not in self.without:
                rest = np.flatnonzero(~np.isin(self.head_folds, list(key)))
                lacking = self.examples.lack(rest)
                tolerances = tolerances_of(self.bank)
                self.without[key] = (
                    None if lacking else self.examples.find(rest, tolerances)
                )
            found = self.without[key]
            if found is None:
                return None
            inside = np.flatnonzero(self.head_folds == other)
            margins[inside] = self.examples.margins(found, inside)
        return margins


def find_vectors(
    features: Features, table: ClipTable, settings: Mapping[str, Any], seed: int
) -> FoundVectors:
    """Find the vectors on all clips, and again without each part."""
    from obygaze_models.models.linear_solvers import Gram

    films = table.films[features.present]
    parts, part_names = _parts(films)
    targets = targets_of(features, table, settings["against"])
    known, left_out = _known(targets, parts, table.concept_names)
    if not known:
        raise FixTraining(
            f"no concept has {MIN_ROWS} clips with it and {MIN_ROWS} without, in several films"
        )
    names = [table.concept_names[column] for column in known]
    examples = Examples(
        Gram(features.X),
        targets[:, known],
        names,
        films,
        settings,
        seed,
        features.scales_by_fold,
    )
    bank = examples.find(np.arange(len(films)))
    margins = examples.margins(bank, slice(None))
    for part in range(len(part_names)):
        # Tolerances are found once, as for the cells; vectors anew for each part.
        inside = np.flatnonzero(parts == part)
        outside = np.flatnonzero(parts != part)
        without = examples.find(outside, tolerances_of(bank))
        margins[inside] = examples.margins(without, inside)
    return FoundVectors(
        features,
        table,
        examples,
        known,
        left_out,
        bank,
        margins,
        parts,
        part_names,
    )


def _parts(films: NDArray[np.str_]) -> tuple[IntArray, tuple[str, ...]]:
    """Return the part of each clip: one or several films, or a fifth of a single film."""
    names, codes = np.unique(films, return_inverse=True)
    if len(names) == 1:
        stretch = np.arange(len(films)) * 5 // max(len(films), 1)
        return stretch, tuple(f"part {i + 1}" for i in range(5))
    n_parts = min(len(names), MOST_PARTS)
    return codes % n_parts, tuple(
        " ".join(names[i::n_parts].tolist()) for i in range(n_parts)
    )


def _known(
    targets: NDArray[np.int64], parts: IntArray, names: Sequence[str]
) -> tuple[list[int], dict[str, str]]:
    """Return the columns of concepts with examples without any part, and why others are left."""
    known = []
    left_out = {}
    for column, name in enumerate(names):
        of_concept = targets[:, column]
        n_positive = (of_concept == 1).sum()
        n_negative = (of_concept == 0).sum()
        without_parts = [of_concept[parts != part] for part in np.unique(parts)]
        if min(n_negative, n_positive) < MIN_ROWS:
            left_out[name] = f"{n_positive} clips with it, {n_negative} without"
        elif not all({0, 1} <= set(others.tolist()) for others in without_parts):
            left_out[name] = "all clips with it are of one part"
        else:
            known.append(column)
    return known, left_out
