"""How far an extraction is, read from the commits of its store: no engine needs to be alive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.errors import Mismatch
from obygaze_features.extraction.clock import STAGES, who_waits
from obygaze_features.extraction.plan import ExtractPlan
from obygaze_features.store.format.records import STORE_FILE
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.write.writer import StoreWriter

# Which stages all stores of a run share, and the order in which stages are told.
SHARED = ("wait", "decode")
SHOWN = (*SHARED, "preprocess", "forward", "write")


@dataclass(frozen=True)
class StoreStatus:
    """Counts of a store's rows, why some failed, and where the time went."""

    store: str
    backbone: str
    clips: int
    ok: int
    failed: int
    missing: int
    blocks: int
    blocks_done: int
    reasons: Mapping[str, int]
    failures: Mapping[str, str]
    seconds: Mapping[str, float]
    sealed: bool

    @property
    def done(self) -> bool:
        """Whether every block is committed."""
        return self.blocks_done == self.blocks

    @property
    def seconds_to_go(self) -> float | None:
        """At the pace of what is committed, by one worker."""
        spent = sum(self.seconds.get(stage, 0.0) for stage in STAGES)
        if not self.blocks_done or not spent:
            return None
        return spent / self.blocks_done * (self.blocks - self.blocks_done)

    @property
    def who_waits(self) -> str:
        """What held the work up."""
        return who_waits(self.seconds)

    def to_json(self) -> dict[str, Any]:
        """The state as one JSON document."""
        values = {**vars(self), "reasons": dict(self.reasons), "failures": dict(self.failures)}
        rounded = {stage: round(value, 3) for stage, value in self.seconds.items()}
        extra = {"seconds_to_go": self.seconds_to_go, "who_waits": self.who_waits}
        return {**values, "seconds": rounded, **extra}


def together(states: Sequence[StoreStatus], rows: Sequence[int] | None = None) -> dict[str, Any]:
    """The stores of one run as one: a clip is ok where all have it, failed where one has not.

    `rows` are those that the states were read for; None: all.
    """
    whole = [open_store(state.store).status().is_ok for state in states]
    is_ok = np.logical_and.reduce(whole)
    ok = int((is_ok if rows is None else is_ok[list(rows)]).sum())
    failed = len(set().union(*(state.failures for state in states)))
    clips = states[0].clips
    counts = {"clips": clips, "ok": ok, "failed": failed, "missing": clips - ok - failed}
    stages = dict.fromkeys(stage for state in states for stage in state.seconds)
    # Stores share one decode and wait for it together; the rest each does for itself.
    seconds = {
        stage: round(
            (max if stage in SHARED else sum)(s.seconds.get(stage, 0.0) for s in states), 3
        )
        for stage in stages
    }
    return {"store": [state.store for state in states], **counts, "seconds": seconds}


def store_status(location: str | Path, rows: Sequence[int] | None = None) -> StoreStatus:
    """The state of one store. Rows without a video, and rows not reached yet, are missing.

    With `rows`, those of whole blocks, the state of these alone: the share of one worker.
    """
    store = open_store(location)
    status = store.status()
    chosen = set(range(store.n_clips) if rows is None else rows)
    blocks = sorted({row // store.plan.block_rows for row in chosen})
    done, seconds = _progress(store, blocks)
    noted_here = {row: status.noted[row] for row in chosen.intersection(status.noted)}
    failed = {row: noted for row, noted in noted_here.items() if noted.state == "failed"}
    ok = int(status.is_ok[sorted(chosen)].sum())
    clip_ids = store.clip_ids
    reasons = Counter(f"{noted.stage}: {noted.error}" for noted in failed.values())
    return StoreStatus(
        store=str(location),
        backbone=store.recipe.title,
        clips=len(chosen),
        ok=ok,
        failed=len(failed),
        missing=len(chosen) - ok - len(failed),
        blocks=len(blocks),
        blocks_done=done,
        reasons=dict(reasons.most_common()),
        failures={str(clip_ids[row]): str(noted) for row, noted in sorted(failed.items())},
        seconds=seconds,
        sealed=store.sealed,
    )


def _progress(store: Store, blocks: Sequence[int]) -> tuple[int, dict[str, float]]:
    """How many of these blocks are there, and the seconds of each stage that they took."""
    if store.commits.seal is not None:
        # The seal has only the sum over all blocks.
        spent = store.commits.seal.seconds if len(blocks) == store.plan.n_blocks else {}
        known = {stage: spent[stage] for stage in SHOWN if stage in spent}
        return len(blocks), {**known, **spent}
    markers = [store.commits.marker(block) for block in blocks]
    there = [marker for marker in markers if marker is not None]
    seconds: Counter[str] = Counter()
    for marker in there:
        seconds.update(dict(marker.seconds))
    return len(there), dict(seconds)


def missing_units(plan: ExtractPlan) -> list[int]:
    """The units of which some store lacks a block, read from commits; no backbone is loaded."""
    missing: set[int] = set()
    for target in plan.targets:
        if not (Path(target.store) / STORE_FILE).exists():
            return list(range(plan.n_units))
        writer = StoreWriter(target.store)
        other_blocks = writer.plan.n_blocks > 1 and plan.unit_rows % writer.plan.block_rows
        if writer.plan.n_clips != len(plan.rows) or other_blocks:
            raise Mismatch(
                "this store was begun with another plan",
                where=target.store,
                hint="the plan it was begun with, or another store",
            )
        firsts = (writer.plan.block_range(block)[0] for block in writer.pending_blocks())
        missing.update(first // plan.unit_rows for first in firsts)
    return sorted(missing)
