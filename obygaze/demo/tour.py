"""`obygaze demo`: all steps from films to a report, run on made-up data."""

import json
import os
import shlex
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from importlib.resources import files
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import click

from obygaze.demo.films import (
    make_films,
    render,
    truncate_video,
    write_tables,
)
from obygaze_features.core import system
from obygaze_features.core.commands import Session, command
from obygaze_features.core.console import Console
from obygaze_features.core.drafts import OwnFolder, check_folder, draft_beside
from obygaze_features.core.errors import AlreadyThere, ObygazeError, first_line
from obygaze_features.core.files import (
    parse_json,
    pretty_json,
    sha256_file,
    write_atomic,
)
from obygaze_features.core.lazy import need
from obygaze_features.core.value_types import TypedPath
from obygaze_features.core.workspace import PathLike
from obygaze_features.video.pool import require_decode_workers

CARD = "tiny-xclip"
_UNFINISHED = '{"files": null}\n'
# It lists the files of a demo with their hashes, once the demo has ended or was interrupted. While
# a demo is made it has a lock of the kernel, and lists nothing.
MARK = ".obygaze-demo"
BROKEN = 30
DATA = files(__package__)


def write_demo(folder: PathLike = "demo") -> None:
    """Run all steps on made-up films as `obygaze demo` does, and print them.

    Args:
        folder: The folder to write; it may hold an earlier demo, and nothing else.
    """
    from obygaze.cli import root

    root.main(["demo", "-o", os.fspath(folder)], standalone_mode=False)


@command(write_demo)
@click.option(
    "-o",
    "--output",
    "folder",
    type=TypedPath(file_okay=False, path_type=Path),
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
    need("av", "video", "making the demo's films")  # before the first file is written
    require_decode_workers()
    folder = folder or session.workspace.root / "demo"
    root = ctx.find_root().command
    commands = []
    on_stdout = (
        redirect_stdout(sys.stderr) if session.console.as_json else nullcontext()
    )
    with on_stdout, _demo_folder(folder, session.console):
        scenes = make_films()
        write_tables(scenes, folder)
        write_atomic(
            folder / "mapping.toml", DATA.joinpath("mapping.toml").read_bytes()
        )
        session.console.note(f"making {len(scenes)} clips of six films ...")
        truncate_video(render(scenes, folder / "videos")[BROKEN])
        weights, note = save_tiny_xclip(folder)
        session.console.result(f"\n# {note}")
        for purpose, words in _steps(folder, weights):
            commands.append(shlex.join(["obygaze", "-C", str(folder), *words]))
            session.console.result(f"\n# {purpose}\n$ {commands[-1]}")
            root.main(
                args=["-C", str(folder), *words],
                prog_name="obygaze",
                standalone_mode=False,
            )
    page = folder / "runs" / "honest" / "report.html"
    values = {"folder": folder, "page": page, "figures": folder / "figures"}
    document = {name: str(path) for name, path in values.items()}
    stores = sorted(map(str, (folder / "stores").glob("films.*")))
    text = f"\nThe report is {page}; figures are in {folder}/figures."
    session.console.show({**document, "stores": stores, "commands": commands}, text)


def _steps(folder: Path, weights: Path | None) -> Iterator[tuple[str, list[str]]]:
    """Yield the purpose and the words of each step; without `weights`, without the X-CLIP."""
    backbones = "-b descriptors"
    stores = "--store desc=films.descriptors"
    if weights is not None:
        backbones += " -b {card} --weights {card}={weights}"
        stores += " --store untrained=films.{card}"
    paths = {"folder": folder, "card": CARD, "weights": weights}
    for step in tomllib.loads(DATA.joinpath("steps.toml").read_text("utf-8"))["steps"]:
        if weights is not None or "{card}" not in step["run"]:
            line = (
                step["run"]
                .replace("{backbones}", backbones)
                .replace("{stores}", stores)
            )
            yield step["why"], [word.format(**paths) for word in shlex.split(line)]


def save_tiny_xclip(workspace: Path) -> tuple[Path | None, str]:
    """Write a tiny X-CLIP with random weights and its card, where torch is installed.

    Return the folder of the weights, or None, and a note for the user.
    """
    folder = workspace / "weights"
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if missing:
        return None, (
            f"{' and '.join(missing)} not installed: features are simple statistics only. To add a"
            ' tiny X-CLIP: pip install "obygaze[extract]"'
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
        return (
            None,
            f"torch or transformers does not work, the X-CLIP is skipped: {reason}",
        )
    return folder, (
        f"A tiny X-CLIP was written to {folder}, to show several backbones in one pass.\n"
        "# Its weights are random. Its scores below come from the colours of the made-up films;\n"
        "# a trained model must score higher than this."
    )


@contextmanager
def _demo_folder(folder: Path, console: Console) -> Iterator[None]:
    """Make the folder of a demo; list its files when the block ends, also by an interrupt."""
    _claim(folder, console)
    mark = folder / MARK
    with _locked(folder):
        with mark.open("a", encoding="utf-8", newline="\n") as stream:
            stream.write(_UNFINISHED)
        try:
            yield
        finally:
            hashes = {
                name: sha256_file(folder / name)
                for name in sorted(_files(folder) - {MARK})
            }
            write_atomic(mark, pretty_json({"files": hashes}))


def _claim(folder: Path, console: Console) -> None:
    """Empty the folder of an earlier demo; raise an error for any other folder.

    What is in a demo that was killed is not known: its folder gets another name.
    """
    check_folder(folder, DEMO, force=True)
    if (folder / MARK).is_file():
        with _locked(folder):
            pass  # an error where another process makes it
    if folder.exists() and _listed_files(folder) is None and any(folder.iterdir()):
        names = (f"{folder.name}-unfinished-{number}" for number in count(1))
        aside = next(
            name for name in names if not os.path.lexists(folder.with_name(name))
        )
        system.rename_folder(folder, folder.with_name(aside))
        console.note(
            f"an earlier demo was stopped before its end; its folder is now {aside}"
        )
    elif folder.exists():
        with draft_beside(folder) as old:
            system.rename_folder(folder, old)
    folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a demo; an error where another process makes this demo."""
    opened = system.open_folder(folder)
    try:
        try:
            opened.lock()
        except BlockingIOError:
            raise AlreadyThere(
                "another process is making this demo",
                where=str(folder),
                hint="wait until it has finished, or choose another name with -o",
            ) from None
        yield
    finally:
        opened.close()


def _files(folder: Path) -> set[str]:
    """Return the files below a folder, but not the indexes of videos, which any command makes."""
    names = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if not path.is_dir()
    }
    return {name for name in names if not name.startswith("indexes/")}


def _listed_files(folder: Path) -> dict[str, str] | None:
    """Return the listed files of a demo with their hashes; None where its mark lists none."""
    try:
        data = (folder / MARK).read_bytes()
    except OSError:
        return None
    try:
        document = parse_json(data)
    except ValueError:
        return None
    files = document.get("files") if isinstance(document, dict) else None
    return {str(name): str(sha256) for name, sha256 in files.items()} if files else None


def _not_a_demo(folder: Path) -> str:
    mark = folder / MARK
    if not mark.is_file():
        return "it was not made by the demo"
    listed = _listed_files(folder)
    if listed is None:
        return ""  # it was killed, and is kept under another name
    there = _files(folder) - {MARK}
    more = sorted(there - listed.keys())
    if more:
        return f"it also holds {more[0]!r}"
    for name in sorted(there):
        if not _is_unchanged(folder / name, listed[name]):
            return f"its file {name!r} was changed"
    return ""


def _is_unchanged(file: Path, sha256: str) -> bool:
    return not file.is_symlink() and sha256_file(file) == sha256


DEMO = OwnFolder("demo", _not_a_demo)
