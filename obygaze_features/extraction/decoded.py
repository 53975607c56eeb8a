"""What decoding gives for a row: the pictures that each view sees, or why there are none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from obygaze_features.store.rows import NO_VIDEO
from obygaze_features.video.decoded_clip import View


@dataclass(frozen=True, eq=False)
class Clip:
    """The pictures of one view of a clip.

    Args:
        pictures: The pictures [n, h, w, 3] that this view may share with others.
        rows: For each frame of this view, its row in `pictures`.
        mask: Which frames are real; the others do not exist, and are black.
        time_s: When each frame is shown; NaN where there is none.
        asked_s: When the frame that was asked for is shown.
        total: How many pictures of the video the clip has.
        remark: What a reader of the store should know of the frames.
        is_clean: Whether no picture of the clip is damaged or missing.
        span_s: The start and the end of a window in its film.
    """

    pictures: npt.NDArray[np.uint8]
    rows: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_]
    time_s: npt.NDArray[np.float64]
    asked_s: npt.NDArray[np.float64]
    total: int = 0
    remark: str = ""
    is_clean: bool = True
    span_s: tuple[float, float] | None = None

    def frames(self) -> npt.NDArray[np.uint8]:
        """Return the frames of this view: a new array, unless they are the pictures in order."""
        in_order = np.arange(len(self.pictures))
        if self.mask.all() and np.array_equal(self.rows, in_order):
            return self.pictures
        frames = self.pictures[self.rows]
        frames[~self.mask] = 0
        return frames


def repeated(n_pictures: int, n_frames: int) -> str:
    """Return the remark on a clip with fewer pictures than a view has frames."""
    return f"{n_pictures} frames repeated to {n_frames}"


class Failure(NamedTuple):
    """Why there are no pictures: the status of the row, and one sentence."""

    status: str
    reason: str


NO_VIDEO_NAMED = Failure(NO_VIDEO, "the manifest names no video")


class Source(NamedTuple):
    """The video that was read: its length and its quick hash; unknown where it was not read."""

    n_bytes: int | None = None
    quick_hash: str = ""


@dataclass(frozen=True)
class Decoded:
    """A row: the video that was read, the seconds it took, and what each view sees of the clip."""

    row: int
    source: Source
    seconds: float
    views: Mapping[View, Clip | Failure] = field(repr=False)

    @property
    def has_failed(self) -> bool:
        """Whether a view has no pictures."""
        return any(isinstance(view, Failure) for view in self.views.values())


class RowJob(NamedTuple):
    """A row to decode, and what its stores need of it."""

    row: int
    views: tuple[View, ...]
