"""`obygaze backbones`: the table of its commands; each is made from a function of this room."""

import os

import click

from obygaze_features.core.function_commands import FunctionGroup

HERE = "obygaze_features.backbones.actions"
COMMANDS = {
    "check": f"{HERE}:check_backbone",
    "fetch": f"{HERE}:fetch_weights",
    "ls": f"{HERE}:list_backbones",
    "show": f"{HERE}:show_backbone",
}


@click.group(cls=FunctionGroup, table=COMMANDS)
@click.pass_context
def backbones(ctx: click.Context) -> None:
    """List and check the models of pictures, sound and words."""
    if ctx.invoked_subcommand == "check":
        # The hub's library reads this once, when it is imported.
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
