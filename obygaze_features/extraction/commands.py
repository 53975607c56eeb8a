"""`obygaze extract`: the table of its commands; each is made from a function of this room."""

import click

from obygaze_features.core.function_commands import FunctionGroup

_HERE = "obygaze_features.extraction"
COMMANDS = {
    "plan": (
        f"{_HERE}.costs:plan_extraction",
        "Count what is missing, and measure one clip.",
    ),
    "run": (
        f"{_HERE}.extracting:extract",
        "Extract what is missing; the same command resumes.",
    ),
    "slurm": (
        f"{_HERE}.slurm:command",
        "Write a Slurm script whose tasks share a run.",
    ),
    "status": (
        f"{_HERE}.stored:extraction_status",
        "Show the progress of stores.",
    ),
}


@click.group(cls=FunctionGroup, table=COMMANDS)
def extract() -> None:
    """Extract features from videos, with several backbones in one pass."""
