"""List protocols, and print one of them as a file to start from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.console import table
from obygaze_models.protocols.reading import (
    load_protocol,
    protocol_names,
    text_of_protocol,
)
from obygaze_models.protocols.schema import NO_SD, Protocol

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class ProtocolList:
    """The protocols of obygaze, in the order of their names."""

    protocols: tuple[Protocol, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the name, the title and the tasks of each protocol."""
        rows = []
        for protocol in self.protocols:
            tasks = sorted(protocol.used_tasks)
            title = protocol.report.title
            rows.append({"name": protocol.name, "title": title, "tasks": tasks})
        return {"protocols": rows}

    def __str__(self) -> str:
        rows = [(protocol.name, protocol.report.title) for protocol in self.protocols]
        return table(("protocol", "what it tests"), rows)


def list_protocols() -> ProtocolList:
    """Return the protocols of obygaze.

    Example:
        >>> "honest" in str(og.protocols.ls())
        True
    """
    return ProtocolList(tuple(map(load_protocol, protocol_names())))


@dataclass(frozen=True)
class ProtocolText:
    """The file of a protocol, as TOML."""

    name: str
    toml: str

    def to_json(self) -> dict[str, str]:
        """Return the name and the text of the file."""
        return {"name": self.name, "toml": self.toml}

    def __str__(self) -> str:
        return self.toml.rstrip()


def show_protocol(protocol: str | Path, *, all: bool = False) -> ProtocolText:
    """Return a protocol as a TOML file, to start from.

    Args:
        protocol: The name of a protocol of obygaze, or a TOML file.
        all: Return every key with its value, also the keys that have their default.

    Example:
        >>> 'kind = "nested"' in str(og.protocols.show("honest"))
        True
    """
    loaded = load_protocol(protocol)
    text = whole_toml(loaded) if all else text_of_protocol(protocol)
    return ProtocolText(loaded.name, text)


def whole_toml(protocol: Protocol) -> str:
    """Return a protocol as TOML with every key but its name, which is that of the file."""
    document = protocol.to_json()
    del document["name"]
    document["models"] = {
        name: {"kind": model["kind"], **model["settings"]}
        for name, model in document["models"].items()
    }
    for value in document["paper"]:
        if value["sd"] == NO_SD:
            del value["sd"]
    return "\n".join(_lines_of_table(document, "")).strip() + "\n"


def _lines_of_table(values: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the lines of a table and of the tables in it; `path` is its dotted key."""
    tables: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{path}.{_key(name)}" if path else _key(name)
        is_list_of_tables = _is_list(value) and any(
            isinstance(item, Mapping) for item in value
        )
        if is_list_of_tables or (
            isinstance(value, Mapping) and value and _has_header(path, value)
        ):
            tables[key] = value
        else:
            yield f"{_key(name)} = {_toml_value(value)}"
    for key, value in tables.items():
        of_list = _is_list(value)
        for one in value if of_list else [value]:
            lines = list(_lines_of_table(one, key))
            # A table that has tables only needs no header.
            if lines[:1] != [""]:
                yield from ("", f"[[{key}]]" if of_list else f"[{key}]")
            yield from lines


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _has_header(path: str, table: Mapping[str, Any]) -> bool:
    """Return whether a table has a header; the classes of a task are on one line."""
    return not path or not all(isinstance(value, int) for value in table.values())


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = [f"{_key(name)} = {_toml_value(one)}" for name, one in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if _is_list(value):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False)
