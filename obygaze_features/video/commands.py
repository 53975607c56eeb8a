"""`obygaze video`: describe a video file, and save the pictures a model sees of it."""

from pathlib import Path
from typing import get_args

import click

from obygaze_features.core.commands import FiniteRange, LazyGroup, Session, force_option
from obygaze_features.core.machine import usable_cores
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import MAX_SUBSTITUTED, View, save_clip
from obygaze_features.video.film import probe
from obygaze_features.video.index import Sampling
from obygaze_features.video.resize import Resize


@click.group(cls=LazyGroup)
def video() -> None:
    """Describe video files, and save the pictures that a model sees of them."""


@video.command("probe")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--quick",
    is_flag=True,
    help="Read packets only; damage inside pictures is not found.",
)
def probe_(session: Session, file: Path, quick: bool) -> None:
    """Count the pictures of a file and find damage.

    Every picture is decoded once, on all cores, so that the count is exact and damage is found.

    Examples:
        obygaze video probe film.mkv
        obygaze video probe clip.avi --json
        obygaze video probe film.mkv --quick
    """
    info = probe(file, decode=not quick, threads=usable_cores())
    session.console.show(info.to_json(), info.to_text())


@video.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--count", type=click.IntRange(1, 100_000), default=32, help="Number of pictures."
)
@click.option(
    "--start", "start_s", type=FiniteRange(0), help="Where the part begins, in seconds."
)
@click.option(
    "--end", "end_s", type=FiniteRange(0), help="Where the part ends, in seconds."
)
@click.option(
    "--size", type=click.IntRange(1), help="Length of the shorter edge, in pixels."
)
@click.option(
    "--sampling",
    type=click.Choice(get_args(Sampling)),
    default="even",
    help="The rule that chooses the pictures.",
)
@click.option(
    "--max-substituted",
    type=FiniteRange(0, 1),
    default=MAX_SUBSTITUTED,
    help="Largest share of pictures that may be damaged.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="An .npz file with arrays, or a .png file with a contact sheet.",
)
@force_option
def frames(
    session: Session,
    file: Path,
    count: int,
    start_s: float | None,
    end_s: float | None,
    size: int | None,
    sampling: Sampling,
    max_substituted: float,
    output: Path,
    force: bool,
) -> None:
    """Save the pictures a model sees of a file or of a part of it.

    The arrays are frames (uint8, T x h x w x 3), index (the number of each picture in the file),
    time_s, asked_s, substituted (affected by damage) and mask.

    Examples:
        obygaze video frames clip.mp4 -o frames.npz
        obygaze video frames film.mkv --start 61.5 --end 75 --size 224 -o sheet.png
        obygaze video frames clip.mp4 --count 8 --sampling keyframes -o frames.npz
    """
    view = View(count, sampling, Resize(size) if size else None)
    clip = decode_clip(
        file, view, start_s=start_s, end_s=end_s, max_substituted=max_substituted
    )
    save_clip(clip, output, force=force)
    session.console.show(
        {"output": str(output), **clip.to_json()}, f"{output}: {clip.as_line()}"
    )
