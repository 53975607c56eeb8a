"""Concept bottlenecks: features to concept margins, margins to the task, and a residual."""

from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from obygaze_models.models.common import (
    FixTraining,
    Floats,
    Ints,
    encode_classes,
)
from obygaze_models.models.concepts import (
    ConceptBank,
    cross_fit_folds,
    cross_fitted_margins,
)
from obygaze_models.models.estimator import Classifier
from obygaze_models.models.heads import Head, LogisticHead


@dataclass(eq=False, repr=False)
class ResidualHead(Head):
    """Logistic regression on features, added to a given logit (PCBM-h).

    The logit of the concepts is fixed; the problem is convex. `share_` is the share of the variance
    of logits that the features add: var(rest) / (var(rest) + var(concepts)).
    """

    C: float = 0.01

    def fit(self, X: Any, y: Any, offset: Any = None) -> Self:
        """Fit what the features add to `offset`, one logit for each row (None: 0)."""
        return super().fit(X, y, offset)

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        from scipy.optimize import minimize
        from scipy.special import expit

        base = _offset(groups, len(X))
        signs = np.where(codes == 1, 1.0, -1.0)
        mean = X.mean(axis=0)
        Z = X - mean  # centred, so that the fit converges faster

        def loss(free: Floats) -> tuple[float, Floats]:
            coef = free[:-1]
            intercept = free[-1]
            pull = signs * (base + Z @ coef + intercept)
            slope = -signs * expit(-pull)
            value = np.logaddexp(0, -pull).sum() + coef @ coef / (2 * self.C)
            return float(value), np.append(Z.T @ slope + coef / self.C, slope.sum())

        start = np.zeros(X.shape[1] + 1)
        options = {"maxiter": 5000, "ftol": 1e-12, "gtol": 1e-6}
        free = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
        self.coef_ = free[:-1]
        self.intercept_ = float(free[-1] - mean @ free[:-1])
        variance = float((X @ self.coef_).var())
        self.share_ = variance / (variance + float(base.var())) if variance > 0 else 0.0

    def decision_function(self, X: Any, offset: Any = None) -> Floats:
        """Return the logit of the second class for each row: concepts and rest."""
        X = self._check(X)
        logit: Floats = _offset(offset, len(X)) + X @ self.coef_ + self.intercept_
        return logit


@dataclass(eq=False, repr=False)
class Bottleneck(Classifier):
    """Concept vectors and a head on their margins, optionally with a residual.

    The head is fitted on cross-fitted margins: each row is projected on vectors found without its
    fold (whole films where groups are given), because margins of rows that the vectors were found
    on are better than those of new rows. `cross_fit=0` projects in sample, as the released code.
    The defaults are a `ConceptBank()` and a `LogisticHead()`.
    """

    bank: ConceptBank | None = None
    head: Any = None
    _: KW_ONLY
    residual: ResidualHead | None = None
    cross_fit: int = 5

    def part(self, name: str) -> Any:
        """Return the unfitted estimator of a part."""
        part = super().part(name)
        defaults = {"bank": ConceptBank, "head": LogisticHead}
        return defaults[name]() if part is None and name in defaults else part

    def fit(  # type: ignore[override]
        self, X: Any, y: Any, concepts: Any = None, groups: Any = None, rows: Any = None
    ) -> Self:
        """Find the concepts on all rows, and fit the head on `rows` (a mask; all by default).

        `concepts` are targets as in `concept_targets`. Without them each class is its own concept.
        """
        X, y = self._check_training(X, y, dtype=np.float64)
        head_rows = np.ones(len(X), dtype=bool)
        if rows is not None:
            head_rows = np.asarray(rows, dtype=bool)
        self.classes_, _ = encode_classes(y[head_rows])
        if concepts is None:
            concepts = y[:, None] == self.classes_[len(self.classes_) == 2 :]
        targets = np.asarray(concepts, dtype=np.int64)
        bank = self.part("bank")
        groups = None if groups is None else np.asarray(groups)
        self.bank_ = deepcopy(bank).fit(X, targets, groups)
        folds = cross_fit_folds(y, groups, self.cross_fit)
        if folds is None:
            margins = self.bank_.transform(X)
        else:
            margins = cross_fitted_margins(bank, X, targets, folds, groups)
        margins = margins[head_rows]
        inside = None if groups is None else groups[head_rows]
        self.head_ = deepcopy(self.part("head")).fit(
            margins, y[head_rows], groups=inside
        )
        if self.residual is not None:
            offset = self._logit(margins)
            self.residual_ = deepcopy(self.residual).fit(
                X[head_rows], y[head_rows], offset=offset
            )
        return self

    def margins(self, X: Any) -> Floats:
        """Return the margin of each row to each concept."""
        rows = self._check(X)
        return np.asarray(self.bank_.transform(rows))

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class for each row."""
        return self.proba_of_margins(self.margins(X), X)

    def proba_of_margins(self, margins: Floats, X: Any) -> Floats:
        """Return the probability of each class for given margins; X is for the residual."""
        probabilities: Floats
        if self.residual is None:
            probabilities = self.head_.predict_proba(margins)
        else:
            probabilities = self.residual_.predict_proba(X, offset=self._logit(margins))
        return probabilities

    def contributions(self, X: Any) -> tuple[float, Floats]:
        """Return a base, and what each concept (and, as last column, the residual) adds to it."""
        margins = self.margins(X)
        base, parts = self.head_.contributions(margins)
        if self.residual is not None:
            of_residual = self.residual_.decision_function(X)
            parts = np.column_stack([parts, of_residual])
        return float(base), parts

    def _logit(self, margins: Floats) -> Floats:
        if not hasattr(self.head_, "decision_function"):
            raise FixTraining(
                f"a residual requires a head with a logit, got {type(self.head_).__name__}",
                hint="LogisticHead",
            )
        return np.asarray(self.head_.decision_function(margins))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _offset(offset: Any, n_rows: int) -> Floats:
    if offset is None:
        return np.zeros(n_rows)
    base = np.asarray(offset, dtype=np.float64)
    if base.shape != (n_rows,):
        raise FixTraining(
            f"offset must have one logit for each of {n_rows} rows, got shape {base.shape}"
        )
    return base
