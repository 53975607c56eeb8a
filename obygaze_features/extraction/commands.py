"""`obygaze extract`: the table of its commands; each is made from a function of this room."""

import click

from obygaze_features.core.function_commands import FunctionGroup

_HERE = "obygaze_features.extraction"
COMMANDS = {
    "plan": (
        f"{_HERE}.planning:plan_extraction",
        "Estimate the cost of a run, and what is missing.",
    ),
    "run": (
        f"{_HERE}.extracting:extract",
        "Extract what is missing; the same command resumes.",
    ),
    "status": (
        f"{_HERE}.extracting:extraction_status",
        "Show the progress of stores.",
    ),
}


@click.group(cls=FunctionGroup, table=COMMANDS)
def extract() -> None:
    """Extract features from videos, with several backbones in one pass."""
