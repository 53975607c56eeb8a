"""`obygaze extract`: the table of its commands; each is made from a function of this room."""

import click

from obygaze_features.core.function_commands import FunctionGroup

_HERE = "obygaze_features.extraction.functions"
COMMANDS = {
    "plan": (
        f"{_HERE}:plan_extraction",
        "Count what is missing, and measure one clip.",
    ),
    "run": (
        f"{_HERE}:extract",
        "Extract what is missing; the same command resumes.",
    ),
    "slurm": (
        f"{_HERE}:slurm_command",
        "Write a Slurm script whose tasks share a run.",
    ),
    "status": (
        f"{_HERE}:extraction_status",
        "Show the progress of stores.",
    ),
}


@click.group(cls=FunctionGroup, table=COMMANDS)
def extract() -> None:
    """Extract features from videos, with several backbones in one pass."""
