"""`obygaze backbones`: the table of its commands; each is made from a function of this room."""

import os

import click

from obygaze_features.core.function_commands import FunctionGroup

HERE = "obygaze_features.backbones.actions"
COMMANDS = {
    "check": (
        f"{HERE}:check_backbone",
        "Check the weights and the outputs of a backbone.",
    ),
    "fetch": (
        f"{HERE}:fetch_weights",
        "Download the weights of backbones, for nodes without a network.",
    ),
    "ls": (
        f"{HERE}:list_backbones",
        "List the backbones, their frames, arrays and cost.",
    ),
    "show": (f"{HERE}:show_backbone", "Show all settings of a card."),
}


@click.group(cls=FunctionGroup, table=COMMANDS)
@click.pass_context
def backbones(ctx: click.Context) -> None:
    """List and check the models of pictures, sound and words."""
    if ctx.invoked_subcommand == "check":
        # The hub's library reads this once, when it is imported.
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
