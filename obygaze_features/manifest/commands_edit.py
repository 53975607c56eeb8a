"""`obygaze manifest link` and `folds`: commands that add to an existing manifest."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from obygaze_features.core.commands import Session, command
from obygaze_features.core.console import table
from obygaze_features.core.errors import AlreadyThere, FixUsage
from obygaze_features.manifest.folds import KINDS
from obygaze_features.manifest.io import read_manifest, update_manifest
from obygaze_features.manifest.link import link
from obygaze_features.manifest.model import FOLD_PREFIX
from obygaze_features.manifest.stats import compute_stats


@command("link")
@click.argument("name")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def link_(session: Session, name: str, folder: Path) -> None:
    """Find the video of each clip under a folder.

    A clip's own file is found by its name, whatever its extension; else the clip is a part of
    its film's file, by its times. No video is opened. Clips without a video are listed.

    Examples:
        obygaze manifest link obygaze12 /data/moviegraphs/clips
        obygaze manifest link obygaze12 /data/films --json
    """
    path = session.workspace.existing_manifest(name)
    found = read_manifest(path)
    report = link(found, folder)
    update_manifest(found, report.manifest, path)
    if session.console.as_json:
        session.console.json(report.to_json())
        return
    session.console.result(
        f"{len(report.by_name)} clips have a file of their own, {len(report.by_time)} are parts of"
        f" films, {len(report.without)} have no video, {len(report.ambiguous)} match several files"
    )
    for clip_id, files in report.ambiguous.items():
        session.console.note(f"{clip_id}: not linked, matches {', '.join(files)}")
    for clip_id in report.without:
        session.console.detail(f"{clip_id}: no video")


@command()
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(list(KINDS)),
    default="grouped",
    help="How clips are assigned to folds.",
)
@click.option("-k", "k", default=5, help="Number of folds.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, help="Seed of the random assignment."
)
@click.option("--block", default=10, help="With --kind neighbour: clips in a block.")
@click.option("--gap", default=1, help="With --kind neighbour: clips left out at borders.")
@click.option("--as", "column", help="Name of the split. [default: the kind]")
@click.option("--force", is_flag=True, help="Replace a split of that name.")
def folds(
    session: Session, /, name: str, kind: str, column: str | None, force: bool, **settings: int
) -> None:
    """Split the clips into folds, one fold a clip.

    A clip has the same fold in every task, so that no task trains on another's test clips.

    Examples:
        obygaze manifest folds obygaze12 --kind grouped -k 6 --as by-film
        obygaze manifest folds obygaze12 --kind neighbour -k 10 --block 12 --gap 2 --as blocks
    """
    path = session.workspace.existing_manifest(name)
    found, split = read_manifest(path), kind if column is None else column
    if not split.replace("-", "").replace("_", "").isalnum():
        raise FixUsage(f"--as must be letters, digits, - and _, got {split!r}")
    if split in found.folds and not force:
        raise AlreadyThere(f"{name} already has a split {split!r}", hint="--as NAME, or --force")
    deal, names = KINDS[kind]
    dealt = deal(found, **{name: settings[name] for name in names})
    made = {clip: str(fold) for clip, fold in dealt.items()}
    split_manifest = found.with_column(FOLD_PREFIX + split, made)
    update_manifest(found, split_manifest, path)
    counted = compute_stats(split_manifest).folds[split]
    document = {"split": split, "without_fold": len(found) - len(made)}
    document["folds"] = {fold: asdict(stats) for fold, stats in counted.items()}
    rows = [(fold, stats.clips, stats.positive) for fold, stats in counted.items()]
    session.console.show(document, table(("fold", "clips", "S"), rows))
