"""What describes a saved model: its facts, the clips it was trained on, model.json, the card."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.console import count
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.files import (
    canonical_json,
    csv_bytes,
    json_values,
    sha256_bytes,
)
from obygaze_features.core.metadata import (
    CROISSANT_FILE,
    Publication,
    RecordColumn,
    RecordTable,
    render,
)
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.schema_check import AnyRule, Table, read_json, table_of
from obygaze_features.core.schema_rules import (
    any_of,
    anything,
    list_of,
    matching,
    nothing,
    number,
    text,
    whole,
)
from obygaze_features.store.recipe import IMPORTED, UNKNOWN
from obygaze_features.store.records import FileMark

Floats = NDArray[np.float64]
SCHEMA = "obygaze-model/1"
CLIPS_FILE = "training-clips.csv"


@dataclass(frozen=True)
class FeatureSpec:
    """The features that a model takes as input: those of an array of this dtype in stores with this
    fingerprint.

    The features of segments are those of the windows that belong to it by the `rule`, reduced to
    one vector; both are "" for features of clips.
    """

    backbone: str
    array: str
    dtype: str
    width: int
    fingerprint: str
    store: str = ""
    rule: str = ""
    reduce: str = ""
    # The seal of the store; "" where it is not recorded.
    seal: str = ""
    # What the importer of imported features said of how they were made.
    facts: Mapping[str, Any] = field(default_factory=dict)
    licence: str = ""
    citation: str = ""

    @property
    def are_imported(self) -> bool:
        """Whether nothing but the word of an importer says how the features were made."""
        return self.backbone.startswith(UNKNOWN) or IMPORTED in self.backbone

    def __repr__(self) -> str:
        width = f"{self.width} numbers per clip"
        fingerprint = f"{self.fingerprint[:12]}..."
        return short_repr("FeatureSpec", self.backbone, self.array, width, fingerprint)


@dataclass(frozen=True)
class TrainingData:
    """The clips and films that a model was trained on, in numbers."""

    manifest: str
    manifest_sha256: str
    view: str
    n_clips: int
    n_films: int
    films: tuple[str, ...] = ()
    citation: str = ""
    licence: str = ""

    def __repr__(self) -> str:
        counts = f"{self.n_clips} clips", f"{self.n_films} films"
        return short_repr(
            "TrainingData", repr(self.manifest), f"view={self.view!r}", *counts
        )


@dataclass(frozen=True)
class ModelInfo:
    """The facts about a model. `classes` are its classes in the order of its score columns.

    `chosen` has the settings that training films chose, of those that were offered or drawn.
    `trust` names what somebody must trust who loads the model (--trust); saving it sets it.
    """

    name: str
    kind: str
    task: str
    classes: tuple[str, ...]
    features: FeatureSpec
    training: TrainingData
    concepts: tuple[str, ...] = ()
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    protocol: str = ""
    notes: tuple[str, ...] = ()
    chosen: Mapping[str, Any] = field(default_factory=dict)
    trust: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return short_repr("ModelInfo", repr(self.name), self.kind, self.task)

    @property
    def summary(self) -> str:
        """The kind and the task in a few words; concept vectors have no task of two classes."""
        if self.classes:
            return f"{self.kind} for {self.task}"
        return f"{self.kind}, vectors of {count(len(self.concepts), 'concept')}"

    @property
    def chosen_settings(self) -> str:
        """The chosen settings as text: `C = 0.1, balance = true`; "" where none was a choice."""
        return ", ".join(
            f"{name} = {json.dumps(value)}" for name, value in self.chosen.items()
        )

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain JSON values; a number without a value is null."""
        value: dict[str, Any] = json_values(asdict(self))
        for name in ("chosen", "trust"):
            if not value[name]:
                del value[name]
        if not self.features.rule:
            del value["features"]["rule"], value["features"]["reduce"]
        for name in ("facts", "licence", "citation"):
            if not value["features"][name]:
                del value["features"][name]
        return value


@dataclass(frozen=True, eq=False)
class TrainingClips:
    """The clips a model was trained on, with scores of fits that were not trained on them.

    `scores` maps a column of `Predicted.columns()`, such as `p:positive`, to one number per clip;
    NaN where no fold tested the clip.
    """

    clip_ids: tuple[str, ...]
    scores: Mapping[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.row_of) != len(self.clip_ids):
            raise FixInput("the training clips contain a clip twice")
        for column, values in self.scores.items():
            if np.shape(values) != (len(self.clip_ids),):
                raise FixInput(
                    f"{column}: expected one score for each of {len(self)} clips"
                )

    def __len__(self) -> int:
        return len(self.clip_ids)

    def __repr__(self) -> str:
        return short_repr("TrainingClips", f"{len(self)} clips", *self.scores)

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of each clip in `scores`."""
        return {clip: row for row, clip in enumerate(self.clip_ids)}

    @cached_property
    def has_score(self) -> NDArray[np.bool_]:
        """Whether each clip has an out-of-fold score."""
        has_values = [np.isfinite(values) for values in self.scores.values()]
        return (
            np.any(has_values, axis=0)
            if has_values
            else np.zeros(len(self), dtype=np.bool_)
        )

    def to_csv(self) -> bytes:
        """Return the table as CSV: `clip_id`, then each column of scores; NaN is an empty cell."""
        columns = [json_values(values) for values in self.scores.values()]
        return csv_bytes(
            ["clip_id", *self.scores], zip(self.clip_ids, *columns, strict=True)
        )


@dataclass(frozen=True)
class ModelDocument:
    """The content of model.json: the facts, the estimator, and the marks of the other files.

    `sha256` is the checksum of all that.
    """

    info: ModelInfo
    estimator: Mapping[str, Any]
    arrays: FileMark
    card: FileMark
    croissant: FileMark
    created_by: str
    sha256: str
    training_clips: FileMark | None = None


def _document(**values: Any) -> ModelDocument:
    other_keys = {name: values.pop(name) for name in _REST if name in values}
    return ModelDocument(ModelInfo(**values), **other_keys)


_VALUE = any_of(number(), nothing)
_METRIC = Table(
    {
        "value": _VALUE,
        "ci": any_of(list_of(_VALUE, least=2, most=2, unique=False), nothing),
    },
    others=anything,
)
_SHA256 = matching("[0-9a-f]{64}", "64 hexadecimal digits")
_MARK = Table(
    {"bytes": whole(), "sha256": _SHA256},
    ("bytes", "sha256"),
    build=lambda bytes, sha256: FileMark(bytes, sha256),
)
_INFO = table_of(
    ModelInfo,
    features=table_of(FeatureSpec, width=whole(1), facts=Table(others=anything)),
    metrics=Table(others=_METRIC),
    chosen=Table(others=anything),
)
_REST: dict[str, AnyRule] = {
    "estimator": Table(others=anything),
    "arrays": _MARK,
    "training_clips": _MARK,
    "card": _MARK,
    "croissant": _MARK,
    "created_by": text,
    "sha256": _SHA256,
}
MODEL_JSON = Table(
    {**_INFO.keys, **_REST},
    (*_INFO.required, *(key for key in _REST if key != "training_clips")),
    build=_document,
)


def parse_document(data: bytes, where: str) -> ModelDocument:
    """Return the content of a model.json of these bytes."""
    document = read_json(data, where, error=Corrupt)
    content = deepcopy(document.tree)
    document.require_schema(SCHEMA, "saved model", error=Corrupt)
    checked: ModelDocument = document.check(MODEL_JSON)
    document.violations.raise_if_any("the saved model is not valid", None, Corrupt)
    if checked.sha256 != document_sha256(content):
        raise Corrupt("the content differs from its sha256 checksum", where=where)
    return checked


def document_sha256(document: Mapping[str, Any]) -> str:
    """Return the checksum of the content of model.json, without the key `sha256`."""
    content = {key: value for key, value in document.items() if key != "sha256"}
    return sha256_bytes(canonical_json(json_values(content)))


def read_training_clips(data: bytes, where: str) -> TrainingClips:
    """Return the training clips of a table that `TrainingClips.to_csv` wrote."""
    try:
        reader = csv.reader(io.StringIO(data.decode("utf-8"), newline=""), strict=True)
        return _training_clips_of(list(reader))
    except FixInput as error:
        raise Corrupt(error.message, where=where) from error
    except (ValueError, IndexError, csv.Error) as error:
        raise Corrupt(f"not a table of training clips: {error}", where=where) from error


def _training_clips_of(rows: Sequence[Sequence[str]]) -> TrainingClips:
    """Return the training clips of a header and rows; ValueError where they are invalid."""
    header = rows[0]
    body = rows[1:]
    if header[:1] != ["clip_id"] or len(set(header)) != len(header):
        raise ValueError("the header must be clip_id and the score columns, each once")
    if any(len(row) != len(header) for row in body):
        raise ValueError(f"each row must have {len(header)} cells")
    table = np.full((len(body), len(header) - 1), np.nan)
    n_scores = 0
    for i, row in enumerate(body):
        for column, cell in enumerate(row[1:]):
            if cell:
                table[i, column] = float(cell)
                n_scores += 1
    if np.isfinite(table).sum() != n_scores:
        raise ValueError("each score must be a finite number, or empty")
    scores = {name: table[:, i] for i, name in enumerate(header[1:])}
    return TrainingClips(tuple(row[0] for row in body), scores)


def card_text(info: ModelInfo, clips: TrainingClips | None = None) -> str:
    """Return the model card: Markdown with the header that the Hugging Face hub reads."""
    return render("model-card.md", info=info, clips=clips)


def croissant(
    info: ModelInfo, listed: Mapping[str, FileMark], clips: TrainingClips | None = None
) -> bytes:
    """Return croissant.json: the model and its files for programs, with their checksums.

    Args:
        info: The facts about the model.
        listed: Its files.
        clips: The clips it was trained on.
    """
    data = info.training
    source = info.features
    cited = dict.fromkeys(filter(None, (data.citation, source.citation)))
    publication = Publication(
        kind="model",
        name=info.name,
        title=f"{info.name}: {info.summary}",
        description=f"A saved model: {info.summary}. It takes the array {source.array} of"
        f" features of {source.backbone}, recipe {source.fingerprint}.",
        collection=f"Trained on {data.n_clips} clips of {data.n_films} films of the manifest "
        f"{data.manifest!r}, sha256 {data.manifest_sha256}.",
        citation=" | ".join(cited),
    )
    tables = []
    if clips is not None:
        columns = [RecordColumn("clip_id")]
        columns += [RecordColumn(name, "sc:Float") for name in clips.scores]
        description = "The training clips, with the scores of fits without them."
        tables.append(RecordTable(CLIPS_FILE, description, columns))
    return publication.document(CROISSANT_FILE, listed=listed, tables=tables, arrays=())
