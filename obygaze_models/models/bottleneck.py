"""Concept bottlenecks: from features to concept margins to the task, with an optional residual."""

from collections.abc import Mapping
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
)
from obygaze_models.models.concepts import (
    ConceptBank,
    cross_fit_parts,
    cross_fitted_margins,
)
from obygaze_models.models.estimator import Classifier
from obygaze_models.models.fold_data import FoldData, InnerScores
from obygaze_models.models.heads import Head, LogisticHead
from obygaze_models.models.registry import RESIDUAL
from obygaze_models.models.sentences import bank_from_sentences


@dataclass(eq=False)
class ResidualHead(Head):
    """Logistic regression on features, added to a given logit (PCBM-h).

    `fit` receives the logit of the concepts as `groups`, and does not change it. The problem is
    convex. `share_` is the variance of the logits of the residual, divided by the sum of this
    variance and the variance of the logits of the concepts.
    """

    C: float = 0.01

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        from scipy.optimize import minimize
        from scipy.special import expit

        base = np.zeros(len(X)) if groups is None else groups
        signs = np.where(codes == 1, 1.0, -1.0)
        mean = X.mean(axis=0)
        Z = X - mean  # centred, for faster convergence

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
        """Return the logit of the second class for each row, plus `offset` if it is given.

        The logit is that of the residual model, which reads the features and not the concepts.
        """
        of_rest: Floats = self._check(X) @ self.coef_ + self.intercept_
        return of_rest if offset is None else of_rest + offset


@dataclass(eq=False)
class Bottleneck(Classifier):
    """Concept vectors and a head on their margins, optionally with a residual.

    The rows are divided into parts, and the margins of a part are computed with vectors that were
    fitted without this part. The head is fitted on these cross-fitted margins, because in-sample
    margins are better than margins of new rows. A part contains whole films if groups are given.
    `cross_fit` is the number of parts; with 0, margins are in-sample, as in the released code of
    ObyGaze12. By default, `bank` is a `ConceptBank()` and `head` is a `LogisticHead()`. If `texts`
    is the path of a file of sentences, the vectors are not fitted: they are computed from the text
    embeddings of the sentences.
    """

    bank: ConceptBank | None = None
    head: Any = None
    _: KW_ONLY
    residual: ResidualHead | None = None
    cross_fit: int = 5
    texts: str = ""

    def part(self, name: str) -> Any:
        """Return the unfitted estimator that is the parameter `name`, or its default."""
        part = super().part(name)
        defaults = {"bank": ConceptBank, "head": LogisticHead}
        return defaults[name]() if part is None and name in defaults else part

    @property
    def reads_concepts(self) -> bool:
        """Whether vectors are fitted on rows, and not taken from sentences."""
        return not self.texts

    @property
    def needs_products(self) -> bool:
        """Whether the fit uses dot products of rows, as vectors of unscaled rows do."""
        return self.reads_concepts and not self.part("bank").scaled

    @property
    def facts(self) -> Mapping[str, Any]:
        """`residual_share` (`ResidualHead.share_`); empty without a residual."""
        if self.residual is None:
            return {}
        return {"residual_share": self.residual_.share_}

    def with_own_scaling(self) -> Self:
        """Return a bottleneck whose vectors and residual are fitted on scaled rows."""
        return replace(self, bank=replace(self.part("bank"), scaled=True))

    def fit_fold(self, data: FoldData) -> Self:
        """Fit the concept vectors, and the head and the residual on the training rows."""
        rows = data.train
        found = self._compute_margins(data)
        margins = found.of_rows[rows]
        y = data.y[rows]
        films = data.films[rows]
        self.bank_ = found.bank
        self.n_features_in_ = found.bank.n_features_in_
        self.head_ = deepcopy(self.part("head")).fit(margins, y, groups=films)
        self.classes_ = self.head_.classes_
        if self.residual is not None:
            if RESIDUAL in self.bank_.concepts_:
                raise FixTraining(
                    f"a concept cannot have the name {RESIDUAL!r}, which is a part of the model"
                )
            X = data.rows.machines.X[rows]
            self._fit_residual(X, y, self._logit(margins))
        return self

    def left_out_scores(self, data: FoldData) -> InnerScores | None:
        """Return cross-validated scores of the head, or None if unavailable.

        Scores are available if margins are cross-fitted and there is no residual. A residual reads
        the features, so it would have to be fitted again for each part.
        """
        if self.residual is not None or self.cross_fit < 2:
            return None
        margins = self._compute_margins(data).of_rows

        def score(train: Ints, rows: Ints) -> Floats:
            head = deepcopy(self.part("head"))
            head.fit(margins[train], data.y[train], groups=data.films[train])
            return np.asarray(head.predict_proba(margins[rows])[:, 1])

        scores = data.inner_scores(score)
        return scores if len(scores.y) else None

    def _compute_margins(self, data: FoldData) -> "_Margins":
        """Return the vectors and the margins of every row; they do not depend on the head."""
        if self.texts:
            bank = bank_from_sentences(data.sentences[self.texts])
            return _Margins(bank, bank.margins(data.rows.machines.X))
        unfitted: ConceptBank = self.part("bank")

        def find() -> _Margins:
            bank = unfitted.fit_fold(data)
            rows = data.concept_rows
            groups = data.concept_groups
            seed = unfitted.random_state
            parts = cross_fit_parts(rows, groups, self.cross_fit, seed)
            return _Margins(bank, cross_fitted_margins(bank, data, parts))

        key = ("margins", self.cross_fit, *unfitted.key(data))
        found: _Margins = data.rows.memo.get(key, find)
        return found

    def _fit_residual(self, X: Floats, y: NDArray[Any], offset: Floats) -> None:
        """Fit the residual on scaled rows if the vectors were fitted on scaled rows.

        The fitted residual always reads unscaled rows.
        """
        residual = deepcopy(self.residual)
        assert residual is not None
        if not self.part("bank").scaled:
            self.residual_ = residual.fit(X, y, offset)
            return
        scaling = Scaling.of(X)
        self.residual_ = residual.fit(scaling.scale(X), y, offset)
        of_scaled = residual.coef_, residual.intercept_
        residual.coef_, residual.intercept_ = scaling.unscale_plane(*of_scaled)

    def margins(self, X: Any) -> Floats:
        """Return the margin of each row for each concept."""
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
        """Return a base, and a column of contributions for each concept.

        With a residual, the last column contains its contributions.
        """
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
                hint="use a LogisticHead",
            )
        return np.asarray(self.head_.decision_function(margins))


@dataclass(frozen=True, eq=False)
class _Margins:
    """Concept vectors, and the margins of every row."""

    bank: ConceptBank
    of_rows: Floats

    @property
    def n_bytes(self) -> int:
        return int(self.of_rows.nbytes)
