"""The tour as data: which commands, in which order, and why a person would type each."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from obygaze.demo.tiny_xclip import CARD


@dataclass(frozen=True)
class Step:
    """One command of the tour, and why a person would type it."""

    why: str
    command: str
    with_xclip: bool = False


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
        "extract plan films {backbones}",
    ),
    Step(
        "Extract. One video is broken on purpose: a row with its reason, not a crash.",
        "extract run films {backbones} --seal",
    ),
    Step(
        "How were these features made, and are they whole?",
        "store info films.descriptors",
    ),
    Step(
        "And those of the X-CLIP, from the same decoding? Its weights are known by their hashes.",
        "store info films.{card}",
        with_xclip=True,
    ),
    Step(
        "Every byte is checked against its hash.",
        "store verify films.descriptors --hash",
    ),
    Step(
        "Train and test, each film unseen once; baselines that see no video are beside the models.",
        "run honest --manifest films {stores} -o honest",
    ),
    Step(
        "All of it as one page, with tables and figures beside it.",
        "report honest",
    ),
)


def steps_of(folder: Path, weights: Path | None) -> Iterator[tuple[str, list[str]]]:
    """Why, and the words of each command: with the X-CLIP of `weights`, or without it."""
    backbones, stores = "-b descriptors", "--store desc=films.descriptors"
    if weights is not None:
        backbones += f" -b {CARD} --weights {{card}}={{weights}}"
        stores += " --store untrained=films.{card}"
    places = {"folder": folder, "card": CARD, "weights": weights}
    for step in STEPS:
        if weights is None and step.with_xclip:
            continue
        command = step.command.replace("{backbones}", backbones).replace("{stores}", stores)
        yield step.why, [word.format(**places) for word in shlex.split(command)]
