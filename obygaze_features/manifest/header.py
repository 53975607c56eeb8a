"""The TOML half of a manifest: read with every violation named, written the one way."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.manifest.model import UNITS, VIEWS, Header, Source
from obygaze_features.manifest.tables import Violations

SCHEMA = "obygaze-manifest/1"
STRINGS = ("dataset", "unit", "view", "licence", "citation", "video_root")
KEYS = {"schema", "notes", "concepts", "sources", *STRINGS}
_SHA256 = re.compile(r"[0-9a-f]{64}")


def read_header(path: Path) -> Header:
    """The header of a manifest; every violation of the schema at once."""
    return parse_header(_decoded(path), path)


def parse_header(text: str, path: Path) -> Header:
    """The header that a file of this text is."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FixInput(f"not valid TOML: {error}", where=str(path)) from error
    except RecursionError as error:
        raise FixInput(
            "this TOML is nested too deeply to be a manifest", where=str(path)
        ) from error
    _refuse_other_schemas(document, path)
    check = _Checker(path, text)
    check.known(document, KEYS, "")
    for key in STRINGS:
        check.kind(document, key, str)
    check.one_of(document, "unit", UNITS)
    check.one_of(document, "view", VIEWS)
    notes = check.strings(document.get("notes", []), "notes")
    concepts = check.mapping(document.get("concepts", {}), "concepts")
    sources = check.sources(document.get("sources", []))
    if "dataset" not in document:
        check.add("dataset", "is missing")
    check.violations.raise_if_any("the manifest's header is not valid")
    chosen = {key: document[key] for key in STRINGS if key in document}
    return Header(**chosen, concepts=concepts, notes=tuple(notes), sources=tuple(sources))


def header_to_toml(header: Header) -> str:
    """The header as TOML, the same bytes for the same header."""
    lines = [f"schema = {_quoted(SCHEMA)}"]
    for key in STRINGS:
        value = getattr(header, key)
        if value:
            lines.append(f"{key} = {_quoted(value)}")
    if header.notes:
        lines += ["notes = [", *(f"  {_quoted(note)}," for note in header.notes), "]"]
    lines += ["", "[concepts]"]
    lines += [f"{_quoted(name)} = {_quoted(kind)}" for name, kind in header.concepts.items()]
    for source in header.sources:
        lines += ["", "[[sources]]", f"file = {_quoted(source.file)}"]
        lines.append(f"sha256 = {_quoted(source.sha256)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    # JSON's escapes are a subset of TOML's; DEL alone must be escaped in TOML and is not in JSON.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _decoded(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise FixInput("not UTF-8", where=f"{path}:{line}", hint="save it as UTF-8") from error


def _refuse_other_schemas(document: Mapping[str, Any], path: Path) -> None:
    schema = document.get("schema")
    if schema == SCHEMA:
        return
    if isinstance(schema, str) and schema.startswith("obygaze-manifest/"):
        raise Mismatch(
            f"this manifest is of schema {schema!r}, this obygaze reads {SCHEMA!r}",
            where=str(path),
            hint="pip install --upgrade obygaze",
        )
    raise FixInput(f"schema = {SCHEMA!r} is missing: this is not a manifest", where=str(path))


class _Checker:
    """Collects violations of one TOML file, with the line where each key stands."""

    def __init__(self, path: Path, text: str) -> None:
        self.lines = text.splitlines()
        self.violations = Violations(path)

    def add(self, key: str, message: str) -> None:
        self.violations.add(self._line_of(key), key or "-", message)

    def known(self, table: Mapping[str, Any], keys: Iterable[str], place: str) -> None:
        allowed = sorted(keys)
        for key in table:
            if key not in allowed:
                self.add(key, f"unknown key{place}; known: {', '.join(allowed)}")

    def kind(self, table: Mapping[str, Any], key: str, kind: type) -> None:
        if key in table and not isinstance(table[key], kind):
            self.add(key, f"must be a {kind.__name__}, is {table[key]!r}")

    def one_of(self, table: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> None:
        if key in table and table[key] not in allowed:
            self.add(key, f"{table[key]!r} is not one of {', '.join(allowed)}")

    def strings(self, value: Any, key: str) -> list[str]:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return value
        self.add(key, "must be a list of strings")
        return []

    def mapping(self, value: Any, key: str) -> dict[str, str]:
        if not isinstance(value, dict):
            self.add(key, "must be a table of names and modalities")
            return {}
        for name, kind in value.items():
            if not isinstance(kind, str):
                self.add(name, f"the modality must be a string, is {kind!r}")
            if not name.strip() or "|" in name:
                self.add(name, "a concept's name is neither blank nor holds '|'")
        return value

    def sources(self, value: Any) -> list[Source]:
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.add("sources", "must be a list of tables")
            return []
        return [source for item in value if (source := self._source(item)) is not None]

    def _source(self, item: Mapping[str, Any]) -> Source | None:
        self.known(item, ("file", "sha256"), " in sources")
        file, digest = item.get("file"), item.get("sha256")
        if not isinstance(file, str) or not isinstance(digest, str):
            self.add("sources", "each needs file and sha256, both strings")
            return None
        if not _SHA256.fullmatch(digest):
            self.add("sha256", f"{digest!r} is not 64 hexadecimal digits")
        return Source(file, digest)

    def _line_of(self, key: str) -> int:
        pattern = re.compile(rf'^\s*\[*"?{re.escape(key)}"?\s*[\]=]')
        for number, line in enumerate(self.lines, start=1):
            if pattern.match(line):
                return number
        return 1
