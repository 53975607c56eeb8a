"""`obygaze extract status`: read from commits alone."""

from __future__ import annotations

from pathlib import Path

import click

from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.console import table


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze extract status obygaze12.xclip-b16-k600-zs
    obygaze extract status stores/* --json
    """,
)
@click.argument("stores", nargs=-1, required=True)
@json_option
@pass_session
def status(session: Session, stores: tuple[str, ...], as_json: bool) -> None:
    """How far a store is, and what held it up.

    Works with no run alive, and while one is.
    """
    from obygaze_features.extraction.status import store_status

    states = [store_status(session.workspace.store(name)) for name in stores]
    if as_json:
        session.console.json({"stores": [state.to_json() for state in states]})
        return
    for state in states:
        to_go = state.seconds_to_go
        left = "" if state.done or to_go is None else f", about {to_go:.0f} s to go for one worker"
        session.console.result(
            f"{Path(state.store).name} ({state.backbone}): {state.blocks_done} of {state.blocks}"
            f" blocks{left}{', sealed' if state.sealed else ''}"
        )
        counts = [("ok", state.ok), ("failed", state.failed), ("missing", state.missing)]
        session.console.result(table(("clips", str(state.clips)), counts))
        if state.seconds:
            rows = [(stage, seconds) for stage, seconds in state.seconds.items()]
            session.console.result(table(("stage", "seconds"), rows))
            session.console.result(state.who_waits)
        if state.reasons:
            session.console.result(table(("failed at", "clips"), list(state.reasons.items())))
        for clip, why in state.failures.items():
            session.console.detail(f"  {clip}: {why}")
