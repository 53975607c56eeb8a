"""The steps of the demo: the commands in order, each with its purpose."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from obygaze.demo.tiny_xclip import CARD


@dataclass(frozen=True)
class Step:
    """One command of the demo and its purpose."""

    purpose: str
    command: str
    with_xclip: bool = False


STEPS = (
    Step(
        "Two annotators marked segments of six films. Compute the labels of each clip.",
        "manifest project {folder}/segments.csv --clips {folder}/clips.csv --sweep 0.1,0.2,0.4"
        " --figure {folder}/figures/timeline --movie tt9000002 -o {folder}/labels.csv",
    ),
    Step(
        "Measure how far the two annotators agree, beyond chance.",
        "manifest agree {folder}/segments.csv --clips {folder}/clips.csv",
    ),
    Step(
        "Make a manifest: the table of clips and labels that all other steps read.",
        "manifest import csv {folder}/labels.csv --mapping {folder}/mapping.toml -o films",
    ),
    Step(
        "Link the clips to their videos, which are found by name.",
        "manifest link films {folder}/videos",
    ),
    Step(
        "Show the clips by level, as a table and as a figure.",
        "manifest stats films --figure {folder}/figures/concepts",
    ),
    Step(
        "Estimate what an extraction writes, how long it takes, and what is missing.",
        "extract plan films {backbones}",
    ),
    Step(
        "Extract. One video is damaged on purpose: it becomes a row with the reason.",
        "extract run films {backbones} --seal",
    ),
    Step(
        "Show how these features were made, and whether any are missing.",
        "store info films.descriptors",
    ),
    Step(
        "The same for the X-CLIP. Its weights are identified by their hashes.",
        "store info films.{card}",
        with_xclip=True,
    ),
    Step(
        "Check every file against its hash.",
        "store verify films.descriptors --hash",
    ),
    Step(
        "Train and test with each film left out once, beside baselines that see no video.",
        "run honest --manifest films {stores} -o honest",
    ),
    Step(
        "Write the report: one page, with tables and figures as files.",
        "report honest",
    ),
)


def steps_of(folder: Path, weights: Path | None) -> Iterator[tuple[str, list[str]]]:
    """Yield the purpose and the words of each command; without `weights`, without the X-CLIP."""
    backbones, stores = "-b descriptors", "--store desc=films.descriptors"
    if weights is not None:
        backbones += f" -b {CARD} --weights {{card}}={{weights}}"
        stores += " --store untrained=films.{card}"
    places = {"folder": folder, "card": CARD, "weights": weights}
    for step in STEPS:
        if weights is None and step.with_xclip:
            continue
        command = step.command.replace("{backbones}", backbones).replace("{stores}", stores)
        yield step.purpose, [word.format(**places) for word in shlex.split(command)]
