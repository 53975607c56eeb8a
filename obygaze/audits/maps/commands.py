"""`obygaze explain`: the table of its commands; each is made from a public function."""

import click

from obygaze_features.core.function_commands import FunctionGroup

_HERE = "obygaze.audits.maps.functions"
COMMANDS = {
    "concepts": f"{_HERE}:write_concept_maps",
    "conditions": f"{_HERE}:compare_conditions",
    "draw": f"{_HERE}:draw_maps",
    "model": f"{_HERE}:write_saliency",
}


@click.group(cls=FunctionGroup, table=COMMANDS)
def explain() -> None:
    """Show where in the picture and when in the clip a model finds a concept or a text."""
