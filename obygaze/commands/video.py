"""The commands of `obygaze video`."""

import click

from obygaze.commands.shared import FILE, NAME, FiniteFloat, Group, Result, force_option


@click.group(cls=Group)
def video() -> None:
    """Look into a video file."""


@video.command("probe")
@click.argument("file", type=NAME, help="The video file.")
def probe(file: str) -> Result:
    """Describe a video file: its exact number of pictures, its codec, and damage.

    All pictures are decoded once.

    Examples:
        obygaze video probe film.mkv
        obygaze video probe clip.avi --json
    """
    from obygaze_features.video.files import probe_video

    return probe_video(file)


@video.command("frames")
@click.argument("file", type=NAME, help="The video file.")
@click.option(
    "--count",
    default=32,
    metavar="N",
    type=click.IntRange(min=1, max=100_000),
    help="Number of pictures.",
)
@click.option(
    "--start",
    "start_s",
    show_default="the start of the file",
    metavar="SECONDS",
    type=FiniteFloat(min=0),
    help="Start of the part, in seconds.",
)
@click.option(
    "--end",
    "end_s",
    show_default="the end of the file",
    metavar="SECONDS",
    type=FiniteFloat(min=0),
    help="End of the part, in seconds.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=FILE,
    help="A new .npz file with arrays, or a new .png file with a contact sheet.",
)
@force_option
def frames(
    file: str,
    count: int,
    start_s: float | None,
    end_s: float | None,
    output: str,
    force: bool,
) -> Result:
    """Save the pictures that a model would get of a video, or of a part of it.

    The arrays of an .npz file are frames (uint8, T x h x w x 3), index (the frame number of each
    picture in the file), time_s (its time), asked_s (the time that the sampling selected),
    substituted (whether it is affected by damage) and mask (whether it is a real picture).

    Examples:
        obygaze video frames clip.mp4 -o frames.npz
        obygaze video frames film.mkv --start 61.5 --end 75 -o sheet.png
    """
    from obygaze_features.video.files import save_frames

    return save_frames(
        file, count=count, start_s=start_s, end_s=end_s, output=output, force=force
    )
