"""Clips: planned from a manifest, and decoded into pictures and sound."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.sound import ClipSound
from obygaze_features.core.files import file_facts
from obygaze_features.manifest.clip_table import ClipTable
from obygaze_features.manifest.model import Manifest, sort_key
from obygaze_features.manifest.spans import FrameSpan, Span, span_in_film, stated_frames
from obygaze_features.store.rows import (
    FAILED,
    HASH_DIGITS,
    NO_VIDEO,
    STATUS_OF_REASON,
    RowStatus,
)
from obygaze_features.video.container import BadVideo
from obygaze_features.video.worker import ClipView

# Files are read in parallel, since each may wait for a network drive.
AT_ONCE = 8

# The length and the quick hash of each video; None if it cannot be read.
Facts = Mapping[str, tuple[int, str] | None]


# --- As planned ---


class PlannedClip(NamedTuple):
    """A clip to extract: the path of its video, "" if it has none, and its times in the video.

    `frames` are the frames of the clip in its film, or None if the table of the clip does not count
    frames. `film_times` are its times in the film, if its table states them.
    """

    clip_id: str
    movie_id: str
    video: str = ""
    start_s: float | None = None
    end_s: float | None = None
    frames: FrameSpan | None = None
    film_times: Span | None = None


def plan_clips(manifest: Manifest) -> list[PlannedClip]:
    """Return the clips of a manifest in the order of the rows of a store, with their videos."""
    folder = manifest.header.video_root
    # Many clips are parts of one video, and the path of a video takes longer than all else.
    videos = {clip.video for clip in manifest}
    path_of = {video: video_path(video, folder) for video in videos}
    clips = []
    for clip in sorted(manifest, key=sort_key):
        planned = PlannedClip(
            clip.clip_id,
            clip.movie_id,
            path_of[clip.video],
            clip.start_s,
            clip.end_s,
            frames=stated_frames(clip.extra),
            film_times=span_in_film(clip),
        )
        clips.append(planned)
    return clips


def plan_table(clips: Sequence[PlannedClip], facts: Facts) -> ClipTable:
    """Return planned clips as a table, with the length and the hash that each video has now."""
    sources = [Source.of(facts.get(clip.video)) for clip in clips]
    in_film = [clip.film_times or (None, None) for clip in clips]
    return ClipTable.of(
        [clip.clip_id for clip in clips],
        [clip.movie_id for clip in clips],
        [clip.start_s for clip in clips],
        [clip.end_s for clip in clips],
        [clip.frames for clip in clips],
        film_start_s=[start_s for start_s, _ in in_film],
        film_end_s=[end_s for _, end_s in in_film],
        video=[clip.video for clip in clips],
        video_bytes=[source.n_bytes for source in sources],
        video_hash=[source.quick_hash for source in sources],
    )


def video_path(video: str, folder: str) -> str:
    """Return the path of a video of a manifest.

    Return "" if the manifest names no video, or no folder of the videos.
    """
    return Path(folder, video).as_posix() if video and folder else ""


def read_video_facts(videos: Iterable[str]) -> Facts:
    """Return the length and the quick hash of each video, as `file_facts` does."""
    paths = sorted(set(videos) - {""})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(paths, pool.map(file_facts, paths), strict=True))


def films_of_parts(clips: Sequence[PlannedClip]) -> frozenset[str]:
    """Return the videos with several clips; the indexes of these are kept in the workspace."""
    parts = Counter(
        clip.video for clip in clips if (clip.start_s, clip.end_s) != (None, None)
    )
    return frozenset(video for video, n_clips in parts.items() if n_clips > 1)


# --- As decoded ---


@dataclass(frozen=True, eq=False)
class ViewedClip:
    """The frames of a clip, as the view of a backbone samples and resizes them.

    Args:
        pictures: The decoded pictures [n, h, w, 3], which other views may use too.
        rows: For each frame of this view, its row in `pictures`.
        mask: Which frames are real. All other frames are padding, and black.
        arrays: The arrays of a store other than features, such as the times of the frames.
        total: The number of pictures of the clip in its video.
        remark: A remark on the frames for readers of the store.
    """

    pictures: npt.NDArray[np.uint8]
    rows: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_]
    arrays: Mapping[str, npt.NDArray[Any]]
    total: int = 0
    remark: str = ""


@dataclass(frozen=True, eq=False)
class HeardClip:
    """The sound of a clip, as the view of a backbone takes it.

    Args:
        heard: The samples.
        arrays: The arrays of a store other than features, such as the times of the parts.
        remark: A remark on the sound for readers of the store.
    """

    heard: ClipSound
    arrays: Mapping[str, npt.NDArray[Any]]
    remark: str = ""
    total: None = None


DecodedView = ViewedClip | HeardClip


def repetition_remark(n_pictures: int, n_frames: int) -> str:
    """Return the remark on a clip with fewer pictures than a view has frames."""
    return f"{n_pictures} frames repeated to {n_frames}"


class Failure(NamedTuple):
    """Why a clip has no features in a view: the status of the row, and the reason.

    If nothing was decoded for the view, the row has no facts of the video. The row is therefore the
    same, whether or not the clip was decoded for other views.
    """

    status: RowStatus
    reason: str
    is_decoded: bool = True

    def __str__(self) -> str:
        return self.reason if self.status == FAILED else f"{self.status}: {self.reason}"

    @classmethod
    def of(cls, error: BadVideo, *, is_decoded: bool = True) -> Self:
        """Return the failure of a clip for an error of its video."""
        status = STATUS_OF_REASON.get(error.reason)
        if status is None:
            return cls(FAILED, f"{error.reason}: {error.message}", is_decoded)
        return cls(status, error.message, is_decoded)


NO_VIDEO_NAMED = Failure(NO_VIDEO, "the manifest names no video", is_decoded=False)


class Source(NamedTuple):
    """The length and the quick hash of the video that was read; unknown if none was read."""

    n_bytes: int | None = None
    quick_hash: str = ""

    @classmethod
    def of(cls, facts: tuple[int, str] | None) -> Self:
        """Return the facts of a file as a store has them: only the first 16 digits of the hash."""
        if facts is None:
            return cls()
        n_bytes, quick_hash = facts
        return cls(n_bytes, quick_hash[:HASH_DIGITS])

    @property
    def is_known(self) -> bool:
        """Whether the video was read."""
        return self.n_bytes is not None


@dataclass(frozen=True)
class Decoded:
    """A decoded row: the facts of the video that was read, and the clip in each view."""

    row: int
    source: Source
    views: Mapping[ClipView, DecodedView | Failure] = field(repr=False)

    @property
    def reasons(self) -> list[str]:
        """The reasons of the views that failed."""
        views = self.views.values()
        return [str(view) for view in views if isinstance(view, Failure)]


class RowJob(NamedTuple):
    """A row to decode, and the views in which the backbones of its stores need its clip."""

    row: int
    views: tuple[ClipView, ...]
