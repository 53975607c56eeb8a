"""Differences on the same test clips: of two models, and of two training tasks."""

from collections.abc import Sequence
from dataclasses import dataclass

from obygaze_models.protocols.results.cells import Interval, OfPair, WithInterval
from obygaze_models.protocols.results.record import Record, RunRecord

ALPHA = 0.05
# Whether the first is better than the second, as far as a run can tell.
BETTER = "yes"
PERHAPS_BETTER = "not certain"
NOT_SHOWN = "not shown"
PERHAPS_WORSE = "no, perhaps worse"
WORSE = "no, worse"
UNKNOWN = "–"


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelOnStore(Record):
    """A model and its store, one side of a comparison."""

    model: str
    feature: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison(OfPair, WithInterval):
    """Two models on the same cell, or one on two stores: the first minus the second."""

    kind: str = "comparison"
    task: str
    train: str
    test: str
    metric: str
    first: ModelOnStore
    second: ModelOnStore
    difference: float | None
    ci: Interval | None = None
    # By films; None unless all runs test the same clips.
    p_sign_flip: float | None = None
    n_films: int
    # Whether all flips were counted.
    exact: bool = False
    # Nadeau-Bengio over sets of test clips; None if there is one, or if they share films.
    p_corrected_t: float | None = None
    n_test_sets: int = 0
    # The number of the question of the protocol that asks for it, from 0; None for all others.
    question: int | None = None
    # The p among the `n_family` differences of the run that were asked for, or that were not.
    p_family: float | None = None
    n_family: int = 0

    @property
    def verdict(self) -> str:
        """Whether the first is better than the second, as far as the run can tell.

        A difference whose interval is on one side of 0 can be chance among many: where its p among
        all differences of the run is above .05, it is only perhaps better or worse.
        """
        low, high = self.ends
        if low is None or high is None:
            return UNKNOWN
        if low <= 0 <= high:
            return NOT_SHOWN
        is_certain = self.p_family is None or self.p_family <= ALPHA
        if low > 0:
            return BETTER if is_certain else PERHAPS_BETTER
        return WORSE if is_certain else PERHAPS_WORSE


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainedValue(Record):
    """The value of a model that was trained on one task, one side of a contrast."""

    train: str
    value: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Contrast(RunRecord, WithInterval):
    """A model that was trained on one task and on another, on the same test clips."""

    kind: str = "contrast"
    model: str
    feature: str
    test: str
    metric: str
    first: TrainedValue
    second: TrainedValue
    difference: float | None
    # By films and re-trainings; None unless all runs test the same clips, as `p`.
    ci: Interval | None
    p: float | None
    n_seeds: int
    # The deviation over seeds of both sides.
    seed_sd: Sequence[float | None] = ()
    n_films: int
    # Films where the first is higher.
    n_films_higher: int | None = None
    n_test: int
    n_positive: int | None = None
    # Test clips that trained or chose one of both; if any, a second record is without them.
    leaked: int
