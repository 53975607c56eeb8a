"""Concept bottlenecks: from features to concept margins to the task, with an optional residual."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from obygaze_models.models.common import FixTraining, Floats, Ints
from obygaze_models.models.concepts import (
    CAV,
    Examples,
    cross_fit_parts,
    cross_fitted_margins,
    fit_bank,
)
from obygaze_models.models.estimator import (
    Classifier,
    check_parameters,
    check_training_rows,
    groups_of_rows,
    one_for_each_row,
    unfitted,
    warn_without_groups,
)
from obygaze_models.models.examples import concept_columns
from obygaze_models.models.fold_data import Memo
from obygaze_models.models.heads import Head, LogisticHead
from obygaze_models.models.linear_solvers import machines_on
from obygaze_models.models.parameters import Positive, Texts, Whole
from obygaze_models.models.registry import RESIDUAL
from obygaze_models.models.scaling import Scaling
from obygaze_models.models.sentences import bank_from_sentences, sentences_of


@dataclass(eq=False)
class ResidualHead(Head):
    """Logistic regression on features, added to a given logit (PCBM-h).

    `fit` receives the logit of the concepts as `groups`, and does not change it. The problem is
    convex. `share_` is the variance of the logits of the residual, divided by the sum of this
    variance and the variance of the logits of the concepts.
    """

    C: Positive = 0.01

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
class PCBM(Classifier):
    """Concept vectors and a head on their margins, optionally with a residual.

    The rows are divided into parts, and the margins of a part are computed with vectors that were
    fitted without this part. The head is fitted on these cross-fitted margins, because in-sample
    margins are better than margins of new rows. A part contains whole films if groups are given.
    `cross_fit` is the number of parts; with 0, margins are in-sample, as in the released code of
    ObyGaze12. By default, `bank` is a `CAV()` and `head` is a `LogisticHead()`. If `texts`
    is the path of a file of sentences, the vectors are not fitted: they are computed from the text
    embeddings of the sentences. With the `memory` of the bank, bottlenecks with different heads
    share vectors and margins.
    """

    bank: CAV | None = None
    head: Any = None
    _: KW_ONLY
    residual: ResidualHead | None = None
    cross_fit: Whole = 5
    texts: Texts = ""

    def part(self, name: str) -> Any:
        """Return the unfitted estimator that is the parameter `name`, or its default."""
        part = getattr(self, name)
        defaults = {"bank": CAV, "head": LogisticHead}
        return defaults[name]() if part is None and name in defaults else part

    @property
    def facts(self) -> Mapping[str, Any]:
        """`residual_share` (`ResidualHead.share_`); empty without a residual."""
        if self.residual is None:
            return {}
        return {"residual_share": self.residual_.share_}

    def fit(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        concepts: Any = None,
        folds: Any = None,
        labelled: Any = None,
        sentences: Any = None,
    ) -> Self:
        """Fit the concept vectors on all rows, and the head and the residual on labelled rows.

        Args:
            X: One row of numbers for each clip.
            y: The class of each row.
            groups: The group of each row, such as its film; no part splits a group.
            concepts: A column per concept: 1 present, 0 absent, -1 not used. A row of NaN is no
                example of any concept, and no vector is fitted on it.
            folds: The fold of each row, for vectors that are chosen over folds.
            labelled: Whether each row has a class; None: all rows. Rows without a class are only
                examples of concepts.
            sentences: The sentences of each file, by its path, for `texts`. None: the file is read.
        """
        rows = check_training_rows(self, X)
        self._check_parts()
        labels = self._check_classes(X, y)
        if labelled is None:
            labelled = np.ones(len(rows), dtype=np.bool_)
        if self.texts:
            self.bank_ = bank_from_sentences(sentences_of(self.texts, sentences))
            margins = self.bank_.margins(rows)
        else:
            margins = self._fit_bank(rows, concepts, groups, folds)
        rows = rows[labelled]
        margins = margins[labelled]
        labels = labels[labelled]
        self.head_ = unfitted(self.part("head")).fit(margins, labels)
        self.classes_ = self.head_.classes_
        if self.residual is not None:
            if RESIDUAL in self.bank_.concepts_:
                raise FixTraining(
                    f"a concept cannot have the name {RESIDUAL!r}, which is a part of the model"
                )
            self._fit_residual(rows, labels, self._logit(margins))
        return self

    def _check_parts(self) -> None:
        """Raise an error for a bank, a head or a residual that cannot be used."""
        is_bank = isinstance(self.part("bank"), CAV)
        is_head = hasattr(self.part("head"), "predict_proba")
        is_residual = isinstance(self.residual, ResidualHead | None)
        for name, is_part, expected in (
            ("bank", is_bank, "concept vectors such as CAV()"),
            ("head", is_head, "an estimator with predict_proba"),
            ("residual", is_residual, "a ResidualHead() or None"),
        ):
            part = getattr(self, name)
            if not is_part or isinstance(part, type):
                raise FixTraining(f"{name} must be {expected}, got {part!r}")
        check_parameters(self.part("bank"))

    def _fit_bank(self, X: Floats, concepts: Any, groups: Any, folds: Any) -> Floats:
        """Fit the concept vectors, and return the cross-fitted margins of every row."""
        if concepts is None:
            raise FixTraining(
                "a bottleneck needs the concepts of each row",
                hint="use fit(X, y, concepts=C), or texts='FILE' for vectors of sentences",
            )
        one_for_each_row(concepts, len(X), "concepts")
        values = np.asarray(concepts, dtype=np.float64)
        values = values.reshape(len(X), int(np.prod(values.shape[1:])))
        is_example = ~np.isnan(values).all(axis=1)
        targets = concept_columns(values[is_example], int(is_example.sum()))
        of_examples = []
        for name, one in (("groups", groups), ("folds", folds)):
            of_rows = groups_of_rows(one, len(X), name)
            of_examples.append(None if of_rows is None else of_rows[is_example])
        if groups is None and (self.cross_fit > 1 or self.part("bank").C == "inner"):
            warn_without_groups(self, "parts and settings")
        bank = unfitted(self.part("bank"))
        # The vectors and the cross-fitted vectors use the same products of rows.
        bank.memory = Memo() if bank.memory is None else bank.memory
        find = bank.cached(_find)
        found, of_rows = find(
            bank, X[is_example], targets, *of_examples, self.cross_fit
        )
        self.bank_ = found
        margins: Floats = found.margins(X)
        margins[is_example] = of_rows
        return margins

    def _fit_residual(self, X: Floats, y: NDArray[Any], offset: Floats) -> None:
        """Fit the residual on scaled rows if the vectors were fitted on scaled rows.

        The fitted residual always reads unscaled rows.
        """
        residual = unfitted(self.residual)
        if not self.part("bank").scaled:
            self.residual_ = residual.fit(X, y, offset)
            return
        scaling = Scaling().fit(X)
        self.residual_ = residual.fit(scaling.scale(X), y, offset)
        of_scaled = residual.coef_, residual.intercept_
        residual.coef_, residual.intercept_ = scaling.unscale_plane(*of_scaled)

    def margins(self, X: Any) -> Floats:
        """Return the margin of each row for each concept."""
        rows = self._check(X)
        return np.asarray(self.bank_.margins(rows))

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


def _find(
    bank: CAV, X: Floats, targets: Ints, groups: Any, folds: Any, n_parts: int
) -> tuple[CAV, Floats]:
    """Return fitted vectors, and the cross-fitted margins of every row."""
    found = bank.cached(fit_bank)(bank, X, targets, groups, folds)
    machines = bank.cached(machines_on)(X, bank.solver)
    parts = cross_fit_parts(np.arange(len(X)), groups, n_parts, bank.random_state)
    examples = Examples(machines, targets, groups)
    return found, cross_fitted_margins(found, examples, parts)
