"""A fit is one call; choices and scores around it are the same for all kinds."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from obygaze_models.evaluation.metrics import average_precision
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.common import FixTraining, Floats, Ints
from obygaze_models.models.lessons import InnerScores, Lessons, check_classes


def fit(estimator: Any, lessons: Lessons) -> Any:
    """Return an estimator that learned; a `FixTraining` says why that is not possible.

    Args:
        estimator: An estimator that `registry.build` made, which stays as it is.
        lessons: What it learns from.
    """
    (fitted,) = fit_each(estimator, [lessons])
    return fitted


def fit_each(estimator: Any, folds: Sequence[Lessons]) -> list[Any]:
    """Return a fit of each of some lessons that differ in their validation rows only."""
    check_classes(folds[0].y[folds[0].train])
    fits: list[Any] = estimator.learn_each(folds)
    return fits


def fit_best(options: Sequence[Any], folds: Sequence[Lessons]) -> list[tuple[int, Any]]:
    """Return for each of some lessons the number of the best option, and its fit.

    The best one has the largest mean average precision over inner splits.
    """
    if len(options) == 1:
        return [(0, fitted) for fitted in fit_each(options[0], folds)]
    return [_best(options, lessons) for lessons in folds]


def _best(options: Sequence[Any], lessons: Lessons) -> tuple[int, Any]:
    if lessons.can_validate:
        return _best_on_validation(options, lessons)
    precisions = []
    for train, rows in lessons.inner_splits():
        inside = lessons.inside(train, rows)
        of_options = []
        for option in options:
            try:
                of_options.append(_precision(fit(option, inside), lessons, rows))
            except FixTraining:
                of_options.append(-np.inf)
        # Where no option can be fitted, such as for want of a concept, the split counts for none.
        if max(of_options) >= 0:
            precisions.append(of_options)
    best = int(np.argmax(np.mean(precisions, axis=0))) if precisions else 0
    return best, fit(options[best], lessons)


def _best_on_validation(options: Sequence[Any], lessons: Lessons) -> tuple[int, Any]:
    """Return the best of the options that can be fitted."""
    fits: dict[int, Any] = {}
    for number, option in enumerate(options):
        try:
            fits[number] = fit(option, lessons)
        except FixTraining:
            if number == len(options) - 1 and not fits:
                raise
    rows = lessons.validation
    best = max(fits, key=lambda number: _precision(fits[number], lessons, rows))
    return best, fits[best]


def _precision(fitted: Any, lessons: Lessons, rows: Ints) -> float:
    scores = scores_of_rows(fitted, lessons, rows)
    return average_precision(Predictions.of(lessons.y[rows] == 1, scores))


def gives_probabilities(fitted: Any) -> bool:
    """Return whether the scores of an estimator are probabilities."""
    return hasattr(fitted, "predict_proba")


def threshold_of(fitted: Any) -> float:
    """Return the score above which an estimator calls a row positive."""
    return 0.5 if gives_probabilities(fitted) else 0.0


def scores_of(fitted: Any, X: Any) -> Floats:
    """Return the score of each row of features."""
    if gives_probabilities(fitted):
        return np.asarray(fitted.predict_proba(X)[:, 1], dtype=np.float64)
    return np.asarray(fitted.decision_function(X), dtype=np.float64)


def scores_of_rows(fitted: Any, lessons: Lessons, rows: Ints) -> Floats:
    """Return the scores of some rows; equal rows have the same one."""
    return lessons.rows.tied(rows, scores_of(fitted, lessons.rows.X[rows]))


def inner_scores(unfitted: Any, fitted: Any, lessons: Lessons) -> InnerScores:
    """Return scores of rows that did not train, which choose a store.

    They are the validation rows, or the training rows by fits without them.
    """
    rows = lessons.validation
    if len(rows):
        scores = scores_of_rows(fitted, lessons, rows)
        return InnerScores(lessons.y[rows], scores, np.zeros(len(rows), dtype=np.intp))
    known: InnerScores | None = fitted.left_out_scores(lessons)
    if known is not None:
        return known
    # A scheme chooses what its publication chose, and nothing else.
    if lessons.file_folds is not None:
        return InnerScores()

    def score_inside(train: Ints, rows: Ints) -> Floats:
        inside = fit(unfitted, lessons.inside(train, rows))
        return scores_of(inside, lessons.rows.X[rows])

    return lessons.inner_scores(score_inside)
