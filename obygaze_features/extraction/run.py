"""A run from its plan to its summary: the same for every engine, whatever part of it they take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from obygaze_features.backbones.base import Backbone
from obygaze_features.backbones.load import load_backbone
from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import AlreadyThere, FixInput
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.blocks import BlockMaker
from obygaze_features.extraction.decoding import DecodeSettings, decode_rows, decoder_versions
from obygaze_features.extraction.pipeline import Decoded, run_rows
from obygaze_features.extraction.plan import ExtractPlan, Target
from obygaze_features.extraction.recipes import arrays_of, chosen_levels, recipe_of, view_of
from obygaze_features.extraction.signals import StopFlag
from obygaze_features.extraction.sizing import batch_for, clips_ahead
from obygaze_features.extraction.sources import changed_rows, refuse_changed
from obygaze_features.extraction.status import StoreStatus, store_status
from obygaze_features.store.format.records import STORE_FILE
from obygaze_features.store.format.schema import RowStatus
from obygaze_features.store.read.reader import open_store
from obygaze_features.store.write.create import create_store, read_plan
from obygaze_features.store.write.writer import StoreWriter
from obygaze_features.video.decode import View
from obygaze_features.video.pool import DecodePool

Event = Mapping[str, Any]


@dataclass(frozen=True)
class Machine:
    """What a run may use of the machine it is on; none of it decides the numbers."""

    device: str = "cpu"
    workers: int = 1
    batch: int | None = None
    memory: int | None = None
    # Manners, where others use the machine too.
    gpu_gb: float | None = None
    nice: bool = False


@dataclass(frozen=True)
class Loaded:
    """A backbone that is ready, the store it fills, and the frames it wants."""

    target: Target
    backbone: Backbone
    writer: StoreWriter
    view: View

    def batch(self, machine: Machine) -> int:
        """Clips in a batch: as asked, or what fits."""
        if machine.batch is not None:
            return machine.batch
        return batch_for(self.backbone.activation_bytes, machine.memory)


def load_targets(plan: ExtractPlan, device: str = "cpu") -> list[Loaded]:
    """Load every backbone of a plan, then make or find every store; any mismatch ends it here."""
    workspace = Workspace(Path(plan.workspace))
    backbones = [
        load_backbone(
            target.backbone,
            target.weights,
            device=device,
            dtype=target.dtype,
            attn_implementation=target.attention,
            tf32=target.tf32,
            compiled=target.compiled,
            workspace=workspace,
        )
        for target in plan.targets
    ]
    # Only when all of them are good is anything written.
    pairs = zip(plan.targets, backbones, strict=True)
    return [_with_store(plan, target, backbone) for target, backbone in pairs]


def _with_store(plan: ExtractPlan, target: Target, backbone: Backbone) -> Loaded:
    view, levels = view_of(backbone, target), chosen_levels(backbone, target.levels)
    recipe = recipe_of(backbone, view, levels)
    if (Path(target.store) / STORE_FILE).is_file():
        recipe = recipe.as_claimed_by(read_plan(Path(target.store)).recipe)
    create_store(
        target.store,
        recipe=recipe,
        manifest_name=plan.manifest,
        manifest_sha256=plan.clips_sha256,
        clip_ids=[row.clip_id for row in plan.rows],
        movie_ids=[row.movie_id for row in plan.rows],
        arrays=arrays_of(backbone, levels),
        licence=plan.licence,
        citation=plan.citation,
        block_rows=target.block_rows,
        compressor=target.compressor,
    )
    return Loaded(target, backbone, StoreWriter(target.store, recipe=recipe), view)


def pending_rows(loaded: Loaded, rows: Iterable[int] | None) -> dict[int, list[int]]:
    """The blocks nobody has committed, with their rows; only those wholly among `rows`."""
    plan = loaded.writer.plan
    among = None if rows is None else set(rows)
    blocks = {
        block: list(range(*plan.block_range(block))) for block in loaded.writer.pending_blocks()
    }
    return {b: those for b, those in blocks.items() if among is None or among.issuperset(those)}


def extract(
    plan: ExtractPlan, machine: Machine, stop: StopFlag, **options: Any
) -> list[StoreStatus]:
    """Make what is missing of a plan's stores, and say how things stand.

    The options are those of `make_missing`. Returns early, with all committed blocks kept, when
    asked to stop.
    """
    return extract_into(load_targets(plan, machine.device), plan, machine, stop, **options)


def extract_into(
    targets: Sequence[Loaded],
    plan: ExtractPlan,
    machine: Machine,
    stop: StopFlag,
    *,
    rows: Iterable[int] | None = None,
    changed: bool = False,
    **options: Any,
) -> list[StoreStatus]:
    """The same with backbones that are loaded; the options are those of `make_missing`."""
    wanted = list(rows) if rows is not None else None
    refuse_changed(plan, wanted, only_sealed=changed)
    make_missing(targets, plan, machine, stop, rows=wanted, changed=changed, **options)
    return [store_status(loaded.target.store) for loaded in targets]


def make_missing(
    targets: Sequence[Loaded],
    plan: ExtractPlan,
    machine: Machine,
    stop: StopFlag,
    *,
    rows: Iterable[int] | None = None,
    redo: bool = False,
    changed: bool = False,
    strict: bool = False,
    progress: Callable[[int], Progress] | None = None,
    tell: Callable[[Event], None] | None = None,
    pool: DecodePool | None = None,
) -> None:
    """Make the blocks that nobody has made; `redo` makes the rows that failed, no others.

    With `changed`, a redo makes the rows too whose times or video changed. `rows` are those of
    whole blocks; decoders of a `pool` are left running.
    """
    wanted = list(rows) if rows is not None else None
    for loaded in targets:
        loaded.writer.clean_litter()
    jobs = [
        rows_to_redo(loaded, plan, changed) if redo else pending_rows(loaded, wanted)
        for loaded in targets
    ]
    pairs = zip(targets, jobs, strict=True)
    makers = [_maker(loaded, job, machine, redo) for loaded, job in pairs]
    makers = [maker for maker in makers if maker.rows]
    if makers:
        n_rows = len(set().union(*(maker.rows for maker in makers)))
        shown = progress(n_rows) if progress else Quiet()
        watch = _Watch(plan, shown, tell or _silent, stop, strict)
        ahead = clips_ahead(machine.workers, (maker.batch for maker in makers))
        settings = DecodeSettings(machine.workers, plan.timeout_s, plan.max_substituted, ahead)
        run_rows(makers, lambda jobs: decode_rows(plan.rows, jobs, settings, pool), stop, watch)
        watch.raise_if_strict()


def seal_complete(states: Sequence[StoreStatus], seal: bool | None) -> list[StoreStatus]:
    """Seal stores whose blocks are all there: by default those in which no clip failed or lacks."""
    after = []
    for state in states:
        whole = state.done and not state.failed and not state.missing
        if not state.sealed and state.done and (whole if seal is None else seal):
            StoreWriter(state.store).seal()
            state = replace(state, sealed=True)
        after.append(state)
    return after


def rows_to_redo(loaded: Loaded, plan: ExtractPlan, changed: bool) -> dict[int, list[int]]:
    """The rows, by block, that failed or had no video; with `changed`, those that changed too."""
    _refuse_sealed(loaded)
    wanted = loaded.writer.rows_to_retry()
    for row in changed_rows(open_store(loaded.target.store), plan) if changed else ():
        wanted.setdefault(row // loaded.writer.plan.block_rows, []).append(row)
    return {block: sorted(wanted[block]) for block in sorted(wanted)}


def _maker(
    loaded: Loaded, wanted: Mapping[int, Sequence[int]], machine: Machine, redo: bool
) -> BlockMaker:
    return BlockMaker(
        loaded.backbone,
        loaded.writer,
        loaded.view,
        wanted,
        batch=loaded.batch(machine),
        redo=redo,
        versions=decoder_versions(),
    )


def _refuse_sealed(loaded: Loaded) -> None:
    """A sealed store never changes; where nothing is left to redo that is no matter."""
    if not loaded.writer.sealed:
        return
    state = store_status(loaded.target.store)
    if state.failed or state.missing:
        raise AlreadyThere(
            f"this store is sealed: its {state.failed + state.missing} rows without features stay",
            where=state.store,
            hint="obygaze extract run into another store: --store NAME=STORE",
        )


class _Watch:
    """Sees every row pass: moves the bar, tells events, and stops a strict run."""

    def __init__(
        self,
        plan: ExtractPlan,
        progress: Progress,
        tell: Callable[[Event], None],
        stop: StopFlag,
        strict: bool,
    ) -> None:
        self.plan, self.progress, self.tell = plan, progress, tell
        self.stop, self.strict = stop, strict
        self.seen: set[int] = set()
        self.failed: set[int] = set()
        self.first: tuple[str, RowStatus] | None = None

    def __call__(self, decoded: Decoded) -> None:
        bad = [clip for clip in decoded.clips.values() if isinstance(clip, RowStatus)]
        failed = [status for status in bad if status.state == "failed"]
        is_new = decoded.row not in self.seen
        # A row comes again where the model failed on it, or where its block was begun again.
        if is_new or (failed and decoded.row not in self.failed):
            self._tell(decoded, bad)
        if is_new:
            self.seen.add(decoded.row)
            self.progress.advance()
        if failed and decoded.row not in self.failed:
            self._fail(decoded.row, failed[0])

    def _tell(self, decoded: Decoded, bad: Sequence[RowStatus]) -> None:
        clip_id = self.plan.rows[decoded.row].clip_id
        event = {"event": "clip", "clip_id": clip_id, "seconds": round(decoded.seconds, 4)}
        self.tell({**event, "status": str(bad[0]) if bad else "ok"})

    def _fail(self, row: int, status: RowStatus) -> None:
        self.failed.add(row)
        self.progress.say(f"{len(self.failed)} failed")
        if self.first is None:
            self.first = self.plan.rows[row].clip_id, status
        if self.strict:
            self.stop.signal_name = self.stop.signal_name or "STRICT"

    def raise_if_strict(self) -> None:
        """End a strict run at its first bad clip."""
        if self.strict and self.first is not None:
            clip_id, status = self.first
            raise FixInput(f"{clip_id}: {status}", hint="without --strict, to go on past bad clips")


def _silent(event: Event) -> None:
    pass
