"""`obygaze explain`: the table of its commands; each is made from a public function."""

import click

from obygaze_features.core.function_commands import FunctionGroup

_HERE = "obygaze.audits.maps.functions"
COMMANDS = {
    "boxes": (
        f"{_HERE}:audit_boxes",
        "Measure how much of what a model looks at lies in boxes.",
    ),
    "concepts": (
        f"{_HERE}:write_concept_maps",
        "Project concept vectors on the stored tokens of each clip.",
    ),
    "conditions": (
        f"{_HERE}:compare_conditions",
        "Compare the maps of two conditions: mean maps, and what lies in boxes.",
    ),
    "draw": (
        f"{_HERE}:draw_maps",
        "Draw the maps of clips over their exact pictures: a sheet for each clip and direction.",
    ),
    "model": (
        f"{_HERE}:write_saliency",
        "Compute where CLIP or X-CLIP looks for a text: Grad-CAM.",
    ),
}


@click.group(cls=FunctionGroup, table=COMMANDS)
def explain() -> None:
    """Show where in the picture and when in the clip a model finds a concept or a text."""
