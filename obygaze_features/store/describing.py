"""What is said of a store, and of all stores of a workspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from obygaze_features.core.console import count, human, table
from obygaze_features.core.outside import safe_text
from obygaze_features.core.workspace import PathLike
from obygaze_features.core.written_tables import Columns, Listing
from obygaze_features.store.card import (
    array_facts,
    maker_text,
    recipe_sentences,
)
from obygaze_features.store.reading import (
    Store,
    name_of,
    open_store,
)
from obygaze_features.store.rows import words_of_status

SHOWN_ROWS = 20


# --- One store ---


def facts_of_store(store: Store) -> dict[str, Any]:
    """Return the facts of a store as plain JSON; only its card is read beside store.json."""
    record = store.record
    terms = store.terms
    arrays = []
    for array in record.arrays:
        arrays.append(
            {
                "name": array.name,
                "dtype": array.dtype,
                "tail_shape": list(array.shape),
                "dims": list(array.dims),
            }
        )
    return {
        "location": store.location,
        "state": "sealed",
        "seal_sha256": store.seal,
        "created": record.created,
        "program": record.program,
        "backbone": store.recipe.title,
        "recipe": record.recipe,
        "fingerprint": record.fingerprint,
        "manifest": msgspec.to_builtins(record.manifest),
        "n_clips": len(store),
        "counts": record.rows.by_status,
        "arrays": arrays,
        "feature_arrays": list(store.feature_arrays),
        "default_array": store.default_array,
        "makers": msgspec.to_builtins(record.makers),
        "replaces": list(record.replaces),
        "origins": msgspec.to_builtins(record.origins),
        "n_bytes": record.n_bytes,
        "licence": terms.licence,
        "citation": terms.citation,
    }


def describe(store: Store) -> str:
    """Return a page on a store: its rows, recipe, arrays, makers, history, terms and seal."""
    record = store.record
    facts = facts_of_store(store)
    parts = []
    for status, number in store.record.rows.by_status.items():
        words = words_of_status(status, is_extracted=store.recipe.is_extracted)
        parts.append(f"{number} {words}")
    arrays = [array_facts(array, len(store)) for array in store.record.arrays]
    first_lines = [
        f"{store.location}: {count(len(store), 'clip')} of"
        f" {store.record.manifest.text} ({', '.join(parts)})",
        *recipe_sentences(store.recipe),
    ]
    last_lines = []
    if not store.table.films:
        last_lines.append("films: none is stated")
    if len(store.feature_arrays) > 1:
        last_lines.append(
            f"default array: {store.default_array}, which is read where no other is named"
        )
    last_lines += [
        f"size: {human(facts['n_bytes'])}, without store.json and README.md",
        *(f"made by {maker_text(maker)}" for maker in record.makers),
        *(
            f"made from {origin.place} ({origin.seal})"
            for origin in store.record.origins
        ),
        *(f"replaced the store with the seal {seal}" for seal in store.record.replaces),
        f"licence: {facts['licence'] or 'not stated'}",
        f"cite: {facts['citation'] or 'nothing was stated'}",
        f"fingerprint: {store.fingerprint} (of how they were made: only stores with the"
        " same fingerprint can be merged)",
        f"seal: {store.seal} (of all files but README.md: only an exact copy has the same seal)",
        *_lines_of_absent(store),
    ]
    return "\n".join(
        [
            *(safe_text(line, "terminal") for line in first_lines),
            "",
            table(["array", "one clip", "type", "all clips"], arrays),
            "",
            *(safe_text(line, "terminal") for line in last_lines),
        ]
    )


def _lines_of_absent(store: Store) -> list[str]:
    """Return the first clips without features, with their reasons."""
    reasons = store.status().reasons
    shown = list(reasons)[:SHOWN_ROWS]
    clips = store.clip_ids[shown].tolist() if shown else []
    lines = []
    for clip, number in zip(clips, shown, strict=True):
        reason = reasons[number]
        lines.append(f"{clip} {reason.status}: {reason.sentence}")
    if len(reasons) > SHOWN_ROWS:
        n_more = len(reasons) - SHOWN_ROWS
        lines.append(f"... and {n_more} more without features (--clips)")
    return lines


@dataclass(frozen=True, eq=False, repr=False)
class StorePage(Listing):
    """What a store has and how it was made.

    Args:
        name: The store, as it was named.
        store: The store.
        with_clips: Whether its clips were asked for.
    """

    name: str
    store: Store
    with_clips: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the facts, and the clips if these were asked for."""
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
        """Return the clips of the store as columns, with the reasons of those without features."""
        rows = self.store.rows
        return {
            "clip_id": [row.clip_id for row in rows],
            "movie_id": [row.movie_id for row in rows],
            "start_s": [row.start_s for row in rows],
            "end_s": [row.end_s for row in rows],
            "status": [row.status for row in rows],
            "reason": [row.reason for row in rows],
        }


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

    Commands:
        obygaze store info obygaze12-xclip
        obygaze store info https://example.org/stores/obygaze12-xclip --json
        obygaze store info obygaze12-xclip --clips -o clips.xlsx
    """
    opened = open_store(store, workspace=workspace)
    return StorePage(name_of(store), opened, clips)
