"""What a saved model says of itself: what it decides, on which features, and how well."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from obygaze_features.core.errors import Corrupt, Mismatch

SCHEMA = "obygaze-model/2"
READABLE = ("obygaze-model/1", SCHEMA)  # the first does not list the training clips


@dataclass(frozen=True)
class FeatureSpec:
    """The features a model reads: only stores of this fingerprint have them."""

    backbone: str
    level: str
    width: int
    fingerprint: str
    store: str = ""


@dataclass(frozen=True)
class TrainingData:
    """What a model learned from."""

    manifest: str
    manifest_sha256: str
    view: str
    n_clips: int
    n_movies: int
    movies: tuple[str, ...] = ()
    citation: str = ""
    licence: str = ""


@dataclass(frozen=True)
class ModelInfo:
    """The facts that go with a model. `classes` name its classes in the order of its columns."""

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

    def to_json(self) -> dict[str, Any]:
        """The facts as plain JSON values; a number that has no value is null."""
        value: dict[str, Any] = _plain(asdict(self))
        return value


def info_from_json(value: Mapping[str, Any], where: str) -> ModelInfo:
    """The facts as they stand in a file; whatever does not fit is an error."""
    try:
        parts = dict(value)
        parts["features"] = _exactly(FeatureSpec, parts["features"])
        training = dict(parts["training"])
        training["movies"] = tuple(training.get("movies", ()))
        parts["training"] = _exactly(TrainingData, training)
        for name in ("classes", "concepts", "notes"):
            parts[name] = tuple(str(item) for item in parts.get(name, ()))
        info: ModelInfo = _exactly(ModelInfo, parts)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise Corrupt(f"this does not describe a model: {error}", where=where) from error
    if not isinstance(info.features.width, int) or info.features.width < 1:
        raise Corrupt(f"a width of {info.features.width!r}", where=where)
    if not isinstance(info.metrics, Mapping) or not all(map(_is_table, info.metrics.values())):
        raise Corrupt("the metrics are no tables", where=where)
    described: tuple[Any, ...] = (info, info.features, info.training)
    for part in described:
        for own in fields(part):
            told = getattr(part, own.name)
            if own.type == "str" and not isinstance(told, str):
                raise Corrupt(f"{own.name} is no text: {told!r}", where=where)
    return info


def _is_table(found: Any) -> bool:
    interval = found.get("ci") if isinstance(found, Mapping) else ""
    return interval is None or (isinstance(interval, list | tuple) and len(interval) == 2)


def check_schema(document: Any, where: str) -> None:
    """Refuse what is no model, and models of a later format."""
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema in READABLE:
        return
    if isinstance(schema, str) and schema.startswith("obygaze-model/"):
        raise Mismatch(
            f"this model is of format {schema!r}, this obygaze reads {SCHEMA!r}",
            where=where,
            hint="pip install --upgrade obygaze",
        )
    raise Corrupt("this is not a saved model", where=where)


def _exactly(kind: Any, value: Mapping[str, Any]) -> Any:
    unknown = set(value) - {known.name for known in fields(kind)}
    if unknown:
        raise ValueError(f"unknown {', '.join(sorted(unknown))} in {kind.__name__}")
    return kind(**value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
