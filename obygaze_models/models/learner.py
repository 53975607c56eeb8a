"""What a run asks of an estimator: to learn from lessons, and a few facts of how it does."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Self

from obygaze_models.models.lessons import InnerScores, Lessons


class Learner:
    """An estimator that learns from lessons. A kind overrides what is otherwise with it."""

    @property
    def reads_concepts(self) -> bool:
        """Whether it learns from all examples of concepts, and not only from rows that train."""
        return False

    @property
    def needs_products(self) -> bool:
        """Whether it is fitted on products of the rows of the store."""
        return False

    @property
    def facts(self) -> Mapping[str, Any]:
        """What a fit found that a run tells about it, such as a strength."""
        return {}

    @property
    def core(self) -> Any:
        """The fitted estimator that reads the features, whatever was changed in them before."""
        return self

    def learn(self, lessons: Lessons) -> Self:
        """Fit on the lessons, and return the estimator."""
        raise NotImplementedError

    def learn_each(self, folds: Sequence[Lessons]) -> list[Any]:
        """Return a fit of each of some lessons that differ in their validation rows only."""
        return [deepcopy(self).learn(lessons) for lessons in folds]

    def left_out_scores(self, lessons: Lessons) -> InnerScores | None:
        """Return scores of training rows by fits without them, where these need no fit anew.

        None where they do.
        """
        return None

    def scaled_inside(self) -> Self | None:
        """Return an estimator that scales features in its own way; None where it has none."""
        return None

    def absorbed(self) -> Any:
        """Return the fitted estimator that reads features as they are stored."""
        return self
