"""The progress of an extraction, read from the commits of its stores."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.console import count, table
from obygaze_features.core.errors import Mismatch
from obygaze_features.extraction.plan import ExtractPlan, Target
from obygaze_features.store.format.records import Plan
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.write.create import BLOCK_ROWS
from obygaze_features.store.write.growth import DRAFT_OF_CLIPS
from obygaze_features.store.write.writer import StoreWriter, kept_rows

# The stages of the main process; they add up to its time. `decode` runs beside them.
STAGES = ("wait", "preprocess", "forward", "write")
# The stages that all stores of a run share, and the order in which stages are shown.
SHARED = ("wait", "decode")
SHOWN = (*SHARED, "preprocess", "forward", "write")
# The failed clips that are listed without -v.
SHOWN_CLIPS = 20
MORE_MACHINES = "more machines (--worker I/K)"


@dataclass(frozen=True)
class StoreStatus:
    """The counts of a store's rows, the reasons of failures, and the seconds by stage."""

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
    # Clips that are missing, and kept until their block is committed.
    in_unfinished_blocks: int = 0
    # Whether a run has made the store.
    exists: bool = True
    # Clips that were withdrawn from the store, which are not extracted.
    withdrawn: int = 0
    # The version that this run made of the store, in words.
    new_version: str = ""
    # Clips of the plan that the sealed store does not have yet; they are missing.
    new_clips: int = 0
    # Arrays that the plan asks for and the sealed store does not have yet.
    new_levels: Sequence[str] = ()
    # Whether the backbone has weights, so that a GPU makes it faster.
    has_weights: bool = True

    @property
    def done(self) -> bool:
        """Return whether every block is committed."""
        return self.blocks_done == self.blocks

    @property
    def seconds_to_go(self) -> float | None:
        """Return the seconds that one worker needs for the rest, at the speed so far."""
        spent = _main_s(self.seconds)
        if not self.blocks_done or not spent:
            return None
        return spent / self.blocks_done * (self.blocks - self.blocks_done)

    @property
    def bottleneck(self) -> str:
        """Return a sentence on what limits the speed: decoding or the backbone."""
        total = _main_s(self.seconds)
        if total <= 0:
            return "nothing was measured yet"
        waited = 100 * _main_s(self.seconds, ("wait",)) / total
        computed = 100 * _main_s(self.seconds, ("preprocess", "forward")) / total
        if waited >= computed:
            return (
                f"the backbone waited for decoding {waited:.0f} % of the time: use more --workers,"
                f" up to one for each core, or {MORE_MACHINES}"
            )
        advice = f"it uses no GPU: use {MORE_MACHINES}"
        if self.has_weights:
            advice = f"use a faster device, or {MORE_MACHINES}"
        return f"the backbone computed {computed:.0f} % of the time: {advice}"

    def __str__(self) -> str:
        name = f"{Path(self.store).name} ({self.backbone})"
        line = f"{name}: {self.blocks_done} of {self.blocks} blocks"
        if not self.done and self.seconds_to_go is not None:
            line += f", about {self.seconds_to_go:.0f} s to go for one worker"
        if self.sealed:
            line += ", sealed"
        if not self.exists:
            line += ", no run has begun"
        counts = {"ok": self.ok, "failed": self.failed, "missing": self.missing}
        if self.withdrawn:
            counts["withdrawn"] = self.withdrawn
        lines = [line, table(("clips", str(self.clips)), counts.items())]
        if self.in_unfinished_blocks:
            n_finished = self.in_unfinished_blocks
            verb, again = ("are", "they are") if n_finished > 1 else ("is", "it is")
            lines.append(
                f"{n_finished} of the {count(self.missing, 'missing clip')} {verb} finished"
                f" and kept beside the blocks: {again} not computed again"
            )
        if self.seconds:
            lines.append(table(("stage", "seconds"), self.seconds.items()))
            lines.append(self.bottleneck)
        if self.reasons:
            lines.append(table(("failed at", "clips"), self.reasons.items()))
        if self.new_version:
            lines.append(self.new_version)
        if self.new_clips:
            lines.append(
                words_of_new_clips(self.store, self.new_clips, are_extracted=self.done)
            )
        if self.new_levels:
            lines.append(words_of_new_levels(self.store, self.new_levels))
        return "\n".join(lines)

    @property
    def notes(self) -> list[str]:
        """Return why clips failed; of many, the first."""
        return self._failed_clips()[:SHOWN_CLIPS]

    @property
    def details(self) -> list[str]:
        """Return why the other clips failed."""
        return self._failed_clips()[SHOWN_CLIPS:]

    @property
    def without_details(self) -> str:
        """Return how to see the other clips that failed."""
        n_more = self.failed - SHOWN_CLIPS
        return f"  and {n_more} more: obygaze -v extract status {self.store}"

    def _failed_clips(self) -> list[str]:
        return [f"  {clip_id}: {why}" for clip_id, why in self.failures.items()]

    def to_json(self) -> dict[str, Any]:
        """Return the status as one JSON document."""
        rounded = {stage: round(value, 3) for stage, value in self.seconds.items()}
        extra = {"seconds_to_go": self.seconds_to_go, "who_waits": self.bottleneck}
        return {**asdict(self), "seconds": rounded, **extra}


def joint_status(
    states: Sequence[StoreStatus],
    rows_of_states: Sequence[Sequence[int] | None] | None = None,
) -> dict[str, Any]:
    """Return the joint status of a run's stores as JSON: a clip is ok if it is ok in all stores.

    The keys are the same for any number of stores, also for none. A store may have only some of the
    clips, such as those of the next version of a sealed store.

    Args:
        states: The status of each store.
        rows_of_states: The rows that each was read for; None means all.
    """
    n_clips, n_ok = _n_clips_and_ok(states, rows_of_states or [None] * len(states))
    failures: dict[str, str] = {}
    reasons: Counter[str] = Counter()
    for state in states:
        failures = {**state.failures, **failures}
        reasons.update(state.reasons)
    spent = _joint_seconds([state.seconds for state in states])
    return {
        "store": [state.store for state in states],
        "clips": n_clips,
        "ok": n_ok,
        "failed": len(failures),
        "missing": n_clips - n_ok - len(failures),
        "blocks": sum(state.blocks for state in states),
        "blocks_done": sum(state.blocks_done for state in states),
        "reasons": dict(reasons.most_common()),
        "failures": failures,
        "seconds": {stage: round(value, 3) for stage, value in spent.items()},
        "sealed": bool(states) and all(state.sealed for state in states),
    }


def _n_clips_and_ok(
    states: Sequence[StoreStatus], rows_of_states: Sequence[Sequence[int] | None]
) -> tuple[int, int]:
    """Return the number of clips of some stores, and of those that are ok wherever they are."""
    is_clip_ok: dict[str, bool] = {}
    for state, rows in zip(states, rows_of_states, strict=True):
        store = open_store(state.store)
        chosen = np.arange(store.n_clips) if rows is None else np.array(rows, np.int64)
        clips = store.clip_ids[chosen].tolist()
        is_ok = store.status().is_ok[chosen].tolist()
        for clip, is_ok_here in zip(clips, is_ok, strict=True):
            is_clip_ok[clip] = is_clip_ok.get(clip, True) and is_ok_here
    return len(is_clip_ok), sum(is_clip_ok.values())


def store_status(
    location: str | Path, rows: Sequence[int] | None = None
) -> StoreStatus:
    """Return the status of a store; rows without a video or not extracted yet are missing.

    Args:
        location: The folder of the store.
        rows: Rows of whole blocks to count, such as one worker's. The default is all rows.
    """
    store = open_store(location)
    status = store.status()
    chosen = set(range(store.n_clips) if rows is None else rows)
    blocks = sorted({row // store.plan.block_rows for row in chosen})
    n_blocks_done, seconds = _progress(store, blocks)
    failed = {
        row: row_status
        for row, row_status in status.status_of_row.items()
        if row in chosen and row_status.state == "failed"
    }
    ok = int(status.is_ok[sorted(chosen)].sum())
    n_withdrawn = sum(
        row_status.is_withdrawn
        for row, row_status in status.status_of_row.items()
        if row in chosen
    )
    reasons = Counter(
        f"{row_status.stage}: {row_status.error}" for row_status in failed.values()
    )
    return StoreStatus(
        store=str(location),
        backbone=store.recipe.title,
        clips=len(chosen),
        ok=ok,
        failed=len(failed),
        missing=len(chosen) - ok - len(failed) - n_withdrawn,
        blocks=len(blocks),
        blocks_done=n_blocks_done,
        reasons=dict(reasons.most_common()),
        failures={
            str(store.clip_ids[row]): str(row_status)
            for row, row_status in sorted(failed.items())
        },
        seconds=seconds,
        sealed=store.sealed,
        in_unfinished_blocks=len(kept_rows(store, blocks)),
        withdrawn=n_withdrawn,
        has_weights=bool(store.recipe.to_json().get("weights")),
    )


def kept_clips(states: Sequence[StoreStatus]) -> str:
    """Return how many clips of each store need no more work, in words."""
    texts = []
    for state in states:
        n_kept = state.ok + state.failed + state.in_unfinished_blocks
        of_store = f" of {Path(state.store).name}" if len(states) > 1 else ""
        texts.append(f"{n_kept} of {count(state.clips, 'clip')}{of_store}")
    return f"{', '.join(texts)} are kept" if texts else "nothing was extracted yet"


def status_of_stores(
    plan: ExtractPlan, rows: Sequence[int] | None = None
) -> list[StoreStatus]:
    """Return the status of the stores of a plan that exist, that of `rows` if given."""
    stores = [target.store for target in plan.targets]
    return [store_status(store, rows) for store in stores if Path(store).exists()]


def status_of_plan(plan: ExtractPlan) -> list[StoreStatus]:
    """Return the status of all stores of a plan; of those that do not exist, all is missing."""
    states = []
    for target in plan.targets:
        if (Path(target.store) / Plan.FILE).is_file():
            states.append(_status_of_existing(plan, target))
        else:
            states.append(_status_of_new(plan, target))
    return states


@dataclass(frozen=True)
class NewClips:
    """The clips of a plan that a sealed store does not have, and the progress of their version."""

    clips: int
    blocks: int
    blocks_done: int
    # The status of the rows that a run has begun, None before it.
    begun: StoreStatus | None = None


def new_clips(plan: ExtractPlan, location: str) -> NewClips | None:
    """Return the clips of a plan that a sealed store does not have; None if it has all.

    A store that is not sealed has the clips of its plan.
    """
    store = open_store(location)
    if not store.sealed:
        return None
    stored = set(store.clip_ids.tolist())
    clips = [clip for clip, _ in plan.ids() if clip not in stored]
    n_new = len(clips)
    if not n_new:
        return None
    draft = Path(location) / DRAFT_OF_CLIPS
    # Rows of another state of the manifest are not those of this plan.
    has_draft = (draft / Plan.FILE).is_file()
    if has_draft and open_store(draft).clip_ids.tolist() == clips:
        begun = store_status(draft)
        return NewClips(n_new, begun.blocks, begun.blocks_done, begun)
    return NewClips(n_new, blocks=-(-n_new // store.plan.block_rows), blocks_done=0)


def words_of_new_clips(store: str, n_clips: int, *, are_extracted: bool = False) -> str:
    """Return that a sealed store lacks clips of its manifest, and what adds them."""
    verb, pronoun = ("is", "it") if n_clips == 1 else ("are", "them")
    if are_extracted:
        return (
            f"{count(n_clips, 'clip')} of the manifest {verb} extracted, and not yet in the sealed"
            f" store {Path(store).name}: a run adds {pronoun}, with --seal also where some failed"
        )
    return (
        f"{count(n_clips, 'clip')} of the manifest {verb} not in the sealed store"
        f" {Path(store).name}: a run extracts {pronoun} into a new version"
    )


def levels_to_extract(target: Target, store: Store) -> tuple[str, ...]:
    """Return the arrays that were asked for and that a sealed store does not have.

    Of pictures, and of features whose recipe is unknown, there are none.
    """
    if store.plan.holds_pictures or store.recipe.is_unknown:
        return ()
    present = {spec.name for spec in store.plan.arrays}
    return tuple(name for name in target.arrays if name not in present)


def words_of_new_levels(store: str, names: Sequence[str]) -> str:
    """Return that a sealed store lacks arrays that were asked for, and what adds them."""
    pronoun = "it" if len(names) == 1 else "them"
    return (
        f"the sealed store {Path(store).name} does not have {', '.join(names)}: a run extracts "
        f"{pronoun} into a new version"
    )


def _status_of_existing(plan: ExtractPlan, target: Target) -> StoreStatus:
    """Return the status of a store, with what of the plan a sealed one does not have."""
    state = store_status(target.store)
    store = open_store(target.store)
    if store.sealed:
        state = replace(state, new_levels=levels_to_extract(target, store))
    new = new_clips(plan, target.store)
    if new is None:
        return state
    blocks = state.blocks + new.blocks
    n_clips = state.clips + new.clips
    if new.begun is None:
        missing = state.missing + new.clips
        return replace(
            state, clips=n_clips, missing=missing, blocks=blocks, new_clips=new.clips
        )
    begun = new.begun
    seconds = dict(state.seconds)
    for stage, spent in begun.seconds.items():
        seconds[stage] = seconds.get(stage, 0.0) + spent
    return replace(
        state,
        clips=n_clips,
        ok=state.ok + begun.ok,
        failed=state.failed + begun.failed,
        missing=state.missing + new.clips - begun.ok - begun.failed,
        blocks=blocks,
        blocks_done=state.blocks_done + new.blocks_done,
        reasons=dict((Counter(state.reasons) + Counter(begun.reasons)).most_common()),
        failures={**state.failures, **begun.failures},
        seconds=seconds,
        in_unfinished_blocks=begun.in_unfinished_blocks,
        new_clips=new.clips,
    )


def _status_of_new(plan: ExtractPlan, target: Target) -> StoreStatus:
    """Return the status of a store that does not exist yet."""
    n_clips = len(plan.rows)
    n_blocks = -(-n_clips // (target.block_rows or BLOCK_ROWS))
    return StoreStatus(
        store=target.store,
        backbone=target.backbone,
        clips=n_clips,
        ok=0,
        failed=0,
        missing=n_clips,
        blocks=n_blocks,
        blocks_done=0,
        reasons={},
        failures={},
        seconds={},
        sealed=False,
        exists=False,
    )


def _progress(store: Store, blocks: Sequence[int]) -> tuple[int, dict[str, float]]:
    """Return how many of these blocks are committed, and their seconds by stage."""
    if store.commits.seal is None:
        n_committed = 0
        total: Counter[str] = Counter()
        for block in blocks:
            marker = store.commits.marker(block)
            if marker is not None:
                n_committed += 1
                total.update(dict(marker.seconds))
        return n_committed, dict(total)
    # The seal holds only the sum over all blocks.
    spent = store.commits.seal.seconds if len(blocks) == store.plan.n_blocks else {}
    known = {stage: spent[stage] for stage in SHOWN if stage in spent}
    return len(blocks), {**known, **spent}


def _joint_seconds(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the seconds of the stores of a run: shared stages count once, others are summed."""
    joint: dict[str, float] = {}
    for seconds in parts:
        for stage, value in seconds.items():
            before = joint.get(stage, 0.0)
            joint[stage] = max(before, value) if stage in SHARED else before + value
    return joint


def _main_s(seconds: Mapping[str, float], stages: Sequence[str] = STAGES) -> float:
    """Return the seconds of the main process in some of its stages."""
    return sum(seconds.get(stage, 0.0) for stage in stages)


def rows_with_new_video(
    writer: StoreWriter, plan: ExtractPlan, rows: Iterable[int] | None = None
) -> dict[int, list[int]]:
    """Return the rows of each committed block whose video was missing, and exists now.

    Args:
        writer: The writer of the store; a sealed store has no such rows, since it cannot change.
        plan: The plan, with the current videos.
        rows: Consider only these rows.
    """
    if writer.sealed:
        return {}
    chosen = range(len(plan.rows)) if rows is None else frozenset(rows)
    rows_of_block: dict[int, list[int]] = {}
    for block in range(writer.plan.n_blocks):
        marker = writer.marker(block)
        if marker is None:
            continue
        for row, status in sorted(marker.status_of_row.items()):
            was_missing = status.state == "no-video" or status.error == "missing"
            if was_missing and row in chosen and Path(plan.rows[row].video).is_file():
                rows_of_block.setdefault(block, []).append(row)
    return rows_of_block


def missing_units(plan: ExtractPlan) -> list[int]:
    """Return the units with a row to extract in some store, whose video exists if it is not new."""
    missing: set[int] = set()
    for target in plan.targets:
        if not (Path(target.store) / Plan.FILE).exists():
            return list(range(plan.n_units))
        writer = StoreWriter(target.store)
        other_blocks = (
            writer.plan.n_blocks > 1 and plan.unit_rows % writer.plan.block_rows
        )
        if writer.plan.n_clips != len(plan.rows) or other_blocks:
            raise Mismatch(
                "this store belongs to another plan",
                where=target.store,
                hint="use the plan of this store, or another store",
            )
        blocks = [*writer.pending_blocks(), *rows_with_new_video(writer, plan)]
        firsts = (writer.plan.block_range(block)[0] for block in blocks)
        missing.update(first // plan.unit_rows for first in firsts)
    return sorted(missing)
