"""`obygaze demo`: all steps from films to a report, run on made-up data."""

import json
import os
import shlex
import sys
import tomllib
from contextlib import nullcontext, redirect_stdout
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import click

from obygaze_features.core.commands import Session, SessionCommand
from obygaze_features.core.console import Console
from obygaze_features.core.errors import AlreadyThere, ObygazeError
from obygaze_features.core.files import write_atomic
from obygaze_features.core.lazy import import_optional
from obygaze_features.core.value_types import TypedPath
from obygaze_features.core.workspace import PathLike

CARD = "tiny-xclip"
DATA = files(__package__)
# What a newcomer finds in the reports, and why.
PLANTED = """\
# What the reports show. The concept Body changes the colours of the pictures, so models predict it
# in films that were not used for training. The concept Look changes nothing, so no model predicts
# it. The concept Voice changes only the sound: in the report of the run "heard", pictures do not
# predict it, and sound-descriptors do. In the report of the run "joined", pictures and sound
# together predict clips with Body or Voice better than either of them alone."""


def write_demo(folder: PathLike = "demo") -> None:
    """Run all steps on made-up films as `obygaze demo` does, and print them.

    Args:
        folder: The folder to write; it must be new or empty.
    """
    from obygaze.cli import root

    root.main(["demo", "-o", os.fspath(folder)], standalone_mode=False)


@click.command(cls=SessionCommand)
@click.option(
    "-o",
    "--output",
    "folder",
    type=TypedPath(file_okay=False, path_type=Path),
    help="A new or empty folder for the demo.  [default: demo]",
)
@click.pass_context
def demo(ctx: click.Context, session: Session, folder: Path | None) -> None:
    """Run all steps on made-up films, offline, in a minute or two.

    With --json the output of the steps goes to stderr.

    Examples:
        obygaze demo
        obygaze demo -o /tmp/tour
    """
    from obygaze.demo.films import make_films, render_films, write_tables

    import_optional(
        "av", "video", "making the demo's films"
    )  # before the first file is written
    folder = folder or session.workspace.root / "demo"
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise AlreadyThere(
            "this path exists and is not an empty folder",
            where=str(folder),
            hint="remove it, or choose another folder with -o",
        )
    as_json = session.console.as_json
    steps_output = redirect_stdout(sys.stderr) if as_json else nullcontext()
    with steps_output:
        scenes = make_films()
        session.console.note(f"making {len(scenes)} clips of twelve films ...")
        write_tables(scenes, folder)
        render_films(scenes, folder / "videos")
        for name in ("first.toml", "heard.toml", "joined.toml"):
            write_atomic(folder / name, DATA.joinpath(name).read_bytes())
        save_tiny_xclip(folder)
        commands = _run_steps(ctx.find_root().command, folder, session.console)
    page = folder / "runs" / "first" / "report.html"
    document = {"folder": str(folder), "page": str(page), "commands": commands}
    session.console.show(
        document, f"\n{PLANTED}\n\nThe report is {page}; open it in a browser."
    )


def _run_steps(root: click.Command, folder: Path, console: Console) -> list[str]:
    """Run the steps of the demo, print each with its reason, and return their commands."""
    steps = tomllib.loads(DATA.joinpath("steps.toml").read_text("utf-8"))["steps"]
    commands = []
    for step in steps:
        words = [word.format(folder=folder) for word in shlex.split(step["run"])]
        commands.append(shlex.join(["obygaze", "-C", str(folder), *words]))
        console.result(f"\n# {step['why']}\n$ {commands[-1]}")
        root.main(
            args=["-C", str(folder), *words],
            prog_name="obygaze",
            standalone_mode=False,
        )
    return commands


def save_tiny_xclip(workspace: Path) -> None:
    """Write a tiny X-CLIP with random weights and its card, if torch is installed.

    The demo does not use this model. Users can make maps with it without weights from the hub.
    """
    if find_spec("torch") is None or find_spec("transformers") is None:
        return
    from obygaze_features.backbones.families import PRETRAINED
    from obygaze_features.backbones.pretrained import save_random

    sizes = json.loads(DATA.joinpath(f"{CARD}.json").read_bytes())
    card = DATA.joinpath(f"{CARD}.toml").read_bytes()
    try:
        save_random(PRETRAINED["xclip"], sizes, workspace / "weights")
    except (ImportError, OSError, ObygazeError):
        return  # torch is installed and does not work: `obygaze doctor` says so
    write_atomic(workspace / "backbones" / f"{CARD}.toml", card)
