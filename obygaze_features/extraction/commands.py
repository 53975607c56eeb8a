"""`obygaze extract` with its small commands, and `obygaze manifest windows`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from obygaze_features.core.commands import (
    POSITIVE,
    LazyGroup,
    Session,
    command,
    force_option,
    option_group,
)
from obygaze_features.core.console import Console, count, table
from obygaze_features.core.machine import MAX_WORKERS, usable_cores

if TYPE_CHECKING:
    from obygaze_features.extraction.status import StoreStatus

# The failed clips that are listed without -v.
SHOWN = 20

_HERE = "obygaze_features.extraction"
COMMANDS = {
    "plan": (
        f"{_HERE}.commands_plan:plan",
        "Estimate the cost of a run, and what is missing.",
    ),
    "run": (
        f"{_HERE}.commands_run:run",
        "Extract what is missing; the same command resumes.",
    ),
    "status": (f"{_HERE}.commands:status", "Show the progress of stores."),
}

_cores: Any = {
    "type": click.IntRange(1, MAX_WORKERS),
    "default": usable_cores,
    "show_default": "cores",
}
workers_option = click.option(
    "--workers", **_cores, help="Processes that decode or read."
)


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
        left = (
            ""
            if state.done or to_go is None
            else f", about {to_go:.0f} s to go for one worker"
        )
        console.result(
            f"{Path(state.store).name} ({state.backbone}): {state.blocks_done} of {state.blocks}"
            f" blocks{left}{', sealed' if state.sealed else ''}"
        )
        counts = [
            ("ok", state.ok),
            ("failed", state.failed),
            ("missing", state.missing),
        ]
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


@command()
@click.argument("films")
@click.option("-o", "name", required=True, help="Name of the manifest.")
@option_group(
    "Grid",
    click.option("--window", type=click.IntRange(1), help="Pictures in a window."),
    click.option(
        "--stride", type=click.IntRange(1), help="Pictures from window to window."
    ),
    click.option(
        "--fps", type=POSITIVE, help="Take pictures at this rate. [default: all]"
    ),
    click.option("--seconds", type=POSITIVE, help="Seconds of a window."),
    click.option("--every", type=POSITIVE, help="Seconds from window to window."),
)
@workers_option
@force_option
def windows(
    session: Session,
    /,
    films: str,
    name: str,
    workers: int,
    force: bool,
    **options: float | None,
) -> None:
    """Cut whole films into windows.

    FILMS is a folder of films, a CSV table with the columns movie_id and video, or a manifest whose
    clips are linked to films. Each film is read once. Give --window and --stride, with --fps or
    without, or --seconds and --every.

    Examples:
        obygaze manifest windows films/ -o films --window 16 --stride 16
        obygaze manifest windows films.csv -o every-second --seconds 2 --every 1
        obygaze manifest windows mobygaze -o slow --fps 2 --window 16 --stride 8
    """
    from obygaze_features.extraction.windows import make_windows
    from obygaze_features.manifest.io import manifest_sha256, write_manifest
    from obygaze_features.manifest.windows import Grid

    path = session.workspace.manifest(name)
    grid = Grid(**{key: value or 0 for key, value in options.items()}).check()  # type: ignore[arg-type]
    made = make_windows(
        films, grid, workspace=session.workspace, name=path.stem, workers=workers
    )
    write_manifest(made, path, force=force)
    facts = {"name": made.name, "path": str(path), "sha256": manifest_sha256(made)}
    counts = {"windows": len(made), "movies": len(made.movies), "grid": grid.to_json()}
    size = f"{count(len(made), 'window')} of {count(len(made.movies), 'film')}"
    session.console.show({**facts, **counts}, f"{path}: {size} ({grid})")
