"""Logistic regression that is solved, whatever the length of the features it is given."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from obygaze_models.models.ground import Floats, Ints, spread

PRECISE = 1e-8


def logistic(
    X: Floats, codes: Ints, C: float, weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """Coefficients (a row, or one for each of three classes and more) and free intercepts.

    scikit-learn stops where slopes fall below a fixed number. On short features all slopes are
    below it from the start, and on long ones the intercept fights the weights; so it is given rows
    around 0 with a mean squared length of 1, and C to match: the same problem, found exactly.
    """
    mean, scale = X.mean(axis=0), float(np.sqrt(spread(X)))
    model = LogisticRegression(C=C * scale**2, tol=PRECISE, max_iter=10_000)
    model.fit((X - mean) / scale, codes, sample_weight=weights)
    coef: Floats = model.coef_ / scale
    return coef, model.intercept_ - coef @ mean
