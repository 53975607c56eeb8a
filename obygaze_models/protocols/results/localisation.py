"""Segments that models found in whole films which they had not seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from obygaze_models.protocols.results.cells import Estimate, OfPair
from obygaze_models.protocols.results.record import Record, inline, is_estimate

# The overlaps, as intersection over union, from which on a segment counts as found.
TIOUS = (0.3, 0.4, 0.5, 0.6, 0.7)
# The mean over these, the same of intervals by share and length alone, and that at each overlap.
PRECISIONS = ("map", "blind", *map(str, TIOUS))


@dataclass(frozen=True, eq=False, kw_only=True)
class FilmWindows(Record):
    """The windows of one film: what was found, and the curve of the scores."""

    n_segments: int
    # At each overlap: of the intervals, and of blind ones.
    precisions: Sequence[Sequence[float]]
    # The rule that makes intervals of scores.
    width: int
    threshold: float
    gap: int
    # Start and end in seconds, and score.
    intervals: Sequence[Sequence[float]]
    time_s: Sequence[float]
    score: Sequence[float]
    # From the lowest to the highest score of models of fewer films.
    low: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True, eq=False, kw_only=True)
class Localisation(OfPair):
    """The precision of the segments that a model found, and the windows of each film."""

    kind: str = "localisation"
    train: str
    test: str
    model: str
    feature: str
    precisions: Mapping[str, Estimate] = inline(is_estimate)
    films: Mapping[str, FilmWindows]
