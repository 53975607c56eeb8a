"""The concept vectors of a store, with margins of each film by vectors of the other films."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.models.common import FixTraining
from obygaze_models.models.registry import build_bank
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.runner.banks import MIN_ROWS, targets_of
from obygaze_models.protocols.runner.features import Features

if TYPE_CHECKING:
    from obygaze_models.models.linear_solvers import Gram

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST_PARTS = 12
MOST_FOLDS = 4


@dataclass(frozen=True, eq=False)
class FoundVectors:
    """Concept vectors of one store: found on all clips, and margins by vectors of other films.

    Rows are those of the store's matrix; `parts` is the number of the part that a row was left out
    with. Columns are the concepts of `known`, which are columns of the clip table.
    """

    features: Features
    table: ClipTable
    settings: Mapping[str, Any]
    known: list[int]
    left_out: Mapping[str, str]
    bank: Any
    targets: Ints
    margins: Floats
    parts: Ints
    part_names: tuple[str, ...]
    part_cosines: Floats
    seed: int
    gram: Gram
    cached: dict[frozenset[int], tuple[Floats, Floats] | None] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The concepts that have a vector."""
        return [self.table.concept_names[column] for column in self.known]

    @property
    def clips(self) -> NDArray[np.intp]:
        """The row of the clip table of each row."""
        return np.flatnonzero(self.features.present)

    @property
    def films(self) -> NDArray[np.str_]:
        """The film of each row."""
        return self.table.movies[self.clips]

    @property
    def head_folds(self) -> Ints:
        """The fold of each row in which heads are evaluated: a few parts together.

        Each part alone would have too few clips to rank.
        """
        return self.parts % MOST_FOLDS

    def margins_without(self, fold: int) -> Floats | None:
        """Return margins by vectors that no clip of a head fold was used for.

        Those of the fold itself are by vectors of all other folds; those of another fold, on which
        a head is fitted, by vectors of the rest. None if a concept has too few examples there.
        """
        margins = np.empty(self.targets.shape)
        for other in np.unique(self.head_folds).tolist():
            key = frozenset({fold, other})
            if key not in self.cached:
                self.cached[key] = self._coefficients(key)
            found = self.cached[key]
            if found is None:
                return None
            inside = self.head_folds == other
            margins[inside] = self.features.X[inside] @ found[0].T + found[1]
        return margins

    def _coefficients(self, held_out: frozenset[int]) -> tuple[Floats, Floats] | None:
        """Return vectors and intercepts found without some head folds."""
        rest = np.flatnonzero(~np.isin(self.head_folds, list(held_out)))
        if any(len(np.unique(own[own >= 0])) < 2 for own in self.targets[rest].T):
            return None
        tolerances = dict(zip(self.names, self.bank.C_.tolist(), strict=True))
        bank = build_bank(self.settings, self.names, tolerance=tolerances, seed=self.seed)
        bank.fit_rows(self.gram, self.targets, rest, self.films)
        return bank.coef_, bank.intercept_

    @property
    def has(self) -> NDArray[np.bool_]:
        """Which of the known concepts each row has."""
        return self.table.has_concept[self.clips][:, self.known]


def find_vectors(
    features: Features, table: ClipTable, settings: Mapping[str, Any], seed: int
) -> FoundVectors:
    """Find the vectors on all clips, and again without each part."""
    from obygaze_models.models.linear_solvers import Gram

    films = table.movies[features.present]
    parts, part_names = _parts(films)
    targets = targets_of(features, table, settings["against"])
    known, left_out = _known(targets, parts, table.concept_names)
    if not known:
        raise FixTraining(
            f"no concept has {MIN_ROWS} clips with it and {MIN_ROWS} without, in several films"
        )
    names = [table.concept_names[column] for column in known]
    gram, targets = Gram(features.X), targets[:, known]
    bank = build_bank(settings, names, seed=seed)
    bank.fit_rows(gram, targets, np.arange(len(targets)), films)
    # Tolerances are found once, as for the cells; vectors anew for each part.
    tolerances = dict(zip(names, bank.C_.tolist(), strict=True))
    margins = np.empty(targets.shape)
    likeness = np.empty((len(part_names), len(known)))
    for part in range(len(part_names)):
        inside = parts == part
        one = build_bank(settings, names, tolerance=tolerances, seed=seed)
        one.fit_rows(gram, targets, np.flatnonzero(~inside), films)
        margins[inside] = gram.X[inside] @ one.coef_.T + one.intercept_
        likeness[part] = _cosine_rows(one.coef_, bank.coef_)
    return FoundVectors(
        *(features, table, settings, known, left_out, bank),
        *(targets, margins, parts, part_names, likeness),
        seed=seed,
        gram=gram,
    )


def _parts(films: NDArray[np.str_]) -> tuple[Ints, tuple[str, ...]]:
    """Return the part of each clip: one or several films, or a fifth of a single film."""
    names, codes = np.unique(films, return_inverse=True)
    if len(names) == 1:
        stretch = np.arange(len(films)) * 5 // max(len(films), 1)
        return stretch.astype(np.int64), tuple(f"part {i + 1}" for i in range(5))
    n_parts = min(len(names), MOST_PARTS)
    joined = [" ".join(names[i::n_parts].tolist()) for i in range(n_parts)]
    return (codes % n_parts).astype(np.int64), tuple(joined)


def _known(targets: Ints, parts: Ints, names: Sequence[str]) -> tuple[list[int], dict[str, str]]:
    known, left_out = [], {}
    for column, name in enumerate(names):
        own = targets[:, column]
        rest = [own[parts != part] for part in np.unique(parts)]
        if min((own == value).sum() for value in (0, 1)) < MIN_ROWS:
            left_out[name] = f"{(own == 1).sum()} clips with it, {(own == 0).sum()} without"
        elif not all({0, 1} <= set(part.tolist()) for part in rest):
            left_out[name] = "all clips with it are of one part"
        else:
            known.append(column)
    return known, left_out


def _cosine_rows(first: Floats, second: Floats) -> Floats:
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    found: Floats = np.einsum("ij,ij->i", first, second) / lengths
    return found
