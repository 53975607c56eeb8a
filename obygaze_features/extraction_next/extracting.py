"""Extract what is missing: compare, plan, fill, seal. The same call goes on after a stop."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from obygaze_features.core.console import silent
from obygaze_features.core.errors import AlreadyThere
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.extraction_next.clips import PlannedClip
from obygaze_features.extraction_next.compute import (
    Resources,
    Uploads,
    clip_threads,
    computer_for,
    computes_on_gpu,
)
from obygaze_features.extraction_next.decoding import most_bytes_ahead
from obygaze_features.extraction_next.gpu import GpuPageLocks
from obygaze_features.extraction_next.loop import Ahead, StoreFiller, Watch, fill
from obygaze_features.extraction_next.planning import (
    ExtractionPlan,
    StorePlan,
    Target,
    open_filling,
    plan_stores,
)
from obygaze_features.extraction_next.stopping import StopFlag, stop_on_signals
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_features.store_next.filling import Filling
from obygaze_features.store_next.sealing import seal
from obygaze_features.video.pool import DecodePool, require_decode_workers

TIMEOUT_S = 300.0
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


@dataclass(frozen=True)
class StoreResult:
    """What a run did for one store: its seal, empty while blocks are missing, and sentences."""

    path: Path
    seal: str
    missing_blocks: int
    sentences: Sequence[str]
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class Extraction:
    """The result of a run; `stop` says whether a signal ended it."""

    stores: Sequence[StoreResult]
    stop: StopFlag


def extract(
    manifest: Manifest | str,
    backbones: Sequence[str | Target] | str,
    *,
    stores: Mapping[str, str] | None = None,
    arrays: Sequence[str] = (),
    weights: Mapping[str, str] | None = None,
    device: str = "cpu",
    workers: int = 1,
    batch: int | None = None,
    retry_failed: bool = False,
    mixed: bool = False,
    as_planned: bool = False,
    seal_now: bool = False,
    accept_damaged: bool = False,
    reason: str = "",
    timeout_s: float = TIMEOUT_S,
    watch: Watch = lambda row, failed: None,
    note: Callable[[str], object] = silent,
    workspace: PathLike | None = None,
) -> Extraction:
    """Extract what is missing, with one decoding for all backbones; the same call goes on.

    Args:
        manifest: A manifest, or the name of one of the workspace.
        backbones: The backbones: names, own code, or targets with all their settings.
        stores: The store of a backbone, by the name of the backbone; MANIFEST.NAME by default.
        arrays: The arrays of features; by default all but tokens, or those that the store has.
        weights: The weights of a backbone, by the name of the backbone.
        device: cpu, cuda or cuda:N.
        workers: Processes that decode.
        batch: Clips computed at once; by default as many as fit.
        retry_failed: Try rows again that failed.
        mixed: Allow rows of another version or device.
        as_planned: Finish a filling as it was planned, whatever the manifest says now.
        seal_now: Seal what is there; other rows fail with `not extracted`.
        accept_damaged: Take what the decoder gives of a damaged film.
        reason: Why a finished store is changed, in one sentence.
        timeout_s: Seconds to decode one clip.
        watch: Is called with each row, and whether it failed.
        note: Is called with what a person should know.
        workspace: The workspace, if it is not the current one.
    """
    with stop_on_signals(note) as stop:
        here = Workspace.of(workspace)
        if isinstance(manifest, str):
            manifest = read_manifest(here.existing_manifest(manifest))
        names = [backbones] if isinstance(backbones, str) else backbones
        targets = [
            name
            if isinstance(name, Target)
            else Target(
                name,
                store=(stores or {}).get(name, ""),
                weights=(weights or {}).get(name),
                arrays=tuple(arrays),
            )
            for name in names
        ]
        settings = Settings(
            resources=Resources(device, workers, batch),
            timeout_s=timeout_s,
            accept_damaged=accept_damaged,
            retry_failed=retry_failed,
            mixed=mixed,
            as_planned=as_planned,
            seal_now=seal_now,
            reason=reason,
        )
        return _extract(manifest, targets, here, settings, stop, watch, note)


def _extract(
    manifest: Manifest,
    targets: Sequence[Target],
    workspace: Workspace,
    settings: Settings,
    stop: StopFlag,
    watch: Watch,
    note: Callable[[str], object],
) -> Extraction:
    require_decode_workers()
    plan, fillings = _planned(manifest, targets, workspace, settings)
    for location in sorted({kept.store.location for kept in plan.kept.values()}):
        note(f"kept frames are read from {location}")
    if not settings.seal_now:
        for works in _with_the_same_rows(plan.stores, fillings):
            if not stop:
                _fill(works, plan, workspace, settings, stop, watch, note)
    results = []
    for store, filling in zip(plan.stores, fillings, strict=True):
        results.append(_finish(store, filling, settings, stop))
    return Extraction(results, stop)


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
            return plan, [_filling_of(store, plan) for store in plan.stores]
        except AlreadyThere:
            # Another process has just finished a store.
            if attempt + 1 == _MOST_ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _filling_of(store: StorePlan, plan: ExtractionPlan) -> Filling | None:
    if store.filling is None and not store.work.is_needed:
        return None
    return open_filling(store, plan.manifest, plan.grid)


# A store and its filling.
_Work = tuple[StorePlan, Filling]


def _with_the_same_rows(
    stores: Sequence[StorePlan], fillings: Sequence[Filling | None]
) -> Iterator[Sequence[_Work]]:
    """Yield groups of stores with the same rows: these share one decoding."""
    groups: dict[str, list[_Work]] = {}
    for store, filling in zip(stores, fillings, strict=True):
        if filling is not None and filling.missing():
            groups.setdefault(_ids_of(filling), []).append((store, filling))
    yield from groups.values()


def _ids_of(filling: Filling) -> str:
    return "\n".join(row.clip_id for row in filling.rows)


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
        now = clip_of_id.get(row.clip_id, PlannedClip(row.clip_id, row.movie_id))
        planned.append(now._replace(start_s=row.start_s, end_s=row.end_s))
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
    store: StorePlan, filling: Filling | None, settings: Settings, stop: StopFlag
) -> StoreResult:
    """Seal a store whose blocks are all there."""
    sentences = store.work.sentences
    if filling is None:
        return StoreResult(store.path, store.seal, 0, sentences)
    n_missing = len(filling.missing()) if filling.is_current() else 0
    if n_missing and not settings.seal_now:
        return StoreResult(store.path, "", n_missing, sentences)
    written = seal(store.path, seal_now=settings.seal_now, reason=settings.reason)
    return StoreResult(store.path, written.seal, 0, sentences, written.warnings)
