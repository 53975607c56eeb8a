"""Cells: one model or baseline, trained for one task and tested on one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from obygaze_models.protocols.results.record import (
    Record,
    RunRecord,
    inline,
    is_estimate,
    is_spread,
    is_value,
    optional_key,
)

Interval = Sequence[float | None]
CHOSEN = "chosen"  # the store of a cell whose store was chosen in each fold


class OfPair(RunRecord):
    """A record about a training task and a test task."""

    train: str
    test: str

    @property
    def pair(self) -> tuple[str, str]:
        """The training task and the test task."""
        return self.train, self.test


class WithInterval(Record):
    """A value with its interval over films, if it has one."""

    ci: Interval | None

    @property
    def ends(self) -> Interval:
        """The ends of the interval; None where there is none."""
        return self.ci or (None, None)


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimate(WithInterval):
    """A value with its interval over films."""

    value: float | None
    ci: Interval | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Metric(WithInterval):
    """A metric of a cell: mean and deviation over folds, the value of all test clips."""

    mean: float | None = None
    sd: float | None = None
    value: float | None = None
    ci: Interval | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class TunedMetric(Record):
    """A metric of the decisions at thresholds that other clips chose."""

    value: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Spread(Record):
    """The mean and the deviation of a metric over seeds."""

    mean: float | None
    sd: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Seeds(Record):
    """The spread of each metric over `n` seeds."""

    n: int
    metrics: Mapping[str, Spread] = inline(is_spread)


@dataclass(frozen=True, eq=False, kw_only=True)
class FilmValues(Record):
    """The metrics of a cell on the clips of one film."""

    n: int
    n_positive: int
    metrics: Mapping[str, float | None] = inline(is_value)
    # Between runs that test this film alone, if there are several.
    sd: Mapping[str, float | None] | None = optional_key()


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcomes(Record):
    """The clips with each outcome, over all folds, averaged over seeds and runs."""

    tp: float
    fp: float
    fn: float
    tn: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Bin(Record):
    """The clips with a probability between `low` and `high`: mean score, share of positive ones."""

    low: float
    high: float
    n: int
    score: float | None
    share: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Recalibrated(Record):
    """The errors of the probabilities after Platt's method on other films."""

    metrics: Mapping[str, float | None] = inline(is_value)
    calibration: Sequence[Bin] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class FoldRecord(Record):
    """The test of one fit of one fold."""

    fold: str
    seed: int
    n_train: int
    n_validation: int
    n_test: int
    n_positive: int
    leaked: int
    metrics: Mapping[str, float | None] = inline(is_value)
    # The threshold that other clips chose.
    threshold: float | None
    # Settings and facts of the fit.
    chosen: Mapping[str, Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class SkippedFold(Record):
    """A fold that could not be trained or tested, and why."""

    fold: str
    reason: str


@dataclass(frozen=True, eq=False, kw_only=True)
class PrintedValue(Record):
    """A number that a paper prints for a cell, or for one film of it."""

    metric: str
    mean: float
    sd: float | None = None
    film: str | None = None
    source: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class CellRecord(OfPair):
    """One model of one store, or a baseline, trained for one task and tested on one."""

    kind: str  # "cell" or "baseline"
    task: str
    train: str
    test: str
    model: str
    # The store; "" where a baseline holds for every store.
    feature: str
    n_test: int
    n_positive: int
    n_films: int
    prevalence: float
    n_runs: int
    # Whether clips were tested by several runs: values are means over runs, else pooled.
    repeated: bool
    # Test clips that trained or chose in some fold, or have the features of such a clip.
    leaked: int
    # How many of those have the features of such a clip only.
    copies: int | None = optional_key()
    # Further test clips next to a training scene; None where scenes are unknown.
    neighbours: int | None = None
    # Further test clips of a training film.
    same_film: int | None = None
    leak_share: float = 0.0
    metrics: Mapping[str, Metric] = inline(is_estimate)
    # True for a model whose AP or AUC has no interval for want of clips.
    no_interval: bool | None = optional_key()
    tuned: Mapping[str, TunedMetric] | None = None
    seeds: Seeds | None = None
    by_film: Mapping[str, FilmValues]
    confusion: Outcomes | None = None
    calibration: Sequence[Bin] | None = None
    recalibrated: Recalibrated | None = None
    folds: Sequence[FoldRecord]
    skipped: Sequence[SkippedFold]
    paper: Sequence[PrintedValue]
    # Of baselines: whether the numbers are closed forms, and whether it is a ceiling.
    expected: bool | None = optional_key()
    ceiling: bool | None = optional_key()
