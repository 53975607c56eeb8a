"""`obygaze models`: the table of its commands; each is made from a function of this room."""

import click

from obygaze_features.core.function_commands import FunctionGroup

_HERE = "obygaze_models.zoo.functions"
COMMANDS = {
    "predict": f"{_HERE}:predict_command",
    "pull": f"{_HERE}:pull_model",
    "push": f"{_HERE}:push_model",
    "show": f"{_HERE}:show_model",
}


@click.group(cls=FunctionGroup, table=COMMANDS)
def models() -> None:
    """Inspect, use and share saved models."""
