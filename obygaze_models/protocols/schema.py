"""What a protocol says: an experiment as data, every value checked before anything is read.

schema = "obygaze-protocol/1"
[data]        which view of the manifest, which array of a store
[tasks.NAME]  who is positive and who negative: a label map, an expression, or a column
[splits]      who trains, chooses and tests; the quirk
[models.NAME] what is trained
[grid]        which tasks train, which test, which models and baselines
[fit]         seeds
[report]      intervals, what to compare
[[paper]]     numbers of a paper to print beside ours
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Annotated, Any, get_type_hints

from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.manifest.model import VIEWS
from obygaze_models.evaluation.metrics import METRICS
from obygaze_models.protocols.kinds import BASELINES, QUIRKS
from obygaze_models.protocols.rules import (
    Rule,
    boolean,
    choice,
    mapping,
    name,
    number,
    several,
    text,
    whole,
)

SCHEMA = "obygaze-protocol/1"
SPLIT_KINDS = ("published", "kfold", "group_kfold", "leave_one_group_out", "nested", "fixed")
VALIDATIONS = ("next", "each", "none")
BALANCES = ("none", "subsample", "rotated")


@dataclass(frozen=True)
class Data:
    """Which clips and which of their features: view of the manifest, arrays of a store by wish."""

    manifest: Annotated[str, text] = ""
    view: Annotated[str, choice(VIEWS)] = "raw"
    level: Annotated[tuple[str, ...], several(name, least=1)] = ("pooled", "clip")
    where: Annotated[str, text] = ""
    scale: Annotated[str, choice(("none", "unit"))] = "none"


@dataclass(frozen=True)
class Feature:
    """What a store given under this name must be."""

    backbone: Annotated[str, text] = ""
    level: Annotated[str, text] = ""


@dataclass(frozen=True)
class Task:
    """Two classes of clips: by a map of levels, by expressions, or by values of a column.

    `folds` names a fold column of the manifest: only clips that have a fold there belong to the
    task, and published splits are read from it.
    """

    title: Annotated[str, text] = ""
    classes: Annotated[dict[str, int], mapping(whole(0, 1))] = field(default_factory=dict)
    positive: Annotated[str, text] = ""
    negative: Annotated[str, text] = ""
    column: Annotated[str, text] = ""
    values: Annotated[dict[str, int], mapping(whole(0, 1))] = field(default_factory=dict)
    folds: Annotated[str, text] = ""


@dataclass(frozen=True)
class Splits:
    """Who trains, who chooses and who tests, for every task from one fold of each clip.

    `validation`: the fold after the test fold, each other fold in turn, or none. `never` names
    groups that train and are never tested. `gap` keeps scenes next to test scenes out of training.
    `column` with `test`, `choose` (and the rest training) is for data that come with one split.
    """

    kind: Annotated[str, choice(SPLIT_KINDS)] = "nested"
    quirk: Annotated[str, choice(QUIRKS)] = "none"
    folds: Annotated[int, whole(0)] = 0
    group: Annotated[str, text] = "movie_id"
    validation: Annotated[str, choice(VALIDATIONS)] = "next"
    never: Annotated[tuple[str, ...], several(text)] = ()
    gap: Annotated[int, whole(0, 1000)] = 0
    seed: Annotated[int, whole(0)] = 0
    column: Annotated[str, text] = ""
    test: Annotated[tuple[str, ...], several(text)] = ()
    choose: Annotated[tuple[str, ...], several(text)] = ()


@dataclass(frozen=True)
class Grid:
    """Every combination that is run; no name at all means all of them."""

    train: Annotated[tuple[str, ...], several(name)] = ()
    test: Annotated[tuple[str, ...], several(name)] = ()
    pairs: Annotated[str, choice(("all", "same"))] = "all"
    models: Annotated[tuple[str, ...], several(name)] = ()
    baselines: Annotated[tuple[str, ...], several(choice(BASELINES))] = BASELINES
    stores: Annotated[tuple[str, ...], several(name)] = ()


@dataclass(frozen=True)
class Fit:
    """The first seed and how many re-trainings of models that start at random."""

    seed: Annotated[int, whole(0)] = 0
    seeds: Annotated[int, whole(1, 1000)] = 1


@dataclass(frozen=True)
class Report:
    """What is made of the predictions."""

    title: Annotated[str, text] = ""
    primary: Annotated[str, choice(METRICS)] = "f1_weighted"
    replicates: Annotated[int, whole(2, 1_000_000)] = 1000
    confidence: Annotated[float, number(0.5, 0.999)] = 0.95
    compare: Annotated[bool, boolean] = True
    error_analysis: Annotated[bool, boolean] = False
    concepts: Annotated[bool, boolean] = False
    argmax: Annotated[tuple[str, ...], several(name)] = ()
    notes: Annotated[tuple[str, ...], several(text)] = ()


@dataclass(frozen=True)
class PaperValue:
    """A printed number, to stand beside ours; an empty name means "any"."""

    metric: Annotated[str, choice(METRICS)] = "f1_weighted"
    mean: Annotated[float, number(-1, 1)] = 0.0
    sd: Annotated[float, number(0, 1)] = -1.0
    model: Annotated[str, text] = ""
    feature: Annotated[str, text] = ""
    train: Annotated[str, text] = ""
    test: Annotated[str, text] = ""
    movie: Annotated[str, text] = ""
    source: Annotated[str, text] = ""


@dataclass(frozen=True)
class Model:
    """A kind of model with all of its settings."""

    kind: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Protocol:
    """A whole experiment, every default filled in."""

    name: str
    leakage: str = "error"
    balancing: str = "none"
    data: Data = field(default_factory=Data)
    features: Mapping[str, Feature] = field(default_factory=dict)
    tasks: Mapping[str, Task] = field(default_factory=dict)
    splits: Splits = field(default_factory=Splits)
    models: Mapping[str, Model] = field(default_factory=dict)
    grid: Grid = field(default_factory=Grid)
    fit: Fit = field(default_factory=Fit)
    report: Report = field(default_factory=Report)
    paper: tuple[PaperValue, ...] = ()

    @property
    def train_tasks(self) -> list[str]:
        """The tasks that train."""
        return list(self.grid.train or self.tasks)

    @property
    def test_tasks(self) -> list[str]:
        """The tasks that test."""
        return list(self.grid.test or self.tasks)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Train task and test task of every cell, in the order of the tables."""
        return [
            (train, test)
            for test in self.test_tasks
            for train in self.train_tasks
            if self.grid.pairs == "all" or train == test
        ]

    @property
    def model_names(self) -> list[str]:
        """The models that are trained."""
        return list(self.grid.models or self.models)

    def as_json(self) -> dict[str, Any]:
        """The resolved protocol as one JSON object: what a run remembers."""
        return {"schema": SCHEMA, **asdict(self)}

    @property
    def sha256(self) -> str:
        """The hash over all that the protocol decides."""
        return sha256_bytes(canonical_json(self.as_json()))


ROOT_RULES: Mapping[str, Rule] = {
    "schema": text,
    "name": name,
    "leakage": choice(("error", "warn")),
    "balancing": choice(BALANCES),
}
SECTIONS: Mapping[str, type] = {
    "data": Data,
    "splits": Splits,
    "grid": Grid,
    "fit": Fit,
    "report": Report,
}
TABLES: Mapping[str, type] = {"tasks": Task, "features": Feature}


@cache
def rules_of(section: type) -> Mapping[str, Rule]:
    """What each key of a section may be."""
    hints = get_type_hints(section, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}
