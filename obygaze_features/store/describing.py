"""Describe a store: the page of `obygaze store info`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from obygaze_features.core.console import count, human, table
from obygaze_features.core.untrusted_text import safe_text
from obygaze_features.core.workspace import PathLike
from obygaze_features.core.written_tables import Columns, Listing
from obygaze_features.store.card import (
    array_facts,
    maker_text,
    recipe_sentences,
)
from obygaze_features.store.layout import ALWAYS_THERE
from obygaze_features.store.reading import (
    Store,
    name_of,
    open_store,
)
from obygaze_features.store.rows import words_of_status

SHOWN_ROWS = 20


# --- One store ---


def facts_of_store(store: Store) -> dict[str, Any]:
    """Return the facts of a store as plain JSON; only store.json and the card are read."""
    facts: dict[str, Any] = msgspec.to_builtins(store.record)
    for name in ("sha256", "format", "version", "columns", "rows", "files"):
        facts.pop(name, None)
    terms = store.terms
    return {
        "location": store.location,
        "seal_sha256": store.seal,
        "backbone": store.recipe.title,
        "n_clips": len(store),
        "counts": store.record.rows.by_status,
        "feature_arrays": list(store.feature_arrays),
        "default_array": store.default_array,
        "n_bytes": store.record.n_bytes,
        "licence": terms.licence,
        "citation": terms.citation,
        **facts,
    }


def describe(store: Store) -> str:
    """Return a page on a store: its rows, recipe, arrays, makers, history, terms and seal."""
    record = store.record
    terms = store.terms
    counts = []
    for status, number in record.rows.by_status.items():
        words = words_of_status(status, is_imported=store.recipe.is_unknown)
        counts.append(f"{number} {words}")
    arrays = [array_facts(array, len(store)) for array in record.arrays]
    lines = [
        f"{store.location}: {count(len(store), 'clip')} of {record.manifests_text}"
        f" ({', '.join(counts)})",
        *recipe_sentences(store.recipe),
    ]
    n_above = len(lines)
    if not store.table.films:
        lines.append("films: not stated")
    if len(store.feature_arrays) > 1:
        lines.append(
            f"default array: {store.default_array} (read if no array is named)"
        )
    lines.append(f"size: {human(record.n_bytes)}, without store.json and README.md")
    lines += [f"made by {maker_text(maker)}" for maker in record.makers]
    lines += [f"made from {one.place} ({one.seal})" for one in record.origins]
    lines += [f"replaces the store with the seal {seal}" for seal in record.replaces]
    lines += [
        f"licence: {terms.licence or 'not stated'}",
        f"cite: {terms.citation or 'not stated'}",
        f"fingerprint: {store.fingerprint} (of the recipe: only stores with the same"
        " fingerprint can be merged)",
        f"seal: {store.seal} (of all files but README.md: only an exact copy has the same seal)",
        *_lines_of_absent(store),
    ]
    lines = [safe_text(line, "terminal") for line in lines]
    shown = table(["array", "one clip", "type", "all clips"], arrays)
    lines[n_above:n_above] = ["", shown, ""]
    return "\n".join(lines)


def _lines_of_absent(store: Store) -> list[str]:
    """Return a line for each of the first clips without features.

    If there are more such clips, a further line has their number.
    """
    _, reasons = store.presence(store.clip_ids.tolist())
    lines = [f"{clip} {why.status}: {why.sentence}" for clip, why in reasons.items()]
    n_more = len(lines) - SHOWN_ROWS
    more = [f"... and {n_more} more without features (--clips)"] if n_more > 0 else []
    return [*lines[:SHOWN_ROWS], *more]


@dataclass(frozen=True, eq=False, repr=False)
class StorePage(Listing):
    """The contents of a store, and how it was made.

    Args:
        name: The name, folder or URL by which the store was opened.
        store: The store.
        with_clips: Whether the page lists the clips of the store.
    """

    name: str
    store: Store
    with_clips: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the facts, and the clips if `with_clips`."""
        facts = {"name": self.name, **facts_of_store(self.store)}
        if self.with_clips:
            columns = self.table()
            rows = zip(*columns.values(), strict=True)
            facts["clips"] = [dict(zip(columns, row, strict=True)) for row in rows]
        return facts

    def __str__(self) -> str:
        if not self.with_clips:
            return describe(self.store)
        columns = self.table()
        return table(tuple(columns), zip(*columns.values(), strict=True))

    def table(self) -> Columns:
        """Return the clips of the store as columns, with statuses and reasons."""
        rows = self.store.rows
        return {name: [getattr(row, name) for row in rows] for name in ALWAYS_THERE}


def describe_store(
    store: PathLike | Store,
    *,
    clips: bool = False,
    workspace: PathLike | None = None,
) -> StorePage:
    """Show what a store has and how it was made.

    STORE is a store of the workspace, a folder or a URL. Only small files are read.

    Args:
        store: The store.
        clips: List its clips, and why some have no features; -o writes this list to a file.
        workspace: The workspace, if it is not the current one.
    """
    opened = open_store(store, workspace=workspace)
    return StorePage(name_of(store), opened, clips)
