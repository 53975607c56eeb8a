"""`obygaze audit`: the table of its commands; each is made from a function of this package."""

from collections.abc import Callable

import click

from obygaze.audits.result import Audit, DrawnAudit, ReportedAudit
from obygaze_features.core.function_commands import FunctionGroup, command_of

HERE = "obygaze.audits.functions"
# The audits with a figure, and with a page, too.
KINDS = {"eat": DrawnAudit, "captions": DrawnAudit, "share": ReportedAudit}
AUDITS = {
    "eat": (
        f"{HERE}:audit_eat",
        "Test whether one group of clips is closer to some words than another group.",
    ),
    "annotations": (
        f"{HERE}:audit_annotations",
        "Test which values of a column go with a level, such as emotions or concepts.",
    ),
    "levels": (
        f"{HERE}:audit_levels",
        "Test whether clips of a higher level have more concepts, for each annotator.",
    ),
    "reliability": (
        f"{HERE}:audit_reliability",
        "Measure the agreement of annotators, or of prompts: Krippendorff's and Cronbach's alpha.",
    ),
    "share": (
        f"{HERE}:audit_share",
        "Estimate in how many clips of films something is, from clips drawn by plan and marked.",
    ),
    "captions": (
        f"{HERE}:audit_captions",
        "Count how often captions use the words of a list, by group.",
    ),
    "cooc": (
        f"{HERE}:audit_cooc",
        "Count which things are named together with words of which gender.",
    ),
    "gender-score": (
        f"{HERE}:audit_gender_score",
        "Score how strongly each caption of a table leans to a gender.",
    ),
    "mediaeval": (
        f"{HERE}:audit_mediaeval",
        "Score predictions for MediaEval 2015, a contest on violence and emotion in films.",
    ),
}


def audit_command(function: Callable[..., Audit], name: str) -> click.Command:
    """Return the command of a function that returns an audit, with the options of its files."""
    kind = KINDS.get(name, Audit)
    return command_of(function, name, then=kind.write)


@click.group(cls=FunctionGroup, table=AUDITS, make=audit_command)
def audit() -> None:
    """Measure bias, or how often films show something; score predictions for MediaEval."""
