"""`obygaze extract`: from videos to stores, restartable at any instant."""

from __future__ import annotations

import click

from obygaze_features.core.commands import LazyGroup

_HERE = "obygaze_features.extraction"
COMMANDS = {
    "plan": (f"{_HERE}.commands_plan:plan", "Say what a run would make, take and miss."),
    "run": (f"{_HERE}.commands_run:run", "Extract what is missing; the same command resumes."),
    "retry": (f"{_HERE}.commands_run:retry", "Try the clips again that failed or had no video."),
    "text": (f"{_HERE}.commands_text:text", "Embed prompts in the space of a backbone's clips."),
    "captions": (
        f"{_HERE}.commands_text:captions",
        "Fill in how likely captions are, and how close to what is seen.",
    ),
    "slurm": (f"{_HERE}.commands_slurm:slurm", "Write a plan as a Slurm array, and submit it."),
    "status": (f"{_HERE}.commands_status:status", "How far a store is, and what held it up."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def extract() -> None:
    """Extract features from videos, with several backbones in one pass."""
