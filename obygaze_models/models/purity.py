"""What concept margins carry beyond their concepts: the task itself, other concepts, the film."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from obygaze_models.models.ground import FixTraining, Floats, one_thread


@dataclass(frozen=True)
class TaskGain:
    """Average precision of the task from margins and from the true concepts, out of fold.

    Margins that do better than the truth they stand for carry something else.
    """

    from_margins: float
    from_truth: float
    prevalence: float

    @property
    def gain(self) -> float:
        """What margins know about the task beyond the true concepts."""
        return self.from_margins - self.from_truth


def task_gain(head: Any, margins: Any, has: Any, y: Any, folds: Any) -> TaskGain:
    """Train the same head on margins and on true concepts across the same folds, and compare.

    Margins must be cross-fitted with the same folds, or the comparison flatters them.
    """
    folds, labels = np.asarray(folds), np.asarray(y)
    truth = np.asarray(has, dtype=np.float64)
    classes = np.unique(labels)
    if len(classes) != 2:
        raise FixTraining(f"the task needs two classes; the labels hold {len(classes)}")
    positive = labels == classes[1]
    both = [
        average_precision_score(positive, _out_of_fold(head, inputs, labels, folds))
        for inputs in (np.asarray(margins, dtype=np.float64), truth)
    ]
    return TaskGain(float(both[0]), float(both[1]), float(positive.mean()))


def concept_matrix(margins: Any, targets: Any) -> Floats:
    """AUC of each concept's margin (row) for each concept's presence (column).

    A pure bank has its high values on the diagonal and .5 beside it, except where concepts come
    together in the clips themselves; `co_occurrence` shows how much of that there is. Targets below
    0 take no part; NaN where a concept is in all clips or in none.
    """
    rows, columns = np.asarray(margins, dtype=np.float64), np.asarray(targets, dtype=np.int64)
    table = np.full((rows.shape[1], columns.shape[1]), np.nan)
    for j, column in enumerate(columns.T):
        known = column >= 0
        if len(np.unique(column[known])) == 2:
            for i, margin in enumerate(rows.T):
                table[i, j] = roc_auc_score(column[known], margin[known])
    return table


def co_occurrence(targets: Any) -> Floats:
    """The same matrix for the true concepts: the impurity that the clips themselves have."""
    columns = np.asarray(targets, dtype=np.int64)
    return concept_matrix(np.where(columns < 0, 0, columns), columns)


@dataclass(frozen=True)
class FilmLeak:
    """How well the film can be told from margins, out of fold, against guessing."""

    balanced_accuracy: float
    chance: float
    n_films: int

    @property
    def excess(self) -> float:
        """0 for margins that say nothing about the film, 1 for margins that name it."""
        return (self.balanced_accuracy - self.chance) / (1 - self.chance)


def film_leak(margins: Any, films: Any, *, n_folds: int = 5, seed: int = 0) -> FilmLeak:
    """Tell the film from the margins by logistic regression across random folds."""
    films, rows = np.asarray(films), np.asarray(margins, dtype=np.float64)
    names, counts = np.unique(films, return_counts=True)
    if len(names) < 2 or counts.min() < n_folds:
        raise FixTraining(
            f"to tell films apart there must be at least two, with {n_folds} clips each",
            hint="fewer folds, or without the films that have too few clips",
        )
    model = make_pipeline(
        StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=2000)
    )
    with one_thread():
        guessed = cross_val_predict(
            model, rows, films, cv=StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        )
    accuracy = float(balanced_accuracy_score(films, guessed))
    return FilmLeak(accuracy, 1 / len(names), len(names))


def _out_of_fold(head: Any, X: Floats, y: Any, folds: Any) -> Floats:
    scores = np.empty(len(X))
    for fold in np.unique(folds):
        inside = folds == fold
        model = clone(head).fit(X[~inside], y[~inside])
        scores[inside] = model.predict_proba(X[inside])[:, 1]
    return scores
