"""`obygaze explain`: the table of its commands; each is made from a public function."""

import click

from obygaze_features.core.groups import LazyGroup
from obygaze_features.core.options import Command, Option

COMMANDS = {
    "concepts": Command(
        "obygaze.audits.maps.concept_maps:write_concept_maps",
        {
            "path": Option("-o --output", metavar="NAME"),
        },
    ),
    "conditions": Command(
        "obygaze.audits.maps.conditions:compare_conditions",
        then="obygaze.audits.result:Audit.write",
    ),
    "model": Command(
        "obygaze.audits.maps.saliency:write_saliency",
        {
            "path": Option("-o --output", metavar="NAME"),
            "weights": Option(metavar="PATH"),
        },
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def explain() -> None:
    """Show where in the picture and when in the clip a model finds a concept or a text."""
