"""Baselines: predictions that do not use the video.

`random`, `all_positive` and `prevalence` use nothing of the clip. `film_prior` uses the film,
`neighbour` also the scene: since annotations of neighbouring scenes are alike, it scores as high as
the published models on any split that is not grouped by film. `oracle` uses the true concepts: it
is the upper bound of a bottleneck over those concepts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput
from obygaze_models.models.common import Bools, Floats, Ints
from obygaze_models.models.estimator import Classifier

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression


def film_and_scene(films: ArrayLike, scenes: ArrayLike) -> Floats:
    """Return the film and scene of each clip as the two columns that the baselines of scenes take.

    Films are numbered over the whole table: make it once and then take the rows of a split.
    """
    names, codes = np.unique(np.asarray(films), return_inverse=True)
    order = np.asarray(scenes, dtype=np.float64)
    if order.shape != codes.shape or names.size == 0:
        raise FixInput(
            f"expected one film and one scene per clip, got {codes.shape} and {order.shape}"
        )
    return np.column_stack([codes.astype(np.float64), order])


class Baseline(Classifier):
    """The base of the baselines: two classes, of which the second is "positive"."""

    two_classes = True
    poor_score = True

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        self.prevalence_ = float(codes.mean())
        self._learn(X, codes == 1)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the probability of both classes for each row."""
        positive = self._positive(self._check(X))
        return np.column_stack([1 - positive, positive])

    def _learn(self, X: Floats, y: Bools) -> None:
        """Fit what is more than the prevalence."""

    def _positive(self, X: Floats) -> Floats:
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class RandomBaseline(Baseline):
    """Gives every clip a random probability: one half of them are called positive."""

    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def _positive(self, X: Floats) -> Floats:
        from sklearn.utils import check_random_state

        return np.asarray(
            1 - check_random_state(self.random_state).uniform(size=len(X))
        )


class AllPositive(Baseline):
    """Calls every clip positive."""

    def _positive(self, X: Floats) -> Floats:
        return np.ones(len(X))


class Prevalence(Baseline):
    """Gives every clip the share of positives in training: the best blind probability."""

    def _positive(self, X: Floats) -> Floats:
        return np.full(len(X), self.prevalence_)


class FilmPrior(Baseline):
    """Gives every clip the share of positives among the training clips of its film.

    The first column of X is the film. One clip of the overall prevalence is added to each film, so
    that a film of one clip is not certain and a film never seen has the overall share.
    """

    def _learn(self, X: Floats, y: Bools) -> None:
        self.films_, codes = np.unique(X[:, 0], return_inverse=True)
        n = np.bincount(codes)
        self.share_ = (np.bincount(codes, weights=y) + self.prevalence_) / (n + 1)

    def _positive(self, X: Floats) -> Floats:
        at = np.clip(np.searchsorted(self.films_, X[:, 0]), 0, self.films_.size - 1)
        return np.asarray(
            np.where(self.films_[at] == X[:, 0], self.share_[at], self.prevalence_)
        )


class Neighbour(Baseline):
    """Averages the labels of the training clips of the same film, weighted by nearness of scene.

    X is film and scene (`film_and_scene`); a weight is `exp(-|scene distance| / 2)`. A film without
    training clips gets the overall prevalence.
    """

    min_features = 2

    def _learn(self, X: Floats, y: Bools) -> None:
        self.places_ = X[:, :2]
        self.labels_ = y.astype(np.float64)

    def _positive(self, X: Floats) -> Floats:
        positive = np.full(len(X), self.prevalence_)
        for film in np.unique(X[:, 0]):
            rows = X[:, 0] == film
            training_rows = self.places_[:, 0] == film
            if training_rows.any():
                apart = np.abs(
                    X[rows, 1][:, None] - self.places_[training_rows, 1][None, :]
                )
                # Only ratios of weights matter; from the nearest clip on, none of them can vanish.
                votes = np.exp(-(apart - apart.min(axis=1, keepdims=True)) / 2)
                shares = votes @ self.labels_[training_rows] / votes.sum(axis=1)
                positive[rows] = np.clip(shares, 0.0, 1.0)
        return positive


def oracle() -> LogisticRegression:
    """Logistic regression for the true concepts (0/1 columns), for comparison with a bottleneck.

    Classes weigh the same. A model can have a higher F1, whose threshold this regression does not
    choose, and a higher score wherever the video shows more than the concepts.
    """
    # Late: other baselines start without it.
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(class_weight="balanced", max_iter=1000)


BASELINE_CLASSES: dict[str, type[Baseline]] = {
    "random": RandomBaseline,
    "all_positive": AllPositive,
    "prevalence": Prevalence,
    "film_prior": FilmPrior,
    "neighbour": Neighbour,
}
