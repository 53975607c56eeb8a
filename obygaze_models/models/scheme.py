"""How the scheme of a published file chooses concept vectors, over the folds of this file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from obygaze_models.models.common import Floats, Ints
from obygaze_models.models.examples import Examples

if TYPE_CHECKING:
    from obygaze_models.models.concepts import ConceptBank

OF_FOLDS = "folds"  # the tolerance that is the best over folds
# The released ones among them.
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


def released_rank(name: str) -> int:
    """Return the position of a concept in the released code; others come last."""
    return RELEASED.index(name) if name in RELEASED else len(RELEASED)


def found_by_scheme(
    bank: ConceptBank, examples: Examples, rows: Ints, folds: Ints
) -> ConceptBank:
    """Return the vectors that a scheme finds on some rows.

    Args:
        bank: The settings of the vectors.
        examples: The examples of the concepts.
        rows: The rows to find them on.
        folds: The fold of each of these rows.
    """
    if bank.C == OF_FOLDS:
        bank = replace(bank, C=_best_tolerances(bank, examples, rows, folds))
    if bank.best_of_folds:
        return _best_of_folds(*_without_each_fold(bank, examples, rows, folds))
    return bank.found_on(examples, rows)


def _best_tolerances(
    bank: ConceptBank, examples: Examples, rows: Ints, folds: Ints
) -> dict[str, float]:
    """Return the tolerance of each concept with the best mean F1 over folds."""
    mean_scores = []
    for tolerance in TOLERANCES:
        of_tolerance = replace(bank, C=tolerance)
        _, scores = _without_each_fold(of_tolerance, examples, rows, folds)
        mean_scores.append(scores.mean(axis=0))
    best = np.argmax(mean_scores, axis=0).tolist()
    tolerances = [TOLERANCES[number] for number in best]
    return dict(zip(examples.names, tolerances, strict=True))


def _without_each_fold(
    bank: ConceptBank, examples: Examples, rows: Ints, folds: Ints
) -> tuple[list[ConceptBank], Floats]:
    """Return the bank found without each fold, and the F1 of each of its vectors there."""
    banks = []
    scores = []
    for fold in np.unique(folds):
        without = bank.found_on(examples, rows[folds != fold])
        tested = rows[folds == fold]
        targets = examples.targets[tested]
        is_true = targets == 1
        margins = without.margins(examples.machines.X[tested])
        is_called = (margins > 0) & (targets >= 0)
        n = np.maximum(is_true.sum(axis=0) + is_called.sum(axis=0), 1)
        scores.append(2 * (is_true & is_called).sum(axis=0) / n)
        banks.append(without)
    return banks, np.array(scores)


def _best_of_folds(banks: Sequence[ConceptBank], scores: Floats) -> ConceptBank:
    """Return the vectors with the best score, each from its bank; of equal ones the first."""
    best_bank = banks[0]
    for column, best in enumerate(np.argmax(scores, axis=0)):
        for name in ("coef_", "intercept_", "C_", "length_"):
            getattr(best_bank, name)[column] = getattr(banks[best], name)[column]
    return best_bank
