"""`obygaze demo`: all steps from films to a report, run on made-up data."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import click

from obygaze.demo.films import make_films, write_tables
from obygaze.demo.footage import render, truncate_video
from obygaze.demo.tiny_xclip import CARD, save_tiny_xclip
from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.console import Console
from obygaze_features.core.drafts import OwnFolder, check_folder, draft_beside
from obygaze_features.core.files import write_atomic
from obygaze_features.core.workspace import KINDS

MARK = ".obygaze-demo"
# Files of the demo, and folders that users of its workspace add.
NAMES = {
    *(MARK, "clips.csv", "segments.csv", "labels.csv", "mapping.toml"),
    *("figures", "videos", "weights", *KINDS),
}
BROKEN = 30
MAPPING = """\
# Where each column of a manifest comes from.
dataset = "made-up films"
licence = "CC0-1.0"

[columns]
clip_id = "clip_id"
movie_id = "movie_id"
level = "level"
concepts = "concepts"
"""

# The purpose and the command of each step; steps with {card} need the X-CLIP.
STEPS = (
    (
        "Two annotators marked segments of six films. Compute the labels of each clip.",
        "manifest project {folder}/segments.csv --clips {folder}/clips.csv --sweep 0.1,0.2,0.4"
        " --figure {folder}/figures/timeline --movie tt9000002 -o {folder}/labels.csv",
    ),
    (
        "Measure how far the two annotators agree, beyond chance.",
        "manifest agree {folder}/segments.csv --clips {folder}/clips.csv",
    ),
    (
        "Make a manifest: the table of clips and labels that all other steps read.",
        "manifest import csv {folder}/labels.csv --mapping {folder}/mapping.toml -o films",
    ),
    (
        "Link the clips to their videos, which are found by name.",
        "manifest link films {folder}/videos",
    ),
    (
        "Show the clips by level, as a table and as a figure.",
        "manifest stats films --figure {folder}/figures/concepts",
    ),
    (
        "Estimate what an extraction writes, how long it takes, and what is missing.",
        "extract plan films {backbones}",
    ),
    (
        "Extract. One video is damaged on purpose: it becomes a row with the reason.",
        "extract run films {backbones} --seal",
    ),
    (
        "Show how these features were made, and whether any are missing.",
        "store info films.descriptors",
    ),
    (
        "The same for the X-CLIP. Its weights are identified by their hashes.",
        "store info films.{card}",
    ),
    (
        "Check every file against its hash.",
        "store verify films.descriptors --hash",
    ),
    (
        "Train and test with each film left out once, beside baselines that see no video.",
        "run honest --manifest films {stores} -o honest",
    ),
    (
        "Write the report: one page, with tables and figures as files.",
        "report honest",
    ),
)


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze demo
    obygaze demo -o /tmp/tour
    """,
)
@click.option(
    "-o",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder to write; an earlier demo in it is replaced. [default: demo]",
)
@json_option
@pass_session
@click.pass_context
def demo(ctx: click.Context, session: Session, folder: Path | None, as_json: bool) -> None:
    """Run all steps on made-up films, offline, in under a minute.

    If torch and transformers are installed, a tiny X-CLIP with random weights is used as well. With
    --json the output of the steps goes to stderr.
    """
    folder = folder or session.workspace.root / "demo"
    _claim(folder)
    root = ctx.find_root().command
    commands = []
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        _make(folder, session.console)
        weights, note = save_tiny_xclip(folder)
        session.console.result(f"\n# {note}")
        for purpose, words in _steps(folder, weights):
            commands.append(shlex.join(["obygaze", *words]))
            session.console.result(f"\n# {purpose}\n$ {commands[-1]}")
            root.main(args=["-C", str(folder), *words], prog_name="obygaze", standalone_mode=False)
    page = folder / "runs" / "honest" / "report.html"
    if as_json:
        stores = sorted(map(str, (folder / "stores").glob("films.*")))
        values = {"folder": folder, "page": page, "figures": folder / "figures"}
        plain = {name: str(path) for name, path in values.items()}
        session.console.json({**plain, "stores": stores, "commands": commands})
    else:
        session.console.result(f"\nThe report is {page}; figures are in {folder}/figures.")


def _steps(folder: Path, weights: Path | None) -> Iterator[tuple[str, list[str]]]:
    """Yield the purpose and the words of each command; without `weights`, without the X-CLIP."""
    backbones, stores = "-b descriptors", "--store desc=films.descriptors"
    if weights is not None:
        backbones += " -b {card} --weights {card}={weights}"
        stores += " --store untrained=films.{card}"
    places = {"folder": folder, "card": CARD, "weights": weights}
    for purpose, step in STEPS:
        if weights is not None or "{card}" not in step:
            command = step.replace("{backbones}", backbones).replace("{stores}", stores)
            yield purpose, [word.format(**places) for word in shlex.split(command)]


def _make(folder: Path, console: Console) -> None:
    """Write the films and the tables of their annotators."""
    scenes = make_films()
    write_tables(scenes, folder)
    console.note(f"making {len(scenes)} clips of six films ...")
    videos = render(scenes, folder / "videos")
    truncate_video(videos[BROKEN])
    write_atomic(folder / "mapping.toml", MAPPING.encode("utf-8"))


def _claim(folder: Path) -> None:
    """Empty the folder of an earlier demo; raise an error for any other folder."""
    check_folder(folder, DEMO, force=True)
    if folder.exists():
        with draft_beside(folder) as old:
            folder.rename(old)
    write_atomic(folder / MARK, b"made by obygaze demo; the next demo replaces this folder\n")


def _not_a_demo(folder: Path) -> str:
    if not (folder / MARK).is_file():
        return "it was not made by the demo"
    more = sorted({path.name for path in folder.iterdir()} - NAMES)
    return f"it also holds {more[0]!r}" if more else ""


DEMO = OwnFolder("demo", _not_a_demo)
