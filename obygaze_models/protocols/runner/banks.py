"""Concept vectors for bottlenecks: one Gram matrix per store, one bank per fold for all heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import canonical_json
from obygaze_features.core.schema_rules import near
from obygaze_features.manifest.folds import OUTSIDE
from obygaze_models.evaluation.predictions import FloatArray, IntArray
from obygaze_models.models.common import FixTraining, Scaling
from obygaze_models.models.registry import BANK, build_bank
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.runner.features import Erasing, Features
from obygaze_models.protocols.schedule import FoldData
from obygaze_models.protocols.schema import Data

if TYPE_CHECKING:
    from obygaze_models.models.concepts import ConceptBank
    from obygaze_models.models.linear_solvers import Gram

Tolerances = float | Mapping[str, float] | None
MIN_ROWS = 3
NO_FOLDS = np.zeros(0, dtype=np.intp)
# For "folds"; the released ones among them.
TOLERANCES = (
    0.005,
    0.01,
    0.05,
    0.1,
    0.5,
    1.0,
)
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
class Examples:
    """The examples of some concepts in a store: targets of each row, a column for each name.

    With `films`, tolerances are chosen over whole films. With `scales_by_fold`
    vectors are found on rows that were scaled as those rows alone, and are then vectors of the rows
    as they are.
    """

    gram: Gram
    targets: NDArray[np.int64]
    names: list[str]
    films: NDArray[np.str_] | None
    settings: Mapping[str, Any]
    seed: int
    scales_by_fold: bool = False

    def find(self, rows: IntArray, tolerances: Tolerances = None) -> ConceptBank:
        """Return vectors found on some rows, with tolerances that were chosen before, if given."""
        bank = build_bank(
            self.settings, self.names, tolerance=tolerances, seed=self.seed
        )
        fitted: ConceptBank = bank
        if self.scales_by_fold:
            self._fit_scaled(fitted, rows)
        else:
            fitted.fit_rows(self.gram, self.targets, rows, self.films)
        return fitted

    def _fit_scaled(self, bank: ConceptBank, rows: IntArray) -> None:
        """Find vectors on scaled rows, and make them vectors of the rows as they are."""
        from obygaze_models.models.linear_solvers import Gram

        X = self.gram.X[rows]
        scaling = Scaling.of(X)
        films = None if self.films is None else self.films[rows]
        every_row = np.arange(len(rows))
        bank.fit_rows(Gram(scaling.scaled(X)), self.targets[rows], every_row, films)
        plane = scaling.unscaled_plane(bank.coef_, bank.intercept_)
        bank.coef_, bank.intercept_ = plane

    def margins(self, bank: ConceptBank, rows: IntArray | slice) -> FloatArray:
        """Return the margins of some rows."""
        margins: FloatArray = self.gram.X[rows] @ bank.coef_.T + bank.intercept_
        return margins

    def lack(self, rows: IntArray) -> bool:
        """Return whether these rows have no positive or no negative example of a concept."""
        targets = self.targets[rows]
        return any(not {0, 1} <= set(column.tolist()) for column in targets.T)


def tolerances_of(bank: ConceptBank) -> dict[str, float]:
    """Return the tolerance of each concept of a bank."""
    return dict(zip(bank.concepts_.tolist(), bank.C_.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Banks:
    """The concept vectors of one store; those on the same clips are found once for all heads.

    `grouped` splits are by film. For splits of the paper, `files` has the fold of each clip in the
    file of each task.
    """

    features: Features
    table: ClipTable
    grouped: bool
    seed: int
    files: Mapping[str, IntArray] = field(default_factory=dict)
    banks_by_key: dict[bytes, tuple[ConceptBank, FloatArray]] = field(
        default_factory=dict
    )

    @cached_property
    def gram(self) -> Gram:
        """The products of all rows, for every linear model of every fold."""
        from obygaze_models.models.linear_solvers import Gram

        return Gram(self.features.X)

    def margins(
        self, settings: Mapping[str, Any], data: FoldData
    ) -> tuple[ConceptBank, FloatArray, IntArray]:
        """Return the vectors of a fold, cross-fitted margins of the rows that a head is fitted on.

        The third are the clips that the vectors were found on; no test clip is among them.
        """
        rows = self.bank_rows(data)
        of_bank = {name: settings[name] for name in BANK}
        folds = self.files.get(data.task, NO_FOLDS)
        key = canonical_json(of_bank) + rows.tobytes() + b"|" + folds.tobytes()
        if key not in self.banks_by_key:
            self.banks_by_key[key] = self._find(of_bank, rows, data.groups, folds)
        bank, fitted = self.banks_by_key[key]
        return bank, fitted[self.features.row_of[data.fit_rows]], rows

    def bank_rows(self, data: FoldData) -> IntArray:
        """Return the clips that vectors are found on: all with an annotation level, not held out.

        Held out are the test and validation clips of the fold. Where splits are by film, all
        clips of their films are held out. For splits of the paper, the clips are those of the
        published file outside its test and validation folds, of all levels.
        """
        table = self.table
        split = data.split
        held_out = split.test
        if not data.join_validation:
            held_out = np.union1d(held_out, split.validation)
        allowed = self.features.present & (table.levels != "")
        allowed[held_out] = False
        if data.task in self.files:
            held = [OUTSIDE, split.test_fold, split.validation_fold]
            allowed &= ~np.isin(self.files[data.task], held)
        if self.grouped:
            allowed &= ~np.isin(data.groups, np.unique(data.groups[held_out]))
        return np.flatnonzero(allowed)

    def _find(
        self,
        settings: Mapping[str, Any],
        clips: IntArray,
        groups: NDArray[np.str_],
        folds: IntArray,
    ) -> tuple[ConceptBank, FloatArray]:
        """Return the bank of some clips, and margins for all rows: cross-fitted for those clips."""
        targets = targets_of(self.features, self.table, settings["against"])
        rows = self.features.row_of[clips]
        by_row = groups[self.features.present]
        known = findable(targets[rows])
        if len(folds):
            known.sort(key=self._released_rank)
        names = [self.table.concept_names[column] for column in known]
        examples = Examples(
            self.gram,
            targets[:, known],
            names,
            by_row if self.grouped else None,
            settings,
            self.seed,
            self.features.scales_by_fold,
        )
        tolerances: Tolerances = None
        if settings["tolerance"] == "folds":
            tolerances = _best_tolerances(examples, rows, folds[clips])
        if settings["best_of_folds"]:
            banks, scores = _by_fold(examples, tolerances, rows, folds[clips])
            bank = _best_of_folds(banks, scores)
        else:
            bank = examples.find(rows, tolerances)
        margins = examples.margins(bank, slice(None))
        used_tolerances = tolerances_of(bank)
        for fold in self._cross_folds(rows, by_row, settings["cross_fit"]):
            other_rows = np.setdiff1d(rows, fold)
            if examples.lack(other_rows):
                continue
            bank_of_others = examples.find(other_rows, used_tolerances)
            margins[fold] = examples.margins(bank_of_others, fold)
        return bank, margins

    def _released_rank(self, column: int) -> int:
        """Return the position of a concept in the released code; others come last."""
        name = self.table.concept_names[column]
        return RELEASED.index(name) if name in RELEASED else len(RELEASED)

    def _cross_folds(
        self, rows: IntArray, groups: NDArray[np.str_], n_folds: int
    ) -> list[IntArray]:
        """Return parts of the rows; clips of a film stay together where splits are by film."""
        films = np.unique(groups[rows])
        if n_folds < 2 or (self.grouped and len(films) < 2):
            return []
        if self.grouped:
            number = np.searchsorted(films, groups[rows]) % min(n_folds, len(films))
        else:
            rng = np.random.default_rng([self.seed, 7])
            number = rng.permutation(len(rows)) % n_folds
        return [rows[number == fold] for fold in np.unique(number)]


def _best_tolerances(
    examples: Examples, rows: IntArray, folds: IntArray
) -> dict[str, float]:
    """Return the tolerance of each concept with the best mean F1 over folds."""
    mean_scores = []
    for tolerance in TOLERANCES:
        _, scores = _by_fold(examples, tolerance, rows, folds)
        mean_scores.append(scores.mean(axis=0))
    best = np.argmax(mean_scores, axis=0).tolist()
    return {
        name: TOLERANCES[number]
        for name, number in zip(examples.names, best, strict=True)
    }


def _by_fold(
    examples: Examples, tolerances: Tolerances, rows: IntArray, folds: IntArray
) -> tuple[list[ConceptBank], FloatArray]:
    """Return the bank found without each fold, and the F1 of each of its vectors there."""
    banks = []
    scores = []
    for fold in np.unique(folds):
        bank = examples.find(rows[folds != fold], tolerances)
        held_out = rows[folds == fold]
        targets = examples.targets[held_out]
        true = targets == 1
        called = examples.margins(bank, held_out) > 0
        called &= targets >= 0
        n = np.maximum(true.sum(axis=0) + called.sum(axis=0), 1)
        scores.append(2 * (true & called).sum(axis=0) / n)
        banks.append(bank)
    return banks, np.array(scores)


def _best_of_folds(banks: Sequence[ConceptBank], scores: FloatArray) -> ConceptBank:
    """Return the vectors with the best score, each from its bank; of equal ones the first."""
    best_bank = banks[0]
    for column, best in enumerate(np.argmax(scores, axis=0)):
        for name in ("coef_", "intercept_", "C_", "length_"):
            getattr(best_bank, name)[column] = getattr(banks[best], name)[column]
    return best_bank


def targets_of(features: Features, table: ClipTable, against: Any) -> NDArray[np.int64]:
    """Return 1 for a positive, 0 for a negative, -1 for no example; a column for each concept."""
    from obygaze_models.models.concepts import concept_targets

    levels = table.levels[features.present]
    # A clip without a level is no example, like a clip that is not sure (NS).
    levels = np.where(levels == "", "NS", levels)
    return concept_targets(levels, table.has_concept[features.present], against)


def with_erasing(features: Features, table: ClipTable, data: Data) -> Features:
    """Return the features with the concepts that each fit removes from them."""
    for name in data.erase:
        if name not in table.concept_names:
            raise FixInput(
                f"data.erase names the unknown concept {name!r}{near(name, table.concept_names)}",
                hint=f"one of {', '.join(table.concept_names)}",
            )
    if not data.erase:
        return features
    columns = [table.concept_names.index(name) for name in data.erase]
    targets = targets_of(features, table, "absent")[:, columns]
    return replace(features, erasing=Erasing(data.erase, targets))


def example_counts(targets: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the number of positive and of negative examples of each concept."""
    n_positive = (targets == 1).sum(axis=0).tolist()
    n_negative = (targets == 0).sum(axis=0).tolist()
    return list(zip(n_positive, n_negative, strict=True))


def findable(targets: NDArray[np.int64]) -> list[int]:
    """Return the columns of concepts with enough positive and negative examples."""
    known = []
    for column, counts in enumerate(example_counts(targets)):
        if min(counts) >= MIN_ROWS:
            known.append(column)
    if not known:
        raise FixTraining(
            f"no concept has {MIN_ROWS} training clips with it and {MIN_ROWS} without"
        )
    return known
