"""Extract missing features: compare, plan, fill, seal. The same call resumes after a stop.

`_extract` lists the steps of a run, and `fill` in `loop.py` the steps for its clips. Each step is a
function below.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from obygaze_features.backbones.cards import FRAMES_OF
from obygaze_features.core.console import (
    ProgressBars,
    progress_bars,
    silent,
)
from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    Mismatch,
    ObygazeError,
    ObygazeWarning,
)
from obygaze_features.core.files import write_atomic
from obygaze_features.core.machine import is_disk_full, usable_cores
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.extraction.clips import PlannedClip, Source
from obygaze_features.extraction.compute import (
    Resources,
    Uploads,
    clip_threads,
    make_computer,
)
from obygaze_features.extraction.decoding import RowDecoder, choose_sweep_rows
from obygaze_features.extraction.loop import StoreFiller, fill
from obygaze_features.extraction.planning import (
    ChosenBackbone,
    ExtractionPlan,
    StorePlan,
    choose_backbones,
    choose_device_of_targets,
    open_filling,
    plan_stores,
)
from obygaze_features.extraction.results import (
    Extraction,
    ProgressDisplay,
    Watch,
    describe_kept_clips,
    next_steps,
    read_states,
)
from obygaze_features.extraction.stopping import RESUME, StopFlag, stop_on_signals
from obygaze_features.extraction.stored import read_stored, store_status
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_features.store.atomic_files import read_seal
from obygaze_features.store.card import Terms, terms_lines, with_terms
from obygaze_features.store.filling import (
    Filling,
    is_sealed,
    open_store_before,
    remove_filling,
)
from obygaze_features.store.layout import CARD, NEXT
from obygaze_features.store.reading import open_store
from obygaze_features.store.rows import Row
from obygaze_features.store.sealing import seal
from obygaze_features.video.pool import DecodePool

# The time limit for one clip, and the number of times that a run compares stores with the manifest:
# if another process finishes a store meanwhile, all stores are compared again.
TIMEOUT_S = 300.0
_MOST_ATTEMPTS = 5


def extract(
    manifest: PathLike | Manifest,
    backbones: str | Sequence[str] = (),
    *,
    retry_failed: bool = False,
    accept_damaged: bool = False,
    timeout_s: float = TIMEOUT_S,
    arrays: Sequence[str] = (),
    weights: Sequence[str] | Mapping[str, PathLike] = (),
    stores: Mapping[str, PathLike] | None = None,
    dtype: Literal["float32", "bfloat16", "float16"] = "float32",
    licence: str = "",
    device: str = "auto",
    workers: int | None = None,
    batch: int | None = None,
    seal_now: bool = False,
    watch: Watch | None = None,
    progress: bool | ProgressBars = False,
    note: Callable[[str], object] = silent,
    workspace: PathLike | None = None,
) -> Extraction:
    """Extract the missing features of clips; the same call resumes.

    All backbones share one decoding of each clip. Several processes, on one or more machines, may
    fill the same stores at once. Ctrl-C stops after the current batch; finished blocks are kept. A
    complete store is sealed; later, the same call adds new clips. A clip that fails has a row with
    the reason. docs/guide/extraction.md lists what is refused.

    Args:
        manifest: The clips, linked to their videos (`og.manifest.link`).
        backbones: Name of a backbone, or your own code (FILE.py:NAME).
        retry_failed: Try failed clips again.
        accept_damaged: Use damaged pictures and sound as they are decoded.
        timeout_s: Largest time to decode one clip, in seconds.
        arrays: Arrays to store; by default all but tokens.
        weights: File or folder of weights.
        stores: The store of a backbone; by default MANIFEST.NAME.
        dtype: Precision of the computation.
        licence: Licence of the features; kept frames get none.
        device: Device that computes: auto (an idle GPU, else the CPU), cpu, cuda or cuda:1.
        workers: Processes that decode or read clips.
        batch: Number of clips that are computed at once; by default 16 on a GPU, fewer if memory is
            full.
        seal_now: Seal finished blocks; other clips are 'not-extracted'.
        watch: Callback (row, failed) for each decoded row.
        progress: Whether to show a progress bar on stderr, or a function that makes the bar.
        note: Callback for each note before the run.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> (state,) = og.extract("trailers", "descriptors")
        >>> state.ok, state.failed
        (2, 1)
    """
    here = Workspace.of(workspace)
    with stop_on_signals(note) as stop:
        targets = choose_backbones(
            backbones, arrays=arrays, weights=weights, stores=stores, dtype=dtype
        )
        clips = read_manifest(manifest, workspace=here)
        # With seal_now, nothing is computed.
        device = choose_device_of_targets(device, [] if seal_now else targets, here)
        run = ExtractionRun(
            manifest=clips,
            targets=targets,
            workspace=here,
            resources=Resources(device, workers or usable_cores(), batch),
            timeout_s=timeout_s,
            accept_damaged=accept_damaged,
            retry_failed=retry_failed,
            seal_now=seal_now,
            licence=licence,
        )
        display = ProgressDisplay(progress_bars(progress, "clips"), watch, note)
        try:
            with closing(display):
                return _extract(run, stop, display)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(describe_kept_clips(read_states(clips, targets, here)))
            interrupt.add_note(RESUME)
            raise


@dataclass(frozen=True)
class ExtractionRun:
    """The clips and settings of a run; its resources do not change the features."""

    manifest: Manifest
    targets: Sequence[ChosenBackbone]
    workspace: Workspace
    resources: Resources
    timeout_s: float
    accept_damaged: bool
    retry_failed: bool
    seal_now: bool
    licence: str


def _extract(
    run: ExtractionRun, stop: StopFlag, display: ProgressDisplay
) -> Extraction:
    """Extract: the steps of a run."""
    with _one_sentence_for_a_full_disk():
        plan, begun = _begin(run)
        for sentence in _before_the_run(plan, run):
            display.note(sentence)
        gone: list[Begun] = []
        try:
            if not run.seal_now:
                display.expect(len({clip_id for _, clip_id in _missing_clips(begun)}))
                groups = _group_by_rows(begun)
                for together in groups:
                    if not stop:
                        _fill(together, plan, run, stop, display)
            for one in begun:
                # The plan was removed, and no store was sealed from it.
                if not one.filling.is_current() and not is_sealed(one.filling):
                    gone.append(one)
                else:
                    _seal_if_complete(one, run, plan.clips)
        except Exception:
            for store, filling in begun:
                # A plan that no run has begun must not hinder a different plan.
                if store.filling is None and filling.list_blocks() == (set(), {}):
                    remove_filling(filling)
            raise
        for one in [] if stop else gone:
            _refuse_lost(one)
        states = [store_status(store.path) for store in plan.stores]
        steps = next_steps(plan, states, run.manifest)
        return Extraction(states, stop, steps)


# --- Begin ---


class Begun(NamedTuple):
    """A store that has something to compute, and its filling."""

    store: StorePlan
    filling: Filling


def _begin(run: ExtractionRun) -> tuple[ExtractionPlan, list[Begun]]:
    """Compare the manifest with each store, and plan what is missing.

    Raise an error if a store must not be changed.
    """
    attempts_left = _MOST_ATTEMPTS
    while True:
        plan = plan_stores(
            run.manifest,
            run.targets,
            run.workspace,
            device=run.resources.device,
            retry_failed=run.retry_failed,
            is_elsewhere=run.seal_now,
            download=True,
        )
        plan.refuse()
        _keep_terms(plan, run)
        begun = []
        try:
            for store in plan.stores:
                if run.seal_now and store.filling is None and store.work.is_needed:
                    raise FixInput(
                        "cannot seal the store: all its blocks are missing",
                        where=str(store.path),
                        hint="run the same command without --seal-now",
                    )
                if store.filling is not None or store.work.is_needed:
                    begun.append(Begun(store, open_filling(store, plan, run.licence)))
        except AlreadyThere:
            # Another process has just finished a store.
            attempts_left -= 1
            if not attempts_left:
                raise
        else:
            return plan, begun


def _keep_terms(plan: ExtractionPlan, run: ExtractionRun) -> None:
    """Write the licence of the option --licence into finished stores that state none.

    Raise an error if a store states a different licence. Warn if a store gets features of clips
    with another licence or citation. Kept frames are left out.
    """
    header = run.manifest.header
    terms = Terms(run.licence or header.licence, header.citation)
    # A licence that a card cannot have is refused before the plan is written.
    terms_lines(terms)
    cards: dict[Path, bytes] = {}
    for store in plan.stores:
        if not store.seal or _keeps_frames(store):
            continue
        opened = open_store(store.path)
        Terms(run.licence).require_same(opened.terms, str(store.path))
        kept = opened.terms.or_else(Terms(run.licence))
        if kept != opened.terms:
            cards[store.path / CARD] = with_terms(opened.card, kept)
        is_changed = store.work.is_needed or store.filling is not None
        if is_changed and not terms.are_part_of(kept):
            warnings.warn(
                f"README.md of {store.path.name} keeps its licence and citation, which are not"
                f" those of the manifest {run.manifest.name}; edit them if the new clips need it",
                ObygazeWarning,
                stacklevel=2,
            )
    for path, card in cards.items():
        write_atomic(path, card)


def _keeps_frames(store: StorePlan) -> bool:
    return store.target.backbone.startswith(FRAMES_OF)


def _before_the_run(plan: ExtractionPlan, run: ExtractionRun) -> Iterator[str]:
    """Yield the notes before a run: the device, kept frames, and the state of the stores."""
    if not run.seal_now:
        yield from _what_computes(plan, run.resources.device)
    yield from plan.notes
    for store in plan.stores:
        if store.filling is not None or store.seal:
            for sentence in store.work.sentences:
                yield f"{store.path.name}: {sentence}"
    for view in {store.view for store in plan.stores if store.n_computed}:
        if view in plan.kept:
            yield f"kept frames are read from {plan.kept[view].store.location}"


def _what_computes(plan: ExtractionPlan, device: str) -> Iterator[str]:
    """Yield a note on the device that computes features; nothing if no features are missing."""
    makers = []
    for store in plan.stores:
        if store.work.is_needed and not _keeps_frames(store):
            makers.append(store.maker)
    for maker in makers:
        if maker.device != "cpu":
            yield f"computes on {device} ({maker.device_name})"
            return
    if makers:
        yield "computes on the CPU"


def _refuse_lost(one: Begun) -> None:
    """Raise an error if a plan was removed because the store was changed during the run.

    It is no error if the store is unchanged. In this case another command computed the plan, all
    rows failed again as before, and this command removed the plan.
    """
    replaces = one.filling.plan.replaces
    if not replaces or read_seal(one.store.path) != replaces:
        raise Mismatch(
            "the features of this run were not added: another command changed the store, or removed"
            " its plan, during this run",
            where=str(one.store.path),
            hint="run the same command again to compare the manifest with the store as it is now",
        )


# --- Fill ---


def _group_by_rows(begun: Sequence[Begun]) -> list[list[Begun]]:
    """Return groups of stores with the same clips and times. A group shares one decoding."""
    groups: dict[tuple[Row, ...], list[Begun]] = {}
    for one in begun:
        if one.filling.missing():
            rows = tuple(row.as_planned for row in one.filling.rows)
            groups.setdefault(rows, []).append(one)
    return list(groups.values())


def _missing_clips(begun: Sequence[Begun]) -> Iterator[tuple[StorePlan, str]]:
    """Yield each clip of the missing blocks of each store."""
    for store, filling in begun:
        for block in filling.missing():
            for row in filling.rows_of(block):
                yield store, filling.rows[row].clip_id


def _fill(
    together: Sequence[Begun],
    plan: ExtractionPlan,
    run: ExtractionRun,
    stop: StopFlag,
    display: ProgressDisplay,
) -> None:
    """Compute the missing blocks of stores with the same rows.

    The stores share the decoders, the threads that compute, the device, and the thread that writes.
    """
    resources = run.resources
    rows = together[0].filling.rows
    clips = _clips_of_plan(rows, plan.clips)
    uploads = Uploads(resources.device)
    with (
        DecodePool(resources.workers, timeout_s=run.timeout_s) as pool,
        clip_threads(resources.compute_threads) as threads,
        ThreadPoolExecutor(1, thread_name_prefix="write") as writing,
    ):
        computers = []
        for store, filling in together:
            computer = make_computer(store.backbone, filling.arrays, threads, uploads)
            computers.append(computer)
        batches = list(map(resources.batch_size, computers))
        stores = []
        for (store, filling), computer, batch in zip(
            together, computers, batches, strict=True
        ):
            stores.append(StoreFiller(filling, store.maker, computer, batch, writing))
        # Enough clips for the decoders and the next batch: with fewer, decoders would be idle while
        # a batch is computed.
        decoder = RowDecoder(
            clips,
            pool,
            most_clips=2 * resources.workers + max(batches),
            most_bytes=resources.bytes_of_clips_ahead,
            indexes=str(run.workspace.folder("indexes")),
            accept_damaged=run.accept_damaged,
            kept=plan.kept,
            first_read=_files_read_before(together, clips),
            sweep_rows=choose_sweep_rows(
                min(filling.plan.block_rows for _, filling in together),
                max(store.n_computed for store, _ in together),
                resources.workers,
            ),
        )
        with closing(fill(stores, decoder.rows, stop)) as filled:
            for row, failed in filled:
                display.row(rows[row].clip_id, row, failed)


def _files_read_before(
    together: Sequence[Begun], clips: Sequence[PlannedClip]
) -> dict[str, Source]:
    """Return the facts of each video, as the finished rows of the stores state them."""
    files = {}
    for store, _ in together:
        for row, clip in zip(store.work.rows, clips, strict=True):
            if row.is_ok and row.video_bytes is not None:
                files[clip.video] = Source(row.video_bytes, row.video_hash)
    return files


def _clips_of_plan(
    rows: Sequence[Row], clips: Sequence[PlannedClip]
) -> Sequence[PlannedClip]:
    """Return the clip of each row; for a row that left the manifest, a clip without a video."""
    clip_of_id = {clip.clip_id: clip for clip in clips}
    planned = []
    for row in rows:
        clip = clip_of_id.get(row.clip_id)
        planned.append(clip or PlannedClip(row.clip_id, row.movie_id))
    return planned


# --- Seal ---


def _seal_if_complete(
    one: Begun, run: ExtractionRun, clips: Sequence[PlannedClip]
) -> None:
    """Seal a store if all its blocks are finished, or if the run has the option --seal-now.

    If a change of a store brought no features, its filling is removed instead.
    """
    store, filling = one
    n_missing = len(filling.missing()) if filling.is_current() else 0
    if n_missing and not run.seal_now:
        return
    if filling.plan.replaces and _is_as_before(filling):
        remove_filling(filling)
        return
    _refuse_videos_of_two_files(store, clips)
    header = run.manifest.header
    # A command that continues an extraction may state no licence.
    licence = run.licence or filling.plan.licence or header.licence
    terms = Terms(licence, header.citation)
    if filling.plan.replaces:
        # A store keeps its terms, which may have been corrected in its card.
        terms = Terms(run.licence)
    if _keeps_frames(store):
        # The licence of labels or features does not hold for the pictures of films.
        terms = Terms()
    seal(store.path, seal_now=run.seal_now, terms=terms)


def _refuse_videos_of_two_files(store: StorePlan, clips: Iterable[PlannedClip]) -> None:
    """Raise an error if a video was replaced while workers read it."""
    stored = read_stored(store.path)
    if stored is None:
        return
    video_of_clip = {clip.clip_id: clip.video for clip in clips}
    first_read: dict[str, Source] = {}
    replaced: dict[str, None] = {}
    for row in stored.rows:
        video = video_of_clip.get(row.clip_id, "")
        source = Source(row.video_bytes, row.video_hash)
        if not (video and row.is_ok and source.is_known):
            continue
        if first_read.setdefault(video, source) != source:
            replaced[video] = None
    refuse_if(
        replaced,
        Mismatch,
        "videos were replaced while their clips were extracted",
        where=store.path,
        hint=f"discard the unfinished store: rm -r {shell_word(f'{store.path}{NEXT}')}",
    )


def _is_as_before(filling: Filling) -> bool:
    """Return whether all rows that a change computed failed for the same reasons as before."""
    try:
        before = open_store_before(filling.target, filling.plan.replaces).rows
        computed: dict[int, Row] = {}
        for block in filling.needed:
            record = filling.read_block(block)
            if record is None:
                return False
            computed |= zip(filling.rows_of(block), record.rows, strict=True)
    except (OSError, ObygazeError):
        # Another process may have sealed the store, and moved or removed these files.
        if filling.is_current():
            raise
        return False
    for number, row in computed.items():
        if number >= len(before) or row.is_ok:
            return False
        was = before[number]
        if (row.reason, row.as_planned) != (was.reason, was.as_planned):
            return False
    return True


@contextmanager
def _one_sentence_for_a_full_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise FixInput(
            "the disk is full; finished blocks are kept",
            where=error.filename,
            hint="free some space, then run the same command again",
        ) from error
