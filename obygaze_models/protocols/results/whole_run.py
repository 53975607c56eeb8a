"""Records of a whole run: its clips, learning curves, tasks as one question, warnings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from obygaze_models.protocols.results.cells import OfPair
from obygaze_models.protocols.results.record import Record, RunRecord


@dataclass(frozen=True, eq=False, kw_only=True)
class MissingClip(Record):
    """A clip without features, and the tasks that it is part of."""

    clip_id: str
    reason: str
    tasks: Sequence[str]


@dataclass(frozen=True, eq=False, kw_only=True)
class Coverage(RunRecord):
    """The clips of a run that have features in a store, and those that do not."""

    kind: str = "coverage"
    feature: str
    n_clips: int
    n_present: int = 0
    n_missing: int
    n_missing_in_tasks: int = 0
    # With a vector, but without a video in the manifest, which the released code drops.
    n_unused: int = 0
    reasons: Mapping[str, int] | None = None
    missing: Sequence[MissingClip]


@dataclass(frozen=True, eq=False, kw_only=True)
class CopiedClips(RunRecord):
    """The clips of a store with the features of another clip."""

    kind: str = "copies"
    feature: str
    n_equal: int
    # Nearly equal ones; None where there are too few or too many clips to tell.
    n_near: int | None
    left_out: Sequence[str]
    # The clips of each group; the first thousand groups.
    groups: Sequence[Sequence[str]]


@dataclass(frozen=True, eq=False, kw_only=True)
class LearningPoint(Record):
    """The primary metric with so many training films; None where no fold can be trained."""

    n_films: int
    value: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class LearningCurve(OfPair):
    """The primary metric of a cell by the number of training films."""

    kind: str = "learning"
    model: str
    feature: str
    train: str
    test: str
    metric: str
    points: Sequence[LearningPoint]


@dataclass(frozen=True, eq=False, kw_only=True)
class Argmax(RunRecord):
    """Several one-against-rest tasks as one question: the class with the highest score."""

    kind: str = "argmax"
    model: str
    feature: str
    tasks: Sequence[str]
    n_test: int
    accuracy: float
    f1_macro: float
    # The accuracy of the largest class.
    majority: float
    # A row for each true class, a column for each answer.
    confusion: Sequence[Sequence[int]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Remark(RunRecord):
    """A warning that a result is misleading, and the number of cells that it is about."""

    kind: str = "remark"
    about: str = ""
    cells: int = 0
    text: str
