"""`obygaze demo`: the commands of a first afternoon, run one after the other on made-up data."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import click

from obygaze_features.core.commands import ExampleCommand, Session, pass_session
from obygaze_features.core.errors import AlreadyThere
from obygaze_features.core.files import write_atomic
from obygaze_features.demo.films import make_films, write_tables
from obygaze_features.demo.footage import break_on_purpose, render

MARK = ".obygaze-demo"
BROKEN = 30


@dataclass(frozen=True)
class Step:
    """One command of the tour, and why a person would type it."""

    why: str
    command: str


STEPS = (
    Step(
        "Two experts marked stretches of six films. What does that make of each clip?",
        "manifest project {folder}/segments.csv --clips {folder}/clips.csv --sweep 0.1,0.2,0.4"
        " --figure {folder}/figures/timeline --movie tt9000002 -o {folder}/labels.csv",
    ),
    Step(
        "How far do the two agree, beyond chance?",
        "manifest agree {folder}/segments.csv --clips {folder}/clips.csv",
    ),
    Step(
        "Labels and clips become a manifest: the table everything else is keyed by.",
        "manifest import csv {folder}/labels.csv --mapping {folder}/mapping.toml -o films",
    ),
    Step(
        "The videos are found by their names.",
        "manifest link films {folder}/videos",
    ),
    Step(
        "What is in it, in numbers and as a picture.",
        "manifest stats films --figure {folder}/figures/concepts",
    ),
    Step(
        "What would an extraction make, take and miss?",
        "extract plan films -b descriptors",
    ),
    Step(
        "Extract. One video is broken on purpose: a row with its reason, not a crash.",
        "extract run films -b descriptors --seal",
    ),
    Step(
        "How were these features made, and are they whole?",
        "store info films.descriptors",
    ),
    Step(
        "Every byte is checked against its hash.",
        "store verify films.descriptors --hash",
    ),
    Step(
        "Train and test, each film unseen once; baselines that see no video are beside the models.",
        "run honest --manifest films --store desc=films.descriptors -o honest",
    ),
    Step(
        "All of it as one page, with tables and figures beside it.",
        "report honest",
    ),
)
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
    default="demo",
    show_default=True,
    help="Work in this folder; made anew each time.",
)
@pass_session
@click.pass_context
def demo(ctx: click.Context, session: Session, folder: Path) -> None:
    """Take the tour on made-up films, offline, in under a minute."""
    _claim(folder)
    scenes = make_films()
    write_tables(scenes, folder)
    session.console.note(f"making {len(scenes)} clips of six films ...")
    videos = render(scenes, folder / "videos")
    break_on_purpose(videos[BROKEN])
    write_atomic(folder / "mapping.toml", MAPPING.encode("utf-8"))
    root = ctx.find_root().command
    for step in STEPS:
        words = [word.format(folder=folder) for word in shlex.split(step.command)]
        session.console.result(f"\n# {step.why}\n$ obygaze {shlex.join(words)}")
        root.main(args=["-C", str(folder), *words], prog_name="obygaze", standalone_mode=False)
    session.console.result(
        f"\nThe page is {folder}/runs/honest/report.html; pictures are in {folder}/figures."
    )


def _claim(folder: Path) -> None:
    """Empty a folder of an earlier tour; leave any other folder alone."""
    import shutil

    mark = folder / MARK
    if folder.exists() and any(folder.iterdir()) and not mark.exists():
        raise AlreadyThere(
            "this folder was not made by the demo", where=str(folder), hint="obygaze demo -o DIR"
        )
    shutil.rmtree(folder, ignore_errors=True)
    write_atomic(mark, b"made by obygaze demo; made anew by the next one\n")
