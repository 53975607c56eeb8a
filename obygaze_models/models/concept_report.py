"""The quality of concept vectors: ranking, chance, stability, and what else their margins carry.

Margins may carry the task itself (`task_gain`), other concepts (`concept_matrix`) or the film
(`film_leak`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from obygaze_models.evaluation.bootstrap import Estimate, estimate, reuse_inflation
from obygaze_models.evaluation.compare import holm
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.common import Bools, FixTraining, Floats, one_thread
from obygaze_models.models.concepts import concept_columns

METRICS = ("ap", "auc", "f1_binary")


@dataclass(frozen=True)
class ConceptQuality:
    """One concept on clips its vector was not found on: metrics with intervals, and chance.

    `p` is the chance that labels unrelated to the features rank as high; `p_holm` the same with
    Holm's correction for all concepts of the bank.
    """

    concept: str
    n: int
    n_positive: int
    metrics: dict[str, Estimate]
    p: float
    p_holm: float

    @property
    def prevalence(self) -> float:
        """The average precision of a random ranking."""
        return self.n_positive / self.n


def concept_quality(
    margins: Any,
    targets: Any,
    films: Any,
    concepts: Any,
    *,
    n_permutations: int = 999,
    n_replicates: int = 1000,
    seed: int = 0,
    n_folds: int | None = None,
) -> list[ConceptQuality]:
    """Evaluate the margins of each concept; a margin above 0 means that it is present.

    Rows are in the order of the film: permutations shift each film's labels in a circle, so that
    neighbours that share a label stay neighbours, and chance is not taken for less than it is.
    `n_folds` says that the margins of each of so many folds are by vectors found on the others:
    intervals and p allow for it.
    """
    margins, films = np.asarray(margins, dtype=np.float64), np.asarray(films)
    columns, names = concept_columns(targets, len(margins)), [str(name) for name in concepts]
    known = columns >= 0
    p_values = []
    for i, name in enumerate(names):
        rows = known[:, i]
        if len(np.unique(columns[rows, i])) < 2:
            raise FixTraining(
                "clips with the concept and clips without it are both required", where=name
            )
        rng = np.random.default_rng([seed, i])
        positive = columns[rows, i] == 1
        scores, own = margins[rows, i], films[rows]
        if n_folds is None:
            p_values.append(shift_test(scores, positive, own, rng, n_permutations))
        else:
            p_values.append(cross_fitted_shift_test(scores, positive, own, n_folds))
    adjusted = holm(p_values)
    return [
        ConceptQuality(
            name,
            n=int(known[:, i].sum()),
            n_positive=int((columns[:, i] == 1).sum()),
            metrics=estimate(
                Predictions.of(columns[known[:, i], i], margins[known[:, i], i], threshold=0.0),
                films[known[:, i]],
                METRICS,
                n_replicates=n_replicates,
                seed=seed,
                n_folds=n_folds,
            ),
            p=p_values[i],
            p_holm=float(adjusted[i]),
        )
        for i, name in enumerate(names)
    ]


def shift_test(
    scores: Floats,
    positive: Bools,
    films: NDArray[Any],
    rng: np.random.Generator,
    n_permutations: int,
) -> float:
    """Return how often labels that are shifted in a circle within each film get ranks as high.

    This holds for scores that did not learn from these labels. Where the scores of each film are by
    vectors found on the other films, it rejects a true null in .12 of cases at .05.
    """
    ranks = rankdata(scores)
    sums = np.zeros(n_permutations)
    for by_shift in _sums_by_shift(ranks, positive, films):
        sums += by_shift[rng.integers(0, len(by_shift), n_permutations)]
    observed = float(ranks[positive].sum())
    return float((1 + (sums >= observed - 1e-9).sum()) / (1 + n_permutations))


def cross_fitted_shift_test(
    scores: Floats, positive: Bools, films: NDArray[Any], n_folds: int
) -> float:
    """Return the shift test for scores of each fold by vectors that were found on the other folds.

    The mean and the variance over all shifts are exact. The variance is widened for clips that
    both test and train (`reuse_inflation`), and the tail is that of a Gaussian.
    """
    ranks = rankdata(scores)
    by_film = list(_sums_by_shift(ranks, positive, films))
    mean = sum(float(sums.mean()) for sums in by_film)
    variance = reuse_inflation(n_folds) * sum(float(sums.var()) for sums in by_film)
    away = float(ranks[positive].sum()) - mean
    return float(norm.sf(away / variance**0.5)) if variance > 0 else 1.0


def _sums_by_shift(ranks: Floats, positive: Bools, films: NDArray[Any]) -> Iterator[Floats]:
    """For each film the rank sum of its positive clips under every shift of its labels."""
    for film in np.unique(films):
        rows = np.flatnonzero(films == film)
        yield np.array([ranks[rows][np.roll(positive[rows], s)].sum() for s in range(len(rows))])


def cosines(coef: Any) -> Floats:
    """Return how much each concept's direction is that of each other one."""
    vectors = np.asarray(coef, dtype=np.float64)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    likeness: Floats = unit @ unit.T
    return likeness


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
        """What margins add about the task to the true concepts."""
        return self.from_margins - self.from_truth


def task_gain(head: Any, margins: Any, has: Any, y: Any, folds: Any) -> TaskGain:
    """Train the same head on margins and on true concepts across the same folds, and compare.

    Margins must be cross-fitted with the same folds, or the comparison flatters them.
    """
    folds, labels = np.asarray(folds), np.asarray(y)
    truth = np.asarray(has, dtype=np.float64)
    classes = np.unique(labels)
    if len(classes) != 2:
        raise FixTraining(f"y must have two classes, got {len(classes)}")
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
    """Return the same matrix for the true concepts: the impurity that the clips themselves have."""
    columns = np.asarray(targets, dtype=np.int64)
    return concept_matrix(np.where(columns < 0, 0, columns), columns)


@dataclass(frozen=True)
class FilmLeak:
    """How well the film can be predicted from margins, out of fold, against chance."""

    balanced_accuracy: float
    chance: float
    n_films: int

    @property
    def excess(self) -> float:
        """0 for margins without information about the film, 1 for margins that identify it."""
        return (self.balanced_accuracy - self.chance) / (1 - self.chance)


def film_leak(margins: Any, films: Any, *, n_folds: int = 5, seed: int = 0) -> FilmLeak:
    """Predict the film from the margins by logistic regression across random folds."""
    films, rows = np.asarray(films), np.asarray(margins, dtype=np.float64)
    names, counts = np.unique(films, return_counts=True)
    if len(names) < 2 or counts.min() < n_folds:
        raise FixTraining(
            f"film_leak requires at least two films with {n_folds} clips each",
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
