"""What a store is, for programs (a summary) and for people (a description)."""

from __future__ import annotations

from typing import Any

from obygaze_features.core.console import human, table
from obygaze_features.store.format.explain import explain
from obygaze_features.store.format.schema import RowStatus
from obygaze_features.store.read.reader import Store

SHOWN_ROWS = 20


def summary(store: Store) -> dict[str, Any]:
    """The facts of a store as plain JSON."""
    plan, status = store.plan, store.status()
    committed = [b for b in range(plan.n_blocks) if store.commits.is_committed(b)]
    promised = store.commits.promised_files()
    return {
        "location": store.location,
        "backbone": plan.recipe.title,
        "manifest": {"name": plan.manifest_name, "sha256": plan.manifest_sha256},
        "n_clips": plan.n_clips,
        "counts": dict(status.counts),
        "levels": list(store.levels),
        "arrays": [spec.to_dict() for spec in plan.arrays],
        "block_rows": plan.block_rows,
        "blocks": plan.n_blocks,
        "committed_blocks": len(committed),
        "state": _state(store, len(committed)),
        "sealed": store.sealed,
        "partial": _partial(store),
        "n_files": len(promised),
        "n_bytes": sum(mark.n_bytes for mark in promised.values()),
        "compressor": plan.compressor,
        "licence": plan.licence,
        "citation": plan.citation,
        "created": plan.created,
        "created_by": plan.created_by,
        "fingerprint": plan.recipe.fingerprint,
        "not_ok": {clip: reason.to_dict() for clip, reason in _not_ok(store).items()},
        "seconds": dict(store.commits.seal.seconds) if store.commits.seal else {},
    }


def describe(store: Store, note: str = "") -> str:
    """A page on a store: prose and a note, then its arrays, then the clips that are not there."""
    facts = summary(store)
    plan = store.plan
    arrays = [
        (
            spec.name,
            " x ".join(map(str, spec.tail_shape)) or "1",
            spec.dtype,
            human(spec.row_bytes * plan.n_clips),
        )
        for spec in plan.arrays
    ]
    size = f"{human(facts['n_bytes'])} in {facts['n_files']} files"
    parts = [
        "\n".join(filter(None, (explain(plan, facts["counts"]), note))),
        table(("array", "one clip", "type", "all clips"), arrays),
        "\n".join(
            [
                f"state        {facts['state']}, {size}",
                f"written      {plan.created} by {plan.created_by}",
                f"licence      {plan.licence or 'not stated'}",
                f"citation     {plan.citation or 'none given'}",
                f"fingerprint  {plan.recipe.fingerprint}",
            ]
        ),
        _not_ok_lines(_not_ok(store)),
    ]
    return "\n\n".join(part for part in parts if part)


def _state(store: Store, committed: int) -> str:
    if store.commits.partial is not None:
        return "sealed, a partial copy"
    return "sealed" if store.sealed else f"{committed} of {store.plan.n_blocks} blocks"


def _partial(store: Store) -> dict[str, int] | None:
    partial = store.commits.partial
    return None if partial is None else {name: len(held) for name, held in partial.blocks.items()}


def _not_ok(store: Store) -> dict[str, RowStatus]:
    noted = store.status().noted
    rows = [row for row, status in sorted(noted.items()) if status.state in ("failed", "no-video")]
    ids = store.clip_ids[rows].tolist() if rows else []
    return {clip: noted[row] for clip, row in zip(ids, rows, strict=True)}


def _not_ok_lines(not_ok: dict[str, RowStatus]) -> str:
    lines = [f"  {clip}  {status}" for clip, status in list(not_ok.items())[:SHOWN_ROWS]]
    if len(not_ok) > SHOWN_ROWS:
        lines.append(f"  and {len(not_ok) - SHOWN_ROWS} more; --json lists them all")
    return "\n".join(["Clips without features:", *lines]) if lines else ""
