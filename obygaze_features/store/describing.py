"""Describe a store: the page of `obygaze store info`."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import msgspec

from obygaze_features.core.console import human, table
from obygaze_features.core.untrusted_text import safe_text
from obygaze_features.core.workspace import PathLike
from obygaze_features.core.written_tables import Columns, Listing
from obygaze_features.store.card import (
    array_facts,
    flat_values,
    maker_text,
    recipe_lines,
    recipe_text,
    versions_text,
)
from obygaze_features.store.layout import ALWAYS_THERE
from obygaze_features.store.reading import (
    Store,
    name_of,
    open_store,
)
from obygaze_features.store.rows import words_of_status

SHOWN_ROWS = 20
WIDTH = 80


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
    facts = [
        (name, safe_text(value, "terminal")) for name, value in _facts_of_page(store)
    ]
    width = max(len(name) for name, _ in facts) + 2
    lines = []
    for name, value in facts:
        lines += textwrap.wrap(
            value,
            WIDTH,
            initial_indent=name.ljust(width),
            subsequent_indent=" " * width,
            break_long_words=False,
            break_on_hyphens=False,
        )
    rows = []
    has_several = len(store.feature_arrays) > 1
    for array in store.record.arrays:
        name, *cells = array_facts(array, len(store))
        is_default = has_several and name == store.default_array
        rows.append((f"{name} *" if is_default else name, *cells))
    lines += ["", table(["array", "one clip", "type", "all clips"], rows)]
    if has_several:
        lines.append("* is read if no array is named")
    absent = _lines_of_absent(store)
    if absent:
        lines += ["", *(safe_text(line, "terminal") for line in absent)]
    return "\n".join(lines)


def _facts_of_page(store: Store) -> list[tuple[str, str]]:
    """Return the names and texts of the facts at the top of a page."""
    record = store.record
    counts = []
    for status, number in record.rows.by_status.items():
        words = words_of_status(status, is_imported=store.recipe.is_unknown)
        counts.append(f"{number} {words}")
    n_films = len({*store.table.films} - {""}) if store.table.films else 0
    facts = [
        ("Store", store.location),
        ("Clips", f"{len(store)} of {record.manifests_text}: {', '.join(counts)}"),
        ("Films", str(n_films or "not stated")),
        ("Features", recipe_text(store.recipe)),
    ]
    stated = [f"{key} {text}" for key, text in flat_values(store.recipe.facts) if key]
    if stated:
        facts.append(("Stated", ", ".join(stated)))
    facts.append(("Size", human(record.n_bytes)))
    facts += [
        ("Made", f"{record.created[:10]} by {maker_text(maker)}")
        for maker in record.makers
    ]
    facts += [("From", f"{one.place} ({one.seal})") for one in record.origins]
    facts += [("Replaces", f"the store with the seal {one}") for one in record.replaces]
    return [
        *facts,
        ("Licence", store.terms.licence or "not stated"),
        ("Cite", store.terms.citation or "not stated"),
        (
            "Recipe",
            f"{store.fingerprint[:12]}, of all stores that can be merged with it",
        ),
        ("Seal", store.seal),
    ]


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

    @property
    def details(self) -> list[str]:
        """The whole recipe, its fingerprint, and the versions of packages."""
        if self.with_clips:
            return []
        makers = [versions_text(maker) for maker in self.store.record.makers]
        return [
            *recipe_lines(self.store.recipe),
            f"fingerprint: {self.store.fingerprint}",
            *(f"versions: {versions}" for versions in makers if versions),
        ]

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

    Only small files are read.

    Args:
        store: A store of the workspace, a folder or a URL.
        clips: Whether to list the clips, and why some have no features.
        workspace: The workspace, if it is not the current one.
    """
    opened = open_store(store, workspace=workspace)
    return StorePage(name_of(store), opened, clips)
