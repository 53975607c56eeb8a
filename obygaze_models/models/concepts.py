"""Concept vectors: the direction in feature space that separates clips with a concept."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.files import canonical_json
from obygaze_models.evaluation.metrics import average_precision
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.common import (
    Bools,
    FixTraining,
    Floats,
    Ints,
    Scaling,
    balanced_weights,
    one_thread,
    total_variance,
)
from obygaze_models.models.estimator import Savable
from obygaze_models.models.examples import (
    Against,
    concept_columns,
    findable_columns,
)
from obygaze_models.models.fold_data import (
    INNER_FOLDS,
    FoldData,
    has_both_classes,
    inner_folds,
)
from obygaze_models.models.linear_solvers import Machines, central_bias, machines_on

Tolerance = float | Mapping[str, float] | Literal["published", "inner", "folds"]

INNER = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # times 1 / total variance of the features
NO_DIRECTION = (
    "the features of the clips do not differ, so that no direction separates them"
)

OVER_FOLDS = "folds"  # the tolerance with the best score over folds
# Tolerances to choose from over folds; they include the released ones.
TOLERANCES = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
# The order of concepts in the released code. It decides ties between splits of a tree.
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


@dataclass(eq=False)
class ConceptBank(Savable):
    """One plane for each concept; `transform` returns the margin of each row to each plane.

    Targets have one column per concept: 1 present, 0 absent, -1 not used (see `concept_targets`).

    `C` is the tolerance, which is the parameter C of the support vector machine that finds a plane.
    It can be one number for all concepts, a number for each concept by name, the tolerance of each
    concept in the released code of ObyGaze12 ("published"), or the best of six tolerances by
    average precision over inner folds ("inner"). Inner folds hold out whole groups if groups are
    given. `balance` is "weights" (as in the released code), "subsample" (as in the text of the
    ObyGaze12 paper: equal numbers of rows with and without the concept, sampled by seed), or None.
    With `unit_norm`, vector and bias are divided by the length of the vector, so that a margin is a
    distance. The released code does not divide.

    `fit_fold` fits the planes of concepts with enough positive and negative examples. `against`
    states which clips are the negative examples. With `scaled`, planes are fitted on scaled rows,
    and then converted to planes of unscaled rows. Two settings need the folds of a published file.
    If `C` is "folds", it is the tolerance with the best mean F1 over these folds. With
    `best_of_folds`, one plane is fitted without each fold and tested on this fold, and the plane
    with the best F1 is kept.
    """

    concepts: Sequence[str] | None = None
    _: KW_ONLY
    C: Tolerance = "inner"
    balance: Literal["weights", "subsample"] | None = "weights"
    unit_norm: bool = True
    random_state: int = 0
    against: Against = "absent"
    scaled: bool = False
    best_of_folds: bool = False

    @property
    def reads_concepts(self) -> bool:
        """Whether the fit uses all examples of concepts, and not only training rows."""
        return True

    @property
    def n_bytes(self) -> int:
        """The size of the vectors of all concepts, in bytes."""
        return int(self.coef_.nbytes)

    def with_own_scaling(self) -> Self:
        """Return a bank whose planes are fitted on scaled rows."""
        return replace(self, scaled=True)

    def key(self, data: FoldData) -> tuple[Hashable, ...]:
        """Return a cache key, made of everything that the planes depend on."""
        return canonical_json(asdict(self)), data.concept_key

    def fit_fold(self, data: FoldData) -> Self:
        """Return the fitted bank of a fold; it is cached, because all tasks use the same bank."""

        def find() -> Any:
            findable = self.with_findable_concepts(data)
            if data.file_folds is not None:
                return fit_by_scheme(self, findable)
            return self.fit_on(findable, data.concept_rows)

        bank: Self = data.rows.memo.get(self.key(data), find)
        return bank

    def with_findable_concepts(self, data: FoldData) -> FoldData:
        """Return the data with only the concepts that have enough examples."""
        targets = data.concepts.targets[self.against][data.concept_rows]
        names = [data.concepts.names[column] for column in findable_columns(targets)]
        if data.file_folds is not None:
            names.sort(key=released_rank)
        return replace(data, concepts=data.concepts.only(names))

    def fit_on(self, data: FoldData, rows: Ints) -> ConceptBank:
        """Return the planes of all concepts of the data, fitted on some rows."""
        machines = data.rows.machines
        targets = data.concepts.targets[self.against]
        groups = data.concept_groups
        bank = replace(self, concepts=data.concepts.names)
        if not self.scaled:
            return bank.fit_rows(machines, targets, rows, groups)
        X = machines.X[rows]
        scaling = Scaling.of(X)
        on_scaled = type(machines)(scaling.scale(X))
        groups = None if groups is None else groups[rows]
        bank.fit_rows(on_scaled, targets[rows], np.arange(len(rows)), groups)
        bank.coef_, bank.intercept_ = scaling.unscale_plane(bank.coef_, bank.intercept_)
        return bank

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit the plane of each column of `y` on the rows of X."""
        rows = np.asarray(X, dtype=np.float64)
        targets = concept_columns(y, len(rows))
        return self.fit_rows(machines_on(rows), targets, np.arange(len(rows)), groups)

    def fit_rows(
        self, machines: Machines, targets: Ints, rows: Ints, groups: Any = None
    ) -> Self:
        """Fit the planes on some rows of the features.

        Args:
            machines: The features of all rows.
            targets: Targets of all rows, in the format of `concept_columns`.
            rows: The numbers of the rows to use.
            groups: The group of each row of `machines`, such as its film, for the inner folds.
        """
        n_features = machines.X.shape[1]
        n_concepts = targets.shape[1]
        names = self.concepts or [f"concept{number}" for number in range(n_concepts)]
        self.n_features_in_ = n_features
        self.concepts_ = np.asarray(names, dtype=np.str_)
        self.coef_ = np.empty((n_concepts, n_features))
        self.intercept_, self.C_, self.length_ = np.empty((3, n_concepts))
        groups = None if groups is None else np.asarray(groups)
        features = machines.X[rows]
        if n_concepts and not (features != features[:1]).any():
            # Rounding would give an arbitrary direction.
            raise FixTraining(NO_DIRECTION)
        with one_thread():
            for column, name in enumerate(names):
                labelled_rows = rows[targets[rows, column] >= 0]
                try:
                    self._fit_one(
                        column,
                        name,
                        machines,
                        labelled_rows,
                        targets[labelled_rows, column] == 1,
                        groups,
                    )
                except FixTraining as error:
                    where = f"concept {name}"
                    raise FixTraining(
                        error.message, where=where, hint=error.hint
                    ) from error
        return self

    def transform(self, X: Any) -> Floats:
        """Return the margin of each row to each concept's plane."""
        return self.margins(self._check(X))

    def margins(self, X: Floats) -> Floats:
        """Return the margin of each row to each concept's plane, without a check of the rows."""
        return np.asarray(X @ self.coef_.T + self.intercept_)

    def _fit_one(
        self,
        column: int,
        name: str,
        machines: Machines,
        rows: Ints,
        positive: Bools,
        groups: Any,
    ) -> None:
        seed = [self.random_state, column]
        tolerance = self._tolerance(name, machines, rows, positive, groups, seed)
        if not has_both_classes(positive):
            raise FixTraining(
                "rows with the concept and rows without it are both required"
            )
        used, present, weights = self._sample(rows, positive, seed)
        normal, bias = machines.svm(
            used, present, tolerance, weights, exact=self.unit_norm
        )
        if self.unit_norm:
            bias = central_bias(machines.X[used] @ normal, present, weights, bias)
        length = float(np.linalg.norm(normal))
        if not length > 0:
            raise FixTraining(NO_DIRECTION)
        unit = length if self.unit_norm else 1.0
        self.C_[column] = tolerance
        self.length_[column] = length
        self.coef_[column] = normal / unit
        self.intercept_[column] = bias / unit

    def _sample(
        self, rows: Ints, positive: Bools, seed: list[int]
    ) -> tuple[Ints, Bools, Floats | None]:
        """Return the rows to use, whether each row has the concept, and the weight of each row."""
        if self.balance == "subsample":
            drawn = subsample(positive, seed)
            rows = rows[drawn]
            positive = positive[drawn]
        codes = positive.astype(np.int64)
        weights = balanced_weights(codes)[codes] if self.balance == "weights" else None
        return rows, positive, weights

    def _tolerance(
        self,
        name: str,
        machines: Machines,
        rows: Ints,
        positive: Bools,
        groups: NDArray[Any] | None,
        seed: list[int],
    ) -> float:
        """Return the tolerance of a concept that `C` states or, for "inner", chooses."""
        if self.C == "inner":
            return self._inner_tolerance(machines, rows, positive, groups, seed)
        if self.C == "published":
            return published_tolerance(name)
        if self.C == OVER_FOLDS:
            raise FixTraining(f"C={OVER_FOLDS!r} needs the folds of a published file")
        if isinstance(self.C, Mapping):
            if name not in self.C:
                raise FixTraining("C has no value for this concept")
            return float(self.C[name])
        return float(self.C)

    def _inner_tolerance(
        self,
        machines: Machines,
        rows: Ints,
        positive: Bools,
        groups: NDArray[Any] | None,
        seed: list[int],
    ) -> float:
        """Return the tolerance with the best average precision on inner folds."""
        tolerances = (np.array(INNER) / total_variance(machines.X[rows])).tolist()
        of_rows = None if groups is None else groups[rows]
        folds = inner_folds(positive, of_rows, INNER_FOLDS)
        if not folds:  # too few rows or films to validate
            return float(tolerances[len(tolerances) // 2])
        scores = np.empty((len(folds), len(tolerances)))
        for i, fold in enumerate(folds):
            used, present, weights = self._sample(rows[~fold], positive[~fold], seed)
            planes = [
                machines.svm(used, present, C, weights, exact=self.unit_norm)
                for C in tolerances
            ]
            normals, biases = (np.array(part) for part in zip(*planes, strict=True))
            margins = normals @ machines.X[rows[fold]].T + biases[:, None]
            scores[i] = [
                average_precision(Predictions.of(positive[fold], m)) for m in margins
            ]
        return float(tolerances[int(scores.mean(axis=0).argmax())])


def subsample(positive: Bools, seed: list[int]) -> Ints:
    """Return all rows of the smaller class, and a random sample of as many rows of the other."""
    rng = np.random.default_rng(seed)
    sides = [np.flatnonzero(positive), np.flatnonzero(~positive)]
    n_kept = min(len(side) for side in sides)
    return np.sort(np.concatenate([rng.permutation(side)[:n_kept] for side in sides]))


def list_tolerances(bank: ConceptBank) -> dict[str, float]:
    """Return the tolerance of each concept of a fitted bank."""
    return dict(zip(bank.concepts_.tolist(), bank.C_.tolist(), strict=True))


def cross_fit_parts(
    rows: Ints, groups: NDArray[Any] | None, n_parts: int, seed: int
) -> list[Ints]:
    """Return the parts of some rows for cross-fitting; empty with fewer than two groups.

    Args:
        rows: The rows.
        groups: The group of every row, such as its film; a part contains whole groups. None: parts
            are random.
        n_parts: The number of parts; below 2, nothing is cross-fitted.
        seed: The seed of random parts.
    """
    if n_parts < 2:
        return []
    if groups is None:
        rng = np.random.default_rng([seed, 7])
        number = rng.permutation(len(rows)) % n_parts
    else:
        names, group_numbers = np.unique(groups[rows], return_inverse=True)
        if len(names) < 2:
            return []
        number = group_numbers % min(n_parts, len(names))
    return [rows[number == part] for part in np.unique(number)]


def published_tolerance(concept: str) -> float:
    """Return the tolerance of a concept in the released code of ObyGaze12."""
    return 0.05 if concept in ("Body", "Look", "Activities") else 0.01


def cross_fitted_margins(
    bank: ConceptBank, data: FoldData, parts: Sequence[Ints]
) -> Floats:
    """Return the margins of every row; the margins of a part are from vectors fitted without it.

    In-sample margins would be better than margins of new rows. If the rows outside a part have
    examples of only one class of any concept, all margins of this part are in-sample. Rows that are
    in no part have the margins of `bank`.

    Args:
        bank: The vectors that were fitted on all parts. The vectors that are fitted without a part
            get the tolerances of these vectors.
        data: The data of the fold.
        parts: Parts of the rows that vectors are fitted on, from `cross_fit_parts`.
    """
    X = data.rows.machines.X
    margins = bank.margins(X)
    found = replace(data, concepts=data.concepts.only(bank.concepts_.tolist()))
    targets = found.concepts.targets[bank.against]
    settled = replace(bank, C=list_tolerances(bank))
    for part in parts:
        others = np.setdiff1d(data.concept_rows, part)
        has_examples = [{0, 1} <= set(column.tolist()) for column in targets[others].T]
        if all(has_examples):
            margins[part] = settled.fit_on(found, others).margins(X[part])
    return margins


# --- Choices over the folds of a published file ---


def released_rank(name: str) -> int:
    """Return the position of a concept in the released code of ObyGaze12.

    Concepts that the code does not contain come last.
    """
    return RELEASED.index(name) if name in RELEASED else len(RELEASED)


def fit_by_scheme(bank: ConceptBank, data: FoldData) -> ConceptBank:
    """Return vectors; tolerances or planes are chosen over the folds of a published file.

    The settings are `C` and `best_of_folds` (see `ConceptBank`).

    Args:
        bank: The settings of the vectors.
        data: The data of the fold, with findable concepts only.
    """
    if bank.C == OVER_FOLDS:
        bank = replace(bank, C=_best_tolerances(bank, data))
    if bank.best_of_folds:
        return _best_of_folds(*_without_each_fold(bank, data))
    return bank.fit_on(data, data.concept_rows)


def _best_tolerances(bank: ConceptBank, data: FoldData) -> dict[str, float]:
    """Return for each concept the tolerance with the best mean F1 over folds."""
    mean_scores = []
    for tolerance in TOLERANCES:
        _, scores = _without_each_fold(replace(bank, C=tolerance), data)
        mean_scores.append(scores.mean(axis=0))
    best = np.argmax(mean_scores, axis=0).tolist()
    tolerances = [TOLERANCES[number] for number in best]
    return dict(zip(data.concepts.names, tolerances, strict=True))


def _without_each_fold(
    bank: ConceptBank, data: FoldData
) -> tuple[list[ConceptBank], Floats]:
    """Return for each fold a bank that is fitted without it, and the F1 of this bank in the fold.

    The F1 has one row per fold and one column per concept.
    """
    assert data.file_folds is not None
    rows = data.concept_rows
    folds = data.file_folds[rows]
    banks = []
    scores = []
    for fold in np.unique(folds):
        without = bank.fit_on(data, rows[folds != fold])
        tested = rows[folds == fold]
        targets = data.concepts.targets[bank.against][tested]
        is_true = targets == 1
        margins = without.margins(data.rows.machines.X[tested])
        is_called = (margins > 0) & (targets >= 0)
        n = np.maximum(is_true.sum(axis=0) + is_called.sum(axis=0), 1)
        scores.append(2 * (is_true & is_called).sum(axis=0) / n)
        banks.append(without)
    return banks, np.array(scores)


def _best_of_folds(banks: Sequence[ConceptBank], scores: Floats) -> ConceptBank:
    """Return for each concept the vector with the best score; for a tie, that of the first bank."""
    best_bank = banks[0]
    for column, best in enumerate(np.argmax(scores, axis=0)):
        for name in ("coef_", "intercept_", "C_", "length_"):
            getattr(best_bank, name)[column] = getattr(banks[best], name)[column]
    return best_bank
