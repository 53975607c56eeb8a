"""Find videos that were replaced after their features were computed."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from obygaze_features.core.console import few
from obygaze_features.core.shell import shell_word
from obygaze_features.manifest.model import Clip, Manifest
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

    Videos are skipped if their file is missing, or if the store recorded no length.

    Args:
        clips: Clips of a manifest.
        folder: The folder of the videos; "" if unknown.
        store: The store.
    """
    with_video = [clip for clip in clips if clip.video and folder]
    rows = store.table.find([clip.clip_id for clip in with_video])
    n_bytes = store.table.numbers("video_bytes", store.table.all_rows())
    lengths_of_video: dict[str, set[int]] = defaultdict(set)
    is_known = (rows >= 0) & store.is_ok(rows) & (n_bytes[rows] >= 0)
    for clip, row, known in zip(with_video, rows, is_known, strict=True):
        if known:
            lengths_of_video[clip.video].add(int(n_bytes[row]))
    replaced = []
    for video, lengths in lengths_of_video.items():
        with suppress(OSError):
            if lengths and lengths != {Path(folder, video).stat().st_size}:
                replaced.append(video)
    return replaced
