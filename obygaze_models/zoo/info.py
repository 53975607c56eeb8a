"""Descriptions of a saved model: facts, training clips, model.json and the card."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Self, TypedDict

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.files import (
    csv_bytes,
    document_sha256,
    json_values,
)
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.rendering import render
from obygaze_features.core.schema_check import Record, Sha256, read_json, refuse_newer
from obygaze_features.core.tables import number_of_cell
from obygaze_features.core.untrusted_text import Medium
from obygaze_features.manifest.clip_table import FRAME_COLUMNS, ClipTable
from obygaze_features.store.records import FileMark
from obygaze_models.models.common import Floats

MODEL_SCHEMA = "obygaze-model/1"
CLIPS_FILE = "training-clips.csv"
# Columns before the scores, and columns after them if clips are counted in frames.
FACTS = ("clip_id", "movie_id", "start_s", "end_s", "features")


class CardMetric(TypedDict):
    """The value of a metric and its interval over films; None where undefined."""

    value: float | None
    ci: tuple[float | None, float | None]


class FeatureSpec(Record, frozen=True, omit_defaults=True):
    """The features that a model reads: an array of this dtype in stores with this fingerprint."""

    backbone: str
    array: str
    dtype: str
    width: Annotated[int, Meta(ge=1)]
    fingerprint: str
    store: str = ""
    # The seal of the store; "" if unknown.
    seal: str = ""
    licence: str = ""
    citation: str = ""
    # Facts of the features that were stated at import.
    told: Mapping[str, str] = {}
    # Whether the weights of the backbone are not those of a checkpoint on the hub.
    has_local_weights: bool = False
    # The features of each store of a join, in the order of a row.
    parts: tuple["FeatureSpec", ...] = ()


class TrainingData(Record, frozen=True):
    """The training clips and films of a model, in numbers.

    `films` is empty if the manifest has no films. `video_hashes` are the hashes of the video files
    of the training clips and of their films, as far as the store has them. `median_s` is the median
    length of the clips in seconds, or 0 if it is unknown.
    """

    manifest: str
    manifest_sha256: str
    view: str
    n_clips: int
    n_films: int
    films: tuple[str, ...] = ()
    citation: str = ""
    licence: str = ""
    video_hashes: tuple[str, ...] = ()
    median_s: float = 0.0


class Classes(Record, frozen=True, omit_defaults=True):
    """The two classes of a task, as written in a protocol."""

    classes: Mapping[str, Annotated[int, Meta(ge=0, le=1)]] = {}
    positive: str = ""
    negative: str = ""
    column: str = ""
    values: Mapping[str, Annotated[int, Meta(ge=0, le=1)]] = {}

    @classmethod
    def of(cls, task: object) -> Self:
        """Return the classes of a task of a protocol."""
        return cls(**{name: getattr(task, name) for name in cls.__struct_fields__})

    def __str__(self) -> str:
        if self.positive:
            against = f", against {self.negative}" if self.negative else ""
            return f"{self.positive}{against}"
        words = {**self.classes, **self.values}
        groups = []
        for wanted in (1, 0):
            named = [word for word, number in words.items() if number == wanted]
            groups.append(" or ".join(named))
        against = ", against ".join(groups)
        return f"{self.column} {against}".strip()


class ModelInfo(Record, frozen=True, omit_defaults=True):
    """The facts of a model. `classes` are in the order of the score columns.

    `chosen` contains the settings that were chosen on training films. `asked` defines the classes
    of the task. `where` is the expression that selected the clips of training and evaluation.
    """

    name: str
    kind: str
    task: str
    classes: tuple[str, ...]
    features: FeatureSpec
    training: TrainingData
    concepts: tuple[str, ...] = ()
    metrics: Mapping[str, CardMetric] = {}
    protocol: str = ""
    notes: tuple[str, ...] = ()
    chosen: Mapping[str, Any] = {}
    where: str = ""
    asked: Classes | None = None

    def __repr__(self) -> str:
        return short_repr("ModelInfo", repr(self.name), self.kind, self.task)

    @property
    def summary(self) -> str:
        """Model type and task in a few words, or the number of concepts for concept vectors."""
        if self.classes:
            return f"{self.kind} for {self.task}{self.with_where}"
        return f"{self.kind}, vectors of {count(len(self.concepts), 'concept')}"

    @property
    def with_where(self) -> str:
        """The expression `where` as text, such as ` with mood in {sad, calm}`, or "" if none."""
        return f" with {self.where}" if self.where else ""

    @property
    def trained_films(self) -> str:
        """The first training films, and the number of further films."""
        return few(self.training.films)

    @property
    def chosen_settings(self) -> str:
        """The chosen settings as text, such as `C = 0.1, balance = true`; "" without a choice."""
        return ", ".join(
            f"{name} = {json.dumps(value)}" for name, value in self.chosen.items()
        )

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain JSON values; a missing number is null."""
        value: dict[str, Any] = json_values(msgspec.to_builtins(self))
        return value


@dataclass(frozen=True, eq=False)
class TrainingClips:
    """The training clips of a model, with scores by fits that were not trained on them.

    Attributes:
        facts: The id of each clip, with film and span from the manifest.
        scores: For a column of `Predicted.columns()`, such as `p:positive`, one number per clip;
            NaN if no fold tested the clip.
        hashes: The hash of the features of each clip; "" if unknown, or if many clips have the same
            features because they contain no words.
    """

    facts: ClipTable
    scores: Mapping[str, Floats] = field(default_factory=dict)
    hashes: Sequence[str] = ()

    def __post_init__(self) -> None:
        if len(set(self.clip_ids)) != len(self):
            raise FixInput("the training clips contain a clip twice")
        for column, values in self.scores.items():
            if np.shape(values) != (len(self),):
                raise FixInput(
                    f"{column}: expected one score for each of {len(self)} clips"
                )

    def __len__(self) -> int:
        return len(self.facts)

    @cached_property
    def clip_ids(self) -> tuple[str, ...]:
        """The ids."""
        return tuple(self.facts.clip_ids.tolist())

    @cached_property
    def has_score(self) -> NDArray[np.bool_]:
        """Whether each clip has an out-of-fold score."""
        has_score = np.zeros(len(self), dtype=np.bool_)
        for values in self.scores.values():
            has_score |= np.isfinite(values)
        return has_score

    def to_csv(self) -> bytes:
        """Return the clips as a CSV table: clip, film, span, hash of features, scores, frames.

        A value that is unknown is "".
        """
        start_s, end_s = self.facts.times
        columns: dict[str, Sequence[Any]] = {
            "clip_id": self.clip_ids,
            "movie_id": self.facts.movie_ids.tolist(),
            "start_s": json_values(start_s),
            "end_s": json_values(end_s),
            "features": self.hashes or [""] * len(self),
        }
        for name, values in self.scores.items():
            columns[name] = json_values(values)
        if self.facts.have_frames.any():
            columns |= self.facts.frame_cells
        return csv_bytes([*columns], zip(*columns.values(), strict=True))


class ModelDocument(ModelInfo, frozen=True, kw_only=True):
    """The content of model.json: facts, estimator, and sizes and checksums of the other files.

    `sha256` is the checksum of the document without `sha256`.
    """

    created_by: str
    estimator: dict[str, Any]
    files: dict[str, FileMark]
    sha256: Sha256

    @property
    def info(self) -> ModelInfo:
        """The facts, without the estimator and the files."""
        names = ModelInfo.__struct_fields__
        return ModelInfo(**{name: getattr(self, name) for name in names})


def parse_document(data: bytes, where: str) -> ModelDocument:
    """Return the content of a model.json from its bytes; raise an error unless it is valid."""
    document = read_json(data, where)
    content = dict(document.tree)
    document.require_schema(MODEL_SCHEMA, "saved model", error=Corrupt)
    try:
        checked = msgspec.convert(document.tree, ModelDocument)
    except msgspec.ValidationError as error:
        if content.get("sha256") == document_sha256(content):
            refuse_newer(document.tree, ModelDocument, where)
        message = f"the saved model is not valid: {error}"
        raise Corrupt(message, where=where) from error
    if checked.sha256 != document_sha256(content):
        raise Corrupt("the content differs from its sha256 checksum", where=where)
    return checked


def read_training_clips(data: bytes, where: str) -> TrainingClips:
    """Return the training clips of a table that `TrainingClips.to_csv` wrote."""
    try:
        text = io.StringIO(data.decode("utf-8"), newline="")
        header, *body = csv.reader(text, strict=True)
        is_ours = tuple(header[: len(FACTS)]) == FACTS and len({*header}) == len(header)
        if not is_ours or any(len(row) != len(header) for row in body):
            raise ValueError(f"expected {', '.join(FACTS)} and scores, each once")
        rows = [dict(zip(header, row, strict=True)) for row in body]
        scores = {}
        for name in header[len(FACTS) :]:
            if name not in FRAME_COLUMNS:
                # The number of an empty cell is None, which becomes NaN.
                numbers = [_number(row[name]) for row in rows]
                scores[name] = np.array(numbers, dtype=np.float64)
        hashes = [row["features"] for row in rows]
        return TrainingClips(ClipTable.of_cells(rows), scores, hashes)
    except (FixInput, ValueError, csv.Error) as error:
        raise Corrupt(f"not a table of training clips: {error}", where=where) from error


def _number(cell: str) -> float | None:
    """Return the number in a cell, or None for an empty cell."""
    number = number_of_cell(cell)
    if cell and number is None:
        raise ValueError(f"expected a finite number, got {cell!r}")
    return number


def model_card_text(
    info: ModelInfo,
    clips: TrainingClips | None = None,
    *,
    medium: Medium = "markdown",
) -> str:
    """Return the model card: Markdown with the header that the Hugging Face hub reads.

    For a terminal, the text has no Markdown escapes.
    """
    return render("model-card.md", medium=medium, info=info, clips=clips)
