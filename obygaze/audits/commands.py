"""`obygaze audit`: the table of its commands; each is made from a function of this package."""

from functools import partial

import click

from obygaze.audits.result import Audit
from obygaze_features.core.function_commands import FunctionGroup, command_of

HERE = "obygaze.audits.functions"
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


@click.group(
    cls=FunctionGroup, table=AUDITS, make=partial(command_of, then=Audit.write)
)
def audit() -> None:
    """Measure bias, or how often films show something; score predictions for MediaEval."""
