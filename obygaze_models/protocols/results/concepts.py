"""Concepts: the vectors of bottlenecks, and their heads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from obygaze_models.protocols.results.cells import Estimate
from obygaze_models.protocols.results.record import Record, RunRecord


@dataclass(frozen=True, eq=False, kw_only=True)
class Concept(Record):
    """The quality of one concept vector on films that it was not found on."""

    name: str
    n: int
    n_positive: int
    # The average precision of a random ranking.
    prevalence: float
    ap: Estimate
    auc: Estimate
    f1_binary: Estimate
    # By shifting labels within films, widened for films that train each other's vectors.
    p: float | None
    # With Holm's correction for the concepts of the bank.
    p_holm: float | None
    tolerance: float


@dataclass(frozen=True, eq=False, kw_only=True)
class FilmLeak(Record):
    """How well margins predict the film, out of fold, and what guessing gives."""

    balanced_accuracy: float
    chance: float
    n_films: int
    # 0 for margins without information about the film, 1 for margins that identify it.
    excess: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Leakage(Record):
    """The information of margins beyond the concepts, about the task (ctl) and each other (icl)."""

    ctl: float
    icl: float
    ctl_chance: float
    icl_chance: float


@dataclass(frozen=True, eq=False, kw_only=True)
class ConceptVectors(RunRecord):
    """The concept vectors of one store and some settings; without vectors, `note` says why."""

    kind: str = "concept-model"
    feature: str
    # Those that use these vectors.
    models: Sequence[str]
    part: str = "concepts"
    settings: Mapping[str, Any] | None = None
    # Parts, mostly films, that were left out in turn.
    n_parts: int | None = None
    concepts: Sequence[Concept]
    # Concepts with too few clips, and why.
    left_out: Mapping[str, str] | None = None
    film_leak: FilmLeak | None = None
    # By training task.
    leakage: Mapping[str, Leakage] | None = None
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the object in the file; without vectors, it has no values of vectors."""
        document = super().to_json()
        if self.settings is None:
            of_vectors = ("settings", "n_parts", "left_out", "film_leak")
            for key in (*of_vectors, "leakage"):
                del document[key]
        return document


@dataclass(frozen=True, eq=False, kw_only=True)
class Weights(Record):
    """A linear head; `sd` are the standard deviations of the margins."""

    intercept: float
    coef: Sequence[float]
    sd: Sequence[float]


@dataclass(frozen=True, eq=False, kw_only=True)
class Tree(Record):
    """A tree by node: its branches (-1: a leaf), the concept asked for, and the clips in it."""

    left: Sequence[int]
    right: Sequence[int]
    concept: Sequence[int]
    # In units of margins.
    threshold: Sequence[float]
    # Of positive clips.
    share: Sequence[float]
    n: Sequence[int]


@dataclass(frozen=True, eq=False, kw_only=True)
class Corrections(Record):
    """F1 and AP after 0, 1, ... corrected concepts, the mean over folds of whole films."""

    order: str  # "greedy" or "random"
    n_folds: int
    f1: Sequence[float]
    ap: Sequence[float]
    # What each fold corrects first.
    first: Sequence[str]


@dataclass(frozen=True, eq=False, kw_only=True)
class Head(RunRecord):
    """A head on the margins of concepts, fitted on all clips of a task."""

    kind: str = "concept-model"
    part: str = "head"
    feature: str
    model: str
    task: str
    head: str
    settings: Mapping[str, Any]
    n: int
    n_positive: int
    concepts: Sequence[str]
    tree: Tree | None
    weights: Weights | None
    interventions: Sequence[Corrections]
