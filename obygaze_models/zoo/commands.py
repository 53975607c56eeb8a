"""`obygaze models`: the table of its commands; each is made from a function of this room."""

import click

from obygaze_features.core.function_commands import FunctionGroup

_HERE = "obygaze_models.zoo.functions"
COMMANDS = {
    "ls": (f"{_HERE}:list_models", "List the models of the workspace."),
    "predict": (
        f"{_HERE}:predict_command",
        "Predict the clips of a store, or of new films, with a model.",
    ),
    "pull": (
        f"{_HERE}:pull_model",
        "Copy a model into the workspace and check it.",
    ),
    "push": (
        f"{_HERE}:push_model",
        "Copy a model to a folder, a bucket or the hub.",
    ),
    "show": (
        f"{_HERE}:show_model",
        "Show the card of a model: its facts and its metrics.",
    ),
}


@click.group(cls=FunctionGroup, table=COMMANDS)
def models() -> None:
    """Inspect, use and share saved models."""
