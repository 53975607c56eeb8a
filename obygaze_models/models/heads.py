"""Heads of a concept bottleneck, from concept margins to the task: logistic and tree.

`contributions` returns a base and the contribution of each concept. Their sum is the output of the
row: a logit, or the probability of a tree.
"""

import inspect
import math
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import Corrupt
from obygaze_models.models.common import (
    Floats,
    Ints,
    column_scales,
)
from obygaze_models.models.estimator import Classifier
from obygaze_models.models.parameters import InFile, Positive, Seed, Whole1

Penalty = Literal["l1", "l2"]
LIBLINEAR_SEED = 42  # liblinear draws the order in which it visits rows


class Head(Classifier):
    """Base class of the heads with a logit."""

    def predict_proba(self, X: Any, **options: Any) -> Floats:
        """Return the probability of both classes for each row."""
        logit = self.decision_function(X, **options)
        return np.stack([_expit(-logit), _expit(logit)], axis=1)


@dataclass(eq=False)
class LogisticHead(Head):
    """The logistic regression of the ObyGaze paper, on the margins of concept vectors.

    Its solver, liblinear, penalises the intercept as well as the weights.

    With `scaled`, margins are divided by their standard deviation, so that the penalty does not
    depend on the length of the feature vectors; the released code does not scale.
    """

    C: Positive = 0.1
    _: KW_ONLY
    penalty: Penalty = "l2"
    scaled: bool = True

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        scale = column_scales(X) if self.scaled else np.ones(X.shape[1])
        model = liblinear_logistic(self.C, self.penalty)
        model.fit(X / scale, codes)
        self.coef_ = model.coef_[0] / scale
        self.intercept_ = float(model.intercept_[0])
        self.mean_ = X.mean(axis=0)

    def decision_function(self, X: Any) -> Floats:
        """Return the logit of the second class for each row."""
        return np.asarray(self._check(X) @ self.coef_ + self.intercept_)

    def contributions(self, X: Any) -> tuple[float, Floats]:
        """Return the logit at the training mean, and the contribution of each margin."""
        parts: Floats = (self._check(X) - self.mean_) * self.coef_
        return float(self.mean_ @ self.coef_ + self.intercept_), parts


@dataclass(eq=False)
class TreeHead(Classifier):
    """The decision tree of the ObyGaze12 paper, as arrays with one value per node.

    Node 0 is the root, and a leaf has no children. A row goes left if its margin is at most
    `threshold_`.
    """

    max_depth: Annotated[int | None, InFile(Whole1)] = 4
    _: KW_ONLY
    min_samples_leaf: Whole1 = 6
    random_state: Seed = 0

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        from sklearn.tree import DecisionTreeClassifier

        model = DecisionTreeClassifier(
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            random_state=self.random_state,
        )
        tree = model.fit(X, codes).tree_
        self.left_ = tree.children_left.copy()
        self.right_ = tree.children_right.copy()
        self.feature_ = tree.feature.copy()
        self.threshold_ = tree.threshold.copy()
        self.share_ = tree.value[:, 0, 1] / tree.value[:, 0].sum(axis=1)
        self.n_rows_ = tree.n_node_samples.copy()

    def check_state(self) -> None:
        """Raise an error if the loaded attributes are not a valid tree."""
        left, right, feature = (
            np.asarray(a) for a in (self.left_, self.right_, self.feature_)
        )
        nodes = np.arange(len(left))
        inner = left >= 0
        children = np.stack([left, right])[:, inner]
        node_arrays = (right, feature, self.threshold_, self.share_, self.n_rows_)
        if not (
            len(nodes)
            and all(np.shape(array) == left.shape for array in node_arrays)
            and all(array.dtype.kind == "i" for array in (left, right, feature))
            # As in scikit-learn, a child has a larger number than its parent: no cycles.
            and ((children > nodes[inner]) & (children < len(nodes))).all()
            and ((feature[inner] >= 0) & (feature[inner] < self.n_features_in_)).all()
            and np.isfinite(self.threshold_).all()
            and ((self.share_ >= 0) & (self.share_ <= 1)).all()
        ):
            raise Corrupt("the arrays of the saved TreeHead are not a valid tree")

    def predict_proba(self, X: Any) -> Floats:
        """Return for each row the share of each class among the training rows of its leaf."""
        leaves, _ = self._walk(X)
        share = self.share_[leaves]
        return np.stack([1 - share, share], axis=1)

    def contributions(self, X: Any) -> tuple[float, Floats]:
        """Return the share of the second class at the root, and its changes by each concept.

        The change by a concept is the sum of the changes at the splits on this concept, on the way
        of a row from the root to its leaf.
        """
        return float(self.share_[0]), self._walk(X)[1]

    def _walk(self, X: Any) -> tuple[Ints, Floats]:
        rows = self._check(X).astype(np.float32)  # scikit-learn compares in float32
        nodes = np.zeros(len(rows), dtype=np.int64)
        parts = np.zeros(rows.shape)
        inner = np.flatnonzero(self.left_[nodes] >= 0)
        # The loop ends, because a child has a larger number than its parent.
        while len(inner):
            at = nodes[inner]
            feature = self.feature_[at]
            goes_left = rows[inner, feature] <= self.threshold_[at]
            nodes[inner] = np.where(goes_left, self.left_[at], self.right_[at])
            parts[inner, feature] += self.share_[nodes[inner]] - self.share_[at]
            inner = inner[self.left_[nodes[inner]] >= 0]
        return nodes, parts


def liblinear_logistic(C: float, penalty: Penalty) -> Any:
    """Return liblinear's logistic regression, unfitted, for this version of scikit-learn."""
    from sklearn.linear_model import LogisticRegression

    parameter = inspect.signature(LogisticRegression).parameters.get("penalty")
    if parameter is None or parameter.default == "deprecated":
        kind: dict[str, Any] = {"l1_ratio": 1.0 if penalty == "l1" else 0.0}
    else:
        kind = {"penalty": penalty}
    return LogisticRegression(
        C=C, solver="liblinear", max_iter=1000, random_state=LIBLINEAR_SEED, **kind
    )


def _expit(logits: Floats) -> Floats:
    """Return 1 / (1 + exp(-logit)), equal to SciPy's to the bit, without its import."""
    return np.array([_expit_scalar(logit) for logit in logits.tolist()])


def _expit_scalar(logit: float) -> float:
    try:
        return 1 / (1 + math.exp(-logit))
    except OverflowError:
        return 0.0
