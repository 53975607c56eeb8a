"""Concept vectors for bottlenecks: one Gram matrix per store, one bank per fold for all heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.files import canonical_json
from obygaze_features.manifest.folds import OUTSIDE
from obygaze_models.models.common import FixTraining
from obygaze_models.models.registry import BANK, build_bank
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.runner.features import Features
from obygaze_models.protocols.runner.fold_data import FoldData
from obygaze_models.protocols.splits import far_from

if TYPE_CHECKING:
    from obygaze_models.models.concepts import ConceptBank
    from obygaze_models.models.linear_solvers import Gram

Floats = NDArray[np.float64]
MIN_ROWS = 3
NO_FOLDS = np.zeros(0, dtype=np.intp)
TOLERANCES = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0)  # for "folds"; the released ones among them
# The order of the released code, which decides between equal splits of a tree.
RELEASED = (
    *("Body", "Type of shot", "Clothing", "Posture", "Look", "Activities"),
    *("Expression of emotion", "Appearance"),
)


@dataclass(frozen=True, eq=False)
class Margins:
    """The concept vectors of a fold, and cross-fitted margins of the rows that a head is fitted on.

    `found_on` are the rows of the clip table that the vectors were found on.
    """

    bank: ConceptBank
    cross_fitted: Floats
    found_on: NDArray[np.intp]


class Banks:
    """The concept vectors of one store; those on the same clips are found once for all heads."""

    def __init__(
        self,
        features: Features,
        table: ClipTable,
        grouped: bool,
        seed: int,
        files: Mapping[str, NDArray[np.intp]] | None = None,
    ) -> None:
        """Set what vectors are found on.

        Args:
            features: The vectors of a store.
            table: The clips.
            grouped: Whether splits are by film.
            seed: The seed of what is drawn.
            files: For splits of the paper, the fold of each clip in the file of each task.
        """
        self.features, self.table, self.grouped, self.seed = features, table, grouped, seed
        self.files = files or {}
        self.found: dict[bytes, tuple[ConceptBank, Floats]] = {}

    @cached_property
    def gram(self) -> Gram:
        """The products of all rows, for every linear model of every fold."""
        from obygaze_models.models.linear_solvers import Gram

        return Gram(self.features.X)

    def rows(self, clips: NDArray[np.intp]) -> NDArray[Any]:
        """Return the vectors of some clips."""
        return self.gram.X[self.features.row_of[clips]]

    def margins(self, settings: Mapping[str, Any], data: FoldData) -> Margins:
        """Return cross-fitted margins of the rows to fit on, by vectors without test clips."""
        rows = self.bank_rows(data)
        bank, fitted = self._bank(settings, rows, data)
        return Margins(bank, fitted[self.features.row_of[data.fit_rows]], rows)

    def bank_rows(self, data: FoldData) -> NDArray[np.intp]:
        """Return the clips that vectors are found on: all with an annotation level, not held out.

        Held out are the test and validation clips of the fold. Where splits are by film, all
        clips of their films are held out; where splits keep a gap, the scenes near them. For splits
        of the paper, the clips are those of the published file outside its test and validation
        folds, of all levels.
        """
        table, split = self.table, data.split
        held_out = split.test
        if not data.join_validation:
            held_out = np.union1d(held_out, split.validation)
        allowed = self.features.present & (np.array(table.levels) != "")
        allowed[held_out] = False
        if data.task in self.files:
            held = [split.provenance[name] for name in ("test_fold", "validation_fold")]
            allowed &= ~np.isin(self.files[data.task], [OUTSIDE, *held])
        if self.grouped:
            allowed &= ~np.isin(data.groups, np.unique(data.groups[held_out]))
        rows = np.flatnonzero(allowed)
        gap = int(split.provenance.get("gap", 0))
        if gap and table.scenes is not None:
            rows = far_from(rows, held_out, data.groups, table.scenes, gap)
        return rows

    def _bank(
        self, settings: Mapping[str, Any], rows: NDArray[np.intp], data: FoldData
    ) -> tuple[ConceptBank, Floats]:
        own = {name: settings[name] for name in BANK}
        folds = self.files.get(data.task, NO_FOLDS)
        key = canonical_json(own) + rows.tobytes() + b"|" + folds.tobytes()
        if key not in self.found:
            self.found[key] = self._find(own, rows, data.groups, folds)
        return self.found[key]

    def _find(
        self,
        own: Mapping[str, Any],
        rows: NDArray[np.intp],
        groups: NDArray[np.str_],
        folds: NDArray[np.intp],
    ) -> tuple[ConceptBank, Floats]:
        """Return the bank of some clips, and margins for all rows: cross-fitted for those clips."""
        targets = targets_of(self.features, self.table, own["against"])
        row_of, by_row = self.features.row_of, groups[self.features.present]
        inside = row_of[rows]
        known = findable(targets[inside])
        if len(folds):
            order = {name: place for place, name in enumerate(RELEASED)}
            known.sort(key=lambda column: order.get(self.table.concept_names[column], len(order)))
        names = [self.table.concept_names[column] for column in known]
        films = by_row if self.grouped else None
        chosen = None
        if own["tolerance"] == "folds":
            tried = [
                self._by_fold(own, names, C, targets[:, known], inside, folds[rows])[1].mean(axis=0)
                for C in TOLERANCES
            ]
            best = np.argmax(tried, axis=0)
            chosen = {name: TOLERANCES[i] for name, i in zip(names, best.tolist(), strict=True)}
        if own["elect"]:
            bank = self._elected(
                *self._by_fold(own, names, chosen, targets[:, known], inside, folds[rows])
            )
        else:
            bank = build_bank(own, names, tolerance=chosen, seed=self.seed)
            bank.fit_rows(self.gram, targets[:, known], inside, films)
        margins = self.gram.X @ bank.coef_.T + bank.intercept_
        tolerances = dict(zip(names, bank.C_.tolist(), strict=True))
        for fold in self._cross_folds(inside, by_row, own["cross_fit"]):
            rest = np.setdiff1d(inside, fold)
            lacking = [c for c in known if not {0, 1} <= set(np.unique(targets[rest, c]).tolist())]
            if not lacking:
                part = build_bank(own, names, tolerance=tolerances, seed=self.seed)
                part.fit_rows(self.gram, targets[:, known], rest, films)
                margins[fold] = self.gram.X[fold] @ part.coef_.T + part.intercept_
        return bank, margins

    def _by_fold(
        self,
        own: Mapping[str, Any],
        names: list[str],
        tolerance: float | Mapping[str, float] | None,
        targets: NDArray[np.int64],
        rows: NDArray[np.intp],
        folds: NDArray[np.intp],
    ) -> tuple[list[ConceptBank], Floats]:
        """Return the bank found without each fold, and the F1 of each of its vectors there."""
        banks, scores = [], []
        for fold in np.unique(folds):
            bank = build_bank(own, names, tolerance=tolerance, seed=self.seed)
            bank.fit_rows(self.gram, targets, rows[folds != fold])
            held_out = rows[folds == fold]
            true = targets[held_out] == 1
            called = self.gram.X[held_out] @ bank.coef_.T + bank.intercept_ > 0
            called &= targets[held_out] >= 0
            n = np.maximum(true.sum(axis=0) + called.sum(axis=0), 1)
            scores.append(2 * (true & called).sum(axis=0) / n)
            banks.append(bank)
        return banks, np.array(scores)

    def _elected(self, banks: list[ConceptBank], scores: Floats) -> ConceptBank:
        """Return the vectors with the best score, each from its bank; of equal ones the first."""
        elected = banks[0]
        for column, best in enumerate(np.argmax(scores, axis=0)):
            for name in ("coef_", "intercept_", "C_", "length_"):
                getattr(elected, name)[column] = getattr(banks[best], name)[column]
        return elected

    def _cross_folds(
        self, rows: NDArray[np.intp], groups: NDArray[np.str_], n_folds: int
    ) -> list[NDArray[np.intp]]:
        """Return parts of the rows; clips of a film stay together where splits are by film."""
        films = np.unique(groups[rows])
        if n_folds < 2 or (self.grouped and len(films) < 2):
            return []
        if self.grouped:
            number = np.searchsorted(films, groups[rows]) % min(n_folds, len(films))
        else:
            number = np.random.default_rng([self.seed, 7]).permutation(len(rows)) % n_folds
        return [rows[number == fold] for fold in np.unique(number)]


def targets_of(features: Features, table: ClipTable, against: Any) -> NDArray[np.int64]:
    """Return 1 for a positive, 0 for a negative, -1 for no example; a column for each concept."""
    from obygaze_models.models.concepts import concept_targets

    levels = np.array(table.levels)[features.present]
    # A clip without a level is no example, like a clip that is not sure (NS).
    levels = np.where(levels == "", "NS", levels)
    return concept_targets(levels, table.has_concept[features.present], against)


def findable(targets: NDArray[np.int64]) -> list[int]:
    """Return the columns of concepts with enough positive and negative examples."""
    known = [
        column
        for column, own in enumerate(targets.T)
        if min((own == value).sum() for value in (0, 1)) >= MIN_ROWS
    ]
    if not known:
        raise FixTraining(
            f"no concept has {MIN_ROWS} training clips with it and {MIN_ROWS} without"
        )
    return known
