"""`obygaze extract`: features from videos; can be stopped and resumed at any time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from obygaze_features.core.commands import LazyGroup, Session, command
from obygaze_features.core.console import Console, table

if TYPE_CHECKING:
    from obygaze_features.extraction.status import StoreStatus

# The failed clips that are listed without -v.
SHOWN = 20

_HERE = "obygaze_features.extraction"
COMMANDS = {
    "plan": (f"{_HERE}.commands_plan:plan", "Estimate the cost of a run, and what is missing."),
    "run": (f"{_HERE}.commands_run:run", "Extract what is missing; the same command resumes."),
    "text": (f"{_HERE}.commands_text:text", "Embed prompts in the space of a backbone's clips."),
    "captions": (f"{_HERE}.commands_text:captions", "Score captions with language models."),
    "slurm": (f"{_HERE}.commands_slurm:slurm", "Write a plan as a Slurm array, and submit it."),
    "status": (f"{_HERE}.commands:status", "Show the progress of stores."),
}


class ExtractGroup(LazyGroup):
    """The group of commands, with `retry` as the old name of `run --retry-failed`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that was asked for."""
        if args[:1] == ["retry"]:
            args = ["run", "--retry-failed", *args[1:]]
        return super().resolve_command(ctx, args)


@click.group(cls=ExtractGroup, table=COMMANDS)
def extract() -> None:
    """Extract features from videos, with several backbones in one pass."""


@command()
@click.argument("stores", nargs=-1, required=True)
def status(session: Session, stores: tuple[str, ...]) -> None:
    """Show the progress of stores.

    It also shows the seconds by stage and the reasons of failures. The status can be read during a
    run.

    Examples:
        obygaze extract status obygaze12.xclip-b16-k600-zs
        obygaze extract status stores/* --json
    """
    from obygaze_features.extraction.status import store_status

    states = [store_status(session.workspace.existing_store(name)) for name in stores]
    if session.console.as_json:
        session.console.json({"stores": [state.to_json() for state in states]})
    else:
        show_states(session.console, states)


def show_states(console: Console, states: Iterable[StoreStatus]) -> None:
    """Print the status of stores; of many failed clips, the first, or all with -v."""
    for state in states:
        to_go = state.seconds_to_go
        left = "" if state.done or to_go is None else f", about {to_go:.0f} s to go for one worker"
        console.result(
            f"{state.name} ({state.backbone}): {state.blocks_done} of {state.blocks}"
            f" blocks{left}{', sealed' if state.sealed else ''}"
        )
        counts = [("ok", state.ok), ("failed", state.failed), ("missing", state.missing)]
        console.result(table(("clips", str(state.clips)), counts))
        if state.seconds:
            console.result(table(("stage", "seconds"), list(state.seconds.items())))
            console.result(state.bottleneck)
        if state.reasons:
            console.result(table(("failed at", "clips"), list(state.reasons.items())))
        n_shown = SHOWN if console.verbosity < 1 else state.failed
        for clip_id, why in list(state.failures.items())[:n_shown]:
            console.note(f"  {clip_id}: {why}")
        if state.failed > n_shown:
            more = state.failed - n_shown
            console.note(f"  and {more} more: obygaze -v extract status {state.store}")
