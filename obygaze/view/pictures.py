"""Pictures of videos for the page, and the times of all their pictures."""

from __future__ import annotations

import io
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from obygaze_features.video import DecodedClip, View, decode_clip
from obygaze_features.video.film import film_index
from obygaze_features.video.resize import Resize
from obygaze_features.video.saving import contact_sheet

THUMBNAIL = View(2, "even", Resize(108))  # the second of two is in the middle
SHEET = View(12, "even", Resize(144))
STILL = View(1, "even", Resize(480))
# The decoders of all threads share one cache of films.
_LOCK = Lock()


@lru_cache(maxsize=256)
def picture_times(path: Path, indexes: Path) -> NDArray[np.float64]:
    """Return the times of a video in seconds.

    The first is that of the file at which the others are 0: browsers count from the beginning of
    time. Then come the times at which each picture is shown, and the end of the last one.
    """
    with _LOCK:
        index = film_index(path, indexes)[0]
    times: NDArray[np.float64] = index.times_s
    return np.concatenate([[max(index.origin_s, 0.0)], times, [times[-1] + index.last_s]])


@lru_cache(maxsize=1024)
def thumbnail(path: Path, indexes: Path, start_s: float | None, end_s: float | None) -> bytes:
    """Return the middle picture of a clip as a small JPEG."""
    return _jpeg(_decoded(path, indexes, THUMBNAIL, start_s=start_s, end_s=end_s).frames[1])


@lru_cache(maxsize=64)
def sheet(path: Path, indexes: Path, start_s: float | None, end_s: float | None) -> bytes:
    """Return pictures of a clip, evenly spread and with their times, as a PNG."""
    return contact_sheet(_decoded(path, indexes, SHEET, start_s=start_s, end_s=end_s))


@lru_cache(maxsize=128)
def still(path: Path, indexes: Path, number: int) -> bytes:
    """Return a picture of a video by its number, as a JPEG."""
    return _jpeg(_decoded(path, indexes, STILL, ranks=[number]).frames[0])


def _decoded(path: Path, indexes: Path, view: View, **part: Any) -> DecodedClip:
    with _LOCK:
        return decode_clip(path, view, **part, max_substituted=1, indexes=indexes)


def _jpeg(picture: NDArray[np.uint8]) -> bytes:
    data = io.BytesIO()
    Image.fromarray(picture).save(data, "JPEG", quality=85)
    return data.getvalue()
