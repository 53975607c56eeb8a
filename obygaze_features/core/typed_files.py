"""Read the tree of a TOML or JSON file into a record, whose annotations say what a file may hold.

    class Film(Record, frozen=True):
        title: str
        year: Annotated[int, Meta(ge=1888)] = 1888
        sources: tuple[Source, ...] = ()

    document = read_toml(data, "film.toml")
    film = record_of(document, Film, "the film is not valid")

A missing key, an unknown key and a value of another type are violations. The error lists all of
them, each with its line and its key: `film.toml:4: sources[0].sha256: must be ...`. A description
in `Meta(description=...)` says in errors what a value must be; without one, msgspec does.
"""

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from obygaze_features.core.schema_check import Document
from obygaze_features.core.schema_rules import near

T = TypeVar("T")
Sha256 = Annotated[
    str, Meta(pattern=r"^[0-9a-f]{64}\Z", description="64 hexadecimal digits")
]
Count = Annotated[
    int,
    Meta(ge=0, lt=10**9, description="a whole number, at least 0, at most 999999999"),
]
_INVALID: Any = object()
_PLACE = re.compile(r"(?P<message>.*) - at `\$(?P<place>.*)`", re.DOTALL)


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a table of a file: a value of the annotated type for each key."""


def record_of(document: Document, kind: type[T], summary: str) -> T:
    """Return the record of a document, or raise one error that lists every violation."""
    record: T = _record(document, document.tree, kind, "")
    document.raise_if_any(summary)
    return record


def checked_record(document: Document, kind: type[T]) -> T | None:
    """Return the record of a document; None where there is a violation, for a reader with more."""
    record: T = _record(document, document.tree, kind, "")
    return None if record is _INVALID else record


def _value(document: Document, value: Any, kind: Any, key_path: str) -> Any:
    """Return a value as its type; a violation where it is none."""
    if _is_record(kind):
        return _record(document, value, kind, key_path)
    arguments = get_args(kind)
    if get_origin(kind) is Mapping:
        return _mapping(document, value, arguments, key_path)
    if get_origin(kind) is tuple and arguments[-1] is ...:
        return _items(document, value, arguments[0], key_path)
    return _plain(document, value, kind, key_path)


def _record(document: Document, value: Any, kind: Any, key_path: str) -> Any:
    """Return the record of a table."""
    if not isinstance(value, Mapping):
        document.add(key_path, f"must be a table, got {value!r}")
        return _INVALID
    hints = _hints(kind)
    values = {}
    for key, item in value.items():
        inner = f"{key_path}.{key}" if key_path else str(key)
        if key not in hints:
            document.unknown(inner, key, hints)
            continue
        values[key] = _value(document, item, hints[key], inner)
    missing = [key for key in _required(kind) if key not in value]
    for key in missing:
        inner = f"{key_path}.{key}" if key_path else key
        document.add(inner, "required key is missing")
    if missing or _INVALID in values.values():
        return _INVALID
    return kind(**values)


def _mapping(
    document: Document, value: Any, arguments: tuple[Any, ...], key_path: str
) -> Any:
    """Return a table whose keys are names; each value is named by its key."""
    if not isinstance(value, Mapping):
        document.add(key_path, f"must be a table, got {value!r}")
        return _INVALID
    (names, kind) = arguments
    values = {}
    for key, item in value.items():
        inner = f"{key_path}.{key}"
        _plain(document, key, names, inner)
        values[key] = _value(document, item, kind, inner)
    return _INVALID if _INVALID in values.values() else values


def _items(document: Document, value: Any, kind: Any, key_path: str) -> Any:
    """Return a list of any length; each value in it is named by its index."""
    if not isinstance(value, list):
        document.add(key_path, f"must be a list, got {value!r}")
        return _INVALID
    items = []
    for index, item in enumerate(value):
        items.append(_value(document, item, kind, f"{key_path}[{index}]"))
    return _INVALID if _INVALID in items else tuple(items)


def _plain(document: Document, value: Any, kind: Any, key_path: str) -> Any:
    """Return a value that is no table."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message = str(error)
        message = message[0].lower() + message[1:]
    place = _PLACE.fullmatch(message)
    expected = _expected(value, kind)
    if expected:
        document.add(key_path, f"must be {expected}, got {value!r}")
    elif place:
        document.add(key_path + place["place"], place["message"])
    else:
        document.add(key_path, message)
    return _INVALID


def _expected(value: Any, kind: Any) -> str:
    """Return what a value must be in words; "" where msgspec says it as well."""
    if get_origin(kind) is Literal:
        allowed = [str(word) for word in get_args(kind) if word != ""]
        return f"one of {', '.join(allowed)}{near(str(value), allowed)}"
    for meta in get_args(kind)[1:]:
        if isinstance(meta, Meta) and meta.description:
            return meta.description
    return ""


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (
        issubclass(kind, msgspec.Struct) or is_dataclass(kind)
    )


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the type of each key of a record."""
    hints = get_type_hints(kind, include_extras=True)
    if is_dataclass(kind):
        return {one.name: hints[one.name] for one in fields(kind) if one.init}
    return {name: hints[name] for name in kind.__struct_fields__}  # type: ignore[attr-defined]


@cache
def _required(kind: type) -> list[str]:
    """Return the keys of a record that have no default."""
    if is_dataclass(kind):
        return [
            one.name
            for one in fields(kind)
            if one.init and one.default is one.default_factory is MISSING
        ]
    return [one.name for one in msgspec.structs.fields(kind) if one.required]
