"""What all records of results.json share: typed fields, and how they are written and read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, field, fields
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

from obygaze_features.core.files import json_values


class Record(Mapping[str, Any]):
    """A record, or a part of one: a frozen dataclass whose fields are keys of the file, in order.

    `record.n_test` is the value of a field. As a mapping, a record is the object in the file:
    `record["n_test"]` is the same value, and `record["folds"]` a list of dictionaries. Numbers that
    are not finite are null in the file, and None once the file was read.
    """

    def to_json(self) -> dict[str, Any]:
        """Return the object in the file."""
        document: dict[str, Any] = {}
        for item in fields(self):  # type: ignore[arg-type]
            value = getattr(self, item.name)
            if item.metadata.get("is_optional") and value is None:
                continue
            if "inline" in item.metadata:
                document |= _as_json(value)
            else:
                document[item.name] = _as_json(value)
        return document

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Return the record of an object in a file.

        A field with a default may be missing. ValueError says what is missing or of another form.
        """
        if not isinstance(document, Mapping):
            raise ValueError(f"expected an object, got {str(document)[:40]!r}")
        types = _types_of(cls)
        values: dict[str, Any] = {}
        for item in fields(cls):  # type: ignore[arg-type]
            name = item.name
            if "inline" in item.metadata:
                has_form = item.metadata["inline"]
                inline = {
                    key: value
                    for key, value in document.items()
                    if key not in types and has_form(value)
                }
                values[name] = _from_json(types[name], inline)
                continue
            if name in document:
                values[name] = _from_json(types[name], document[name])
            elif item.default is MISSING and item.default_factory is MISSING:
                raise ValueError(f"the key {name!r} is missing")
        return cls(**values)

    def as_read(self) -> Self:
        """Return this record as it is read from the file, with None for what is not finite."""
        return self.from_json(self.to_json())

    def __getitem__(self, key: str) -> Any:
        return self._document[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    @cached_property
    def _document(self) -> dict[str, Any]:
        return self.to_json()


class RunRecord(Record):
    """A record of results.json, which has a kind; other records are parts of one."""

    kind: str


def optional_key() -> Any:
    """Return a field that is left out of the file where it is None."""
    return field(default=None, metadata={"is_optional": True})


def inline(has_form: Callable[[Any], bool]) -> Any:
    """Return a field for a mapping whose keys are keys of the record itself, such as metrics.

    They are all keys without a field of their own whose value has the form: metrics may be of
    own code.
    """
    return field(default_factory=dict, metadata={"inline": has_form})


def is_value(value: Any) -> bool:
    """Return whether a value of a file is a number, or null in place of one."""
    return value is None or (
        isinstance(value, int | float) and not isinstance(value, bool)
    )


def is_estimate(value: Any) -> bool:
    """Return whether a value of a file is an object with a value, and perhaps its interval."""
    return isinstance(value, Mapping) and "value" in value


def is_spread(value: Any) -> bool:
    """Return whether a value of a file is an object with a deviation."""
    return isinstance(value, Mapping) and "sd" in value


def _as_json(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return json_values(value)


def _from_json(kind: Any, value: Any) -> Any:
    """Return a value of a file as the type of its field; only parts that are records change."""
    if value is None or not _has_record(kind):
        return value
    if isinstance(kind, type):
        return kind.from_json(value)  # type: ignore[attr-defined]
    origin = get_origin(kind)
    arguments = get_args(kind)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise ValueError(f"expected an object, got {str(value)[:40]!r}")
        return {key: _from_json(arguments[1], item) for key, item in value.items()}
    if origin is Sequence:
        if not isinstance(value, list):
            raise ValueError(f"expected a list, got {str(value)[:40]!r}")
        return [_from_json(arguments[0], item) for item in value]
    (inner,) = (argument for argument in arguments if argument is not NoneType)
    return _from_json(inner, value)


@cache
def _has_record(kind: Any) -> bool:
    """Return whether values of a type are records, or hold some."""
    if get_origin(kind) in (Mapping, Sequence, Union, UnionType):
        return any(_has_record(argument) for argument in get_args(kind))
    return isinstance(kind, type) and issubclass(kind, Record)


@cache
def _types_of(record: type[Record]) -> dict[str, Any]:
    return get_type_hints(record)
