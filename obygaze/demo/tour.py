"""`obygaze demo`: all steps from films to a report, run on made-up data."""

import json
import shlex
import sys
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext, redirect_stdout
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import click

from obygaze.demo.films import make_films, render, truncate_video, write_tables
from obygaze_features.core.commands import Session, command
from obygaze_features.core.drafts import OwnFolder, check_folder, draft_beside
from obygaze_features.core.errors import ObygazeError, first_line
from obygaze_features.core.files import write_atomic

CARD = "tiny-xclip"
MARK = ".obygaze-demo"  # lists the files of a demo that ended
BROKEN = 30
DATA = files(__package__)


@command()
@click.option(
    "-o",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder to write; it may hold an earlier demo, and nothing else. [default: demo]",
)
@click.pass_context
def demo(ctx: click.Context, session: Session, folder: Path | None) -> None:
    """Run all steps on made-up films, offline, in under a minute.

    If torch and transformers are installed, a tiny X-CLIP with random weights is used as well. With
    --json the output of the steps goes to stderr.

    Examples:
        obygaze demo
        obygaze demo -o /tmp/tour
    """
    folder = folder or session.workspace.root / "demo"
    _claim(folder)
    root = ctx.find_root().command
    commands = []
    with redirect_stdout(sys.stderr) if session.console.as_json else nullcontext():
        scenes = make_films()
        write_tables(scenes, folder)
        write_atomic(folder / "mapping.toml", DATA.joinpath("mapping.toml").read_bytes())
        session.console.note(f"making {len(scenes)} clips of six films ...")
        truncate_video(render(scenes, folder / "videos")[BROKEN])
        weights, note = save_tiny_xclip(folder)
        session.console.result(f"\n# {note}")
        for purpose, words in _steps(folder, weights):
            commands.append(shlex.join(["obygaze", "-C", str(folder), *words]))
            session.console.result(f"\n# {purpose}\n$ {commands[-1]}")
            root.main(args=["-C", str(folder), *words], prog_name="obygaze", standalone_mode=False)
    write_atomic(folder / MARK, "\n".join(sorted(_files(folder))).encode())
    page = folder / "runs" / "honest" / "report.html"
    values = {"folder": folder, "page": page, "figures": folder / "figures"}
    document = {name: str(path) for name, path in values.items()}
    stores = sorted(map(str, (folder / "stores").glob("films.*")))
    text = f"\nThe report is {page}; figures are in {folder}/figures."
    session.console.show({**document, "stores": stores, "commands": commands}, text)


def _steps(folder: Path, weights: Path | None) -> Iterator[tuple[str, list[str]]]:
    """Yield the purpose and the words of each step; without `weights`, without the X-CLIP."""
    backbones, stores = "-b descriptors", "--store desc=films.descriptors"
    if weights is not None:
        backbones += " -b {card} --weights {card}={weights}"
        stores += " --store untrained=films.{card}"
    places = {"folder": folder, "card": CARD, "weights": weights}
    for step in tomllib.loads(DATA.joinpath("steps.toml").read_text("utf-8"))["steps"]:
        if weights is not None or "{card}" not in step["run"]:
            line = step["run"].replace("{backbones}", backbones).replace("{stores}", stores)
            yield step["why"], [word.format(**places) for word in shlex.split(line)]


def save_tiny_xclip(workspace: Path) -> tuple[Path | None, str]:
    """Write a tiny X-CLIP with random weights and its card, where torch is installed.

    Return the folder of the weights, or None, and a note for the user.
    """
    folder = workspace / "weights"
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if missing:
        return None, (
            f"{' and '.join(missing)} not installed: features are simple statistics only. To add a"
            " tiny X-CLIP: pip install 'obygaze[extract]'"
        )
    from obygaze_features.backbones.families import PRETRAINED
    from obygaze_features.backbones.pretrained import save_random

    try:
        sizes = json.loads(DATA.joinpath(f"{CARD}.json").read_bytes())
        save_random(PRETRAINED["xclip"], sizes, folder)
        # The weights must match their card, so they need a card of their own.
        card = DATA.joinpath(f"{CARD}.toml").read_bytes()
        write_atomic(workspace / "backbones" / f"{CARD}.toml", card)
    except (ImportError, OSError, ObygazeError) as error:
        # A broken installation of torch does not stop the demo.
        reason = first_line(error)
        return None, f"torch or transformers does not work, the X-CLIP is skipped: {reason}"
    return folder, (
        f"A tiny X-CLIP was written to {folder}, to show several backbones in one pass.\n"
        "# Its weights are random. Its scores below come from the colours of the made-up films;\n"
        "# a trained model must score higher than this."
    )


def _claim(folder: Path) -> None:
    """Empty the folder of an earlier demo; raise an error for any other folder."""
    check_folder(folder, DEMO, force=True)
    if folder.exists():
        with draft_beside(folder) as old:
            folder.rename(old)
    folder.mkdir(parents=True, exist_ok=True)


def _files(folder: Path) -> set[str]:
    """Return the files below a folder, but not the indexes of videos, which any command makes."""
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    return {name for name in names if not name.startswith("indexes/")}


def _not_a_demo(folder: Path) -> str:
    if not (folder / MARK).is_file():
        return "it was not made by the demo, or the demo did not end"
    made = (folder / MARK).read_text("utf-8", "replace").split("\n")
    more = sorted(_files(folder) - {MARK, *made})
    return f"it also holds {more[0]!r}" if more else ""


DEMO = OwnFolder("demo", _not_a_demo)
