"""The interface between a run and an estimator: fit on fold data, and a few facts about the fit."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Self

from obygaze_models.models.fold_data import FoldData, InnerScores


class FoldEstimator:
    """An estimator that is fitted on fold data. Subclasses override the defaults they need."""

    @property
    def reads_concepts(self) -> bool:
        """Whether the fit uses all examples of concepts, and not only training rows."""
        return False

    @property
    def needs_products(self) -> bool:
        """Whether the fit uses the dot products of the rows of the store."""
        return False

    @property
    def facts(self) -> Mapping[str, Any]:
        """Results of the fit that a run records, such as a chosen penalty strength."""
        return {}

    @property
    def core(self) -> Any:
        """The fitted estimator; if it has preprocessing, the estimator inside."""
        return self

    def fit_fold(self, data: FoldData) -> Self:
        """Fit on the data of one fold, and return the estimator."""
        raise NotImplementedError

    def fit_folds(self, folds: Sequence[FoldData]) -> list[Any]:
        """Return one fit per fold; the folds differ in their validation rows only."""
        return [deepcopy(self).fit_fold(data) for data in folds]

    def left_out_scores(self, data: FoldData) -> InnerScores | None:
        """Return scores of training rows by fits without these rows.

        Return None if such scores would need new fits.
        """
        return None

    def with_own_scaling(self) -> Self | None:
        """Return an estimator that scales features itself, or None if this type cannot."""
        return None

    def merge_scaling(self) -> Any:
        """Return the fitted estimator, changed so that it reads features as they are stored."""
        return self
