"""Describe a video file, and save the pictures that a model sees of it."""

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


def probe_video(file: str | Path) -> VideoInfo:
    """Count the pictures of a file and find damage."""
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
    """Save the pictures a model sees of a file or of a part of it."""
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
