"""`obygaze demo`: all steps from films to a report, run on made-up data."""

import json
import shlex
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from obygaze_features.core.console import Console, silent
from obygaze_features.core.errors import AlreadyThere, ObygazeError
from obygaze_features.core.files import write_atomic
from obygaze_features.core.lazy import import_optional
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


@dataclass(frozen=True)
class Demo:
    """A finished demo: its folder, its first page, and the commands that made it."""

    folder: Path
    page: Path
    commands: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the folder, the page and the commands."""
        return {
            "folder": str(self.folder),
            "page": str(self.page),
            "commands": list(self.commands),
        }

    def __str__(self) -> str:
        return f"\n{PLANTED}\n\nThe report is {self.page}; open it in a browser."


def write_demo(
    folder: PathLike = "demo", *, note: Callable[[str], object] = silent
) -> Demo:
    """Run all steps on made-up films, and print each step with its output.

    Args:
        folder: The folder to write; it must be new or empty.
        note: Called with a sentence before the films are made.
    """
    from obygaze.demo.films import make_films, render_films, write_tables

    import_optional(
        "av", "video", "making the demo's films"
    )  # before the first file is written
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise AlreadyThere(
            "this path exists and is not an empty folder",
            where=str(folder),
            hint="remove it, or choose another folder with -o",
        )
    scenes = make_films()
    note(f"making {len(scenes)} clips of twelve films ...")
    write_tables(scenes, folder)
    render_films(scenes, folder / "videos")
    for name in ("first.toml", "heard.toml", "joined.toml"):
        write_atomic(folder / name, DATA.joinpath(name).read_bytes())
    save_tiny_xclip(folder)
    commands = _run_steps(folder)
    return Demo(folder, folder / "runs" / "first" / "report.html", tuple(commands))


def _run_steps(folder: Path) -> list[str]:
    """Run the steps of the demo, print each with its reason, and return their commands."""
    from obygaze.cli import root

    steps = tomllib.loads(DATA.joinpath("steps.toml").read_text("utf-8"))["steps"]
    commands = []
    for step in steps:
        words = [word.format(folder=folder) for word in shlex.split(step["run"])]
        commands.append(shlex.join(["obygaze", "-C", str(folder), *words]))
        Console().result(f"\n# {step['why']}\n$ {commands[-1]}")
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
