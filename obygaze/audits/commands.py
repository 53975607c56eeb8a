"""`obygaze audit`: the table of its commands; each is made from a function of this package."""

import click

from obygaze_features.core.commands import LazyGroup

HERE = "obygaze.audits"
AUDITS = {
    "eat": (
        f"{HERE}.eat:command",
        "Test whether one group of clips is closer to some words than another group.",
    ),
    "annotations": (
        f"{HERE}.annotations:command",
        "Test which values of a column go with a level, such as emotions or concepts.",
    ),
    "levels": (
        f"{HERE}.levels:command",
        "Test whether clips of a higher level have more concepts, for each annotator.",
    ),
    "reliability": (
        f"{HERE}.reliability:command",
        "Measure whether several raters or prompts measure one thing: Cronbach's alpha.",
    ),
    "captions": (
        f"{HERE}.captions:command",
        "Count how often captions use the words of a list, by group.",
    ),
    "cooc": (
        f"{HERE}.cooccurrence:command",
        "Count which things are named together with words of which gender.",
    ),
    "gender-score": (
        f"{HERE}.gender:command",
        "Score how strongly each caption of a table leans to a gender.",
    ),
    "mediaeval": (
        f"{HERE}.mediaeval:command",
        "Score predictions for MediaEval 2015, a contest on violence and emotion in films.",
    ),
}


@click.group(cls=LazyGroup, table=AUDITS)
def audit() -> None:
    """Measure bias in vectors and texts, or score predictions of the contest MediaEval."""
