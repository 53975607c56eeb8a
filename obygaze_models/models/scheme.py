"""How the scheme of a published file chooses concept vectors, over the folds of this file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from obygaze_models.models.common import Floats
from obygaze_models.models.lessons import Lessons

if TYPE_CHECKING:
    from obygaze_models.models.concepts import ConceptBank

OVER_FOLDS = "folds"  # the tolerance that is the best over folds
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


def found_by_scheme(bank: ConceptBank, lessons: Lessons) -> ConceptBank:
    """Return the vectors that a scheme finds in some lessons, which have the folds of its file.

    Args:
        bank: The settings of the vectors.
        lessons: Lessons whose concepts can be found.
    """
    if bank.C == OVER_FOLDS:
        bank = replace(bank, C=_best_tolerances(bank, lessons))
    if bank.best_of_folds:
        return _best_of_folds(*_without_each_fold(bank, lessons))
    return bank.found_on(lessons, lessons.of_concepts)


def _best_tolerances(bank: ConceptBank, lessons: Lessons) -> dict[str, float]:
    """Return the tolerance of each concept with the best mean F1 over folds."""
    mean_scores = []
    for tolerance in TOLERANCES:
        _, scores = _without_each_fold(replace(bank, C=tolerance), lessons)
        mean_scores.append(scores.mean(axis=0))
    best = np.argmax(mean_scores, axis=0).tolist()
    tolerances = [TOLERANCES[number] for number in best]
    return dict(zip(lessons.concepts.names, tolerances, strict=True))


def _without_each_fold(
    bank: ConceptBank, lessons: Lessons
) -> tuple[list[ConceptBank], Floats]:
    """Return the bank found without each fold, and the F1 of each of its vectors there."""
    assert lessons.file_folds is not None
    rows = lessons.of_concepts
    folds = lessons.file_folds[rows]
    banks = []
    scores = []
    for fold in np.unique(folds):
        without = bank.found_on(lessons, rows[folds != fold])
        tested = rows[folds == fold]
        targets = lessons.concepts.targets[bank.against][tested]
        is_true = targets == 1
        margins = without.margins(lessons.rows.machines.X[tested])
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
