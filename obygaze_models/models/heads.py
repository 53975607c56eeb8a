"""Heads of a concept bottleneck: from concept margins to the task. The paper's two are here.

Every head explains itself: `contributions` says what each concept adds to a row's answer, so that
base + sum of contributions is the head's own number (a logit, for a tree a probability).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from obygaze_features.core.errors import Corrupt
from obygaze_models.models.ground import (
    Floats,
    Ints,
    draw_seed,
    encode_two_classes,
    one_thread,
    spreads,
)
from obygaze_models.models.paper import SEED, Penalty
from obygaze_models.models.state import Savable


class Head(Savable, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A rule for two classes on concept margins: what all heads share."""

    classes_: NDArray[Any]

    def fit(self, X: Any, y: Any, groups: Any = None) -> Head:
        """Learn from margins; `groups` (films) matter to a head that validates within."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = encode_two_classes(y, type(self).__name__)
        with one_thread():
            self._fit(X, codes, None if groups is None else np.asarray(groups))
        return self

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        raise NotImplementedError

    def predict_proba(self, X: Any) -> Floats:
        """The probability of both classes for each row."""
        raise NotImplementedError

    def contributions(self, X: Any) -> tuple[float, Floats]:
        """A base, and what each concept adds to it for each row."""
        raise NotImplementedError

    def predict(self, X: Any) -> NDArray[Any]:
        """The more probable class of each row; a tie is the first class."""
        p = self.predict_proba(X)
        chosen: NDArray[Any] = self.classes_[(p[:, 1] > p[:, 0]).astype(np.int64)]
        return chosen

    def _check(self, X: Any) -> Floats:
        check_is_fitted(self)
        rows: Floats = validate_data(self, X, dtype=np.float64, reset=False)
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class LinearHead(Head):
    """A weighted sum of margins that is a logit; contributions count from the training mean."""

    fitted: ClassVar[tuple[str, ...]] = ("classes_", "coef_", "intercept_", "mean_")

    coef_: Floats
    intercept_: float
    mean_: Floats

    def decision_function(self, X: Any) -> Floats:
        """The logit of the second class for each row."""
        logit: Floats = self._check(X) @ self.coef_ + self.intercept_
        return logit

    def predict_proba(self, X: Any) -> Floats:
        """The probability of both classes for each row."""
        logit = self.decision_function(X)
        return np.stack([expit(-logit), expit(logit)], axis=1)

    def contributions(self, X: Any) -> tuple[float, Floats]:
        """The logit at the training mean, and what each margin's distance from it adds."""
        parts: Floats = (self._check(X) - self.mean_) * self.coef_
        return float(self.mean_ @ self.coef_ + self.intercept_), parts


class LogisticHead(LinearHead):
    """The paper's logistic regression on margins; its liblinear penalises the intercept too.

    With `scaled` it learns from margins in units of their spread, so that the penalty does not
    depend on how long the features are, which the released code does not do.
    """

    def __init__(self, C: float = 0.1, *, penalty: Penalty = "l2", scaled: bool = False) -> None:
        self.C = C
        self.penalty = penalty
        self.scaled = scaled

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        scale = spreads(X) if self.scaled else np.ones(X.shape[1])
        model = liblinear_logistic(self.C, self.penalty).fit(X / scale, codes)
        self.coef_, self.intercept_ = model.coef_[0] / scale, float(model.intercept_[0])
        self.mean_ = X.mean(axis=0)


class TreeHead(Head):
    """The paper's decision tree, kept as arrays; node 0 is the root and a leaf has no children.

    `threshold_` is in the units of the margins: a row goes left where its margin is at most that.
    """

    fitted: ClassVar[tuple[str, ...]] = (
        *("classes_", "left_", "right_", "feature_", "threshold_", "share_", "n_rows_"),
    )

    def __init__(
        self, max_depth: int | None = 4, *, min_samples_leaf: int = 6, random_state: Any = 0
    ) -> None:
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.random_state = random_state

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        model = DecisionTreeClassifier(
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            random_state=draw_seed(self.random_state),
        )
        tree = model.fit(X, codes).tree_
        self.left_, self.right_ = tree.children_left.copy(), tree.children_right.copy()
        self.feature_, self.threshold_ = tree.feature.copy(), tree.threshold.copy()
        self.share_ = tree.value[:, 0, 1] / tree.value[:, 0].sum(axis=1)
        self.n_rows_ = tree.n_node_samples.copy()

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Set the fitted attributes, if they are those of a tree."""
        super().from_arrays(arrays)
        left, right, asked = (np.asarray(a) for a in (self.left_, self.right_, self.feature_))
        nodes = np.arange(len(left))
        inner = left >= 0
        children = np.stack([left, right])[:, inner]
        rest = (right, asked, self.threshold_, self.share_, self.n_rows_)
        if not (
            len(nodes)
            and all(np.shape(array) == left.shape for array in rest)
            and all(array.dtype.kind == "i" for array in (left, right, asked))
            # As scikit-learn numbers them, a child comes after its parent: no way is endless.
            and ((children > nodes[inner]) & (children < len(nodes))).all()
            and ((asked[inner] >= 0) & (asked[inner] < self.n_features_in_)).all()
            and np.isfinite(self.threshold_).all()
            and ((self.share_ >= 0) & (self.share_ <= 1)).all()
        ):
            raise Corrupt("the arrays of a saved tree are not those of a tree")

    def predict_proba(self, X: Any) -> Floats:
        """The share of both classes in each row's leaf."""
        leaves = self.apply(X)
        share = self.share_[leaves]
        return np.stack([1 - share, share], axis=1)

    def apply(self, X: Any) -> Ints:
        """The leaf of each row."""
        return self._walk(X)[0]

    def contributions(self, X: Any) -> tuple[float, Floats]:
        """The share at the root, and what each concept's questions on the way change of it."""
        return float(self.share_[0]), self._walk(X)[1]

    def _walk(self, X: Any) -> tuple[Ints, Floats]:
        rows = self._check(X).astype(np.float32)  # as scikit-learn compares with thresholds
        nodes = np.zeros(len(rows), dtype=np.int64)
        parts = np.zeros(rows.shape)
        inner = np.flatnonzero(self.left_[nodes] >= 0)
        for _ in range(len(self.left_)):  # a way through a tree is shorter than the tree
            if not len(inner):
                return nodes, parts
            at = nodes[inner]
            asked = self.feature_[at]
            goes_left = rows[inner, asked] <= self.threshold_[at]
            nodes[inner] = np.where(goes_left, self.left_[at], self.right_[at])
            parts[inner, asked] += self.share_[nodes[inner]] - self.share_[at]
            inner = inner[self.left_[nodes[inner]] >= 0]
        raise ValueError("the tree goes in a circle")


def liblinear_logistic(C: float, penalty: Penalty) -> LogisticRegression:
    """liblinear's logistic regression in the words of the scikit-learn at hand."""
    known = inspect.signature(LogisticRegression).parameters
    if known["penalty"].default == "deprecated" if "penalty" in known else True:
        words: dict[str, Any] = {"l1_ratio": 1.0 if penalty == "l1" else 0.0}
    else:
        words = {"penalty": penalty}
    return LogisticRegression(
        C=C,
        solver="liblinear",
        max_iter=1000,
        random_state=SEED,
        **words,
    )
