"""The commands of `obygaze video`; each command is made from a function of this package."""

import click

from obygaze_features.core.groups import LazyGroup
from obygaze_features.core.options import Command, Option

COMMANDS = {
    "frames": Command(
        "obygaze_features.video.files:save_frames",
        {
            "count": Option(minimum=1, maximum=100_000),
            "start_s": Option("--start", minimum=0),
            "end_s": Option("--end", minimum=0),
            "output": Option("-o --output", is_file=True),
        },
    ),
    "probe": Command("obygaze_features.video.files:probe_video"),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def video() -> None:
    """Describe video files, and save the pictures that a model would get."""
