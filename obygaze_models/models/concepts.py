"""Concept vectors: for each concept the direction in feature space that clips with it lie along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import ClassifierTags, check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from obygaze_models.models.directions import WITHOUT_TOLERANCE, Task, find_plane
from obygaze_models.models.gram import Gram
from obygaze_models.models.ground import (
    Bools,
    FixTraining,
    Floats,
    Ints,
    draw_seed,
    one_thread,
    spread,
)
from obygaze_models.models.paper import tolerance_of
from obygaze_models.models.state import Savable

Tolerance = float | Mapping[str, float] | Literal["paper", "inner"]

INNER = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # times 1 / spread of the features
OPEN = 0.01  # in units of the decision, of which the margin is 2 wide


class ConceptBank(Savable, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """One plane for each concept; `transform` gives each row's margin to each plane.

    Targets have a column for each concept: 1 has it, 0 lacks it, -1 leaves the row out (see
    `concept_targets`). `C` is one tolerance, one by name, the released code's ("paper"), or the
    best average precision over inner folds ("inner", over whole groups where groups are given) of
    `tolerances`, which by default go with the spread of the features. `balance` is "weights" as in
    the released code, "subsample" as in the paper's text (as many rows without as with, drawn by
    seed), or None. With `unit_norm` a margin is a distance: vector and bias are divided by the
    vector's length, which the released code does not do.
    """

    fitted: ClassVar[tuple[str, ...]] = ("coef_", "intercept_", "C_", "length_", "concepts_")

    def __init__(
        self,
        concepts: Sequence[str] | None = None,
        *,
        method: str = "svm",
        C: Tolerance = "inner",
        tolerances: Sequence[float] | None = None,
        balance: Literal["weights", "subsample"] | None = "weights",
        unit_norm: bool = True,
        inner_folds: int = 3,
        random_state: Any = 0,
    ) -> None:
        self.concepts = concepts
        self.method = method
        self.C = C
        self.tolerances = tolerances
        self.balance = balance
        self.unit_norm = unit_norm
        self.inner_folds = inner_folds
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> ConceptBank:
        """Find the plane of each column of `y` on the rows of X."""
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        return self.fit_rows(Gram(X), concept_columns(y, len(X)), np.arange(len(X)), groups)

    def fit_rows(self, gram: Gram, targets: Ints, rows: Ints, groups: Any = None) -> ConceptBank:
        """The same on some rows of a Gram matrix that other fits share."""
        self.n_features_in_ = gram.X.shape[1]
        self.concepts_ = np.asarray(self._names(targets.shape[1]), dtype=np.str_)
        groups = None if groups is None else np.asarray(groups)
        self.C_, self.length_ = np.empty(len(self.concepts_)), np.empty(len(self.concepts_))
        self.coef_ = np.empty((len(self.concepts_), gram.X.shape[1]))
        self.intercept_ = np.empty(len(self.concepts_))
        with one_thread():
            for column, name in enumerate(self.concepts_):
                known = rows[targets[rows, column] >= 0]
                self._fit_one(column, str(name), gram, known, targets[known, column] == 1, groups)
        return self

    def transform(self, X: Any) -> Floats:
        """The margin of each row to each concept's plane."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        margins: Floats = X @ self.coef_.T + self.intercept_
        return margins

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the concepts."""
        check_is_fitted(self)
        names: NDArray[Any] = self.concepts_.astype(object)
        return names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required, tags.target_tags.multi_output = True, True
        tags.classifier_tags = ClassifierTags(multi_class=False, multi_label=True)
        return tags

    def _names(self, n_concepts: int) -> list[str]:
        if self.concepts is None:
            return [f"concept{i}" for i in range(n_concepts)]
        if len(self.concepts) != n_concepts:
            raise FixTraining(f"{len(self.concepts)} concepts, {n_concepts} columns of targets")
        return list(self.concepts)

    def _fit_one(
        self, column: int, name: str, gram: Gram, rows: Ints, positive: Bools, groups: Any
    ) -> None:
        seed = [draw_seed(self.random_state), column]
        try:
            tolerance = self._tolerance(name, gram, rows, positive, groups, seed)
            task = self._task(gram, rows, positive, tolerance, seed)
            normal, bias = find_plane(self.method, task)
        except FixTraining as error:
            raise FixTraining(error.what, where=f"concept {name}", hint=error.hint) from error
        if self.unit_norm and self.method == "svm":
            bias = settled_bias(task.X @ normal, task.positive, task.weights, bias)
        length = float(np.linalg.norm(normal))
        unit = length if self.unit_norm else 1.0
        self.C_[column], self.length_[column] = tolerance, length
        self.coef_[column], self.intercept_[column] = normal / unit, bias / unit

    def _task(
        self, gram: Gram, rows: Ints, positive: Bools, tolerance: float, seed: list[int]
    ) -> Task:
        if self.balance not in ("weights", "subsample", None):
            raise FixTraining(f"no balance is called {self.balance!r}", hint="weights or subsample")
        if self.balance == "subsample":
            kept = subsample(positive, seed)
            rows, positive = rows[kept], positive[kept]
        balanced = self.balance == "weights"
        return Task(gram, rows, positive, tolerance, balanced, exact=self.unit_norm)

    def _tolerance(
        self,
        name: str,
        gram: Gram,
        rows: Ints,
        positive: Bools,
        groups: NDArray[Any] | None,
        seed: list[int],
    ) -> float:
        if self.method in WITHOUT_TOLERANCE:
            return float("nan")
        if self.C == "paper":
            return tolerance_of(name)
        if isinstance(self.C, Mapping):
            if name not in self.C:
                raise FixTraining("no tolerance C is given for it")
            return float(self.C[name])
        if self.C != "inner":
            return float(self.C)
        offered = self.tolerances
        if offered is None:
            scale = spread(gram.X[rows])
            offered = [step / scale for step in INNER]
        folds = inner_folds(positive, None if groups is None else groups[rows], self.inner_folds)
        if not folds:  # too few rows or films for any validation: the middle of the road
            return float(offered[len(offered) // 2])
        scores = [
            np.mean([self._score(gram, rows, positive, fold, C, seed) for fold in folds])
            for C in offered
        ]
        return float(offered[int(np.argmax(scores))])

    def _score(
        self,
        gram: Gram,
        rows: Ints,
        positive: Bools,
        fold: Bools,
        tolerance: float,
        seed: list[int],
    ) -> float:
        task = self._task(gram, rows[~fold], positive[~fold], tolerance, seed)
        normal, bias = find_plane(self.method, task)
        return float(average_precision_score(positive[fold], gram.X[rows[fold]] @ normal + bias))


def settled_bias(along: Floats, positive: Bools, weights: Floats | None, bias: float) -> float:
    """The bias of a machine, or of the biases it leaves open the one nearest to the middle.

    With a tolerance so small that all rows lie inside the margin (it is 2 wide in units of the
    decision), many biases are as good as another, and rounding picks one. Divided by the length of
    a vector that is then short, it would be hundreds of distances, others for each fold, and no
    head could learn from that. The middle is that between the means of both sides.
    """
    low, high = open_biases(along, positive, np.ones(len(along)) if weights is None else weights)
    if high - low < OPEN:
        return bias
    middle = -float(along[positive].mean() + along[~positive].mean()) / 2
    return min(max(middle, low), high)


def open_biases(along: Floats, positive: Bools, weights: Floats) -> tuple[float, float]:
    """The lowest and the highest bias for which the weighted loss of a machine is least.

    The loss falls while more weight of rows with the concept than without lies inside the margin
    or beyond it, so its slope changes only where a row crosses the margin.
    """
    at = np.where(positive, 1.0, -1.0) - along
    order = np.argsort(at, kind="stable")
    slope = np.cumsum(weights[order]) - weights[positive].sum()
    level = 1e-9 * weights.sum()
    first = int(np.argmax(slope >= -level))
    flat = abs(slope[first]) <= level and first + 1 < len(order)
    return float(at[order[first]]), float(at[order[first + int(flat)]])


def concept_columns(y: Any, n_rows: int) -> Ints:
    """Targets as a column for each concept; one column may come flat."""
    if y is None:
        raise FixTraining("requires y to be passed, but the target y is None")
    targets = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    targets = targets.reshape(len(targets), -1)
    if len(targets) != n_rows:
        raise FixTraining(f"{n_rows} rows of features, {len(targets)} rows of targets")
    left_out = targets == -1
    values = np.unique(targets[~left_out])
    if len(values) > 2:
        raise FixTraining(
            "concept targets are 1 (has it), 0 (lacks it) or -1 (left out); "
            f"they hold {', '.join(str(value) for value in values[:5])}"
        )
    # Any two numbers will do, as for every classifier; the larger one means "has it".
    has_it = targets == (values[-1] if len(values) == 2 else 1)
    return np.where(left_out, -1, has_it.astype(np.int64))


def inner_folds(positive: Bools, groups: NDArray[Any] | None, n_folds: int) -> list[Bools]:
    """Validation rows of each inner fold; a fold that leaves a part with one side falls out."""
    parts = len(positive) if groups is None else len(np.unique(groups))
    if parts < n_folds or min(positive.sum(), (~positive).sum()) < n_folds:
        return []
    splitter = StratifiedKFold if groups is None else StratifiedGroupKFold
    folds = []
    for _, validation in splitter(n_folds).split(positive, positive, groups):
        fold = np.zeros(len(positive), dtype=bool)
        fold[validation] = True
        if all(0 < side.mean() < 1 for side in (positive[fold], positive[~fold])):
            folds.append(fold)
    return folds


def subsample(positive: Bools, seed: list[int]) -> Ints:
    """Rows of a balanced draw: all of the smaller side, as many of the other."""
    rng = np.random.default_rng(seed)
    sides = [np.flatnonzero(positive), np.flatnonzero(~positive)]
    n_kept = min(len(side) for side in sides)
    return np.sort(np.concatenate([rng.permutation(side)[:n_kept] for side in sides]))


def cross_fitted_margins(
    bank: ConceptBank, X: Any, targets: Any, folds: Any, groups: Any = None
) -> Floats:
    """Margins of each row to planes found without its fold: what a head may learn from."""
    gram, folds = Gram(X), np.asarray(folds)
    columns = concept_columns(targets, len(gram.X))
    if len(np.unique(folds)) < 2:
        raise FixTraining("to fit across folds, there must be at least two")
    margins = np.empty(columns.shape)
    for fold in np.unique(folds):
        inside = folds == fold
        part = clone(bank).fit_rows(gram, columns, np.flatnonzero(~inside), groups)
        margins[inside] = gram.X[inside] @ part.coef_.T + part.intercept_
    return margins
