"""The functions of `obygaze video` and `og.video`; other modules do the work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from obygaze_features.core.lazy import done_in
from obygaze_features.core.options import Option

if TYPE_CHECKING:
    from obygaze_features.video.files import SavedFrames
    from obygaze_features.video.film import VideoInfo


@done_in("obygaze_features.video.files")
def save_frames(
    file: str | Path,
    *,
    count: Annotated[int, Option(least=1, most=100_000)] = 32,
    start_s: Annotated[float | None, Option("--start", least=0)] = None,
    end_s: Annotated[float | None, Option("--end", least=0)] = None,
    output: Annotated[str | Path, Option("-o --output", is_file=True)],
    force: bool = False,
) -> SavedFrames:
    """Save the pictures a model sees of a file or of a part of it.

    The arrays are frames (uint8, T x h x w x 3), index (the number of each picture in the file),
    time_s, asked_s, substituted (affected by damage) and mask.

    Args:
        file: The video file.
        count: Number of pictures.
        start_s: Where the part begins, in seconds; on the command line also as 0:01:01.5.
        end_s: Where the part ends, in seconds, or as 0:01:15.
        output: An .npz file with arrays, or a .png file with a contact sheet.
        force: Replace the output if it exists.

    Commands:
        obygaze video frames clip.mp4 -o frames.npz
        obygaze video frames film.mkv --start 61.5 --end 75 -o sheet.png
    """


@done_in("obygaze_features.video.files")
def probe_video(file: str | Path) -> VideoInfo:
    """Count the pictures of a file and find damage.

    Every picture is decoded once, so that the count is exact and damage is found.

    Args:
        file: The video file.

    Commands:
        obygaze video probe film.mkv
        obygaze video probe clip.avi --json
    """
