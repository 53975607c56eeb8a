"""The first commands: the demo, the doctor, and what is in the workspace."""

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import click

from obygaze.commands.shared import Command, Result, Session, TypedPath


@click.command("demo", cls=Command, prints=True)
@click.option(
    "-o",
    "--output",
    "folder",
    type=TypedPath(file_okay=False, path_type=Path),
    show_default="demo",
    help="A new or empty folder for the demo.",
)
@click.pass_obj
def demo(session: Session, folder: Path | None) -> Result:
    """Try everything on made-up films, offline, in a minute or two.

    With --json the output of the steps goes to stderr.

    Examples:
        obygaze demo
        obygaze demo -o /tmp/tour
    """
    from obygaze.demo.tour import write_demo

    as_json = session.console.as_json
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        return write_demo(folder or session.root / "demo", note=session.console.note)


@click.command("doctor", cls=Command)
@click.pass_obj
def doctor(session: Session) -> Result:
    """Check the installation and this machine.

    Versions, devices, missing packages, and leftovers of killed commands are listed.

    An extra with a missing package is listed with the command that installs the extra. A leftover
    is an unfinished file or folder in the workspace. It is listed with its size and the command
    that removes it; the next command that writes the same name removes it too. The exit code is 1
    if a required package is missing or has the wrong version, or if PyAV or torch is installed but
    does not work.

    Examples:
        obygaze doctor
        obygaze -C /data/films doctor
        obygaze doctor --json
    """
    from obygaze.doctor import check_up

    return check_up(session.root)


@click.command("ls", cls=Command)
@click.pass_obj
def ls(session: Session) -> Result:
    """List what is in the workspace.

    The list has manifests, stores, runs and models.

    A store that is being filled has a separate row, after the finished store of the same name.

    Examples:
        obygaze ls
        obygaze -C /data/films ls --json
    """
    from obygaze.contents import ls

    return ls(workspace=session.root)
