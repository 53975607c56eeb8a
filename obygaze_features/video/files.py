"""Describe a video file, and save the pictures that a model would see."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import write_new
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import (
    DecodedClip,
    PictureView,
    contact_sheet,
)
from obygaze_features.video.film import VideoInfo, probe


@dataclass(frozen=True)
class SavedFrames:
    """The pictures that were saved, and their file."""

    output: Path
    clip: DecodedClip

    def to_json(self) -> dict[str, Any]:
        """Return the file and the facts for programs, without the pictures."""
        return {"output": str(self.output), **self.clip.to_json()}

    def __str__(self) -> str:
        return f"{self.output}: {self.clip.as_line()}"


def probe_video(
    file: str | Path,
) -> VideoInfo:
    """Count the pictures of a file and find damage.

    Every picture is decoded once, so that the count is exact and damage is found.

    Args:
        file: The video file.

    Commands:
        obygaze video probe film.mkv
        obygaze video probe clip.avi --json
    """
    return probe(file, decode=True)


def save_frames(
    file: str | Path,
    *,
    count: int = 32,
    start_s: float | None = None,
    end_s: float | None = None,
    output: str | Path,
    force: bool = False,
) -> SavedFrames:
    """Save the pictures a model sees of a file or of a part of it.

    The arrays are frames (uint8, T x h x w x 3), index (the number of each picture in the file),
    time_s, asked_s, substituted (affected by damage) and mask.

    Args:
        file: The video file.
        count: Number of pictures.
        start_s: Start time, in seconds; on the command line also as 0:01:01.5.
        end_s: End time, in seconds, or as 0:01:15.
        output: An .npz file with arrays, or a .png file with a contact sheet.
        force: Replace the output if it exists.

    Commands:
        obygaze video frames clip.mp4 -o frames.npz
        obygaze video frames film.mkv --start 61.5 --end 75 -o sheet.png
    """
    suffix = Path(output).suffix.lower()
    if suffix not in (".npz", ".png"):
        raise FixUsage("the output must end in .npz or .png", where=str(output))
    clip = decode_clip(
        file, PictureView(count), start_s=start_s, end_s=end_s, accept_damaged=True
    )
    if suffix == ".png":
        content = contact_sheet(clip)
    else:
        names = ("index", "time_s", "asked_s", "substituted", "mask")
        arrays = {name: getattr(clip, name) for name in names}
        data = io.BytesIO()
        np.savez(data, frames=clip.pictures, **arrays)
        content = data.getvalue()
    write_new(Path(output), content, force=force)
    return SavedFrames(Path(output), clip)
