"""Concept bottlenecks: features to concept margins, margins to the task, and a residual."""

from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from obygaze_models.models.common import (
    FixTraining,
    Floats,
    Ints,
    Scaling,
    draw_seed,
    encode_classes,
)
from obygaze_models.models.concepts import (
    ConceptBank,
    concept_columns,
    cross_fit_parts,
    cross_fitted_margins,
    tolerances_of,
)
from obygaze_models.models.estimator import Classifier
from obygaze_models.models.heads import Head, LogisticHead
from obygaze_models.models.linear_solvers import machines_on


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
        self, X: Any, y: Any, concepts: Any = None, groups: Any = None
    ) -> Self:
        """Find the concepts, and fit the head on cross-fitted margins.

        `concepts` are targets as in `concept_targets`. Without them each class is its own concept.
        """
        X, y = self._check_training(X, y, dtype=np.float64)
        if concepts is None:
            classes, _ = encode_classes(y)
            concepts = y[:, None] == classes[len(classes) == 2 :]
        targets = concept_columns(np.asarray(concepts, dtype=np.int64), len(X))
        films = None if groups is None else np.asarray(groups)
        machines = machines_on(X)
        rows = np.arange(len(X))
        unfitted: ConceptBank = self.part("bank")
        bank = replace(unfitted).fit_rows(machines, targets, rows, films)
        settled = replace(unfitted, C=tolerances_of(bank))
        seed = draw_seed(unfitted.random_state)
        margins = cross_fitted_margins(
            bank,
            machines,
            targets,
            rows,
            cross_fit_parts(rows, films, self.cross_fit, seed),
            lambda others: replace(settled).fit_rows(machines, targets, others, films),
        )
        return self.fit_on_margins(bank, margins, X, y, films)

    def fit_on_margins(
        self,
        bank: ConceptBank,
        margins: Floats,
        X: Floats,
        y: NDArray[Any],
        films: NDArray[Any] | None,
        *,
        scale: bool = False,
    ) -> Self:
        """Take concept vectors that were found, and fit the head, and the residual, on margins.

        Args:
            bank: The vectors.
            margins: The margins of the rows, cross-fitted where the vectors were found on them.
            X: The features of the rows.
            y: The class of each row.
            films: The film of each row.
            scale: Whether the residual is fitted on scaled rows; it reads rows as they are.
        """
        self.bank_ = bank
        self.n_features_in_ = bank.n_features_in_
        self.head_ = deepcopy(self.part("head")).fit(margins, y, groups=films)
        self.classes_ = self.head_.classes_
        if self.residual is None:
            return self
        offset = self._logit(margins)
        residual = deepcopy(self.residual)
        if not scale:
            self.residual_ = residual.fit(X, y, offset=offset)
            return self
        scaling = Scaling.of(X)
        self.residual_ = residual.fit(scaling.scaled(X), y, offset=offset)
        of_scaled = residual.coef_, residual.intercept_
        coef, intercept = scaling.unscaled_plane(*of_scaled)
        residual.coef_ = coef
        residual.intercept_ = intercept
        return self

    def margins(self, X: Any) -> Floats:
        """Return the margin of each row to each concept."""
        rows = self._check(X)
        return np.asarray(self.bank_.transform(rows))

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class for each row."""
        margins = self.margins(X)
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
