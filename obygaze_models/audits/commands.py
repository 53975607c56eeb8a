"""`obygaze audit`: small exact instruments on what a store or a table already holds."""

from __future__ import annotations

import click

from obygaze_features.core.commands import LazyGroup

_HERE = "obygaze_models.audits"
COMMANDS = {
    "eat": (
        f"{_HERE}.commands_eat:eat",
        "Test whether one group of clips leans more to some words than another does.",
    ),
    "captions": (
        f"{_HERE}.commands_captions:captions",
        "Count how often captions use the words of a list, by group.",
    ),
    "cooc": (
        f"{_HERE}.commands_cooc:cooc",
        "Count which things keep company with words of which gender.",
    ),
    "gender-score": (
        f"{_HERE}.commands_gender_score:gender_score",
        "Score how strongly captions lean to a gender.",
    ),
    "mediaeval": (
        f"{_HERE}.commands_mediaeval:mediaeval",
        "Score runs of MediaEval 2015, and check them against the rules of the task.",
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def audit() -> None:
    """Small exact instruments on what a store or a table already holds."""
