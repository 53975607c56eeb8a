"""The clips of a manifest as they are decoded: a video, and times or the number of a window."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from obygaze_features.core.files import file_facts
from obygaze_features.manifest.model import Manifest, Windows, sort_key

# Files are read in parallel, since each may wait for a network drive.
AT_ONCE = 8

# The length and the quick hash of a video; None if it cannot be read.
Facts = Mapping[str, tuple[int, str] | None]


class PlannedClip(NamedTuple):
    """A clip to extract: its video, empty if it has none, and its times in the video.

    A window of a film has its number in place of times.
    """

    clip_id: str
    movie_id: str
    video: str = ""
    start_s: float | None = None
    end_s: float | None = None
    window: int | None = None


def clips_of(manifest: Manifest) -> list[PlannedClip]:
    """Return the clips of a manifest in the order of a store, with the paths of their videos."""
    folder = manifest.header.video_root
    if isinstance(manifest.clips, Windows):
        return _windows_of(manifest.clips, folder)
    clips = []
    for clip in sorted(manifest, key=sort_key):
        video = Path(folder, clip.video).as_posix() if clip.video and folder else ""
        clips.append(
            PlannedClip(clip.clip_id, clip.movie_id, video, clip.start_s, clip.end_s)
        )
    return clips


def _windows_of(windows: Windows, folder: str) -> list[PlannedClip]:
    video_of = {
        film.movie_id: Path(folder, film.video).as_posix() for film in windows.films
    }
    clips = []
    number_of_next: Counter[str] = Counter()
    for clip_id, movie_id in windows.ids():
        number = number_of_next[movie_id]
        number_of_next[movie_id] += 1
        clips.append(PlannedClip(clip_id, movie_id, video_of[movie_id], window=number))
    return clips


def facts_of(videos: Iterable[str]) -> Facts:
    """Return the length and the quick hash of each video, as `file_facts` does."""
    paths = sorted(set(videos) - {""})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(paths, pool.map(file_facts, paths), strict=True))


def films_of_parts(clips: Sequence[PlannedClip]) -> frozenset[str]:
    """Return the videos that hold several clips, whose index is kept in the workspace."""
    parts = Counter(
        clip.video for clip in clips if (clip.start_s, clip.end_s) != (None, None)
    )
    return frozenset(video for video, n_clips in parts.items() if n_clips > 1)
