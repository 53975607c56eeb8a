"""The keys of a protocol, with their types and defaults (see core.schema_check).

schema = "obygaze-protocol/1"
[data]        the view of the manifest and the array of the stores
[tasks.NAME]  the positive and the negative clips: a label map, an expression, or a column
[splits]      the clips for training, validation and test, from folds or a column
[models.NAME] a model and its settings
[grid]        training tasks, test tasks, models and baselines
[fit]         seeds
[report]      intervals and comparisons
[[paper]]     published values, to show next to the results
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Annotated, Any, Literal, Self

from msgspec import Meta

from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.core.schema_check import Name, one_of
from obygaze_models.evaluation.metrics import F1_WEIGHTED, METRICS
from obygaze_models.models.registry import BASELINES
from obygaze_models.protocols.paper_splits import SHIPPED_SCHEMES

PROTOCOL_SCHEMA = "obygaze-protocol/1"
NONE = "none"
AUTO = "auto"  # no view is stated; `protocols.clips.with_view` chooses one
_Whole = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Class = Annotated[int, Meta(ge=0, le=1)]
_Baseline = Annotated[str, one_of(BASELINES)]
_Metric = Annotated[str, one_of(METRICS)]
_OfModels = Annotated[str, one_of(name for name in METRICS if METRICS[name].direction)]
_Scheme = Annotated[str, one_of((NONE, *SHIPPED_SCHEMES))]
NO_SD = -1.0  # no standard deviation was published
# scikit-learn accepts seeds below 2 ** 32.
LARGEST_SEED = 2**31 - 1


@dataclass(frozen=True)
class Data:
    """The clips, selected by view and expression, and the arrays to read from a store.

    `array` lists arrays in order of preference; empty: the default array of the store, which the
    card of its backbone names. With `scale` "standard", features are standardized by the mean and
    the standard deviation of the training clips of each fold.
    """

    manifest: str = ""
    view: Literal["auto", "raw", "visual", "as_published"] = "auto"
    array: tuple[Name, ...] = ()
    where: str = ""
    scale: Literal["none", "unit", "standard"] = "none"


@dataclass(frozen=True)
class Feature:
    """The array to read from the store of this name."""

    array: Name


@dataclass(frozen=True)
class Task:
    """Two classes of clips: by a map of levels, by expressions, or by values of a column.

    `folds` names a fold column of the manifest: only clips with a fold belong to the task, and
    published splits are read from it. Tasks with the same `row`, such as a concept, are drawn as
    a group of bars, one for each `series`.
    """

    title: str = ""
    classes: dict[str, _Class] = field(default_factory=dict)
    positive: str = ""
    negative: str = ""
    column: str = ""
    values: dict[str, _Class] = field(default_factory=dict)
    folds: str = ""
    row: str = ""
    series: str = ""

    def in_words(self, name: str) -> str:
        """Return the title, or the expressions; "" if these are equal to the name."""
        if self.title:
            return self.title
        words = self.positive
        if self.negative:
            words = f"{words}, against {self.negative}"
        return "" if words == name else words


@dataclass(frozen=True)
class Splits:
    """The clips for training, validation and test, from one fold number per clip.

    `kind`: "nested" tests whole films, one at a time or in `folds` groups; "kfold" divides clips;
    "published" has a fold column per task; "fixed" has one split. `validation`: "next" validates on
    the fold after the test fold, "each" on each other fold in turn, "none" on no fold. `never`
    names films that train and are never tested. `column` contains groups of films, such as
    directors, that are held out instead of films. In fixed splits, `test` lists values of
    `column`: clips with one of these values are tested. Of the other films, one in five is for
    validation. `scheme` makes the training sets of the ObyGaze12 paper from published folds:
    `obygaze_models.protocols.paper_splits:code_splits` or `:text_splits`.
    """

    kind: Literal["nested", "kfold", "published", "fixed"] = "nested"
    scheme: _Scheme = NONE
    folds: _Whole = 0
    validation: Literal["next", "each", "none"] = "next"
    never: tuple[str, ...] = ()
    seed: _Whole = 0
    column: str = ""
    test: tuple[str, ...] = ()

    @property
    def follow_scheme(self) -> bool:
        """Whether a scheme makes the training sets from published folds."""
        return self.scheme != NONE


@dataclass(frozen=True)
class GridSettings:
    """The combinations to run. An empty list means all names; for baselines, it means none."""

    train: tuple[Name, ...] = ()
    test: tuple[Name, ...] = ()
    pairs: Literal["all", "same"] = "all"
    models: tuple[Name, ...] = ()
    baselines: tuple[_Baseline, ...] = tuple(BASELINES)


@dataclass(frozen=True)
class FitSettings:
    """The first seed, and the number of trainings of models that start at random."""

    seed: Annotated[int, Meta(ge=0, le=LARGEST_SEED)] = 0
    seeds: Annotated[int, Meta(ge=1, le=1000)] = 1


@dataclass(frozen=True)
class ReportSettings:
    """The metrics, intervals and analyses of the predictions.

    `metrics` are further metrics that the page shows; all metrics are always computed. `ask` is the
    question of the run, the heading of its page. `lead` is the model that the run is about, in the
    first training task and the first test task: it is compared with baselines, between stores, and
    with the model `against`. Without `lead`, the run is about all models and tasks. `contrast`
    names two training tasks, such as HN_S and EN_S; models trained on both are compared on each
    test task.
    """

    title: str = ""
    primary: _OfModels = F1_WEIGHTED.name
    metrics: tuple[_Metric, ...] = ()
    replicates: Annotated[int, Meta(ge=2, le=1_000_000)] = 1000
    compare: bool = True
    ask: str = ""
    lead: str = ""
    against: str = ""
    error_analysis: bool = False
    concepts: bool = False
    contrast: tuple[Name, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PaperValue:
    """A published value to compare with; an empty name means "any".

    `backbone` is a pattern for the backbone of the recipe; `feature` is the name of the store.
    """

    metric: _Metric = F1_WEIGHTED.name
    mean: Annotated[float, Meta(ge=-1, le=1)] = 0.0
    sd: Annotated[float, Meta(ge=0, le=1)] = NO_SD
    model: str = ""
    backbone: str = ""
    feature: str = ""
    train: str = ""
    test: str = ""
    film: str = ""
    source: str = ""


@dataclass(frozen=True)
class Model:
    """A model type with all its settings."""

    kind: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Protocol:
    """A complete experiment, including all defaults."""

    name: Name
    leakage: Literal["error", "warn"] = "error"
    balancing: Literal["none", "rotated"] = "none"
    data: Data = field(default_factory=Data)
    features: Mapping[str, Feature] = field(default_factory=dict)
    tasks: Mapping[str, Task] = field(default_factory=dict)
    splits: Splits = field(default_factory=Splits)
    models: Mapping[str, Model] = field(default_factory=dict)
    grid: GridSettings = field(default_factory=GridSettings)
    fit: FitSettings = field(default_factory=FitSettings)
    report: ReportSettings = field(default_factory=ReportSettings)
    paper: tuple[PaperValue, ...] = ()

    @property
    def train_tasks(self) -> list[str]:
        """The tasks that train, in the order of the tables."""
        trained = {train for train, _ in self.pairs}
        return [name for name in self.grid.train or self.tasks if name in trained]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The training and the test task of every cell, in the order of the tables."""
        tests = self.grid.test or self.tasks
        trains = self.grid.train or self.tasks
        every = [(train, test) for test, train in product(tests, trains)]
        if self.grid.pairs == "all":
            return every
        return [(train, test) for train, test in every if train == test]

    @property
    def used_tasks(self) -> set[str]:
        """The tasks that train or test."""
        used: set[str] = set()
        return used.union(*self.pairs)

    @property
    def contrast(self) -> tuple[str, ...]:
        """The two training tasks to compare; empty if only one of them trains."""
        names = self.report.contrast
        trained = {train for train, _ in self.pairs}
        return names if len(names) == 2 and trained.issuperset(names) else ()

    @property
    def model_names(self) -> list[str]:
        """The models to train."""
        return list(self.grid.models or self.models)

    def with_models(self, names: Sequence[str]) -> Self:
        """Return the protocol with some of its models."""
        report = self.report
        lead = report.lead if report.lead in names else ""
        against = report.against if report.against in names else ""
        return replace(
            self,
            models={name: self.models[name] for name in names},
            grid=replace(self.grid, models=tuple(names) if self.grid.models else ()),
            report=replace(report, lead=lead, against=against),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the protocol as one JSON object, as a run stores it."""
        return {"schema": PROTOCOL_SCHEMA, **asdict(self)}

    @property
    def sha256(self) -> str:
        """The hash of the whole protocol."""
        return sha256_bytes(canonical_json(self.to_json()))
