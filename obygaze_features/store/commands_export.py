"""`obygaze store export`: features in the formats other people read."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from obygaze_features.core.commands import (
    ExampleCommand,
    Session,
    force_option,
    json_option,
    pass_session,
)
from obygaze_features.core.errors import EXIT_SOME_FAILED
from obygaze_features.store.commands_look import open_named
from obygaze_features.store.interchange.export import export_store

SHOWN = 20


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze store export hdf5 obygaze12-xclip xclip.h5 --compress
    obygaze store export csv obygaze12-xclip pooled.csv --level pooled
    obygaze store export pth obygaze12-xclip FEATURES --level tokens
    """,
)
@click.argument("format", type=click.Choice(["hdf5", "npz", "npy", "csv", "pth"]))
@click.argument("name")
@click.argument("output", type=click.Path(path_type=Path))
@click.option(
    "--level", "levels", multiple=True, help="Only this level; repeatable. [default: all]"
)
@click.option("--compress", is_flag=True, help="Compress (hdf5 and npz).")
@force_option
@json_option
@pass_session
def export(
    session: Session,
    format: str,
    name: str,
    output: Path,
    levels: tuple[str, ...],
    compress: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write the features of a store in another format.

    Clips that failed or are missing are left out and listed. csv and pth hold one level: by
    default the last with one vector a clip, and the one with most tokens.
    """
    store = open_named(session, name)
    n_levels = len(levels) or (1 if format in ("csv", "pth") else len(store.levels))
    with session.console.progress("export", n_levels * store.n_clips) as progress:
        done = export_store(
            store,
            session.workspace.checked(output),
            format,
            levels=levels or None,
            compress=compress,
            force=force,
            progress=progress,
        )
    for clip, reason in list(done.left_out.items())[:SHOWN]:
        session.console.note(f"{clip}: {reason}")
    if as_json:
        session.console.json({**asdict(done), "path": str(done.path)})
    else:
        levels_told = ", ".join(done.levels)
        session.console.result(f"{done.path}: {done.n_clips} clips, {levels_told}")
    if done.left_out:
        click.get_current_context().exit(EXIT_SOME_FAILED)
