"""Extract what is missing of a plan: load backbones, make blocks, seal complete stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from obygaze_features.backbones.base import Backbone
from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import AlreadyThere, FixInput, NotFound
from obygaze_features.core.machine import usable_cores
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.blocks import BlockMaker
from obygaze_features.extraction.compute import clip_threads, computer_for, is_on_gpu
from obygaze_features.extraction.estimate import clips_ahead, cpu_batch, gpu_batch
from obygaze_features.extraction.kept_frames import find_kept_frames, stores_of_frames
from obygaze_features.extraction.pipeline import DecodedRow, decode_rows, run_rows
from obygaze_features.extraction.plan import ExtractPlan, Target
from obygaze_features.extraction.recipes import (
    arrays_of,
    chosen_levels,
    load_target,
    recipe_of,
    view_of,
)
from obygaze_features.extraction.shared_machine import (
    StopFlag,
    free_gpu_memory,
    limit_gpu_memory,
    lower_priority,
)
from obygaze_features.extraction.sources import (
    changed_rows,
    refuse_changed,
    refuse_without_videos,
)
from obygaze_features.extraction.status import StoreStatus, rows_with_new_video, store_status
from obygaze_features.store.format.records import STORE_FILE
from obygaze_features.store.format.schema import RowStatus
from obygaze_features.store.read.reader import open_store
from obygaze_features.store.write.create import create_store, read_plan
from obygaze_features.store.write.writer import StoreWriter
from obygaze_features.video.decoded_clip import View
from obygaze_features.video.pool import DecodePool

Event = Mapping[str, Any]


@dataclass(frozen=True)
class Resources:
    """What a run may use of its machine; none of it changes the features.

    `workers` decode, `batch` clips are computed at once (None: as many as fit), on a CPU by at most
    `threads` (None: one a core). On a GPU, `exact` makes batches of one, so that the last bits do
    not depend on `batch`, and `gpu_gb` limits the memory. `nice` lowers the priority of the CPU and
    the disk.
    """

    device: str = "cpu"
    workers: int = 1
    batch: int | None = None
    threads: int | None = None
    exact: bool = False
    gpu_gb: float | None = None
    nice: bool = False

    @property
    def compute_threads(self) -> int:
        """Threads that compute on the CPU: one a core, since decoders that wait use none."""
        return self.threads or usable_cores()

    def batch_of(self, backbone: Backbone) -> int:
        """Return how many clips of a backbone are computed at once."""
        needed = backbone.activation_bytes
        if is_on_gpu(backbone):
            if self.exact:
                return 1
            return self.batch or gpu_batch(needed, free_gpu_memory(self.device, self.gpu_gb))
        fits = cpu_batch(needed, self.compute_threads)
        return min(fits, self.batch or fits)

    def apply_limits(self) -> None:
        """Lower the priority of this process and limit its GPU memory, as the fields define."""
        if self.nice:
            lower_priority()
        if self.gpu_gb is not None:
            limit_gpu_memory(self.device, self.gpu_gb)


@dataclass(frozen=True)
class Monitor:
    """What a run reports, and whether it stops at the first clip that fails.

    `progress` is called with the number of clips and returns the progress bar, and `on_event` is
    called with an event for each clip.
    """

    strict: bool = False
    progress: Callable[[int], Progress] | None = None
    on_event: Callable[[Event], None] | None = None

    def start(self, n_clips: int) -> Progress:
        """Return the progress of a run of `n_clips` clips."""
        return self.progress(n_clips) if self.progress and n_clips else Quiet()


SILENT = Monitor()


@dataclass(frozen=True)
class LoadedTarget:
    """A backbone in memory, the store it fills, and the frames it uses."""

    target: Target
    backbone: Backbone
    writer: StoreWriter
    view: View

    def maker(
        self,
        wanted: Mapping[int, Sequence[int]],
        resources: Resources,
        pool: Executor,
        *,
        retry: bool = False,
    ) -> BlockMaker:
        """Return the block maker of this store; `pool` computes if no GPU does."""
        levels = [spec for spec in self.writer.plan.arrays if spec.is_level]
        computer = computer_for(self.backbone, levels, pool)
        batch = resources.batch_of(self.backbone)
        return BlockMaker(computer, self.writer, self.view, wanted, batch=batch, retry=retry)


def load_targets(plan: ExtractPlan, device: str = "cpu") -> list[LoadedTarget]:
    """Load every backbone of a plan, then open or create every store.

    Args:
        plan: The plan.
        device: cpu, cuda or cuda:N.
    """
    workspace = Workspace(Path(plan.workspace))
    backbones = [load_target(target, workspace, device) for target in plan.targets]
    # A run that is refused must create no store: everything is checked first, then existing stores.
    pairs = zip(plan.targets, backbones, strict=True)
    openings = {target: _opening(plan, target, backbone) for target, backbone in pairs}
    existing_first = sorted(plan.targets, key=lambda target: not Path(target.store).exists())
    opened = {target: openings[target]() for target in existing_first}
    return [opened[target] for target in plan.targets]


def _opening(plan: ExtractPlan, target: Target, backbone: Backbone) -> Callable[[], LoadedTarget]:
    """Check the options of a target; return the function that opens or creates its store."""
    view = view_of(backbone, target)
    levels = chosen_levels(backbone, target.levels)
    recipe = recipe_of(backbone, view, levels, plan.grid)
    if (Path(target.store) / STORE_FILE).is_file():
        recipe = recipe.as_claimed_by(read_plan(Path(target.store)).recipe)
    create = partial(
        create_store,
        target.store,
        recipe=recipe,
        manifest_name=plan.manifest,
        manifest_sha256=plan.clips_sha256,
        clip_ids=[clip_id for clip_id, _ in plan.ids()],
        movie_ids=[movie_id for _, movie_id in plan.ids()],
        arrays=arrays_of(backbone, levels, plan.grid),
        licence=plan.licence,
        citation=plan.citation,
        block_rows=target.block_rows,
        compressor=target.compressor,
    )

    def open_target() -> LoadedTarget:
        create()
        return LoadedTarget(target, backbone, StoreWriter(target.store, recipe=recipe), view)

    return open_target


def extract(
    plan: ExtractPlan,
    resources: Resources,
    stop: StopFlag,
    *,
    rows: Sequence[int] | None = None,
    retry_failed: bool = False,
    changed: bool = False,
    monitor: Monitor = SILENT,
) -> list[StoreStatus]:
    """Extract what is missing of a plan's stores and return their status, that of `rows` if given.

    Rows that had no video, or whose file was missing, are extracted if the video exists now. After
    a stop it returns early, and all committed blocks are kept.

    Args:
        plan: The clips, backbones and stores.
        resources: What to use of this machine.
        stop: The flag that stops the run.
        rows: Rows of whole blocks to extract. The default is all rows.
        retry_failed: Extract all rows again that failed or had no video, and no others.
        changed: With `retry_failed`, also rows of clips whose times or video changed.
        monitor: What to report of each clip, and whether to stop at the first that fails.
    """
    refuse_unusable(plan, rows, only_sealed=changed)
    if retry_failed:
        _refuse_new_stores(plan)
    targets = load_targets(plan, resources.device)
    if retry_failed:
        wanted = [rows_to_retry(target, plan, changed) for target in targets]
        extract_rows(targets, wanted, plan, resources, stop, monitor=monitor, retry=True)
    else:
        extract_pending(targets, plan, resources, stop, rows=rows, monitor=monitor)
    return [store_status(target.target.store, rows) for target in targets]


def refuse_unusable(
    plan: ExtractPlan, rows: Sequence[int] | None = None, *, only_sealed: bool = False
) -> None:
    """Raise an error if no clip has a video or kept pictures, or if clips changed.

    Args:
        plan: The plan.
        rows: The rows whose changes matter. The default is all rows.
        only_sealed: Ignore changes of clips in stores that are not sealed.
    """
    if not stores_of_frames(plan):
        refuse_without_videos(plan)
    refuse_changed(plan, rows, only_sealed=only_sealed)


def extract_pending(
    targets: Sequence[LoadedTarget],
    plan: ExtractPlan,
    resources: Resources,
    stop: StopFlag,
    *,
    rows: Sequence[int] | None = None,
    monitor: Monitor = SILENT,
    pool: DecodePool | None = None,
) -> None:
    """Extract the blocks that are not committed, and rows of others whose video exists only now."""
    found = [rows_with_new_video(target.writer, plan, rows) for target in targets]
    wanted = [pending_rows(target, rows) for target in targets]
    run = partial(extract_rows, monitor=monitor, pool=pool)
    run(targets, wanted, plan, resources, stop)
    run(targets, found, plan, resources, stop, retry=True)


def _refuse_new_stores(plan: ExtractPlan) -> None:
    new = [t.store for t in plan.targets if not (Path(t.store) / STORE_FILE).is_file()]
    if new:
        raise NotFound(
            "there is no store yet, so no clip to extract again",
            where=", ".join(new),
            hint="the same command without --retry-failed or --changed",
        )


def extract_rows(
    targets: Sequence[LoadedTarget],
    wanted: Sequence[Mapping[int, Sequence[int]]],
    plan: ExtractPlan,
    resources: Resources,
    stop: StopFlag,
    *,
    monitor: Monitor = SILENT,
    retry: bool = False,
    pool: DecodePool | None = None,
) -> None:
    """Extract the `wanted` rows of each target; a given `pool` is left running."""
    if not any(any(blocks.values()) for blocks in wanted):
        return
    with ExitStack() as stack:
        threads = stack.enter_context(clip_threads(resources.compute_threads))
        makers = [
            target.maker(blocks, resources, threads, retry=retry)
            for target, blocks in zip(targets, wanted, strict=True)
            if any(blocks.values())
        ]
        rows = set[int]().union(*(maker.rows for maker in makers))
        watch = _Watch(plan, stop, monitor, len(rows))
        ahead = clips_ahead(resources.workers, (maker.batch for maker in makers))
        kept = find_kept_frames(plan, rows, (maker.view for maker in makers))
        if pool is None:
            own = DecodePool(resources.workers, timeout_s=plan.timeout_s)
            pool = stack.enter_context(own)
        decode = partial(decode_rows, plan, pool=pool, ahead=ahead, kept=kept)
        run_rows(makers, decode, stop, watch)
    watch.raise_if_strict()


def pending_rows(loaded: LoadedTarget, rows: Iterable[int] | None = None) -> dict[int, list[int]]:
    """Return the rows of each block that is not committed; only of blocks wholly in `rows`.

    What a killed process left is finished or removed first.
    """
    loaded.writer.clean_litter()
    plan = loaded.writer.plan
    chosen = None if rows is None else set(rows)
    blocks = {
        block: list(range(*plan.block_range(block))) for block in loaded.writer.pending_blocks()
    }
    return {b: those for b, those in blocks.items() if chosen is None or chosen.issuperset(those)}


def rows_to_retry(loaded: LoadedTarget, plan: ExtractPlan, changed: bool) -> dict[int, list[int]]:
    """Return the rows of each block that failed or had no video; with `changed`, changed ones.

    Raise an error if a sealed store has such rows, since it cannot change.
    """
    loaded.writer.clean_litter()
    if loaded.writer.sealed and (n_rows := store_status(loaded.target.store).without_features):
        raise AlreadyThere(
            f"the store is sealed; {n_rows} rows stay without features",
            where=loaded.target.store,
            hint="extract into another store: obygaze extract run --store NAME=STORE",
        )
    wanted = loaded.writer.rows_to_retry()
    for row in changed_rows(open_store(loaded.target.store), plan) if changed else ():
        wanted.setdefault(row // loaded.writer.plan.block_rows, []).append(row)
    return {block: sorted(wanted[block]) for block in sorted(wanted)}


def seal_complete(states: Sequence[StoreStatus], seal: bool | None = None) -> list[StoreStatus]:
    """Seal the stores whose blocks are all committed, and return the new status of each.

    Args:
        states: The status of each store.
        seal: False seals no store. The default seals stores without failed or missing rows.
    """
    return [replace(state, sealed=_seal_if_complete(state.store, seal)) for state in states]


def _seal_if_complete(store: str, seal: bool | None) -> bool:
    writer = StoreWriter(store)
    complete = not writer.sealed and not writer.pending_blocks()
    if complete and (not writer.rows_to_retry() if seal is None else seal):
        writer.seal()
    return writer.sealed


class _Watch:
    """Watch each row: advance the progress, report events, and stop a strict run."""

    def __init__(self, plan: ExtractPlan, stop: StopFlag, monitor: Monitor, n_rows: int) -> None:
        self.plan, self.stop, self.monitor = plan, stop, monitor
        self.progress = monitor.start(n_rows)
        self.seen: set[int] = set()
        self.failed: dict[int, RowStatus] = {}

    def __call__(self, decoded: DecodedRow) -> None:
        bad = [clip for clip in decoded.clips.values() if isinstance(clip, RowStatus)]
        failed = [status for status in bad if status.state == "failed"]
        is_new = decoded.row not in self.seen
        # A row comes again if the model failed on it, or if its block was restarted.
        newly_failed = bool(failed) and decoded.row not in self.failed
        if self.monitor.on_event is not None and (is_new or newly_failed):
            clip_id = self.plan.rows[decoded.row].clip_id
            event = {"event": "clip", "clip_id": clip_id, "seconds": round(decoded.seconds, 4)}
            self.monitor.on_event({**event, "status": str(bad[0]) if bad else "ok"})
        if is_new:
            self.seen.add(decoded.row)
            self.progress.advance()
        if newly_failed:
            self.failed[decoded.row] = failed[0]
            self.progress.remark(f"{len(self.failed)} failed")
            if self.monitor.strict:
                self.stop.signal_name = self.stop.signal_name or "STRICT"

    def raise_if_strict(self) -> None:
        """Raise the error of the first failed clip of a strict run."""
        if self.monitor.strict and self.failed:
            row, status = next(iter(self.failed.items()))
            clip_id = self.plan.rows[row].clip_id
            raise FixInput(
                f"{clip_id}: {status}", hint="without --strict, failed clips are skipped"
            )
