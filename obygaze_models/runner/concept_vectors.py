"""Concept vectors of one fold, and the margins that a head is fitted on.

All folds share the rows, and their products where the solver needs them. Vectors that are found on
the same clips are found once for all heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.files import canonical_json
from obygaze_models.evaluation.predictions import FloatArray, IntArray
from obygaze_models.models.common import FixTraining, Scaling
from obygaze_models.models.joined import PartScaling
from obygaze_models.models.registry import BANK, TEXTS, build_bank, solver_of
from obygaze_models.models.sentences import Sentences
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.splits import NO_ROWS
from obygaze_models.runner.features import Features
from obygaze_models.runner.heldout import HeldOut

if TYPE_CHECKING:
    from obygaze_models.models.concepts import ConceptBank
    from obygaze_models.models.linear_solvers import Machines

Targets = NDArray[np.int64]
Tolerances = float | Mapping[str, float] | None
MIN_CLIPS = 3  # with a concept, and without it
# Vectors of so many folds are kept: those of concepts.csv are often those of the cells.
MOST_BANKS = 64
# For "folds"; the released ones among them.
TOLERANCES = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
# The order of the released code, which decides between equal splits of a tree.
RELEASED = (
    "Body",
    "Type of shot",
    "Clothing",
    "Posture",
    "Look",
    "Activities",
    "Expression of emotion",
    "Appearance",
)


@dataclass(frozen=True, eq=False)
class Margins:
    """Concept vectors, the margins of every row of the store, and the clips they were found on.

    Margins of clips that the vectors were found on are cross-fitted.
    """

    bank: ConceptBank
    of_rows: FloatArray
    found_on: IntArray


@dataclass(frozen=True, eq=False)
class ConceptVectors:
    """The concept vectors of one store; those on the same clips are found once."""

    features: Features
    table: ClipTable
    seed: int
    scale: bool = False  # by the clips that vectors are found on
    known: dict[bytes, Margins] = field(default_factory=dict)
    banks: dict[bytes, ConceptBank] = field(default_factory=dict)
    # Of models of sentences, by the path of their texts.
    sentences: Mapping[str, Sentences] = field(default_factory=dict)
    # Of joined features: what the last clips gave, by these clips.
    scaled: dict[bytes, tuple[PartScaling, ConceptVectors]] = field(
        default_factory=dict
    )

    @cached_property
    def machines(self) -> Machines:
        """All rows, for the machines of every fold; the number of clips decides the solver."""
        from obygaze_models.models.linear_solvers import machines_on

        return machines_on(self.features.X, self.solver)

    @property
    def solver(self) -> str:
        """The solver of every machine of this run."""
        return solver_of(len(self.table))

    @cached_property
    def levels(self) -> NDArray[np.str_]:
        """The level of each row; a clip without one is no example, like one that is not sure."""
        levels = self.table.levels[self.features.present]
        return np.where(levels == "", "NS", levels)

    def reading(self, features: Features) -> ConceptVectors:
        """Return those of other features of the same clips, of which none is found yet."""
        return replace(
            self, features=features, scale=False, known={}, banks={}, scaled={}
        )

    def with_scaled_parts(
        self, clips: IntArray
    ) -> tuple[PartScaling | None, ConceptVectors]:
        """Return the vectors of joined features whose parts some clips scale; others stay as is.

        What was scaled last is kept, for models that are fitted on the same clips one after
        another. Vectors are found on the clips that scale the parts, so they have one key.
        """
        if not self.features.parts:
            return None, self
        key = clips.tobytes()
        if key not in self.scaled:
            self.scaled.clear()
            scaling = PartScaling.of(self.features.of(clips), self.features.parts)
            X = scaling.scaled(self.features.X)
            features = replace(self.features, X=X, parts=())
            self.scaled[key] = scaling, replace(self, features=features, scaled={})
        return self.scaled[key]

    def targets(self, against: Any) -> Targets:
        """Return 1 for a positive, 0 for a negative, -1 for no example; a column for a concept.

        A clip whose annotators differ on a concept is no example of it.
        """
        from obygaze_models.models.concepts import concept_targets

        has_concept = self.table.has_concept[self.features.present]
        targets = concept_targets(self.levels, has_concept, against)
        targets[self.table.is_open_concept[self.features.present]] = -1
        return targets

    def clips_to_find_on(self, held: HeldOut) -> IntArray:
        """Return the clips that vectors are found on: all with a level that may be learned from."""
        has_level = self.table.levels != ""
        return np.flatnonzero(held.may_learn & has_level & self.features.present)

    def forget_margins(self) -> None:
        """Forget margins, which take much memory; and vectors, once these are many."""
        self.known.clear()
        self.scaled.clear()
        if len(self.banks) > MOST_BANKS:
            self.banks.clear()

    def margins(self, settings: Mapping[str, Any], held: HeldOut) -> Margins:
        """Return the vectors of a fold, and the margins of the rows of the store."""
        if TEXTS in settings:
            bank = self.bank(settings, held)
            return Margins(bank, bank.margins(self.machines.X), NO_ROWS)
        clips = self.clips_to_find_on(held)
        key = self._key({name: settings[name] for name in BANK}, clips, held)
        if key not in self.known:
            self.known[key] = self._cross_fitted(settings, clips, held)
        return self.known[key]

    def bank(self, settings: Mapping[str, Any], held: HeldOut) -> ConceptBank:
        """Return the vectors of a fold; how margins are cross-fitted makes no difference."""
        if TEXTS in settings:
            return self.sentences[settings[TEXTS]].bank()
        clips = self.clips_to_find_on(held)
        of_vectors = {name: settings[name] for name in BANK if name != "cross_fit"}
        key = self._key(of_vectors, clips, held)
        if key not in self.banks:
            examples = self._examples(settings, clips, held)
            self.banks[key] = self._find(examples, clips, held)
        return self.banks[key]

    def _key(
        self, settings: Mapping[str, Any], clips: IntArray, held: HeldOut
    ) -> bytes:
        """Return the key of what is found on some clips with some settings."""
        key = canonical_json([settings, held.is_by_film]) + clips.tobytes()
        if held.file_folds is not None:
            key += b"|" + held.file_folds.tobytes()
        return key

    def _examples(
        self, settings: Mapping[str, Any], clips: IntArray, held: HeldOut
    ) -> Examples:
        """Return the examples of the concepts that can be found on some clips."""
        targets = self.targets(settings["against"])
        columns = findable(targets[self.features.row_of[clips]])
        if held.file_folds is not None:
            columns.sort(key=self._released_rank)
        groups: NDArray[Any] | None = None
        films = held.films[clips]
        # Where all clips are of one film, vectors are found without some of its clips.
        if held.is_by_film and np.any(films != films[:1]):
            groups = held.films[self.features.present]
        return Examples(
            self.machines,
            targets[:, columns],
            [self.table.concept_names[column] for column in columns],
            groups,
            settings,
            self.seed,
            self.scale,
        )

    def _cross_fitted(
        self, settings: Mapping[str, Any], clips: IntArray, held: HeldOut
    ) -> Margins:
        """Return margins; those of clips are by vectors that were found without these clips."""
        from obygaze_models.models.concepts import (
            cross_fit_parts,
            cross_fitted_margins,
            tolerances_of,
        )

        examples = self._examples(settings, clips, held)
        bank = self.bank(settings, held)
        tolerances = tolerances_of(bank)
        rows = self.features.row_of[clips]
        margins = cross_fitted_margins(
            bank,
            self.machines,
            examples.targets,
            rows,
            cross_fit_parts(rows, examples.groups, settings["cross_fit"], self.seed),
            lambda others: examples.find(others, tolerances),
        )
        return Margins(bank, margins, clips)

    def _find(self, examples: Examples, clips: IntArray, held: HeldOut) -> ConceptBank:
        """Return the vectors; with the folds of a published file, as its scheme chooses them."""
        rows = self.features.row_of[clips]
        tolerances: Tolerances = None
        if held.file_folds is None:
            return examples.find(rows)
        folds = held.file_folds[clips]
        if examples.settings["tolerance"] == "folds":
            tolerances = _best_tolerances(examples, rows, folds)
        if examples.settings["best_of_folds"]:
            banks, scores = _without_each_fold(examples, tolerances, rows, folds)
            return _best_of_folds(banks, scores)
        return examples.find(rows, tolerances)

    def _released_rank(self, column: int) -> int:
        """Return the position of a concept in the released code; others come last."""
        name = self.table.concept_names[column]
        return RELEASED.index(name) if name in RELEASED else len(RELEASED)


@dataclass(frozen=True, eq=False)
class Examples:
    """The examples of some concepts in a store.

    Attributes:
        machines: The features of each row, on which machines are fitted.
        targets: A column for each concept, as `ConceptVectors.targets`.
        names: The names of the concepts.
        groups: The group of each row, such as its film: vectors are found without whole groups.
            None where each row stands alone.
        settings: The settings of concept vectors.
        seed: The seed of a balanced draw.
        scale: Whether vectors are found on rows that were scaled as those rows alone. They are then
            made vectors of the rows as they are.
    """

    machines: Machines
    targets: Targets
    names: list[str]
    groups: NDArray[Any] | None
    settings: Mapping[str, Any]
    seed: int
    scale: bool = False

    def find(self, rows: IntArray, tolerances: Tolerances = None) -> ConceptBank:
        """Return vectors found on some rows, with tolerances that were chosen before, if given."""
        bank = build_bank(
            self.settings, self.names, tolerance=tolerances, seed=self.seed
        )
        found: ConceptBank = bank
        if not self.scale:
            found.fit_rows(self.machines, self.targets, rows, self.groups)
            return found
        X = self.machines.X[rows]
        scaling = Scaling.of(X)
        groups = None if self.groups is None else self.groups[rows]
        every_row = np.arange(len(rows))
        scaled = type(self.machines)(scaling.scaled(X))
        found.fit_rows(scaled, self.targets[rows], every_row, groups)
        found.coef_, found.intercept_ = scaling.unscaled_plane(
            found.coef_, found.intercept_
        )
        return found


def fewest_examples(targets: Targets) -> IntArray:
    """Return the number of positive, or of negative, examples of each concept, if it is smaller."""
    n_positive = np.count_nonzero(targets == 1, axis=0)
    n_negative = np.count_nonzero(targets == 0, axis=0)
    fewer: IntArray = np.minimum(n_positive, n_negative)
    return fewer


def findable(targets: Targets) -> list[int]:
    """Return the columns of concepts with enough positive and negative examples."""
    n_clips = fewest_examples(targets)
    columns = np.flatnonzero(n_clips >= MIN_CLIPS).tolist()
    if not columns:
        raise FixTraining(
            f"no concept has {MIN_CLIPS} training clips with it and {MIN_CLIPS} without"
        )
    return [int(column) for column in columns]


def _best_tolerances(
    examples: Examples, rows: IntArray, folds: IntArray
) -> dict[str, float]:
    """Return the tolerance of each concept with the best mean F1 over folds."""
    mean_scores = []
    for tolerance in TOLERANCES:
        _, scores = _without_each_fold(examples, tolerance, rows, folds)
        mean_scores.append(scores.mean(axis=0))
    best = np.argmax(mean_scores, axis=0).tolist()
    tolerances = [TOLERANCES[number] for number in best]
    return dict(zip(examples.names, tolerances, strict=True))


def _without_each_fold(
    examples: Examples, tolerances: Tolerances, rows: IntArray, folds: IntArray
) -> tuple[list[ConceptBank], FloatArray]:
    """Return the bank found without each fold, and the F1 of each of its vectors there."""
    banks = []
    scores = []
    for fold in np.unique(folds):
        bank = examples.find(rows[folds != fold], tolerances)
        tested = rows[folds == fold]
        targets = examples.targets[tested]
        is_true = targets == 1
        is_called = (bank.margins(examples.machines.X[tested]) > 0) & (targets >= 0)
        n = np.maximum(is_true.sum(axis=0) + is_called.sum(axis=0), 1)
        scores.append(2 * (is_true & is_called).sum(axis=0) / n)
        banks.append(bank)
    return banks, np.array(scores)


def _best_of_folds(banks: Sequence[ConceptBank], scores: FloatArray) -> ConceptBank:
    """Return the vectors with the best score, each from its bank; of equal ones the first."""
    best_bank = banks[0]
    for column, best in enumerate(np.argmax(scores, axis=0)):
        for name in ("coef_", "intercept_", "C_", "length_"):
            getattr(best_bank, name)[column] = getattr(banks[best], name)[column]
    return best_bank
