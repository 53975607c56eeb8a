"""`obygaze models`: the table of its commands; each is made from a function of this package."""

import click

from obygaze_features.core.groups import LazyGroup
from obygaze_features.core.options import CLIPS, Command, Option

COMMANDS = {
    "predict": Command(
        "obygaze_models.zoo.predicting:predict",
        {
            "clips": CLIPS,
            "output": Option("-o --output", metavar="PATH"),
        },
        then="obygaze_models.zoo.predicting:Predicted.write",
        check="obygaze_features.core.written_tables:check_output",
    ),
    "pull": Command(
        "obygaze_models.zoo.sharing:pull_model",
        {
            "output": Option(
                "-o --output", metavar="NAME", shown_default="the last part of LOCATION"
            ),
        },
    ),
    "push": Command("obygaze_models.zoo.sharing:push_model"),
    "show": Command("obygaze_models.zoo.sharing:show_model"),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def models() -> None:
    """Inspect, use and share saved models."""
