"""Extract what is missing of the features of clips.

Nothing here is slow to import: a run catches signals before it imports what computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, overload

from obygaze_features.backbones.cards import find_card
from obygaze_features.core.console import ProgressBars, count, progress_bars, silent
from obygaze_features.core.docstrings import described_as_in
from obygaze_features.core.errors import EXIT_SOME_FAILED, NotFound, ObygazeError
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.options import ADVANCED, Option
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.extraction.plan import ExtractPlan
from obygaze_features.extraction.planning import (
    Arrays,
    Backbones,
    Batch,
    BlockClips,
    PlanDevice,
    Precision,
    Source,
    Stores,
    Terms,
    Timeout,
    Weights,
    Workers,
    chosen_plan,
    plan_extraction,
    read_plan_of,
    resources_of,
)
from obygaze_features.extraction.shared_machine import (
    RESUME,
    StopFlag,
    busy_gpus,
    idle_gpus,
    stop_on_signals,
)

if TYPE_CHECKING:
    from obygaze_features.core.console import Progress
    from obygaze_features.extraction.new_versions import VersionWork
    from obygaze_features.extraction.run import RowProgress
    from obygaze_features.extraction.status import StoreStatus
    from obygaze_features.store.write.version import NewVersion

CLIPS = "Clips"


# The reasons of clips whose times are wrong, and not their files.
WRONG_TIMES = frozenset(("decode: outside", "decode: too-long"))


@dataclass(frozen=True, eq=False, repr=False)
class Extraction(Sequence["StoreStatus"]):
    """What a run did: the status of each of its stores, that of the worker's clips if it was one.

    `rows` are those of the worker, and `stop` is set if a signal stopped the run. `rows_of_parts`
    are the rows that each status is of; None means all of its store.
    """

    plan: ExtractPlan
    parts: Sequence[StoreStatus]
    worker: str | None = None
    rows: Sequence[int] | None = None
    stop: StopFlag = field(default_factory=StopFlag)
    versions: Sequence[NewVersion] = ()
    rows_of_parts: Sequence[Sequence[int] | None] = ()

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
    def is_idle(self) -> bool:
        """Return whether this is a worker without clips: there are fewer units than workers."""
        return self.rows is not None and not self.rows

    @property
    def notes(self) -> list[str]:
        """Return what to type next for clips without features."""
        if self.is_idle:
            units = count(self.plan.n_units, "unit")
            worker = f"worker {self.worker} has no clips"
            return [f"{worker}: the plan has {units}; nothing to do"]
        steps = _next_steps(self.plan, self.parts, self.rows)
        if all(rows is None for rows in self.rows_of_parts):
            return steps
        scope = f"clips and blocks of worker {self.worker} only"
        return [f"{scope}; all: obygaze extract status STORE", *steps]

    @property
    def exit_code(self) -> int:
        """Return the code of a run that ended although some clips failed."""
        return EXIT_SOME_FAILED if any(state.failed for state in self.parts) else 0

    def require_ok(self) -> None:
        """Raise an error if the run was stopped, or if no clip was extracted."""
        if self.is_idle:
            return
        from obygaze_features.extraction.status import kept_clips

        self.stop.raise_if_stopped(kept_clips(self.parts))
        # Withdrawn clips are never extracted.
        has_clips = any(state.clips > state.withdrawn for state in self.parts)
        if has_clips and not any(state.ok for state in self.parts):
            raise ObygazeError(
                "no clip was extracted", hint="correct what the lines above list"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the joint status of the stores, and that of each."""
        from obygaze_features.extraction.status import joint_status

        named = {} if self.worker is None else {"worker": self.worker}
        joint = joint_status(self.parts, self.rows_of_parts)
        documents = [state.to_json() for state in self.parts]
        versions = [version.to_json() for version in self.versions]
        return {**named, **joint, "stores": documents, "versions": versions}


@dataclass(frozen=True)
class StatusOfStores:
    """The status of several stores."""

    parts: Sequence[StoreStatus]

    def to_json(self) -> dict[str, Any]:
        """Return the status of each store."""
        return {"stores": [state.to_json() for state in self.parts]}

    def __str__(self) -> str:
        return "\n".join(map(str, self.parts))


@described_as_in(plan_extraction)
def extract(
    manifest: Source,
    backbones: Backbones = (),
    *,
    retry_failed: Annotated[bool, Option(group=CLIPS)] = False,
    changed: Annotated[bool, Option(group=ADVANCED)] = False,
    worker: Annotated[str | None, Option(metavar="I/K", group=ADVANCED)] = None,
    arrays: Arrays = (),
    weights: Weights = (),
    stores: Stores = None,
    dtype: Precision = None,
    block_clips: BlockClips = None,
    licence: Terms = "",
    timeout: Timeout = None,
    device: PlanDevice = None,
    workers: Workers = None,
    batch: Batch = None,
    mixed: Annotated[bool, Option(group=ADVANCED)] = False,
    seal: Annotated[bool | None, Option("--seal/--no-seal", group=ADVANCED)] = None,
    progress: bool | ProgressBars = False,
    note: Callable[[str], object] = silent,
    workspace: PathLike | None = None,
) -> Extraction:
    """Extract what is missing; the same command resumes.

    MANIFEST is a manifest's name, or the file of a plan. All backbones share one decoding of each
    clip. A clip that fails is a row with its reason; the run goes on and ends with exit code 3, or
    1 if no clip was extracted. Rows without a video are tried again once their video exists.
    Ctrl-C stops when the clips at work are finished, a second one at once; finished clips are kept.
    If the times or the video of clips changed since, the exit code is 5; see --changed. It is 5
    too if the clips of a store were made by another version of this program, or on a GPU in place
    of the CPU: see --mixed. A sealed store gets a new version: of clips that are new in the
    manifest, of --arrays that it does not have yet, and with --retry-failed or --changed of rows
    that are made again. With --worker, the exit code and the counts are those of the worker's own
    clips.

    Args:
        retry_failed: Retry all clips that failed or had no video.
        changed: As --retry-failed, and also clips whose times or video changed.
        licence: The licence of the features. [default: the manifest's]
        worker: Extract every K-th unit of the plan, from I, then what other workers leave.
        mixed: Add to clips of another version or kind of device.
        seal: Seal complete stores. [default: if no clip failed]
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
        obygaze extract run plan.json --worker 0/8
        obygaze extract run plan.json --device cuda:all
    """
    # Signals are caught before torch is imported: a job may be stopped while it starts.
    with stop_on_signals(note) as stop, ExitStack() as stack:
        from obygaze_features.backbones.cards import find_card
        from obygaze_features.extraction.devices import devices_of, extract_on_devices
        from obygaze_features.extraction.estimate import withdrawn_note
        from obygaze_features.extraction.new_versions import split_plan, status_of_work
        from obygaze_features.extraction.run import (
            RowProgress,
            require_recipe,
            seal_complete,
            stores_read,
        )
        from obygaze_features.extraction.status import (
            kept_clips,
            status_of_stores,
            store_status,
        )
        from obygaze_features.store.format.records import Plan

        plan = chosen_plan(
            manifest,
            backbones,
            arrays=arrays,
            weights=weights,
            stores=stores,
            dtype=dtype,
            block_clips=block_clips,
            licence=licence,
            timeout=timeout,
            workspace=workspace,
        )
        split = split_plan(plan, retry_failed=retry_failed, changed=changed)
        if _is_of_another_workspace(plan):
            note(f"the plan is of the workspace {plan.workspace}: its stores are there")
        rows = None if worker is None else plan.worker_rows(worker)
        if rows == [] and not split.works:
            return Extraction(plan, [], worker, rows)
        for target in plan.targets:
            if not (Path(target.store) / Plan.FILE).is_file():
                card = find_card(target.backbone, Workspace(Path(plan.workspace)))
                withdrawn = withdrawn_note(plan, target, card)
                if withdrawn:
                    note(withdrawn)
        for store in stores_read(plan):
            note(f"kept pictures are read from {store.location}")
        device = device or plan.device
        idle = idle_gpus() if device == "cpu" and _needs_torch(plan) else []
        if idle:
            note(f"{', '.join(idle)} is idle: --device {idle[0]} is faster than cpu")
        devices = devices_of(device)
        for sentence in busy_gpus(devices):
            note(sentence)
        bars = progress_bars(progress, "clips")

        def new_bar(n_rows: int) -> Progress:
            bar = stack.enter_context(bars("extract", n_rows))
            bar.expect(n_rows, "clips")
            return bar

        shares = resources_of(workers, batch).shared_by(devices)
        states: list[StoreStatus] = []
        rows_of_states: list[Sequence[int] | None] = []
        versions: list[NewVersion] = []
        try:
            if split.others.targets and rows != []:
                states = extract_on_devices(
                    split.others,
                    shares,
                    stop,
                    rows=rows,
                    worker=worker,
                    retry_failed=retry_failed or changed,
                    changed=changed,
                    mixed=mixed,
                    progress=RowProgress(new_bar),
                    note=note,
                )
                states = seal_complete(states, seal)
                rows_of_states = [rows] * len(states)
            for target in split.grown:
                require_recipe(plan, target, devices[0])
                states.append(store_status(target.store))
                rows_of_states.append(None)
            without_levels: set[str] = set()
            for work in split.works:
                if work.target.store in without_levels:
                    note(
                        f"other clips of {Path(work.target.store).name} wait until it has the new "
                        "levels: the same command again extracts them"
                    )
                    continue
                # A version that this run has made is not one of another worker.
                seal_of = {str(made.path): made.seal_sha256 for made in versions}
                before = seal_of.get(str(Path(work.target.store)), work.seal_sha256)
                state, version = _extract_version(
                    replace(work, seal_sha256=before),
                    partial(
                        extract_on_devices,
                        shares=shares,
                        stop=stop,
                        mixed=mixed,
                        note=note,
                    ),
                    worker,
                    RowProgress(new_bar),
                    retry_failed=retry_failed or changed,
                    changed=changed,
                    seal=False if stop else seal,
                )
                is_draft = state.store == str(work.draft)
                if work.change == "levels" and is_draft:
                    # Rows that are added after the levels have them too, so they wait.
                    without_levels.add(work.target.store)
                if version is not None:
                    versions.append(version)
                elif state.done and state.failed and work.change == "levels":
                    note(
                        f"{count(state.failed, 'clip')} with features failed now, so no level is "
                        f"added to {Path(work.target.store).name}: correct their files, then the "
                        "same command and --retry-failed"
                    )
                elif state.done and state.failed and seal is None:
                    note(
                        f"{count(state.failed, 'new clip')} failed, so none is added to "
                        f"{Path(work.target.store).name}; --seal adds all, with the reasons"
                    )
                if state.store == str(work.draft):
                    state = status_of_work(work, _own_rows(work, worker))
                is_draft = state.store == str(work.draft)
                states.append(state)
                rows_of_states.append(_own_rows(work, worker) if is_draft else None)
        except KeyboardInterrupt as interrupt:
            states = status_of_stores(split.others, rows)
            for work in split.works:
                if work.has_begun():
                    states.append(store_status(work.draft, _own_rows(work, worker)))
            interrupt.add_note(kept_clips(states))
            interrupt.add_note(RESUME)
            raise
        stack.close()
        return Extraction(plan, states, worker, rows, stop, versions, rows_of_states)


def _own_rows(work: VersionWork, worker: str | None) -> list[int] | None:
    """Return the rows of a worker among those of a version; None for all, without a worker."""
    return None if worker is None else work.plan.worker_rows(worker)


def _extract_version(
    work: VersionWork,
    extract_rows: Callable[..., Sequence[StoreStatus]],
    worker: str | None,
    progress: RowProgress,
    *,
    retry_failed: bool,
    changed: bool,
    seal: bool | None,
) -> tuple[StoreStatus, NewVersion | None]:
    """Extract the rows of a version of a sealed store, and make it where they are complete."""
    from obygaze_features.extraction.new_versions import finish_work

    rows = _own_rows(work, worker)
    if rows != []:
        extract = partial(
            extract_rows, work.plan, rows=rows, worker=worker, progress=progress
        )
        try:
            # Rows of an earlier run: first, so that what fails now is not tried twice.
            if retry_failed and work.has_begun():
                extract(retry_failed=True, changed=changed)
            extract()
        except (OSError, ObygazeError):
            # Another worker may have made the version meanwhile, and removed these rows.
            if work.has_begun() or not work.is_done:
                raise
    return finish_work(work, seal)


def extraction_status(
    stores: Sequence[str], *, workspace: PathLike | None = None
) -> StatusOfStores:
    """Show the progress of stores.

    It also shows the seconds by stage and the reasons of failures. The status can be read during a
    run. The file of a plan stands for its stores, also before a run makes them, and the name of a
    manifest for the stores MANIFEST.BACKBONE.

    Args:
        stores: The names or the folders of stores, files of plans, or names of manifests.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze extract status obygaze12.xclip-b16-k600-zs
        obygaze extract status stores/* --json
        obygaze extract status plan.json
    """
    from obygaze_features.extraction.status import status_of_plan, store_status

    states = []
    for name in stores:
        if name.endswith(".json"):
            states += status_of_plan(read_plan_of(Path(name), workspace))
            continue
        here = Workspace.of(workspace)
        of_manifest: list[str] = []
        if name in here.names("manifests") and name not in here.names("stores"):
            beginning = f"{name}."
            of_manifest = [
                store for store in here.names("stores") if store.startswith(beginning)
            ]
        if of_manifest:
            states += [store_status(here.existing_store(s)) for s in of_manifest]
            continue
        try:
            location = here.existing_store(name)
        except NotFound as error:
            plan = "obygaze extract status PLAN.json"
            error.hint = f"{plan} shows the stores of a plan before a run makes them"
            raise
        states.append(store_status(location))
    return StatusOfStores(states)


def _is_of_another_workspace(plan: ExtractPlan) -> bool:
    """Return whether the current folder is a workspace, and the plan is of another one."""
    here = Workspace(Path())
    is_here = Path(plan.workspace).resolve() == here.root.resolve()
    return here.folder("manifests").is_dir() and not is_here


def _needs_torch(plan: ExtractPlan) -> bool:
    """Return whether a backbone of a plan has weights, so that a GPU makes it faster."""
    workspace = Workspace(Path(plan.workspace))
    cards = [find_card(target.backbone, workspace) for target in plan.targets]
    return any(card.family.needs_torch for card in cards)


def _next_steps(
    plan: ExtractPlan, states: Sequence[StoreStatus], rows: Sequence[int] | None
) -> list[str]:
    """Return the command to type for clips without a video, and for clips that failed."""
    steps = []
    again = "the same command"
    retry = " and --retry-failed"
    if any(state.sealed and state.ok < state.clips for state in states):
        again = (
            f"{again} and --retry-failed, which makes a new version of a sealed store"
        )
        retry = ""
    chosen = range(len(plan.rows)) if rows is None else rows
    without = sum(not plan.rows[row].video for row in chosen)
    link = f"obygaze manifest link {plan.manifest} FOLDER"
    if without:
        steps.append(f"{count(without, 'clip')} without a video: {link}, then {again}")
    if any("open: missing" in state.reasons for state in states):
        steps.append(f"files missing: mount their folder or {link}, then {again}")
    elif any(WRONG_TIMES.intersection(state.reasons) for state in states):
        steps.append(
            "failed clips: some have times outside of their films; correct the table, import it "
            f"with --force, {link}, then {again} and --changed"
        )
    elif any(state.failed for state in states):
        steps.append(f"failed clips: correct their files, then {again}{retry}")
    return steps
