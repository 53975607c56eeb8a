"""Find videos that were replaced after their features were computed."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from obygaze_features.core.console import few
from obygaze_features.core.shell import shell_word
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.manifest.spans import FILM_TIMES
from obygaze_features.store.reading import Store


def replaced_videos_text(
    clips: Sequence[Clip], manifest: Manifest, stores: Sequence[Store]
) -> str:
    """Return a sentence on the replaced videos of some clips of a manifest, or "" without any."""
    videos: dict[str, None] = {}
    for store in stores:
        replaced = find_replaced_videos(clips, manifest.header.video_root, store)
        videos |= dict.fromkeys(replaced)
    if not videos:
        return ""
    return (
        "the files of these videos were replaced after their features were extracted:"
        f" {few([*videos])}; obygaze extract plan {shell_word(manifest.name)} -b BACKBONE shows"
        " what to do"
    )


def find_replaced_videos(clips: Sequence[Clip], folder: str, store: Store) -> list[str]:
    """Return the videos whose file does not have the length that the store recorded.

    Videos are skipped if their file is missing, or if the store recorded no length. For a segment
    of a film, the lengths that the store recorded for the windows of this film are compared.

    Args:
        clips: Clips of a manifest.
        folder: The folder of the videos; "" if unknown.
        store: The store.
    """
    with_video = [clip for clip in clips if clip.video and folder]
    rows = store.table.find([clip.clip_id for clip in with_video])
    n_bytes = store.table.numbers("video_bytes", store.table.all_rows())
    lengths_of_video: dict[str, set[int]] = defaultdict(set)
    for clip, row in zip(with_video, rows.tolist(), strict=True):
        of_clip = np.array([row] if row >= 0 else _find_windows(clip, store), np.int64)
        known = of_clip[store.is_ok(of_clip) & (n_bytes[of_clip] >= 0)]
        lengths_of_video[clip.video].update(n_bytes[known].tolist())
    replaced = []
    for video, lengths in lengths_of_video.items():
        with suppress(OSError):
            if lengths and lengths != {Path(folder, video).stat().st_size}:
                replaced.append(video)
    return replaced


def _find_windows(clip: Clip, store: Store) -> list[int]:
    """Return the rows of the windows of the film of a segment.

    Return an empty list if the clip is no segment, or if the store has no windows.
    """
    has_own_video = any(clip.extra.get(name) for name in FILM_TIMES)
    is_part = (clip.start_s, clip.end_s) != (None, None)
    if not store.recipe.windows or has_own_video or not is_part:
        return []
    windows: list[int] = store.table.rows_of([clip.movie_id]).tolist()
    return windows
