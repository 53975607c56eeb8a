"""Baselines: predictions without video.

`random`, `all_positive` and `prevalence` ignore the clip. `film_prior` uses the film of the clip,
and `neighbour` uses the film and the scene. Annotations of neighbouring scenes are similar.
Therefore, `neighbour` scores as high as the published models on splits that are not grouped by
film. `oracle` uses the true concepts; it is a reference for bottlenecks over these concepts.

Each baseline takes the training clips (film and scene, or concepts) and their classes, and returns
a function that scores clips.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from obygaze_models.models.common import Bools, Floats

Score = Callable[[Floats], Floats]
Baseline = Callable[[Floats, Bools], Score]


def film_and_scene(films: ArrayLike, scenes: ArrayLike) -> Floats:
    """Return the film number and the scene of each clip, as two columns.

    Films are numbered over the whole table, so compute this once and then select rows.
    """
    _, codes = np.unique(np.asarray(films), return_inverse=True)
    return np.column_stack([codes, np.asarray(scenes)]).astype(np.float64)


def random(X: Floats, positive: Bools) -> Score:
    """Give every clip the same score.

    AP and AUC of equal scores are means over all orders of the clips.
    """
    return lambda rows: np.zeros(len(rows))


def all_positive(X: Floats, positive: Bools) -> Score:
    """Classify every clip as positive."""
    return lambda rows: np.ones(len(rows))


def prevalence(X: Floats, positive: Bools) -> Score:
    """Give every clip the share of positives in training: the best constant probability."""
    share = positive.mean()
    return lambda rows: np.full(len(rows), share)


def film_prior(X: Floats, positive: Bools) -> Score:
    """Give every clip the share of positives among the training clips of its film.

    The first column of X is the film. Each film gets one additional clip, whose label is the share
    of positives among all training clips. Therefore, the score of a film with a single clip is
    neither 0 nor 1. A film without training clips gets the share among all training clips.
    """
    overall = positive.mean()
    films, codes = np.unique(X[:, 0], return_inverse=True)
    n_clips = np.bincount(codes)
    shares = (np.bincount(codes, weights=positive) + overall) / (n_clips + 1)

    def score(rows: Floats) -> Floats:
        at = np.clip(np.searchsorted(films, rows[:, 0]), 0, films.size - 1)
        return np.asarray(np.where(films[at] == rows[:, 0], shares[at], overall))

    return score


def neighbour(X: Floats, positive: Bools) -> Score:
    """Give every clip the mean label of the training clips of its film; near scenes weigh more.

    X has the columns of `film_and_scene`. The weight of a training clip is `exp(-d / 2)`, where d
    is the difference of the two scene numbers. A film without training clips gets the share of
    positives among all training clips.
    """
    labels = positive.astype(np.float64)

    def score(rows: Floats) -> Floats:
        probabilities = np.full(len(rows), positive.mean())
        for film in np.unique(rows[:, 0]):
            of_film = rows[:, 0] == film
            trained = X[:, 0] == film
            if trained.any():
                apart = np.abs(rows[of_film, 1][:, None] - X[trained, 1][None, :])
                # Distances are relative to the nearest clip, so that not all weights underflow.
                votes = np.exp(-(apart - apart.min(axis=1, keepdims=True)) / 2)
                shares = votes @ labels[trained] / votes.sum(axis=1)
                probabilities[of_film] = np.clip(shares, 0.0, 1.0)
        return probabilities

    return score


def oracle(X: Floats, positive: Bools) -> Score:
    """Fit a logistic regression on the true concepts (0/1 columns), as a reference for bottlenecks.

    Classes are weighted equally. A model can still be better than this reference: in F1, because
    the threshold is not tuned here, and in all metrics, if the video contains information that the
    concepts do not contain.
    """
    # Imported here, because the other baselines do not need scikit-learn.
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(class_weight="balanced", max_iter=1000)
    model.fit(X, positive.astype(np.int64))
    return lambda rows: np.asarray(model.predict_proba(rows)[:, 1])


BY_NAME: dict[str, Baseline] = {
    "random": random,
    "all_positive": all_positive,
    "prevalence": prevalence,
    "film_prior": film_prior,
    "neighbour": neighbour,
    "oracle": oracle,
}
