"""Write the pictures of a clip to a file: arrays for programs, a contact sheet for eyes."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import write_new
from obygaze_features.video.decode import Clip
from obygaze_features.video.sheet import contact_sheet


def save_clip(clip: Clip, path: Path, *, force: bool = False) -> None:
    """Write a clip as .npz or as .png, whole or not at all."""
    makers = {".npz": clip_npz, ".png": contact_sheet}
    if path.suffix.lower() not in makers:
        raise FixUsage("the output must end in .npz or .png", where=str(path))
    write_new(path, makers[path.suffix.lower()](clip), force=force)


def clip_npz(clip: Clip) -> bytes:
    """The arrays of a clip as an .npz file."""
    data = io.BytesIO()
    np.savez(
        data,
        frames=clip.frames,
        index=clip.index,
        time_s=clip.time_s,
        asked_s=clip.asked_s,
        substituted=clip.substituted,
        mask=clip.mask,
    )
    return data.getvalue()
