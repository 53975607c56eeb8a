"""`obygaze video`: the table of its commands; each is made from a function of this room."""

import click

from obygaze_features.core.function_commands import FunctionGroup

COMMANDS = {
    "frames": "obygaze_features.video.functions:save_frames",
    "probe": "obygaze_features.video.functions:probe_video",
}


@click.group(cls=FunctionGroup, table=COMMANDS)
def video() -> None:
    """Describe video files, and save the pictures that a model sees of them."""
