"""`obygaze audit`: the table of its commands; each is made from a function of this package."""

from collections.abc import Callable

import click

from obygaze.audits.result import Audit, DrawnAudit, ReportedAudit
from obygaze_features.core.function_commands import FunctionGroup, command_of

HERE = "obygaze.audits.functions"
# The audits with a figure, and with a page, too.
KINDS = {"eat": DrawnAudit, "captions": DrawnAudit, "share": ReportedAudit}
AUDITS = {
    "eat": f"{HERE}:audit_eat",
    "annotations": f"{HERE}:audit_annotations",
    "levels": f"{HERE}:audit_levels",
    "reliability": f"{HERE}:audit_reliability",
    "share": f"{HERE}:audit_share",
    "captions": f"{HERE}:audit_captions",
    "cooc": f"{HERE}:audit_cooc",
    "gender-score": "obygaze.audits.gender:audit_gender_score",
    "mediaeval": f"{HERE}:audit_mediaeval",
}


def audit_command(function: Callable[..., Audit], name: str) -> click.Command:
    """Return the command of a function that returns an audit, with the options of its files."""
    kind = KINDS.get(name, Audit)
    return command_of(function, name, then=kind.write)


@click.group(cls=FunctionGroup, table=AUDITS, make=audit_command)
def audit() -> None:
    """Measure bias, or how often films show something; score predictions for MediaEval."""
