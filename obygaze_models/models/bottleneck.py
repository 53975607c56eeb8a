"""A concept bottleneck: features to concept margins, margins to the task, and nothing beside."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from obygaze_models.models.concepts import ConceptBank, cross_fitted_margins
from obygaze_models.models.ground import FixTraining, Floats, Ints, encode_classes
from obygaze_models.models.heads import LogisticHead
from obygaze_models.models.ordinal import OrdinalHead
from obygaze_models.models.residual import ResidualHead
from obygaze_models.models.state import Savable


class Bottleneck(Savable, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Concept vectors and a head that only sees margins, optionally with a residual beside it.

    The head learns from cross-fitted margins: each row is projected by vectors found without its
    fold (whole films where groups are given), because margins of rows that made the vectors are
    better than those it will meet. `cross_fit=0` projects in sample, as the released code does.
    Without a bank or a head of its own it takes a `ConceptBank()` and a `LogisticHead()`.
    """

    def __init__(
        self,
        bank: ConceptBank | None = None,
        head: Any = None,
        *,
        residual: ResidualHead | None = None,
        cross_fit: int = 5,
    ) -> None:
        self.bank = bank
        self.head = head
        self.residual = residual
        self.cross_fit = cross_fit

    @property
    def fitted(self) -> tuple[str, ...]:  # type: ignore[override]
        """The fitted attributes, the residual among them where there is one."""
        rest = () if self.residual is None else ("residual_",)
        return ("classes_", "bank_", "head_", *rest)

    def part(self, name: str) -> Any:
        """The unfitted estimator of a part."""
        part = super().part(name)
        defaults = {"bank": ConceptBank, "head": LogisticHead}
        return defaults[name]() if part is None and name in defaults else part

    def fit(
        self, X: Any, y: Any, concepts: Any = None, groups: Any = None, rows: Any = None
    ) -> Bottleneck:
        """Find the concepts on all rows, and the task on `rows` (a mask; all).

        `concepts` are targets as in `concept_targets`. Without them each class is its own concept.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        kept = np.ones(len(X), dtype=bool) if rows is None else np.asarray(rows, dtype=bool)
        self.classes_, _ = encode_classes(y[kept])
        targets = _class_concepts(y, self.classes_) if concepts is None else np.asarray(concepts)
        groups = None if groups is None else np.asarray(groups)
        self.bank_ = clone(self.part("bank")).fit(X, targets, groups)
        margins = self._training_margins(X, targets, y, groups)[kept]
        inside = None if groups is None else groups[kept]
        self.head_ = clone(self.part("head")).fit(margins, y[kept], groups=inside)
        if self.residual is not None:
            offset = self._logit(margins)
            self.residual_ = clone(self.residual).fit(X[kept], y[kept], offset=offset)
        return self

    def margins(self, X: Any) -> Floats:
        """The margin of each row to each concept."""
        check_is_fitted(self)
        margins: Floats = self.bank_.transform(validate_data(self, X, reset=False))
        return margins

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class for each row."""
        margins = self.margins(X)
        probabilities: Floats
        if self.residual is None:
            probabilities = self.head_.predict_proba(margins)
        else:
            probabilities = self.residual_.predict_proba(X, offset=self._logit(margins))
        return probabilities

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row; a tie is the earlier class."""
        best = self.predict_proba(X).argmax(axis=1)
        chosen: NDArray[Any] = self.classes_[best]
        return chosen

    def contributions(self, X: Any) -> tuple[float, Floats]:
        """A base, and what each concept adds to it; with a residual, what that adds comes last."""
        margins = self.margins(X)
        base, parts = self.head_.contributions(margins)
        if self.residual is not None:
            rest = self.residual_.decision_function(X)
            parts = np.column_stack([parts, rest])
        return float(base), parts

    def _training_margins(
        self, X: Floats, targets: Ints, y: NDArray[Any], groups: NDArray[Any] | None
    ) -> Floats:
        folds = cross_fit_folds(y, groups, self.cross_fit)
        if folds is None:
            margins: Floats = self.bank_.transform(X)
            return margins
        return cross_fitted_margins(self.part("bank"), X, targets, folds, groups)

    def _logit(self, margins: Floats) -> Floats:
        if not hasattr(self.head_, "decision_function"):
            raise FixTraining(
                f"a residual adds to a logit, and {type(self.head_).__name__} has none",
                hint="LogisticHead, SparseHead or ScorecardHead",
            )
        logit: Floats = self.head_.decision_function(margins)
        return logit

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        ordered = isinstance(self.head, OrdinalHead)
        tags.classifier_tags.multi_class = tags.classifier_tags.poor_score = ordered
        return tags


def cross_fit_folds(y: NDArray[Any], groups: NDArray[Any] | None, n_folds: int) -> Ints | None:
    """A fold number for each row, whole groups together; None where there are too few rows."""
    parts = len(y) if groups is None else len(np.unique(groups))
    n_folds = min(n_folds, parts, int(np.unique(y, return_counts=True)[1].min()))
    if n_folds < 2:
        return None
    splitter = StratifiedKFold if groups is None else StratifiedGroupKFold
    folds = np.empty(len(y), dtype=np.int64)
    for number, (_, rows) in enumerate(splitter(n_folds).split(y, y, groups)):
        folds[rows] = number
    return folds


def _class_concepts(y: NDArray[Any], classes: NDArray[Any]) -> Ints:
    named = classes[1:] if len(classes) == 2 else classes
    targets: Ints = (y[:, None] == named).astype(np.int64)
    return targets
