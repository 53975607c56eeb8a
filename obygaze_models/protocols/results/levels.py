"""Scores beside the levels EN < HN < NS < S, and beside several annotators."""

from collections.abc import Mapping
from dataclasses import dataclass

from obygaze_models.protocols.results.cells import Estimate
from obygaze_models.protocols.results.record import Record, optional_key


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelOrder(Record):
    """How well the scores of a cell follow the order of the levels."""

    kind: str = "levels"
    model: str
    feature: str
    train: str
    test: str
    n_test: int
    # The share of pairs of clips of one film and different levels in that order.
    concordance: Estimate
    # Levels between the predicted median and the annotated level, of models of levels.
    macro_error: float | None = optional_key()
    # The same of the best one level for all clips.
    blind_error: float

    @property
    def pair(self) -> tuple[str, str]:
        """The training task and the test task."""
        return self.train, self.test


@dataclass(frozen=True, eq=False, kw_only=True)
class AnnotatorDistance(Record):
    """How near a cell is to all annotators of its clips, where several labelled them."""

    kind: str = "annotators"
    model: str
    feature: str
    train: str
    test: str
    # Clips with another annotator.
    n_test: int
    # The share of the clips of each annotator that are decided otherwise.
    errors: Mapping[str, float]
    # Between the probabilities of both classes and the shares of annotators.
    manhattan: float | None = optional_key()
    # The same between levels.
    wasserstein: float | None = optional_key()
    # That of the best constant.
    blind_manhattan: float | None = optional_key()

    @property
    def pair(self) -> tuple[str, str]:
        """The training task and the test task."""
        return self.train, self.test
