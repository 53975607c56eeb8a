"""Describe a store: how it was made, its card, a page for people, a summary as JSON."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from obygaze_features.core.console import count, human, table
from obygaze_features.core.metadata import render, spdx_of
from obygaze_features.store.format.makers import MadeBy
from obygaze_features.store.format.recipe import SECTIONS, UNVERIFIED, Recipe
from obygaze_features.store.format.records import Plan, Terms
from obygaze_features.store.format.schema import RowStatus
from obygaze_features.store.read.reader import Status, Store

SHOWN_ROWS = 20
_HASH = re.compile(r"[0-9a-f]{40,64}")


def explain(plan: Plan, counts: Mapping[str, int] | None = None) -> str:
    """Return a few sentences on what the store holds and how it was made."""
    text = (
        f"This store holds features of {plan.n_clips:,} clips of the manifest "
        f"{plan.manifest_name!r}, in {count(plan.n_blocks, 'block')} of {plan.block_rows} clips."
    )
    states = [f"{n:,} {state}" for state, n in (counts or {}).items() if n]
    if states:
        text += f" Of the clips, {_listed(states)}."
    return f"{text}\n\n{explain_recipe(plan.recipe)}"


def explain_recipe(recipe: Recipe) -> str:
    """Return how the numbers were made, one sentence for each section."""
    value = recipe.to_json()
    facts: dict[str, Any] = {
        "words": _words,
        "named": _named,
        "listed": _listed,
        "value": value,
    }
    if not recipe.is_unknown:
        # The unverified checkpoint goes with the weights.
        facts["unverified"] = value["backbone"].pop(UNVERIFIED, "")
        hashes = [
            f"{name} (sha256 {_word(sha)})" for name, sha in value["weights"].items()
        ]
        sampling = value["sampling"]
        facts["hashes"] = hashes
        facts["rest"] = {
            key: sampling[key] for key in sampling if key not in ("frames", "rule")
        }
        facts["extra"] = {key: value[key] for key in value if key not in SECTIONS}
    return render("recipe.txt", recipe=recipe, **facts).rstrip("\n")


def _named(section: Mapping[str, Any]) -> str:
    facts = _words({key: value for key, value in section.items() if key != "name"})
    name = str(section.get("name", "unknown"))
    if not facts:
        return name
    return f"{name} ({facts})"


def _words(section: Mapping[str, Any]) -> str:
    """Return the keys and values of a section, without the empty ones."""
    phrases = []
    for key, value in section.items():
        if value in ("", None, {}, []):
            continue
        name = key.replace("_", " ")
        if isinstance(value, Mapping):
            phrases.append(f"{name} ({_words(value)})")
        else:
            phrases.append(f"{name} {_word(value)}")
    return ", ".join(phrases)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        sign = " x " if all(isinstance(item, int) for item in value) else " "
        return sign.join(_word(item) for item in value)
    text = str(value)
    return text[:12] + "..." if _HASH.fullmatch(text) else text


def _listed(words: list[str]) -> str:
    if not words:
        return "none"
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} and {words[-1]}"


def card_text(
    plan: Plan,
    counts: Mapping[str, int],
    *,
    terms: Terms | None = None,
    made_by: MadeBy | None = None,
    zip_name: str = "",
    parquet: str = "",
    labels: str = "",
    label_licence: str | None = None,
    seal_sha256: str = "",
    version: int = 1,
) -> str:
    """Return the card of a store, with the front matter that the hub reads.

    Args:
        plan: The plan of the store.
        counts: The number of clips in each state.
        terms: The licence and the citation that count; by default those of the plan.
        made_by: What made the clips with features.
        zip_name: The packed store beside the card.
        parquet: The Parquet file beside the card.
        labels: Sentences on the terms of the labels in that file.
        label_licence: Their licence; None without labels.
        seal_sha256: The sha256 of the seal; "" for the card in a store, which the seal lists.
        version: Which version of the store this is.
    """
    terms = terms or plan.terms
    maker_lines = []
    mixtures = []
    if made_by is not None:
        mixtures = made_by.warnings()
        # Of stores that were imported, nothing is known.
        if made_by.clips:
            maker_lines = made_by.lines()
    facts: dict[str, Any] = {
        "terms": terms,
        "citation": citation_line(terms.citation) or "No citation was given.",
        "seal_sha256": seal_sha256,
        "version": version,
        "made_by": maker_lines,
        "mixtures": mixtures,
        "rows": _array_rows(plan),
        "explained": explain(plan, counts).split("\n"),
        "array": next(spec.name for spec in plan.arrays if spec.is_feature_array),
        **_licence_on_hub(terms, label_licence),
    }
    return render(
        "store-card.md",
        plan=plan,
        zip_name=zip_name,
        parquet=parquet,
        labels=labels,
        **facts,
    )


def columns_card(
    plan: Plan,
    *,
    terms: Terms,
    files: str,
    columns: Sequence[str],
    labels: str = "",
    label_licence: str | None = None,
) -> str:
    """Return the card of features in Parquet files, with the front matter that the hub reads.

    Args:
        plan: The plan of the store that they are from.
        terms: The licence and the citation that count.
        files: The pattern of the files.
        columns: The columns of these files.
        labels: Sentences on the terms of the labels in them.
        label_licence: Their licence; None without labels.
    """
    meaning_of_column = {
        "clip_id": "the clip",
        "movie_id": "its film",
        "title": "the title of the film",
        "start_s": "where the clip starts in its video, in seconds",
        "end_s": "where it ends",
        "level": "its annotation level: EN, HN, NS or S",
        "concepts": "its concepts",
    }
    for name, shape, dtype, _ in _array_rows(plan):
        meaning_of_column.setdefault(name, f"features: {shape} of {dtype}")
    return render(
        "columns-card.md",
        plan=plan,
        terms=terms,
        files=files,
        columns=[(name, meaning_of_column[name]) for name in columns],
        citation=citation_line(terms.citation) or "No citation was given.",
        labels=labels,
        **_licence_on_hub(terms, label_licence),
    )


def _licence_on_hub(terms: Terms, label_licence: str | None) -> dict[str, str]:
    """Return the licence as the hub spells it, "" if it does not know it, and its name.

    The hub shows one licence: where labels have another one, none holds for the whole.
    """
    licence = spdx_of(terms.licence).lower().replace("odbl-1.0", "odbl")
    licence_name = terms.licence
    if label_licence not in (None, terms.licence):
        licence = ""
        of_features = terms.licence or "not stated"
        of_labels = label_licence or "not stated"
        licence_name = f"features: {of_features}, labels: {of_labels}"
    return {"licence": licence, "licence_name": licence_name}


def citation_line(citation: str) -> str:
    """Return a citation in one line; a merged store has the citations of its sources.

    One line, because what a publisher wrote must never look like a line of the program.
    """
    lines = [line.strip() for line in citation.splitlines()]
    return " | ".join(line for line in lines if line)


def _array_rows(plan: Plan) -> list[tuple[str, str, str, str]]:
    """Return name, shape, type and size of each array."""
    return [
        (
            spec.name,
            " x ".join(map(str, spec.tail_shape)) or "one number",
            spec.dtype,
            human(spec.row_bytes * plan.n_clips),
        )
        for spec in plan.arrays
    ]


def summary(store: Store) -> dict[str, Any]:
    """Return the facts of a store as plain JSON."""
    with store.commits.looked_at_once():
        return _summary(store)


def _summary(store: Store) -> dict[str, Any]:
    plan = store.plan
    status = store.status()
    n_committed = sum(
        store.commits.listing(block) is not None for block in range(plan.n_blocks)
    )
    listed = store.commits.listed_files()
    partial = store.commits.partial
    n_held = None
    if partial is not None:
        n_held = {name: len(held) for name, held in partial.blocks.items()}
        state = "sealed, a partial copy"
    elif store.sealed:
        state = "sealed"
    else:
        state = f"{n_committed} of {plan.n_blocks} blocks"
    seal = store.commits.seal
    not_ok = _not_ok(store, status)
    return {
        "location": store.location,
        "backbone": plan.recipe.title,
        "manifest": {"name": plan.manifest_name, "sha256": plan.manifest_sha256},
        "n_clips": plan.n_clips,
        "counts": dict(status.counts),
        "feature_arrays": list(store.feature_arrays),
        "arrays": [spec.to_json() for spec in plan.arrays],
        "block_rows": plan.block_rows,
        "blocks": plan.n_blocks,
        "committed_blocks": n_committed,
        "state": state,
        "sealed": store.sealed,
        "partial": n_held,
        "n_files": len(listed),
        "n_bytes": sum(mark.n_bytes for mark in listed.values()),
        "compressor": plan.compressor,
        "licence": store.licence,
        "citation": store.citation,
        "licence_history": licence_history(store),
        "created": plan.created,
        "created_by": plan.created_by,
        "origins": [asdict(origin) for origin in plan.origins],
        "replaces": [asdict(replaced) for replaced in plan.replaced_versions],
        **store.commits.made_by().to_json(),
        "fingerprint": plan.recipe.fingerprint,
        "seal_sha256": store.seal_sha256,
        "store_version": store.version,
        "not_ok": {clip: reason.to_json() for clip, reason in not_ok.items()},
        "seconds": {} if seal is None else dict(seal.seconds),
    }


def licence_history(store: Store) -> list[dict[str, str]]:
    """Return every licence that was stated for a store, the oldest first."""
    plan = store.plan
    history = store.licence_history
    stated = []
    if plan.terms != Terms():
        when = {"stated": plan.created, "stated_by": plan.created_by}
        stated.append({**plan.terms._asdict(), **when})
    if history is not None:
        stated += [dict(vars(statement)) for statement in history.statements]
    return stated


def describe(store: Store, note: str = "") -> str:
    """Return a page on a store: text and a note, its arrays, and its clips without features."""
    with store.commits.looked_at_once():
        return _describe(store, note)


def _describe(store: Store, note: str) -> str:
    facts = _summary(store)
    plan = store.plan
    headers = ["array", "one clip", "type", "all clips"]
    absent: list[str] = []
    rows: list[tuple[str, ...]] = [*_array_rows(plan)]
    n_held = facts["partial"]
    if n_held is not None:  # a partial copy
        headers.append("blocks here")
        all_rows = rows
        rows = []
        for row in all_rows:
            name = row[0]
            if n_held.get(name, 0):
                rows.append((*row, f"{n_held[name]} of {plan.n_blocks}"))
            else:
                absent.append(name)
    made_by = store.commits.made_by()
    shown = list(_not_ok(store, store.status()).items())[:SHOWN_ROWS]
    page: dict[str, Any] = {
        "made_by": made_by.lines(),
        "mixtures": made_by.warnings(),
        "citation": citation_line(store.citation) or "none given",
        "explained": explain(plan, facts["counts"]).split("\n"),
        "table": table(headers, rows),
        "size": human(facts["n_bytes"]),
        "shown": shown,
        "facts": facts,
        "plan": plan,
        "note": note,
        "absent": absent,
    }
    return render("store.txt", **page).rstrip("\n")


def _not_ok(store: Store, status: Status) -> dict[str, RowStatus]:
    """Return the clips whose features could not be made, with the reasons, in order of the rows."""
    status_of_row = status.status_of_row
    rows = [
        row
        for row in sorted(status_of_row)
        if status_of_row[row].state in ("failed", "no-video", "withdrawn")
    ]
    ids = store.clip_ids[rows].tolist() if rows else []
    return {clip: status_of_row[row] for clip, row in zip(ids, rows, strict=True)}
