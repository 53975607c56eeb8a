"""Extract what is missing of a plan: load backbones, make blocks, seal complete stores."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Self

from obygaze_features.backbones.base import Backbone
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.geometry import FeatureArray
from obygaze_features.core import system
from obygaze_features.core.console import Progress, Quiet, count, silent
from obygaze_features.core.errors import AlreadyThere, NotFound
from obygaze_features.core.machine import usable_cores
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.blocks import (
    BlockMaker,
    IsCurrent,
    maker_of,
    run_rows,
)
from obygaze_features.extraction.compute import (
    BatchComputer,
    Uploads,
    clip_threads,
    computer_for,
    computes_on_gpu,
    measured_clip_bytes,
)
from obygaze_features.extraction.decoding import (
    DecodedRow,
    Jobs,
    KeptPictures,
    decode_rows,
    find_kept_pictures,
    stores_of_pictures,
)
from obygaze_features.extraction.page_locks import GpuPageLocks
from obygaze_features.extraction.plan import ExtractPlan, Target
from obygaze_features.extraction.recipes import (
    arrays_of,
    chosen_arrays,
    load_target,
    recipe_of,
    view_of,
)
from obygaze_features.extraction.shared_machine import StopFlag, free_gpu_memory
from obygaze_features.extraction.shared_units import SharedUnits
from obygaze_features.extraction.sources import (
    is_current,
    refuse_changed,
    refuse_without_videos,
    rows_again,
)
from obygaze_features.extraction.status import (
    StoreStatus,
    rows_with_new_video,
    store_status,
)
from obygaze_features.store.format.records import Plan
from obygaze_features.store.format.schema import ArraySpec, RowSource
from obygaze_features.store.read.reader import Store
from obygaze_features.store.write.create import create_store, read_plan
from obygaze_features.store.write.growth import is_draft_of_levels, store_of_draft
from obygaze_features.store.write.writer import StoreWriter
from obygaze_features.video.decoded_clip import View
from obygaze_features.video.pool import DecodePool, require_decode_workers

# Larger batches are not faster.
MAX_BATCH = 16

# The rows to extract, by the number of their block.
Rows = Mapping[int, Sequence[int]]


@dataclass(frozen=True)
class Resources:
    """What a run may use of its machine; none of it changes the features.

    `workers` decode, `batch` clips are computed at once (None: as many as fit), on a CPU by at most
    `threads` (None: one a core).
    """

    device: str = "cpu"
    workers: int = 1
    batch: int | None = None
    threads: int | None = None

    @property
    def compute_threads(self) -> int:
        """Threads that compute on the CPU: one a core, since decoders that wait use none."""
        return self.threads or usable_cores()

    def shared_by(self, devices: Sequence[str]) -> list[Self]:
        """Return the resources of a process for each device; they share decoders and cores."""
        workers, threads = (
            max(1, n // len(devices)) for n in (self.workers, self.compute_threads)
        )
        return [
            replace(self, device=d, workers=workers, threads=threads) for d in devices
        ]

    def batch_of(self, clip_bytes: int, gpu_bytes: int | None = None) -> int:
        """Return how many clips that need so much memory are computed at once.

        On a CPU it is one a thread, in a quarter of the machine's memory. On a GPU, of which so
        much is free, it is that of a backbone alone.
        """
        if gpu_bytes is not None:
            return self.gpu_batches([clip_bytes], gpu_bytes)[0]
        clips_in_memory = system.memory_bytes() // 4 // max(clip_bytes, 1)
        fits = max(1, min(clips_in_memory, self.compute_threads))
        return min(fits, self.batch or fits)

    def gpu_batches(self, clip_bytes: Sequence[int], gpu_bytes: int) -> list[int]:
        """Return the batch of each backbone on a GPU of which so much memory is free.

        Together they fit into half of it, since torch keeps the memory of each for its next batch.
        Batches are powers of two: the last bits depend on them, so a GPU with a little less memory
        should give the same.
        """
        if self.batch:
            return [self.batch] * len(clip_bytes)
        batches = [MAX_BATCH] * len(clip_bytes)
        while True:
            needed = [
                batch * n_bytes
                for batch, n_bytes in zip(batches, clip_bytes, strict=True)
            ]
            if sum(needed) <= gpu_bytes // 2 or max(batches) == 1:
                return batches
            halvable = [index for index, batch in enumerate(batches) if batch > 1]
            largest = max(halvable, key=lambda index: needed[index])
            batches[largest] //= 2

    def ahead(self, batches: Iterable[int]) -> int:
        """Return how many decoded clips may wait: those of the decoders, and the next batch.

        With fewer, the decoders would be idle while a batch is computed.
        """
        return 2 * self.workers + max(batches)


class RowProgress:
    """Show the rows of a run, each once, in a progress bar, with how many of them failed.

    `new_bar` gets the number of rows, and returns the bar.
    """

    def __init__(
        self, new_bar: Callable[[int], Progress] = lambda n_rows: Quiet()
    ) -> None:
        self.new_bar = new_bar
        self.bar: Progress = Quiet()
        self.n_rows = 0
        self.seen = set[int]()
        self.failed = set[int]()

    def begin(self, n_rows: int) -> None:
        """Show a bar for this many rows, or for this many more."""
        n_before = self.n_rows
        self.n_rows += n_rows
        if n_rows and not n_before:
            self.bar = self.new_bar(n_rows)
        elif n_rows:
            self.bar.expect(self.n_rows)

    def __call__(self, row: int, failed: bool) -> None:
        """Show a row. It comes again if the model failed on it, or if its block restarted."""
        if failed and row not in self.failed:
            self.failed.add(row)
            self.bar.remark(f"{len(self.failed)} failed")
        if row not in self.seen:
            self.seen.add(row)
            self.bar.advance()


@dataclass(frozen=True)
class LoadedTarget:
    """A backbone in memory, the store it fills, and the frames it uses."""

    target: Target
    backbone: Backbone
    writer: StoreWriter
    view: View

    @property
    def feature_arrays(self) -> list[ArraySpec]:
        """The arrays of features that the store has."""
        return [spec for spec in self.writer.plan.arrays if spec.is_feature_array]

    @cached_property
    def clip_bytes_on_gpu(self) -> int:
        """The memory of the GPU that one clip takes, measured once."""
        return measured_clip_bytes(BatchComputer(self.backbone, self.feature_arrays))

    def maker(
        self,
        wanted: Rows,
        pool: Executor,
        *,
        batch: int,
        uploads: Uploads | None = None,
        retry: bool = False,
        shared: bool = False,
        is_current: IsCurrent = lambda row, source: True,
    ) -> BlockMaker:
        """Return the block maker of this store; `pool` computes if no GPU does."""
        computer = computer_for(self.backbone, self.feature_arrays, pool, uploads)
        return BlockMaker(
            computer,
            self.writer,
            self.view,
            wanted,
            batch=batch,
            retry=retry,
            shared=shared,
            is_current=is_current,
        )


def batches_of(targets: Sequence[LoadedTarget], resources: Resources) -> list[int]:
    """Return how many clips each backbone computes at once; those of a GPU share its memory."""
    # A store may come twice, with rows to add and rows to replace; its backbone is one.
    backbones = {id(target): target for target in targets}
    on_gpu = [t for t in backbones.values() if computes_on_gpu(t.backbone)]
    batch_of_target = {
        key: resources.batch_of(target.backbone.activation_bytes)
        for key, target in backbones.items()
        if target not in on_gpu
    }
    if on_gpu:
        if resources.batch:
            clip_bytes = [0] * len(on_gpu)
        else:
            clip_bytes = [target.clip_bytes_on_gpu for target in on_gpu]
        free_bytes = free_gpu_memory(resources.device)
        batches = resources.gpu_batches(clip_bytes, free_bytes)
        for target, batch in zip(on_gpu, batches, strict=True):
            batch_of_target[id(target)] = batch
    return [batch_of_target[id(target)] for target in targets]


def decode_pool(
    plan: ExtractPlan,
    targets: Sequence[LoadedTarget],
    resources: Resources,
    note: Callable[[str], object] = silent,
) -> DecodePool:
    """Return the processes that decode; a GPU reads the memory in which pictures arrive."""
    locks = None
    if any(computes_on_gpu(target.backbone) for target in targets):
        locks = GpuPageLocks(resources.device, note)
    return DecodePool(
        resources.workers,
        timeout_s=plan.timeout_s,
        locks=locks,
    )


# A store, its rows to extract, and whether these replace rows of committed blocks.
RowsToExtract = tuple[LoadedTarget, Rows, bool]


def load_targets(
    plan: ExtractPlan, device: str = "cpu", *, mixed: bool = False
) -> list[LoadedTarget]:
    """Load every backbone of a plan on a device, then open or create every store."""
    workspace = Workspace(Path(plan.workspace))
    loaded = [
        (target, load_target(target, workspace, device)) for target in plan.targets
    ]
    # A run that is refused must create no store: options are checked first, then existing stores.
    parts = {t: (b, view_of(b, t), chosen_arrays(b, t.arrays)) for t, b in loaded}
    existing_first = sorted(
        plan.targets, key=lambda target: not Path(target.store).exists()
    )
    opened = {
        target: _open(plan, target, *parts[target], mixed=mixed)
        for target in existing_first
    }
    return [opened[target] for target in plan.targets]


def _open(
    plan: ExtractPlan,
    target: Target,
    backbone: Backbone,
    view: View,
    arrays: Mapping[str, FeatureArray],
    *,
    mixed: bool,
) -> LoadedTarget:
    """Open or create the store of a target."""
    recipe = recipe_of(backbone, view, arrays, plan.grid)
    # Rows of the next version of a sealed store have the recipe of that store.
    existing = store_of_draft(target.store) or Path(target.store)
    if (existing / Plan.FILE).is_file():
        stored = read_plan(existing).recipe
        recipe = recipe.as_claimed_by(stored)
        # A draft of further levels has these alone; all else must be as in that store.
        if is_draft_of_levels(target.store):
            stored.with_levels_of(recipe).require(
                recipe,
                where=str(existing),
                message="this store has another recipe",
                sides=("in the store", "asked for"),
            )
        else:
            read_plan(existing, recipe)
    create_store(
        target.store,
        recipe=recipe,
        manifest_name=plan.manifest,
        manifest_sha256=plan.clips_sha256,
        clip_ids=[clip_id for clip_id, _ in plan.ids()],
        movie_ids=[movie_id for _, movie_id in plan.ids()],
        arrays=arrays_of(backbone, arrays, plan.grid),
        licence=plan.licence,
        citation=plan.citation,
        block_rows=target.block_rows,
    )
    writer = StoreWriter(target.store, recipe=recipe, mixed=mixed)
    return LoadedTarget(target, backbone, writer, view)


def require_recipe(plan: ExtractPlan, target: Target, device: str = "cpu") -> None:
    """Raise an error if a store has another recipe than a plan asks for."""
    backbone = load_target(target, Workspace(Path(plan.workspace)), device)
    arrays = chosen_arrays(backbone, target.arrays)
    recipe = recipe_of(backbone, view_of(backbone, target), arrays, plan.grid)
    stored = read_plan(Path(target.store)).recipe
    read_plan(Path(target.store), recipe.as_claimed_by(stored))


def extract_plan(
    plan: ExtractPlan,
    resources: Resources,
    stop: StopFlag,
    *,
    rows: Sequence[int] | None = None,
    worker: str | None = None,
    retry_failed: bool = False,
    changed: bool = False,
    mixed: bool = False,
    progress: RowProgress | None = None,
    note: Callable[[str], object] = silent,
) -> list[StoreStatus]:
    """Extract what is missing of a plan's stores and return their status, that of `rows` if given.

    Rows that had no video, or whose file was missing, are extracted if the video exists now. After
    a stop it returns early, and all finished rows are kept.

    Args:
        plan: The clips, backbones and stores.
        resources: What to use of this machine.
        stop: The flag that stops the run.
        rows: Rows of whole blocks to extract. The default is all rows.
        worker: The worker whose rows these are, such as 0/8. After them, it takes over units that
            other workers leave or are slow with.
        retry_failed: Extract all rows again that failed or had no video, and no others.
        changed: With `retry_failed`, also rows of clips whose times or video changed.
        mixed: Add to stores whose clips were made by another version of this program, another kind
            of device, or in another precision. The default raises an error.
        progress: The progress bar. The default shows nothing.
        note: Is called with what a worker takes over, and if pictures reach the GPU more slowly
            than they could.
    """
    require_decode_workers()
    refuse_unusable(plan, rows, only_sealed=changed)
    if retry_failed:
        refuse_retry(plan, rows)
    targets = load_targets(plan, resources.device, mixed=mixed)
    progress = progress or RowProgress()
    if worker is not None and not retry_failed:
        shared_units = SharedUnits(plan, worker)
        _extract_with_others(
            shared_units, targets, rows, resources, stop, progress, note
        )
        return [store_status(target.target.store, rows) for target in targets]
    if retry_failed:
        work: Iterable[RowsToExtract] = [
            (t, rows_to_retry(t, plan, changed, rows), True) for t in targets
        ]
    else:
        work = pending_work(targets, plan, rows)
    extract_rows(
        work, plan, resources, stop, progress=progress, changed=changed, note=note
    )
    return [store_status(target.target.store, rows) for target in targets]


def _extract_with_others(
    shared_units: SharedUnits,
    targets: Sequence[LoadedTarget],
    rows: Sequence[int] | None,
    resources: Resources,
    stop: StopFlag,
    progress: RowProgress,
    note: Callable[[str], object],
) -> None:
    """Extract the rows of a worker, then what other workers leave or are slow with."""
    plan = shared_units.plan
    own_rows = range(len(plan.rows)) if rows is None else rows
    units = sorted({row // plan.unit_rows for row in own_rows})
    with ExitStack() as stack:
        stack.enter_context(shared_units.at_work(units))
        pool = stack.enter_context(decode_pool(plan, targets, resources, note))
        work: Iterable[RowsToExtract] = pending_work(targets, plan, own_rows)
        while True:
            started = time.monotonic()
            n_clips = extract_rows(
                work, plan, resources, stop, pool=pool, progress=progress, shared=True
            )
            shared_units.measure(n_clips, time.monotonic() - started)
            units = [] if stop else shared_units.take()
            if not units:
                return
            rows_of_units: list[int] = []
            for unit in units:
                rows_of_units += plan.unit_range(unit)
            refuse_changed(plan, rows_of_units)
            n_clips_of_units = count(len(rows_of_units), "clip")
            note(
                f"takes over {n_clips_of_units} that other workers left or are slow with"
            )
            work = [(t, pending_rows(t, rows_of_units), False) for t in targets]


def refuse_unusable(
    plan: ExtractPlan, rows: Sequence[int] | None = None, *, only_sealed: bool = False
) -> None:
    """Raise an error if no clip has a video or kept pictures, or if clips of `rows` changed.

    With `only_sealed`, changes of clips in stores that are not sealed do not matter.
    """
    if not stores_read(plan):
        refuse_without_videos(plan)
    refuse_changed(plan, rows, only_sealed=only_sealed)


def stores_read(plan: ExtractPlan) -> list[Store]:
    """Return the stores of pictures that a run reads in place of films.

    A clip is read from them if they have the pictures of all backbones that still need it, so the
    list is empty if a backbone has none. What each backbone sees is known from its card.
    """
    stores_with_pictures = [
        KeptPictures.of(store, plan) for store in stores_of_pictures(plan)
    ]
    workspace = Workspace(Path(plan.workspace))
    stores = dict[str, Store]()
    if not stores_with_pictures:
        return []
    for target in plan.targets:
        exists = (Path(target.store) / Plan.FILE).is_file()
        if exists and not StoreWriter(target.store).pending_blocks():
            continue
        card = find_card(target.backbone, workspace)
        view = view_of(card, target)
        any_edge = card.input.edge_from_checkpoint
        serving = [
            kept_pictures
            for kept_pictures in stores_with_pictures
            if kept_pictures.serves(view, plan.grid, any_edge=any_edge)
        ]
        serving = [kept_pictures for kept_pictures in serving if kept_pictures.rows]
        if not serving:
            return []
        stores.update(
            (kept_pictures.store.location, kept_pictures.store)
            for kept_pictures in serving
        )
    return list(stores.values())


def extract_rows(
    work: Iterable[RowsToExtract],
    plan: ExtractPlan,
    resources: Resources,
    stop: StopFlag,
    *,
    pool: DecodePool | None = None,
    progress: RowProgress | None = None,
    changed: bool = False,
    shared: bool = False,
    note: Callable[[str], object] = silent,
) -> int:
    """Extract rows for several stores in one pass, and return how many were decoded.

    Args:
        work: The stores, each with its rows; those finished before a stop are taken.
        plan: The plan.
        resources: What to use of this machine.
        stop: The flag that stops the run.
        pool: The processes that decode. The default starts new ones.
        progress: The progress bar. The default shows nothing.
        changed: Decode clips again that changed since their pictures were kept.
        shared: Other workers may commit the same blocks, which are left out then.
        note: Is called if pictures reach the GPU more slowly than they could.
    """
    work = [(target, rows, retry) for target, rows, retry in work if any(rows.values())]
    if not work:
        return 0
    for loaded, _, _ in work:
        maker = maker_of(loaded.backbone, loaded.writer.plan.recipe)
        loaded.writer.refuse_other_kinds(maker.kind)
        sealed_store = store_of_draft(loaded.target.store)
        if sealed_store is not None:
            mixed = loaded.writer.mixed
            StoreWriter(sealed_store, mixed=mixed).refuse_other_kinds(maker.kind)

    def is_row_current(row: int, source: RowSource | None) -> bool:
        return is_current(source, plan.rows[row])

    with ExitStack() as stack:
        threads = stack.enter_context(clip_threads(resources.compute_threads))
        uploads = Uploads(resources.device)
        targets = [loaded for loaded, _, _ in work]
        batches = batches_of(targets, resources)
        makers = [
            loaded.maker(
                rows,
                threads,
                batch=batch,
                uploads=uploads,
                retry=retry,
                shared=shared and not retry,
                is_current=is_row_current,
            )
            for (loaded, rows, retry), batch in zip(work, batches, strict=True)
        ]
        wanted = set[int]().union(*(maker.rows for maker in makers))
        progress = progress or RowProgress()
        finished_before: set[int] = set()
        for _, rows_of_blocks, _ in work:
            finished_before.update(*rows_of_blocks.values())
        finished_before -= wanted
        progress.begin(len(wanted) + len(finished_before))
        for row in sorted(finished_before):
            progress(row, False)
        ahead = resources.ahead(maker.batch for maker in makers)
        views = (maker.view for maker in makers)
        kept_pictures = find_kept_pictures(plan, wanted, views, changed=changed)
        if pool is None:
            pool = stack.enter_context(decode_pool(plan, targets, resources, note))
        decode_with_pool = partial(
            decode_rows, plan, pool=pool, ahead=ahead, kept_pictures=kept_pictures
        )
        n_decoded = 0

        def decode(jobs: Jobs) -> Iterator[DecodedRow]:
            nonlocal n_decoded
            for decoded in decode_with_pool(jobs):
                n_decoded += 1
                yield decoded

        run_rows(makers, decode, stop, progress)
    return n_decoded


def pending_work(
    targets: Iterable[LoadedTarget],
    plan: ExtractPlan,
    rows: Iterable[int] | None = None,
) -> Iterator[RowsToExtract]:
    """Yield what is missing: blocks not committed, and rows of others whose video is new."""
    for target in targets:
        yield target, pending_rows(target, rows), False
        yield target, rows_with_new_video(target.writer, plan, rows), True


def pending_rows(
    loaded: LoadedTarget, rows: Iterable[int] | None = None
) -> dict[int, list[int]]:
    """Return the rows of each block that is not committed; only of blocks wholly in `rows`.

    What a killed process left is finished or removed first.
    """
    loaded.writer.clean_litter()
    plan = loaded.writer.plan
    chosen = None if rows is None else set(rows)
    blocks = {
        block: list(range(*plan.block_range(block)))
        for block in loaded.writer.pending_blocks()
    }
    return {
        b: those
        for b, those in blocks.items()
        if chosen is None or chosen.issuperset(those)
    }


def refuse_retry(plan: ExtractPlan, rows: Sequence[int] | None = None) -> None:
    """Raise an error if a store does not exist, or is sealed and has `rows` without features."""
    stores = [target.store for target in plan.targets]
    new = [store for store in stores if not (Path(store) / Plan.FILE).is_file()]
    if new:
        raise NotFound(
            "there is no store yet, so no clip to extract again",
            where=", ".join(new),
            hint="the same command without --retry-failed or --changed",
        )
    for store in stores:
        state = store_status(store, rows)
        n_without = state.failed + state.missing
        if state.sealed and n_without:
            raise AlreadyThere(
                f"the store is sealed; {n_without} rows stay without features",
                where=store,
                hint="extract into another store: obygaze extract run --store NAME=STORE",
            )


def rows_to_retry(
    loaded: LoadedTarget,
    plan: ExtractPlan,
    changed: bool,
    rows: Iterable[int] | None = None,
) -> dict[int, list[int]]:
    """Return the rows of each block that failed or had no video; with `changed`, changed ones.

    Only of `rows`, which are those of whole blocks.
    """
    loaded.writer.clean_litter()
    wanted: dict[int, list[int]] = {}
    for row in sorted(
        rows_again(loaded.target.store, plan, changed=changed, rows=rows)
    ):
        wanted.setdefault(row // loaded.writer.plan.block_rows, []).append(row)
    return wanted


def seal_complete(
    states: Sequence[StoreStatus], seal: bool | None = None
) -> list[StoreStatus]:
    """Seal the stores whose blocks are all committed, and return the new status of each.

    Args:
        states: The status of each store.
        seal: False seals no store. The default seals stores without failed or missing rows.
    """
    for writer in (StoreWriter(state.store) for state in states):
        complete = not writer.sealed and not writer.pending_blocks()
        if complete and (not writer.rows_to_retry() if seal is None else seal):
            writer.seal()
    return [replace(state, sealed=StoreWriter(state.store).sealed) for state in states]
