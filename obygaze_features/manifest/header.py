"""The TOML half of a manifest: checked against the schema, always written in the same form."""

from __future__ import annotations

import json
from pathlib import Path

from obygaze_features.core.schema_check import read_toml, table_of
from obygaze_features.manifest.model import Header

SCHEMA = "obygaze-manifest/1"
MAX_BYTES = 1 << 26
STRINGS = ("dataset", "unit", "view", "licence", "citation", "video_root")


def parse_header(data: bytes, path: Path) -> Header:
    """Return the header that a TOML file of these bytes is, or raise one error of all violations.

    `path` is the name of the file in messages.
    """
    document = read_toml(data, str(path), max_bytes=MAX_BYTES)
    document.require_schema(SCHEMA, "manifest")
    header: Header = document.check(table_of(Header))
    document.raise_if_any("the manifest's header is not valid")
    return header


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
