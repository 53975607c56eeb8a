"""`obygaze extract`: the table of its commands; each is made from a function of this room."""

import click

from obygaze_features.core.function_commands import FunctionGroup

_HERE = "obygaze_features.extraction.functions"
COMMANDS = {
    "plan": f"{_HERE}:plan_extraction",
    "run": f"{_HERE}:extract",
    "slurm": f"{_HERE}:slurm_command",
    "status": f"{_HERE}:extraction_status",
}


@click.group(cls=FunctionGroup, table=COMMANDS)
def extract() -> None:
    """Extract features from videos, with several backbones in one pass."""
