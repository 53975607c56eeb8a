"""`obygaze explain`: the table of its commands; each is made from a public function."""

from collections.abc import Callable
from typing import Any

import click

from obygaze.audits.result import Audit
from obygaze_features.core.function_commands import FunctionGroup, command_of

_HERE = "obygaze.audits.maps.functions"
COMMANDS = {
    "concepts": f"{_HERE}:write_concept_maps",
    "conditions": f"{_HERE}:compare_conditions",
    "draw": f"{_HERE}:draw_maps",
    "model": f"{_HERE}:write_saliency",
}


def explain_command(function: Callable[..., Any], name: str) -> click.Command:
    """Return the command of a function, with the options of the files of an audit."""
    return command_of(
        function, name, then=Audit.write if name == "conditions" else None
    )


@click.group(cls=FunctionGroup, table=COMMANDS, make=explain_command)
def explain() -> None:
    """Show where in the picture and when in the clip a model finds a concept or a text."""
