"""`obygaze extract run` and `retry`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.console import table
from obygaze_features.core.errors import EXIT_SOME_FAILED, FixUsage
from obygaze_features.core.machine import usable_cores
from obygaze_features.extraction.commands_engine import (
    engine_options,
    extract_by,
    manners_options,
)
from obygaze_features.extraction.commands_plan import chosen_plan, what_options
from obygaze_features.extraction.etiquette import no_longer_than
from obygaze_features.extraction.signals import stop_on_signals

if TYPE_CHECKING:
    from obygaze_features.extraction.status import StoreStatus

F = TypeVar("F", bound=Callable[..., Any])
SHOWN = 20


def _how_options(function: F) -> F:
    """The options that say on what to run; none of them decides the numbers."""
    options = [
        click.option("--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1."),
        click.option(
            "--workers", type=click.IntRange(1), help="Decode processes. [default: cores]"
        ),
        click.option("--batch", type=click.IntRange(1), help="Clips in a batch. [default: fits]"),
        click.option("--exact", is_flag=True, help="Batches of one: the same bytes on any batch."),
        click.option("--memory", type=click.IntRange(1), metavar="MB", help="For one batch."),
        click.option("--strict", is_flag=True, help="Stop at the first clip that fails."),
        click.option("--seal/--no-seal", default=None, help="[default: if no clip failed]"),
        click.option(
            "--events", type=click.File("w"), help="A JSON line for each clip; - is stdout."
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze extract run obygaze12 -b xclip-b16-k600-zs -b vivit-b16x2-k400 --device cuda
    obygaze extract run obygaze12 -b descriptors --workers 4
    obygaze extract run plan.json --worker 0/8
    obygaze extract run plan.json --engine dask --devices 0,1
    """,
)
@click.argument("manifest")
@what_options
@_how_options
@manners_options
@engine_options
@click.option("--worker", metavar="I/K", help="Take each K-th unit of the plan, from I.")
@json_option
@pass_session
def run(
    session: Session, /, manifest: str, worker: str | None, as_json: bool, **options: Any
) -> None:
    """Extract what is missing; the same command resumes.

    MANIFEST is a manifest's name, or the file of a plan. All backbones share one decode of each
    clip. A clip that fails is a row with its reason; the run goes on and ends with exit code 3.
    Clips whose times or video file changed since are refused, with exit code 5 (retry --changed).
    With --worker, the exit code and the counts are those of the worker's own clips.
    """
    _extract(session, manifest, options, as_json, worker=worker)


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze extract retry obygaze12 -b xclip-b16-k600-zs
    obygaze extract retry obygaze12 -b xclip-b16-k600-zs --timeout 900
    obygaze extract retry obygaze12 -b xclip-b16-k600-zs --changed
    """,
)
@click.argument("manifest")
@what_options
@_how_options
@manners_options
@click.option("--changed", is_flag=True, help="Also clips whose times or video file changed.")
@json_option
@pass_session
def retry(session: Session, /, manifest: str, changed: bool, as_json: bool, **options: Any) -> None:
    """Try the clips again that failed or had no video.

    Takes the options of the run. Other rows are not touched, but for those of clips that changed
    since they were extracted, with --changed.
    """
    _extract(session, manifest, options, as_json, redo=True, changed=changed)


def _extract(
    session: Session,
    manifest: str,
    options: Mapping[str, Any],
    as_json: bool,
    *,
    worker: str | None = None,
    redo: bool = False,
    changed: bool = False,
) -> None:
    # Signals are caught before torch is imported: a job may be taken away while it starts.
    with stop_on_signals() as stop, no_longer_than(options["max_hours"], stop):
        from obygaze_features.extraction.run import Machine

        plan = chosen_plan(session, manifest, options)
        machine = Machine(
            device=options["device"],
            workers=options["workers"] or usable_cores(),
            batch=1 if options["exact"] else options["batch"],
            memory=options["memory"] * 1_000_000 if options["memory"] else None,
            gpu_gb=options["gpu_mem"],
            nice=options["nice"],
        )
        rows = _rows_of(plan, worker)
        with _progress(session, "extract") as progress:
            states = extract_by(
                options,
                plan,
                machine,
                stop,
                rows=rows,
                redo=redo,
                changed=changed,
                strict=options["strict"],
                progress=progress,
                tell=_teller(options["events"]),
            )
        states = _sealed(states, rows, options["seal"])
    _report(session, states, as_json, worker, rows)
    done = sum(state.blocks_done for state in states)
    whose = "blocks" if worker is None else f"blocks of worker {worker}"
    stop.raise_if_asked(f"{done} of {sum(state.blocks for state in states)} {whose} are committed")
    if any(state.failed for state in states):
        click.get_current_context().exit(EXIT_SOME_FAILED)


def _sealed(
    states: Sequence[StoreStatus], rows: Sequence[int] | None, seal: bool | None
) -> list[StoreStatus]:
    """Seal the stores that are complete; the states of `rows` alone, a worker's own."""
    from obygaze_features.extraction.run import seal_complete
    from obygaze_features.extraction.status import store_status

    # Read before the seal, which keeps no seconds of single blocks.
    own = states if rows is None else [store_status(state.store, rows) for state in states]
    whole = seal_complete(states, seal)
    return [replace(one, sealed=state.sealed) for one, state in zip(own, whole, strict=True)]


def _rows_of(plan: Any, worker: str | None) -> list[int] | None:
    from obygaze_features.extraction.plan import units_of

    if worker is None:
        return None
    index, _, workers = worker.partition("/")
    if not (index.isdigit() and workers.isdigit()):
        raise FixUsage(f"--worker {worker!r} is not of the form 0/8")
    return [
        row for unit in units_of(int(index), int(workers), plan) for row in plan.unit_range(unit)
    ]


@contextmanager
def _progress(session: Session, label: str) -> Iterator[Callable[[int], Any]]:
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda total: stack.enter_context(session.console.progress(label, total))


def _teller(stream: Any) -> Callable[[Mapping[str, Any]], None] | None:
    if stream is None:
        return None

    def tell(event: Mapping[str, Any]) -> None:
        stream.write(json.dumps(dict(event), ensure_ascii=False) + "\n")
        stream.flush()

    return tell


def _report(
    session: Session,
    states: Sequence[StoreStatus],
    as_json: bool,
    worker: str | None,
    rows: Sequence[int] | None,
) -> None:
    if as_json:
        from obygaze_features.extraction.status import together

        documents = [state.to_json() for state in states]
        first = documents[0] if len(documents) == 1 else together(states, rows)
        named = {} if worker is None else {"worker": worker}
        # Events may have gone before it, a line each.
        session.console.json({**named, **first, "stores": documents}, one_line=True)
        return
    headers = ("store", "clips", "ok", "failed", "missing", "blocks", "of")
    lines = [
        (Path(s.store).name, s.clips, s.ok, s.failed, s.missing, s.blocks_done, s.blocks)
        for s in states
    ]
    session.console.result(table(headers, lines))
    if worker is not None:
        session.console.note(
            f"clips and blocks of worker {worker} only; all workers: obygaze extract status STORE"
        )
    for state in states:
        if state.seconds:
            session.console.note(f"{Path(state.store).name}: {state.who_waits}")
    failures = {clip: why for state in states for clip, why in state.failures.items()}
    for clip, why in list(failures.items())[:SHOWN]:
        session.console.note(f"  {clip}: {why}")
    if len(failures) > SHOWN:
        session.console.note(f"  and {len(failures) - SHOWN} more: obygaze extract status STORE")
