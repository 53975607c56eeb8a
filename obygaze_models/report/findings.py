"""What audits found, where their findings lie in a run's `audits` folder as JSON.

A finding is {"title": text, "sentences": [text], "headers": [text], "rows": [[value]],
"figure": NAME.svg beside it, or null}.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import Corrupt
from obygaze_models.report.tables import Table, slug

FOLDER = "audits"


def findings(run: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """The findings of a run's folder, by name; other JSON files there are no findings."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for path in sorted((run / FOLDER).glob("*.json")):
        try:
            held = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise Corrupt(f"not valid JSON: {error}", where=str(path)) from error
        if isinstance(held, dict) and {"title", "headers", "rows"} <= held.keys():
            _check(held, path)
            found.append((slug(path.stem), held))
    return found


def finding_tables(run: Path) -> Iterable[Table]:
    """One table a finding, its sentences below."""
    for name, held in findings(run):
        yield Table(
            f"audit-{name}",
            str(held["title"]),
            tuple(str(header) for header in held["headers"]),
            tuple(tuple(row) for row in held["rows"]),
            " ".join(str(sentence) for sentence in held.get("sentences") or ()),
        )


def picture_of(run: Path, held: Mapping[str, Any]) -> Path | None:
    """The drawing of a finding: a plain file name in the same folder, or none."""
    name = held.get("figure")
    if not isinstance(name, str) or Path(name).name != name or not name.endswith(".svg"):
        return None
    path = run / FOLDER / name
    return path if path.is_file() and not path.is_symlink() else None


def _check(held: Mapping[str, Any], path: Path) -> None:
    width = len(held["headers"]) if isinstance(held["headers"], list) else -1
    rows = held["rows"] if isinstance(held["rows"], list) else [None]
    values = (str, int, float, type(None))
    if not all(
        isinstance(row, list)
        and len(row) == width
        and all(isinstance(cell, values) for cell in row)
        for row in rows
    ):
        raise Corrupt("the rows of this finding do not fit its headers", where=str(path))
