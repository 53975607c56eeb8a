"""`obygaze extract run`: extract what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from obygaze_features.backbones.cards import find_card
from obygaze_features.core.commands import Session, command, json_option, option_group
from obygaze_features.core.console import count
from obygaze_features.core.errors import EXIT_SOME_FAILED, ObygazeError
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.commands import show_states, workers_option
from obygaze_features.extraction.commands_plan import (
    batch_option,
    chosen_plan,
    device_option,
    feature_options,
)
from obygaze_features.extraction.shared_machine import (
    idle_gpus,
    refuse_busy_gpus,
    stop_on_signals,
)

if TYPE_CHECKING:
    from obygaze_features.extraction.plan import ExtractPlan
    from obygaze_features.extraction.run import RowProgress
    from obygaze_features.extraction.shared_machine import StopFlag
    from obygaze_features.extraction.status import StoreStatus


@command()
@click.argument("manifest")
@option_group(
    "Clips",
    click.option(
        "--retry-failed",
        is_flag=True,
        help="Retry all clips that failed or had no video.",
    ),
    click.option(
        "--changed",
        is_flag=True,
        help="As --retry-failed, and also clips whose times or video changed.",
    ),
    click.option(
        "--worker", metavar="I/K", help="Extract every K-th unit of the plan, from I."
    ),
)
@feature_options
@option_group(
    "Machine",
    device_option,
    workers_option,
    batch_option,
    click.option("--share", is_flag=True, help="Use a GPU that other people use."),
    click.option(
        "--mixed",
        is_flag=True,
        help="Add to clips of another version or kind of device.",
    ),
)
@option_group(
    "Output",
    click.option(
        "--seal/--no-seal",
        default=None,
        help="Seal complete stores. [default: if no clip failed]",
    ),
    json_option,
)
def run(
    session: Session,
    /,
    manifest: str,
    worker: str | None,
    seal: bool | None,
    **options: Any,
) -> None:
    """Extract what is missing; the same command resumes.

    MANIFEST is a manifest's name, or the file of a plan. All backbones share one decoding of each
    clip. A clip that fails is a row with its reason; the run goes on and ends with exit code 3, or
    1 if no clip was extracted. Rows without a video are tried again once their video exists.
    If the times or the video of clips changed since, the exit code is 5; see --changed. It is 5
    too if the clips of a store were made by another version of this program, or on a GPU in place
    of the CPU: see --mixed. With
    --worker, the exit code and the counts are those of the worker's own clips.

    Examples:
        obygaze extract run obygaze12 -b xclip-b16-k600-zs -b vivit-b16x2-k400 --device cuda
        obygaze extract run obygaze12 -b descriptors --workers 4
        obygaze extract run obygaze12 -b frames:xclip-b16-k600-zs --workers 16
        obygaze extract run obygaze12 -b xclip-b16-k600-zs --retry-failed --timeout 900
        obygaze extract run plan.json --worker 0/8
        obygaze extract run plan.json --device cuda:all
    """
    # Signals are caught before torch is imported: a job may be stopped while it starts.
    with stop_on_signals() as stop, ExitStack() as stack:
        from obygaze_features.extraction.run import (
            RowProgress,
            seal_complete,
            stores_read,
        )

        plan = chosen_plan(session, manifest, options)
        rows = None if worker is None else plan.worker_rows(worker)
        if rows == []:
            _show_idle(session, plan, worker or "")
            return
        for store in stores_read(plan):
            session.console.note(f"kept pictures are read from {store.location}")
        if options["device"] == "cpu":
            _name_idle_gpus(session, plan)
        bar = session.console.progress
        progress = RowProgress(
            lambda n_rows: stack.enter_context(bar("extract", n_rows))
        )
        states = _extract(plan, stop, rows, options, progress)
        stack.close()
        states = seal_complete(states, seal)
    if session.console.as_json:
        _show_json(session, states, worker, rows)
    else:
        show_states(session.console, states)
        if worker is not None:
            session.console.note(
                f"clips and blocks of worker {worker} only; all: obygaze extract status STORE"
            )
        for line in _next_steps(plan, states, rows):
            session.console.note(line)
    _end(stop, states, worker)


def _end(stop: StopFlag, states: Sequence[StoreStatus], worker: str | None) -> None:
    """End the command with the exit code of what happened: stopped, none, some or all extracted."""
    n_blocks = sum(state.blocks for state in states)
    n_committed = sum(state.blocks_done for state in states)
    whose = "blocks" if worker is None else f"blocks of worker {worker}"
    stop.raise_if_stopped(f"{n_committed} of {n_blocks} {whose} are committed")
    if not any(state.ok for state in states):
        raise ObygazeError(
            "no clip was extracted", hint="correct what the lines above list"
        )
    if any(state.failed for state in states):
        click.get_current_context().exit(EXIT_SOME_FAILED)


def _show_idle(session: Session, plan: ExtractPlan, worker: str) -> None:
    """Print that a worker has nothing to do, since there are fewer units than workers."""
    if session.console.as_json:
        _show_json(session, [], worker, [])
        return
    units = count(plan.n_units, "unit")
    session.console.note(
        f"worker {worker} has no clips: the plan has {units}; nothing to do"
    )


def _name_idle_gpus(session: Session, plan: ExtractPlan) -> None:
    """Print the GPUs that a run on the CPU could use, unless no backbone has weights."""
    workspace = Workspace(Path(plan.workspace))
    cards = [find_card(target.backbone, workspace) for target in plan.targets]
    idle = idle_gpus() if any(card.family.needs_torch for card in cards) else []
    if idle:
        session.console.note(
            f"{', '.join(idle)} is idle: --device {idle[0]} is faster than cpu"
        )


def _next_steps(
    plan: ExtractPlan, states: Sequence[StoreStatus], rows: Sequence[int] | None
) -> list[str]:
    """Return the command to type for clips without a video, and for clips that failed."""
    steps = []
    again = "the same command"
    retry = " and --retry-failed"
    if any(state.sealed and state.ok < state.clips for state in states):
        again = f"{again} with --store NAME=STORE: a sealed store stays as it is"
        retry = ""
    chosen = range(len(plan.rows)) if rows is None else rows
    without = sum(not plan.rows[row].video for row in chosen)
    link = f"obygaze manifest link {plan.manifest} FOLDER"
    if without:
        steps.append(f"{count(without, 'clip')} without a video: {link}, then {again}")
    if any("open: missing" in state.reasons for state in states):
        steps.append(f"files missing: mount their folder or {link}, then {again}")
    elif any(state.failed for state in states):
        steps.append(f"failed clips: correct their files, then {again}{retry}")
        if rows is not None and retry:
            steps.append(
                "failed clips of a Slurm array: obygaze extract slurm PLAN --retry-failed"
            )
    return steps


def _extract(
    plan: ExtractPlan,
    stop: StopFlag,
    rows: Sequence[int] | None,
    options: Mapping[str, Any],
    progress: RowProgress,
) -> list[StoreStatus]:
    """Extract on one device, or on several."""
    from obygaze_features.extraction.devices import devices_of, extract_on_devices
    from obygaze_features.extraction.run import Resources, extract

    devices = devices_of(options["device"])
    resources = Resources(workers=options["workers"], batch=options["batch"])
    shares = resources.shared_by(devices)
    retry = options["retry_failed"] or options["changed"]
    if not options["share"]:
        refuse_busy_gpus(devices)
    if len(shares) > 1:
        return extract_on_devices(
            plan,
            shares,
            stop,
            rows=rows,
            retry_failed=retry,
            changed=options["changed"],
            mixed=options["mixed"],
            progress=progress,
        )
    return extract(
        plan,
        shares[0],
        stop,
        rows=rows,
        retry_failed=retry,
        changed=options["changed"],
        mixed=options["mixed"],
        progress=progress,
    )


def _show_json(
    session: Session,
    states: Sequence[StoreStatus],
    worker: str | None,
    rows: Sequence[int] | None,
) -> None:
    from obygaze_features.extraction.status import joint_status

    documents = [state.to_json() for state in states]
    named = {} if worker is None else {"worker": worker}
    joint = joint_status(states, rows)
    # One line, since scripts read the last one.
    session.console.json({**named, **joint, "stores": documents}, one_line=True)
