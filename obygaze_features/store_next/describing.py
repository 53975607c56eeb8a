"""What a person is told of a store, and of all stores of a workspace."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from obygaze_features.core.console import count, human, table
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.outside import safe_text
from obygaze_features.core.workspace import Workspace
from obygaze_features.store_next.card import (
    array_facts,
    maker_text,
    recipe_sentences,
)
from obygaze_features.store_next.exporting import terms_of
from obygaze_features.store_next.layout import BEFORE, NEXT, PLAN_JSON, STORE_JSON
from obygaze_features.store_next.reading import (
    BeingFilled,
    Store,
    being_filled_at,
    open_store,
)
from obygaze_features.store_next.records import Replaced
from obygaze_features.store_next.rows import STATUSES

# The first sentence of a store that is being filled, without what comes before the numbers.
_PROGRESS = re.compile(r"\d+ of \d+ blocks?")


def summary(store: Store) -> dict[str, Any]:
    """Return the facts of a store as plain JSON; only its card is read beside store.json."""
    record = store.record
    terms = terms_of(store)
    facts: dict[str, Any] = {
        "location": store.location,
        "seal": store.seal,
        "created": record.created,
        "program": record.program,
        "backbone": store.recipe.title,
        "fingerprint": record.fingerprint,
        "manifest": msgspec.to_builtins(record.manifest),
        "n_clips": len(store),
        "counts": _counts(store),
        "arrays": msgspec.to_builtins(record.arrays),
        "feature_arrays": list(store.feature_arrays),
        "makers": msgspec.to_builtins(record.makers),
        "replaces": msgspec.to_builtins(record.replaces),
        "origins": msgspec.to_builtins(record.origins),
        "n_files": len(record.files) + 1,
        "n_bytes": sum(mark.n_bytes for mark in record.files.values()),
        "licence": terms.licence,
        "citation": terms.citation,
    }
    return facts


def _counts(store: Store) -> dict[str, int]:
    """Return how many rows have each status that occurs."""
    rows = store.record.rows
    numbers = (rows.ok, rows.failed, rows.no_video, rows.withdrawn)
    counts = dict(zip(STATUSES, numbers, strict=True))
    return {status: number for status, number in counts.items() if number}


def describe(store: Store) -> str:
    """Return a page on a store: its rows, recipe, arrays, makers, history, terms and seal."""
    facts = summary(store)
    counts: Mapping[str, int] = facts["counts"]
    parts = ", ".join(f"{number} {status}" for status, number in counts.items())
    lines = [
        f"{store.location}: {count(len(store), 'clip')} of {_safe(store.record.manifest.name)}"
        f" ({parts})",
        *map(_safe, recipe_sentences(store.recipe)),
        "",
        table(
            ["array", "one clip", "type", "all clips"],
            [array_facts(array, len(store)) for array in store.record.arrays],
        ),
        "",
        f"{count(facts['n_files'], 'file')}, {human(facts['n_bytes'])}",
    ]
    lines += [_safe(f"made by {maker_text(maker)}") for maker in store.record.makers]
    lines += [
        f"rows from {_safe(origin.place)} (seal {origin.seal[:16]})"
        for origin in store.record.origins
    ]
    lines += [_change_text(entry) for entry in store.record.replaces]
    lines += [
        f"licence: {_safe(facts['licence']) or 'not stated'}",
        f"cite: {_safe(facts['citation']) or 'nothing was stated'}",
        f"fingerprint: {store.fingerprint}",
        f"seal: {store.seal}",
    ]
    return "\n".join(lines)


def _change_text(entry: Replaced) -> str:
    """Return a change of a store as one line."""
    line = f"{entry.date}: took the place of {entry.seal[:16]}"
    if entry.reason:
        line += f": {entry.reason}"
    if entry.author:
        line += f", by {entry.author}"
    withdrawn = [*entry.films, *entry.clips]
    if withdrawn:
        line += f" (withdrawn: {', '.join(withdrawn)})"
    return _safe(line)


def _safe(text: str) -> str:
    return safe_text(text, "terminal")


class Listed(NamedTuple):
    """One store of a workspace, as a line of a list.

    Args:
        name: Its name.
        state: `sealed`, how far it is filled, or why it cannot be read.
        n_clips: Its rows; None where they are not known.
        arrays: Its arrays.
        backbone: What made them.
    """

    name: str
    state: str
    n_clips: int | None = None
    arrays: tuple[str, ...] = ()
    backbone: str = ""


def list_stores(workspace: Workspace) -> list[Listed]:
    """Return all stores of a workspace; one that cannot be read is a line with the reason.

    A store that is being filled is a line of its own, whether or not its name has a store.
    """
    stores = workspace.folder("stores")
    listed = []
    for name in workspace.names("stores"):
        path = stores / name
        if BEFORE in name:
            continue
        if name.endswith(NEXT):
            listed += _filling_line(path)
        elif (path / STORE_JSON).exists():
            listed.append(_store_line(path))
    return listed


def _filling_line(path: Path) -> list[Listed]:
    """Return the line of NAME.next; none where it is a finished store that waits for its name."""
    if not (path / PLAN_JSON).exists():
        return []
    name = path.name.removesuffix(NEXT)
    try:
        return [Listed(name, filling_state(path))]
    except (ObygazeError, OSError) as error:
        return [Listed(name, f"being filled: {error}".splitlines()[0])]


def filling_state(path: Path) -> str:
    """Return how far a store is filled: `being filled, 37 of 120 blocks`; "" if it is not."""
    being_filled: BeingFilled | None = being_filled_at(path)
    if being_filled is None:
        return ""
    progress = _PROGRESS.search(being_filled.message)
    return f"being filled, {progress[0]}" if progress else "being filled"


def _store_line(path: Path) -> Listed:
    try:
        store = open_store(path)
        arrays = tuple(array.name for array in store.record.arrays)
        return Listed(path.name, "sealed", len(store), arrays, store.recipe.title)
    except (ObygazeError, OSError) as error:
        return Listed(path.name, f"cannot be read: {str(error).splitlines()[0]}")


def stores_text(listed: list[Listed]) -> str:
    """Return the list as a table."""
    rows = []
    for store in listed:
        n_clips = "" if store.n_clips is None else store.n_clips
        rows.append(
            (
                _safe(store.name),
                _safe(store.state),
                n_clips,
                ", ".join(store.arrays),
                store.backbone,
            )
        )
    return table(["store", "state", "clips", "arrays", "backbone"], rows)
