"""`obygaze audit`: the table of its commands; each is made from a function of this package."""

import click

from obygaze_features.core.groups import LazyGroup
from obygaze_features.core.options import PYTHON_ONLY, Command, Option

AUDITS = {
    "eat": Command(
        "obygaze.audits.eat:audit_eat",
        {
            "x": Option(metavar="CLIPS"),
            "y": Option(metavar="CLIPS"),
            "attributes": Option(metavar="A B"),
            "permutations": Option(minimum=1),
        },
        then="obygaze.audits.result:Audit.write",
    ),
    "annotations": Command(
        "obygaze.audits.annotations:audit_annotations",
        {"column": Option(metavar="COLUMN")},
        then="obygaze.audits.result:Audit.write",
    ),
    "levels": Command(
        "obygaze.audits.levels:audit_levels",
        {
            "by": Option(metavar="COLUMN"),
        },
        then="obygaze.audits.result:Audit.write",
    ),
    "share": Command(
        "obygaze.audits.share:audit_share",
        {
            "of": Option(metavar="EXPRESSION"),
            "predictions": Option(metavar="PATH"),
            "by": Option(metavar="COLUMN"),
        },
        then="obygaze.audits.result:Audit.write",
    ),
    "captions": Command(
        "obygaze.audits.captions:audit_captions",
        {
            "text": Option(metavar="COLUMN"),
            "group": Option(metavar="COLUMNS"),
            "cluster": Option(metavar="COLUMNS"),
            "words": PYTHON_ONLY,
            "min_occurrences": Option(minimum=0),
        },
        then="obygaze.audits.result:Audit.write",
    ),
    "cooc": Command(
        "obygaze.audits.cooccurrence:audit_cooc",
        {"cluster": Option(metavar="COLUMNS")},
        then="obygaze.audits.result:Audit.write",
    ),
    "gender-score": Command(
        "obygaze.audits.gender:audit_gender_score",
        then="obygaze.audits.result:Audit.write",
    ),
    "mediaeval": Command(
        "obygaze.audits.mediaeval:audit_mediaeval",
        {
            "runs": Option(exists="file"),
            "qrels": Option(exists="file"),
            "write": Option(metavar="RUN"),
            "affect": Option(metavar="TABLE"),
            "predictions": Option(metavar="PATH"),
        },
        then="obygaze.audits.result:Audit.write",
    ),
}


@click.group(cls=LazyGroup, table=AUDITS)
def audit() -> None:
    """Measure bias, or how often films show something; score predictions for MediaEval."""
