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
        """Return the file and the facts about the clip as JSON values, without the pictures."""
        return {"output": str(self.output), **self.clip.to_json()}

    def __str__(self) -> str:
        return f"{self.output}: {self.clip.as_line()}"


def probe_video(
    file: str | Path,
) -> VideoInfo:
    """Describe a video file: its exact number of pictures, its codec, and damage.

    All pictures are decoded once.

    Args:
        file: The video file.
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
    """Save the pictures that a model would get of a video, or of a part of it.

    The arrays of an .npz file are frames (uint8, T x h x w x 3), index (the frame number of each
    picture in the file), time_s (its time), asked_s (the time that the sampling selected),
    substituted (whether it is affected by damage) and mask (whether it is a real picture).

    Args:
        file: The video file.
        count: Number of pictures.
        start_s: Start of the part, in seconds; by default the start of the file.
        end_s: End of the part, in seconds; by default the end of the file.
        output: A new .npz file with arrays, or a new .png file with a contact sheet.
        force: Replace the output if it exists.
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
