"""What concepts leave unsaid: a linear rest on the features, added to a bottleneck's logit."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from obygaze_models.models.ground import FixTraining, Floats, encode_two_classes, one_thread
from obygaze_models.models.state import Savable


class ResidualHead(Savable, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Logistic regression on features with a given logit as its starting point (PCBM-h).

    The concepts' logit stays as it is; the rest is convex, so it has one answer. `share_` is the
    part of the spread of logits that the rest makes: var(rest) / (var(rest) + var(concepts)).
    """

    fitted: ClassVar[tuple[str, ...]] = ("classes_", "coef_", "intercept_", "share_")

    def __init__(self, C: float = 0.01) -> None:
        self.C = C

    def fit(self, X: Any, y: Any, offset: Any = None) -> ResidualHead:
        """Learn what the features add to `offset`, one logit a row (none: 0)."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = encode_two_classes(y, type(self).__name__)
        base = _offset(offset, len(X))
        signs = np.where(codes == 1, 1.0, -1.0)
        with one_thread():
            self.coef_, self.intercept_ = _convex_rest(X, signs, base, self.C)
        rest = float((X @ self.coef_).var())
        self.share_ = rest / (rest + float(base.var())) if rest > 0 else 0.0
        return self

    def decision_function(self, X: Any, offset: Any = None) -> Floats:
        """The logit of the second class for each row: concepts and rest."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        logit: Floats = _offset(offset, len(X)) + X @ self.coef_ + self.intercept_
        return logit

    def predict_proba(self, X: Any, offset: Any = None) -> Floats:
        """The probability of both classes for each row."""
        logit = self.decision_function(X, offset)
        return np.stack([expit(-logit), expit(logit)], axis=1)

    def predict(self, X: Any, offset: Any = None) -> NDArray[Any]:
        """The more probable class of each row."""
        codes = (self.decision_function(X, offset) > 0).astype(np.int64)
        chosen: NDArray[Any] = self.classes_[codes]
        return chosen

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _offset(offset: Any, n_rows: int) -> Floats:
    if offset is None:
        return np.zeros(n_rows)
    base = np.asarray(offset, dtype=np.float64)
    if base.shape != (n_rows,):
        raise FixTraining(f"{n_rows} rows of features, offsets of shape {base.shape}")
    return base


def _convex_rest(X: Floats, signs: Floats, base: Floats, C: float) -> tuple[Floats, float]:
    mean = X.mean(axis=0)
    Z = X - mean  # centred, so that the intercept does not fight the weights

    def loss(free: Floats) -> tuple[float, Floats]:
        coef, intercept = free[:-1], free[-1]
        pull = signs * (base + Z @ coef + intercept)
        slope = -signs * expit(-pull)
        value = np.logaddexp(0, -pull).sum() + coef @ coef / (2 * C)
        return float(value), np.append(Z.T @ slope + coef / C, slope.sum())

    found = minimize(
        loss,
        np.zeros(X.shape[1] + 1),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-12, "gtol": 1e-6},
    )
    return found.x[:-1], float(found.x[-1] - mean @ found.x[:-1])
