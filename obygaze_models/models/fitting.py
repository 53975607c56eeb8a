"""Fit estimators, choose settings and compute inner scores, in the same way for all model types."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from obygaze_models.evaluation.metrics import average_precision
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.common import FixTraining, Floats, Ints
from obygaze_models.models.fold_data import FoldData, InnerScores, check_classes

NO_SETTING = "too few training films, clips or concepts to choose a setting of a grid"


def fit(estimator: Any, data: FoldData) -> Any:
    """Return a fitted copy of an estimator; raise `FixTraining` if it cannot be fitted.

    Args:
        estimator: An estimator from `registry.build`; it is not changed.
        data: The data of the fold.
    """
    (fitted,) = fit_each(estimator, [data])
    return fitted


def fit_each(estimator: Any, folds: Sequence[FoldData]) -> list[Any]:
    """Return one fit per fold; the folds differ in their validation rows only."""
    check_classes(folds[0].y[folds[0].train])
    fits: list[Any] = estimator.fit_folds(folds)
    return fits


def fit_best(
    options: Sequence[Any], folds: Sequence[FoldData]
) -> list[tuple[int, Any]]:
    """Return for each fold the index of the best option, and its fit.

    The best option has the largest mean average precision over inner splits.
    """
    if len(options) == 1:
        return [(0, fitted) for fitted in fit_each(options[0], folds)]
    return [_best(options, data) for data in folds]


def _best(options: Sequence[Any], data: FoldData) -> tuple[int, Any]:
    if data.can_validate:
        return _best_on_validation(options, data)
    precisions = []
    for train, rows in data.inner_splits():
        inside = data.inside(train, rows)
        of_options = []
        for option in options:
            try:
                of_options.append(_precision(fit(option, inside), data, rows))
            except FixTraining:
                of_options.append(-np.inf)
        # Skip a split in which no option can be fitted, for example without examples of a concept.
        if max(of_options) >= 0:
            precisions.append(of_options)
    if not precisions:
        raise FixTraining(NO_SETTING)
    best = int(np.argmax(np.mean(precisions, axis=0)))
    return best, fit(options[best], data)


def _best_on_validation(options: Sequence[Any], data: FoldData) -> tuple[int, Any]:
    """Return the index and the fit of the best option; skip options that cannot be fitted."""
    fits: dict[int, Any] = {}
    for number, option in enumerate(options):
        try:
            fits[number] = fit(option, data)
        except FixTraining:
            if number == len(options) - 1 and not fits:
                raise
    rows = data.validation
    best = max(fits, key=lambda number: _precision(fits[number], data, rows))
    return best, fits[best]


def _precision(fitted: Any, data: FoldData, rows: Ints) -> float:
    scores = score_rows(fitted, data, rows)
    return average_precision(Predictions.of(data.y[rows] == 1, scores))


def gives_probabilities(fitted: Any) -> bool:
    """Return whether the scores of an estimator are probabilities."""
    return hasattr(fitted, "predict_proba")


def decision_threshold(fitted: Any) -> float:
    """Return the score above which a row is classified as positive."""
    return 0.5 if gives_probabilities(fitted) else 0.0


def score_features(fitted: Any, X: Any) -> Floats:
    """Return the score of each row of features."""
    if gives_probabilities(fitted):
        return np.asarray(fitted.predict_proba(X)[:, 1], dtype=np.float64)
    return np.asarray(fitted.decision_function(X), dtype=np.float64)


def score_rows(fitted: Any, data: FoldData, rows: Ints) -> Floats:
    """Return the scores of some rows; equal rows have equal scores."""
    return data.rows.equalize(rows, score_features(fitted, data.rows.X[rows]))


def inner_scores(unfitted: Any, fitted: Any, data: FoldData) -> InnerScores:
    """Return the scores by which a store is chosen; rows are scored by fits without these rows.

    The rows are the validation rows, or the training rows if there are no validation rows.
    """
    rows = data.validation
    if len(rows):
        scores = score_rows(fitted, data, rows)
        return InnerScores(data.y[rows], scores, np.zeros(len(rows), dtype=np.intp))
    known: InnerScores | None = fitted.left_out_scores(data)
    if known is not None:
        return known
    # A published scheme makes only the choices that its publication made.
    if data.file_folds is not None:
        return InnerScores()

    def score_inside(train: Ints, rows: Ints) -> Floats:
        inside = fit(unfitted, data.inside(train, rows))
        return score_features(inside, data.rows.X[rows])

    return data.inner_scores(score_inside)
