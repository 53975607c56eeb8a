"""Concept vectors: the direction in feature space that separates clips with a concept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from obygaze_models.evaluation.metrics import average_precision
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.common import (
    Bools,
    FixTraining,
    Floats,
    Ints,
    balanced_weights,
    one_thread,
    total_variance,
)
from obygaze_models.models.estimator import (
    Transformer,
    cached,
    check_features,
    check_training_rows,
    groups_of_rows,
    unfitted,
    warn_without_groups,
)
from obygaze_models.models.examples import Against, concept_columns
from obygaze_models.models.fold_data import INNER_FOLDS, has_both_classes, inner_folds
from obygaze_models.models.linear_solvers import Machines, central_bias, machines_on
from obygaze_models.models.parameters import InFile, Names, Positive, Seed, Solver
from obygaze_models.models.scaling import Scaling

Tolerance = Annotated[
    Literal["published", "inner", "folds"]
    | Positive
    | Annotated[dict[str, Positive], Meta(min_length=1)],
    Meta(
        description="a number, above 0, a table of such numbers by concept, or one of"
        " published, inner, folds"
    ),
]
Balance = Annotated[
    Literal["weights", "subsample"] | None,
    Meta(description="weights, subsample or None"),
    InFile(Literal["weights", "subsample", "none"]),
]

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


@dataclass(frozen=True, eq=False)
class Examples:
    """The examples of concepts: rows, targets with a column per concept, groups and folds."""

    machines: Machines
    targets: Ints
    groups: NDArray[Any] | None = None
    folds: NDArray[Any] | None = None


@dataclass(eq=False)
class CAV(Transformer):
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

    `against` states which clips a run takes as negative examples. With `scaled`, planes are fitted
    on scaled rows, and then converted to planes of unscaled rows. Two settings need the folds of a
    published file. If `C` is "folds", it is the tolerance with the best mean F1 over these folds.
    With `best_of_folds`, one plane is fitted without each fold and tested on this fold, and the
    plane with the best F1 is kept. `solver` is that of `SVMProbe`. With `memory`, such as a
    `joblib.Memory`, equal fits are computed once.
    """

    concepts: Names = None
    _: KW_ONLY
    C: Tolerance = "inner"
    balance: Balance = "weights"
    unit_norm: bool = True
    random_state: Seed = 0
    against: Against = "absent"
    scaled: bool = False
    best_of_folds: bool = False
    solver: Solver = "auto"
    memory: Any = None

    def fit(self, X: Any, concepts: Any, groups: Any = None, folds: Any = None) -> Self:
        """Fit the plane of each concept on the rows of X.

        Args:
            X: One row of numbers for each clip.
            concepts: A column per concept: 1 present, 0 absent, -1 not used.
            groups: The group of each row, such as its film, for the inner folds.
            folds: The fold of each row, for `C="folds"` and `best_of_folds`.
        """
        rows = check_training_rows(self, X)
        targets = concept_columns(concepts, len(rows))
        groups = groups_of_rows(groups, len(rows))
        folds = groups_of_rows(folds, len(rows), "folds")
        if groups is None and self.C == "inner":
            warn_without_groups(self, "the tolerance of each concept", depth=3)
        find = self.cached(fit_bank)
        fitted = vars(find(unfitted(self), rows, targets, groups, folds))
        vars(self).update({name: fitted[name] for name in fitted if name.endswith("_")})
        return self

    def cached(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose results `memory` remembers."""
        return cached(self.memory, function)

    @property
    def n_bytes(self) -> int:
        """The size of the vectors of all concepts, in bytes."""
        return int(self.coef_.nbytes)

    def fit_on(self, examples: Examples, rows: Ints) -> CAV:
        """Return the planes of all concepts of the examples, fitted on some rows."""
        machines, targets, groups = examples.machines, examples.targets, examples.groups
        bank = replace(self)
        if not self.scaled:
            return bank.fit_rows(machines, targets, rows, groups)
        X = machines.X[rows]
        scaling = Scaling().fit(X)
        on_scaled = type(machines)(scaling.scale(X))
        groups = None if groups is None else groups[rows]
        bank.fit_rows(on_scaled, targets[rows], np.arange(len(rows)), groups)
        bank.coef_, bank.intercept_ = scaling.unscale_plane(bank.coef_, bank.intercept_)
        return bank

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
        names = self.concepts
        if names is None:
            names = [f"concept{number}" for number in range(n_concepts)]
        if len(names) != n_concepts or len(set(names)) != n_concepts:
            raise FixTraining(
                f"concepts must name each of {n_concepts} columns once, got"
                f" {', '.join(names)}"
            )
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

    def transform_rows(self, X: Any) -> Floats:
        """Return the margin of each row to each concept's plane."""
        return self.margins(check_features(self, X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the concepts, which are the columns that `transform` returns."""
        return np.asarray(self.concepts_, dtype=object)

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


def fit_bank(bank: CAV, X: Floats, targets: Ints, groups: Any, folds: Any) -> CAV:
    """Return the fitted vectors of an unfitted bank on all rows."""
    machines = bank.cached(machines_on)(X, bank.solver)
    examples = Examples(machines, targets, groups, folds)
    if folds is None and bank.best_of_folds:
        raise FixTraining("best_of_folds needs the folds of a published file")
    if folds is not None:
        return fit_by_scheme(bank, examples)
    return bank.fit_on(examples, np.arange(len(X)))


def subsample(positive: Bools, seed: list[int]) -> Ints:
    """Return all rows of the smaller class, and a random sample of as many rows of the other."""
    rng = np.random.default_rng(seed)
    sides = [np.flatnonzero(positive), np.flatnonzero(~positive)]
    n_kept = min(len(side) for side in sides)
    return np.sort(np.concatenate([rng.permutation(side)[:n_kept] for side in sides]))


def list_tolerances(bank: CAV) -> dict[str, float]:
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
    bank: CAV, examples: Examples, parts: Sequence[Ints]
) -> Floats:
    """Return the margins of every row; the margins of a part are from vectors fitted without it.

    In-sample margins would be better than margins of new rows. If the rows outside a part have
    examples of only one class of any concept, all margins of this part are in-sample. Rows that are
    in no part have the margins of `bank`.

    Args:
        bank: The vectors that were fitted on all parts. The vectors that are fitted without a part
            get the tolerances of these vectors.
        examples: The rows and their targets.
        parts: Parts of the rows, from `cross_fit_parts`.
    """
    X = examples.machines.X
    margins = bank.margins(X)
    settled = replace(bank, C=list_tolerances(bank), concepts=bank.concepts_.tolist())
    for part in parts:
        others = np.setdiff1d(np.arange(len(X)), part)
        has_examples = [
            {0, 1} <= set(column.tolist()) for column in examples.targets[others].T
        ]
        if all(has_examples):
            margins[part] = settled.fit_on(examples, others).margins(X[part])
    return margins


# --- Choices over the folds of a published file ---


def released_rank(name: str) -> int:
    """Return the position of a concept in the released code of ObyGaze12.

    Concepts that the code does not contain come last.
    """
    return RELEASED.index(name) if name in RELEASED else len(RELEASED)


def fit_by_scheme(bank: CAV, examples: Examples) -> CAV:
    """Return vectors whose tolerances or planes are chosen over the folds of the examples.

    The settings are `C` and `best_of_folds` (see `CAV`).
    """
    if bank.C == OVER_FOLDS:
        bank = replace(bank, C=_best_tolerances(bank, examples))
    if bank.best_of_folds:
        return _best_of_folds(*_without_each_fold(bank, examples))
    return bank.fit_on(examples, np.arange(len(examples.targets)))


def _best_tolerances(bank: CAV, examples: Examples) -> dict[str, float]:
    """Return for each concept the tolerance with the best mean F1 over folds."""
    mean_scores = []
    for tolerance in TOLERANCES:
        banks, scores = _without_each_fold(replace(bank, C=tolerance), examples)
        mean_scores.append(scores.mean(axis=0))
    best = np.argmax(mean_scores, axis=0).tolist()
    tolerances = [TOLERANCES[number] for number in best]
    return dict(zip(banks[0].concepts_.tolist(), tolerances, strict=True))


def _without_each_fold(bank: CAV, examples: Examples) -> tuple[list[CAV], Floats]:
    """Return for each fold a bank that is fitted without it, and the F1 of this bank in the fold.

    The F1 has one row per fold and one column per concept.
    """
    assert examples.folds is not None
    folds = examples.folds
    banks = []
    scores = []
    for fold in np.unique(folds):
        without = bank.fit_on(examples, np.flatnonzero(folds != fold))
        tested = np.flatnonzero(folds == fold)
        targets = examples.targets[tested]
        is_true = targets == 1
        margins = without.margins(examples.machines.X[tested])
        is_called = (margins > 0) & (targets >= 0)
        n = np.maximum(is_true.sum(axis=0) + is_called.sum(axis=0), 1)
        scores.append(2 * (is_true & is_called).sum(axis=0) / n)
        banks.append(without)
    return banks, np.array(scores)


def _best_of_folds(banks: Sequence[CAV], scores: Floats) -> CAV:
    """Return for each concept the vector with the best score; for a tie, that of the first bank."""
    best_bank = banks[0]
    for column, best in enumerate(np.argmax(scores, axis=0)):
        for name in ("coef_", "intercept_", "C_", "length_"):
            getattr(best_bank, name)[column] = getattr(banks[best], name)[column]
    return best_bank
