"""Extract what is missing: compare, plan, fill, seal. The same call goes on after a stop."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, overload

from obygaze_features.core.console import (
    Progress,
    ProgressBars,
    Quiet,
    count,
    progress_bars,
    silent,
)
from obygaze_features.core.docstrings import described_as_in
from obygaze_features.core.errors import (
    EXIT_SOME_FAILED,
    AlreadyThere,
    FixInput,
    NotFound,
    ObygazeError,
)
from obygaze_features.core.machine import MAX_WORKERS, is_disk_full, usable_cores
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.options import ADVANCED, PYTHON_ONLY, Option
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.extraction.cases import NO_FILE
from obygaze_features.extraction.clips import PlannedClip
from obygaze_features.extraction.compute import (
    Resources,
    Uploads,
    clip_threads,
    computer_for,
    computes_on_gpu,
)
from obygaze_features.extraction.decoding import most_bytes_ahead
from obygaze_features.extraction.devices import Say, devices_of, work_on_devices
from obygaze_features.extraction.gpu import GpuPageLocks
from obygaze_features.extraction.loop import Ahead, StoreFiller, Watch, fill
from obygaze_features.extraction.planning import (
    FEATURES,
    MACHINE,
    Arrays,
    Backbones,
    Device,
    ExtractionPlan,
    Precision,
    StorePlan,
    Stores,
    Target,
    Weights,
    chosen_targets,
    open_filling,
    plan_extraction,
    plan_stores,
    store_path,
)
from obygaze_features.extraction.status import StoreStatus, store_status
from obygaze_features.extraction.stopping import RESUME, StopFlag, stop_on_signals
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_features.store.card import Terms
from obygaze_features.store.filling import Filling, remove_filling, store_before
from obygaze_features.store.finding import withdrawn_elsewhere
from obygaze_features.store.placing import before_of
from obygaze_features.store.records import BlockRow
from obygaze_features.store.rows import OK, Row
from obygaze_features.store.sealing import seal
from obygaze_features.video.pool import DecodePool, require_decode_workers

TIMEOUT_S = 300.0
CLIPS = "Clips"
# Another process may finish a store while this one compares; then all is compared once more.
_MOST_ATTEMPTS = 5


@dataclass(frozen=True)
class Settings:
    """How a run extracts; none of it changes the features."""

    resources: Resources
    timeout_s: float = TIMEOUT_S
    accept_damaged: bool = False
    retry_failed: bool = False
    mixed: bool = False
    as_planned: bool = False
    seal_now: bool = False
    reason: str = ""
    licence: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Extraction(Sequence[StoreStatus]):
    """The result of a run: how far each of its stores is.

    Args:
        parts: The status of each store.
        stop: Whether a signal ended the run.
        notes: What to type next.
        warnings: What the user should know of the stores.
    """

    parts: Sequence[StoreStatus]
    stop: StopFlag = field(default_factory=StopFlag)
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()

    json_in_one_line: ClassVar[bool] = True

    @overload
    def __getitem__(self, index: int) -> StoreStatus: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[StoreStatus]: ...

    def __getitem__(self, index: int | slice) -> StoreStatus | Sequence[StoreStatus]:
        return self.parts[index]

    def __len__(self) -> int:
        return len(self.parts)

    def __repr__(self) -> str:
        stores = [f"{state.backbone} {state.ok} of {state.clips}" for state in self]
        return short_repr("Extraction", *stores)

    def __str__(self) -> str:
        return "\n".join(map(str, self.parts))

    @property
    def exit_code(self) -> int:
        """Return the code of a run that ended although some clips failed."""
        return EXIT_SOME_FAILED if any(state.failed for state in self.parts) else 0

    def require_ok(self) -> None:
        """Raise an error if the run was stopped, or if no clip was extracted."""
        self.stop.raise_if_stopped(kept_clips(self.parts))
        has_clips = any(state.clips > state.withdrawn for state in self.parts)
        if has_clips and not any(state.ok for state in self.parts):
            raise ObygazeError(
                "no clip was extracted", hint="correct what the lines above list"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the status of each store."""
        return {"stores": [state.to_json() for state in self.parts]}


def kept_clips(states: Sequence[StoreStatus]) -> str:
    """Return how many clips of each store need no more work, in words."""
    texts = []
    for state in states:
        of_store = f" of {Path(state.store).name}" if len(states) > 1 else ""
        n_kept = state.clips - state.missing
        texts.append(f"{n_kept} of {count(state.clips, 'clip')}{of_store}")
    return f"{', '.join(texts)} are kept" if texts else "nothing was extracted yet"


@described_as_in(plan_extraction)
def extract(
    manifest: PathLike | Manifest,
    backbones: Backbones = (),
    *,
    retry_failed: Annotated[bool, Option(group=CLIPS)] = False,
    as_planned: Annotated[bool, Option(group=CLIPS)] = False,
    accept_damaged: Annotated[bool, Option(group=CLIPS)] = False,
    timeout_s: Annotated[float, Option("--timeout", above=0, group=CLIPS)] = TIMEOUT_S,
    arrays: Arrays = (),
    weights: Weights = (),
    stores: Stores = None,
    dtype: Precision = "float32",
    licence: Annotated[str, Option(group=FEATURES)] = "",
    device: Device = "cpu",
    workers: Annotated[
        int | None,
        Option(least=1, most=MAX_WORKERS, group=MACHINE, shown_default="(cores)"),
    ] = None,
    batch: Annotated[int | None, Option(least=1, group=MACHINE)] = None,
    mixed: Annotated[bool, Option(group=ADVANCED)] = False,
    seal_now: Annotated[bool, Option(group=ADVANCED)] = False,
    reason: Annotated[str, Option(group=ADVANCED)] = "",
    watch: Annotated[Watch, PYTHON_ONLY] = lambda row, failed: None,
    progress: bool | ProgressBars = False,
    note: Callable[[str], object] = silent,
    workspace: PathLike | None = None,
) -> Extraction:
    """Extract what is missing; the same command resumes.

    All backbones share one decoding of each clip. Any number of these commands may fill the same
    stores at once, on any machine. A clip that fails is a row with its reason; the run goes on and
    ends with exit code 3, or 1 if no clip was extracted. Ctrl-C stops when the batch at work is
    computed, a second one at once; finished blocks are kept. A complete store is sealed. Once more,
    the command extracts what its store does not have: clips that are new in the manifest, arrays,
    clips whose video is new; the new store takes the place of the old one, which is kept beside it.
    The exit code is 5 if the store has another recipe, if the times or the video of its clips
    changed, or if it is being filled by another version or kind of device.

    Args:
        retry_failed: Try clips again that failed.
        as_planned: Finish a store as it was planned, although the manifest changed since.
        accept_damaged: Take what the decoder gives of damaged pictures.
        timeout_s: Seconds to decode one clip.
        licence: The licence of the features. [default: the manifest's]
        device: cpu, cuda, several (cuda:0,cuda:1), or cuda:all, the idle ones.
        workers: Processes that decode or read.
        batch: Clips computed at once. [default: as many as fit]
        mixed: Add to clips of another version or kind of device.
        seal_now: Seal what is there; the other clips fail with 'not extracted'.
        reason: Why a finished store is changed, in one sentence.
        watch: Is called with each row that is decoded, and whether it failed.
        progress: Show a progress bar on stderr.
        note: Is called with what a person should know before the run.

    Example:
        >>> (state,) = og.extract("trailers", "descriptors")
        >>> state.ok, state.failed
        (2, 1)

    Commands:
        obygaze extract run obygaze12 -b xclip-b16-k600-zs -b vivit-b16x2-k400 --device cuda
        obygaze extract run obygaze12 -b descriptors --workers 4
        obygaze extract run obygaze12 -b frames:xclip-b16-k600-zs --workers 16
        obygaze extract run obygaze12 -b xclip-b16-k600-zs --retry-failed --timeout 900
        obygaze extract run obygaze12 -b xclip-b16-k600-zs --device cuda:all
    """
    here = Workspace.of(workspace)
    with stop_on_signals(note) as stop, _one_sentence_for_a_full_disk(here):
        targets = chosen_targets(
            backbones, arrays=arrays, weights=weights, stores=stores, dtype=dtype
        )
        devices = devices_of(device)
        settings = Settings(
            resources=Resources(devices[0], workers or usable_cores(), batch),
            timeout_s=timeout_s,
            accept_damaged=accept_damaged,
            retry_failed=retry_failed,
            mixed=mixed,
            as_planned=as_planned,
            seal_now=seal_now,
            reason=reason,
            licence=licence,
        )
        clips = read_manifest(manifest, workspace=here)
        bars = progress_bars(progress, "clips")
        arguments = (clips, targets, here, settings)
        try:
            if len(devices) == 1:
                return _extract(*arguments, stop, watch, bars, note)
            return _extract_on_devices(*arguments, devices, stop, watch, bars, note)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(kept_clips(_states(clips, targets, here)))
            interrupt.add_note(RESUME)
            raise


def _extract(
    manifest: Manifest,
    targets: Sequence[Target],
    workspace: Workspace,
    settings: Settings,
    stop: StopFlag,
    watch: Watch,
    bars: ProgressBars,
    note: Callable[[str], object],
) -> Extraction:
    require_decode_workers()
    plan, fillings = _planned(manifest, targets, workspace, settings)
    for sentence in _before_the_run(plan, workspace):
        note(sentence)
    warnings: list[str] = []
    try:
        if not settings.seal_now:
            for works in _with_the_same_rows(plan.stores, fillings):
                if not stop:
                    with _watched(works, bars, watch) as shown:
                        _fill(works, plan, workspace, settings, stop, shown, note)
        for store, filling in zip(plan.stores, fillings, strict=True):
            warnings += _finish(store, filling, settings, manifest)
    except Exception:
        _forget_own_plans(plan, fillings)
        raise
    states = [store_status(store.path) for store in plan.stores]
    return Extraction(states, stop, _next_steps(plan, states), warnings)


@contextmanager
def _one_sentence_for_a_full_disk(workspace: Workspace) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise FixInput(
            "the disk is full; finished blocks are kept",
            where=error.filename or str(workspace.folder("stores")),
            hint="free some space, then run the same command again",
        ) from error


def _forget_own_plans(plan: ExtractionPlan, fillings: Sequence[Filling | None]) -> None:
    """Remove what this run planned and nobody began: a mistake is not in the way of its mending."""
    for store, filling in zip(plan.stores, fillings, strict=True):
        if filling is None or store.filling is not None:
            continue
        if filling.listed() == (set(), {}):
            remove_filling(filling)


def _states(
    manifest: Manifest, targets: Sequence[Target], workspace: Workspace
) -> list[StoreStatus]:
    """Return how far the stores of some targets are, as far as they are there."""
    states = []
    for target in targets:
        with suppress(NotFound):
            states.append(store_status(store_path(target, manifest, workspace)))
    return states


# --- On several devices ---


def _extract_on_devices(
    manifest: Manifest,
    targets: Sequence[Target],
    workspace: Workspace,
    settings: Settings,
    devices: Sequence[str],
    stop: StopFlag,
    watch: Watch,
    bars: ProgressBars,
    note: Callable[[str], object],
) -> Extraction:
    """Extract in a process for each device; they share the decoders and the cores."""
    resources = settings.resources
    share = replace(
        resources,
        workers=max(1, resources.workers // len(devices)),
        threads=max(1, resources.compute_threads // len(devices)),
    )
    work = partial(
        _extract_on_device,
        manifest,
        targets,
        workspace,
        replace(settings, resources=share),
    )
    said: set[str] = set()
    has_total = False
    with bars("extract", 0) as bar:

        def heard(kind: str, *values: Any) -> None:
            nonlocal has_total
            if kind == "row":
                bar.advance()
                watch(*values)
            elif kind == "rows" and not has_total:
                has_total = True
                bar.expect(*values)
            elif kind == "note" and values[0] not in said:
                said.add(values[0])
                note(values[0])

        results, errors = work_on_devices(work, devices, stop, heard)
    if errors and not results and not stop:
        raise errors[0]
    notes: dict[str, None] = {}
    warnings: dict[str, None] = {}
    for result in results:
        notes.update(dict.fromkeys(result.notes))
        warnings.update(dict.fromkeys(result.warnings))
    if not stop:
        warnings.update(dict.fromkeys(error.message for error in errors))
    states = _states(manifest, targets, workspace)
    return Extraction(states, stop, tuple(notes), tuple(warnings))


def _extract_on_device(
    manifest: Manifest,
    targets: Sequence[Target],
    workspace: Workspace,
    settings: Settings,
    device: str,
    stop: StopFlag,
    say: Say,
) -> Extraction:
    """Extract in the process of one device, and say what happens."""
    resources = replace(settings.resources, device=device)

    @contextmanager
    def bars(label: str, n_rows: int) -> Iterator[Progress]:
        say("rows", n_rows)
        yield Quiet()

    done = _extract(
        manifest,
        targets,
        workspace,
        replace(settings, resources=resources),
        stop,
        partial(say, "row"),
        bars,
        partial(say, "note"),
    )
    return replace(done, stop=StopFlag(stop.signal_name))


# --- In one process ---


@contextmanager
def _watched(
    works: "Sequence[_Work]", bars: ProgressBars, watch: Watch
) -> Iterator[Watch]:
    """Show a progress bar of the rows of missing blocks, beside what a caller watches."""
    rows: set[int] = set()
    for _, filling in works:
        for block in filling.missing():
            rows.update(filling.rows_of(block))
    seen: set[int] = set()
    failed_rows: set[int] = set()
    with bars("extract", len(rows)) as bar:
        bar.expect(len(rows), "clips")

        def show(row: int, failed: bool) -> None:
            if row not in seen:
                seen.add(row)
                bar.advance()
            if failed and row not in failed_rows:
                failed_rows.add(row)
                bar.remark(f"{len(failed_rows)} failed")
            watch(row, failed)

        yield show


def _before_the_run(plan: ExtractionPlan, workspace: Workspace) -> Iterator[str]:
    """Yield what a person should know of stores that are there, and of what was withdrawn."""
    for store in plan.stores:
        sentences = store.work.sentences
        if store.filling is None and not store.seal:
            clips = [row.clip_id for row in store.work.rows]
            withdrawn = withdrawn_elsewhere(store.recipe.title, clips, workspace)
            sentences = [withdrawn] if withdrawn else []
        for sentence in sentences:
            yield f"{store.path.name}: {sentence}"
    for location in sorted({kept.store.location for kept in plan.kept.values()}):
        yield f"kept frames are read from {location}"


def _next_steps(plan: ExtractionPlan, states: Sequence[StoreStatus]) -> list[str]:
    """Return what to type next for the clips that this run could not extract."""
    link = f"obygaze manifest link {plan.manifest} FOLDER"
    steps = []
    failures: dict[str, str] = {}
    n_without_video = 0
    for store, state in zip(plan.stores, states, strict=True):
        steps += _store_before(store, state)
        if not store.work.is_needed:
            continue
        n_without_video = max(n_without_video, state.no_video)
        for row, is_computed in zip(store.work.rows, store.work.computed, strict=True):
            if is_computed and row.clip_id in state.failures:
                failures[row.clip_id] = state.failures[row.clip_id]
    if n_without_video:
        clips = count(n_without_video, "clip")
        steps.append(f"{clips} without a video: {link}, then the same command")
    n_without_file = sum(why.startswith(NO_FILE) for why in failures.values())
    if n_without_file:
        clips = count(n_without_file, "clip")
        steps.append(
            f"{clips} whose file is missing: mount its folder, or {link}, then the same command"
        )
    n_failed = len(failures) - n_without_file
    if n_failed:
        steps.append(
            f"{count(n_failed, 'clip')} failed: correct their files, then the same command and"
            " --retry-failed"
        )
    return steps


def _store_before(store: StorePlan, state: StoreStatus) -> list[str]:
    """Return where the store is that this run changed."""
    before = before_of(store.path, store.seal)
    is_changed = bool(store.seal) and bool(state.seal) and state.seal != store.seal
    if not is_changed or not before.exists():
        return []
    return [
        f"the store before is now {before.name}; it shares files with the new one and is no"
        f" backup; to remove it: rm -r {before}"
    ]


def _planned(
    manifest: Manifest,
    targets: Sequence[Target],
    workspace: Workspace,
    settings: Settings,
) -> tuple[ExtractionPlan, list[Filling | None]]:
    """Compare, refuse, then plan each store; a store with nothing to compute has no filling."""
    for attempt in range(_MOST_ATTEMPTS):
        plan = plan_stores(
            manifest,
            targets,
            workspace,
            device=settings.resources.device,
            retry_failed=settings.retry_failed,
            mixed=settings.mixed,
            as_planned=settings.as_planned,
        )
        plan.refuse()
        try:
            return plan, [
                _filling_of(store, plan, settings.seal_now) for store in plan.stores
            ]
        except AlreadyThere:
            # Another process has just finished a store.
            if attempt + 1 == _MOST_ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _filling_of(
    store: StorePlan, plan: ExtractionPlan, seal_now: bool
) -> Filling | None:
    if store.filling is None and not store.work.is_needed:
        return None
    if store.filling is None and seal_now:
        raise FixInput(
            "nothing is there to seal: all blocks are missing",
            where=str(store.path),
            hint="the same command without --seal-now",
        )
    return open_filling(store, plan.manifest, plan.grid)


# A store and its filling.
_Work = tuple[StorePlan, Filling]


def _with_the_same_rows(
    stores: Sequence[StorePlan], fillings: Sequence[Filling | None]
) -> Iterator[Sequence[_Work]]:
    """Yield groups of stores with the same clips and times: these share one decoding."""
    groups: dict[tuple[Row, ...], list[_Work]] = {}
    for store, filling in zip(stores, fillings, strict=True):
        if filling is not None and filling.missing():
            groups.setdefault(tuple(filling.rows), []).append((store, filling))
    yield from groups.values()


def _fill(
    works: Sequence[_Work],
    plan: ExtractionPlan,
    workspace: Workspace,
    settings: Settings,
    stop: StopFlag,
    watch: Watch,
    note: Callable[[str], object],
) -> None:
    """Compute what is missing in stores with the same rows."""
    clips = _clips_of_rows(works[0][1], plan.clips)
    with ExitStack() as stack:
        pool = stack.enter_context(_decode_pool(works, settings, note))
        fillers = stack.enter_context(_fillers(works, settings))
        ahead = Ahead(
            most_clips=settings.resources.most_clips_ahead([f.batch for f in fillers]),
            most_bytes=most_bytes_ahead(),
            indexes=str(workspace.folder("indexes")),
            accept_damaged=settings.accept_damaged,
            grid=plan.grid,
            kept=plan.kept,
        )
        fill(fillers, clips, pool, ahead, stop, watch)


def _clips_of_rows(
    filling: Filling, clips: Sequence[PlannedClip]
) -> Sequence[PlannedClip]:
    """Return the clip of each row: with the times of the plan, and the video of the manifest."""
    clip_of_id = {clip.clip_id: clip for clip in clips}
    planned = []
    for row in filling.rows:
        clip = clip_of_id.get(row.clip_id)
        if clip is None or clip.movie_id != row.movie_id:
            # The manifest does not say any more which video has this clip.
            clip = PlannedClip(row.clip_id, row.movie_id)
        planned.append(clip._replace(start_s=row.start_s, end_s=row.end_s))
    return planned


@contextmanager
def _fillers(works: Sequence[_Work], settings: Settings) -> Iterator[list[StoreFiller]]:
    """Return what fills each store: they share the threads, the device and the writing thread."""
    resources = settings.resources
    with (
        clip_threads(resources.compute_threads) as threads,
        ThreadPoolExecutor(1, thread_name_prefix="write") as writing,
    ):
        uploads = Uploads(resources.device)
        computers = []
        for store, filling in works:
            names = store.backbone.arrays
            arrays = [array for array in filling.arrays if array.name in names]
            computers.append(computer_for(store.backbone, arrays, threads, uploads))
        batches = resources.batches_of(computers)
        yield [
            StoreFiller(
                filling,
                store.view,
                computer,
                store.maker,
                batch=batch,
                writing=writing,
                mixed=settings.mixed,
            )
            for (store, filling), computer, batch in zip(
                works, computers, batches, strict=True
            )
        ]


def _decode_pool(
    works: Sequence[_Work], settings: Settings, note: Callable[[str], object]
) -> DecodePool:
    """Return the processes that decode; a GPU reads the memory in which pictures arrive."""
    resources = settings.resources
    locks = None
    if any(computes_on_gpu(store.backbone) for store, _ in works):
        locks = GpuPageLocks(resources.device, note)
    return DecodePool(resources.workers, timeout_s=settings.timeout_s, locks=locks)


def _finish(
    store: StorePlan, filling: Filling | None, settings: Settings, manifest: Manifest
) -> Sequence[str]:
    """Seal a store whose blocks are all there; return warnings."""
    if filling is None:
        return ()
    n_missing = len(filling.missing()) if filling.is_current() else 0
    if n_missing and not settings.seal_now:
        return ()
    if filling.plan.replaces and _is_as_before(filling):
        remove_filling(filling)
        return ()
    header = manifest.header
    terms = Terms(settings.licence or header.licence, header.citation)
    if filling.plan.replaces:
        # A store keeps its terms, which a person may have corrected in its card.
        terms = Terms(settings.licence)
    written = seal(
        store.path, seal_now=settings.seal_now, reason=settings.reason, terms=terms
    )
    return written.warnings


def _is_as_before(filling: Filling) -> bool:
    """Return whether all computed rows of a change failed again, for the same reasons."""
    try:
        before = store_before(filling.target, filling.plan.replaces).rows
        computed: list[BlockRow] = []
        for block in filling.needed:
            record = filling.read_block(block)
            if record is None:
                return False
            computed += record.rows
    except (OSError, ObygazeError):
        # Another process may have sealed the store, and moved or removed what was read here.
        if filling.is_current():
            raise
        return False
    for row in computed:
        if row.row >= len(before) or row.status == OK:
            return False
        if row.reason != before[row.row].reason:
            return False
    return True
