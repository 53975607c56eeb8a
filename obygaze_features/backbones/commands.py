"""The commands of `obygaze backbones`; each is made from a function of this package."""

import click

from obygaze_features.core.groups import LazyGroup
from obygaze_features.core.options import Command, Option

COMMANDS = {
    "check": Command(
        "obygaze_features.backbones.actions:check_backbone",
        {
            "weights": Option("--weights", metavar="PATH", group="Computation"),
        },
    ),
    "fetch": Command("obygaze_features.backbones.actions:fetch_weights"),
    "ls": Command("obygaze_features.backbones.actions:list_backbones"),
    "show": Command("obygaze_features.backbones.actions:show_backbone"),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def backbones() -> None:
    """List, check and download the models of pictures, sound and words."""
