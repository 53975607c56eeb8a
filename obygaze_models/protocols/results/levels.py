"""Scores beside the levels EN < HN < NS < S, and beside several annotators."""

from collections.abc import Mapping
from dataclasses import dataclass

from obygaze_models.protocols.results.cells import Estimate, OfPair
from obygaze_models.protocols.results.record import optional_key


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelOrder(OfPair):
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


@dataclass(frozen=True, eq=False, kw_only=True)
class AnnotatorDistance(OfPair):
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
