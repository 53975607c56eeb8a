"""Find videos that were replaced after their features were computed."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from obygaze_features.core.console import few
from obygaze_features.core.files import file_facts
from obygaze_features.core.shell import shell_word
from obygaze_features.manifest.clip_table import FILE_TIMES, ClipTable
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.manifest.same_clips import VIDEO, same_clips
from obygaze_features.store.decoding import Rows
from obygaze_features.store.reading import Store
from obygaze_features.store.rows import HASH_DIGITS


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
    """Return the videos whose file is not the one that was read for the store.

    The hashes of the files are compared, or only their lengths if the store has no hash. A file
    that is missing is skipped.

    Args:
        clips: Clips of a manifest.
        folder: The folder of the videos; "" if unknown.
        store: The store.
    """
    with_video = [clip for clip in clips if clip.video and folder]
    rows = store.table.find([clip.clip_id for clip in with_video])
    # Nothing was read for a row without features.
    rows = np.where((rows >= 0) & store.is_ok(rows), rows, -1)
    videos = [clip.video for clip in with_video]
    facts_of_video = {
        video: file_facts(Path(folder, video)) for video in dict.fromkeys(videos)
    }
    facts = [facts_of_video[video] or (None, "") for video in videos]
    now = ClipTable.of_clips(with_video).with_columns(
        video_bytes=[n_bytes for n_bytes, _ in facts],
        video_hash=[quick_hash[:HASH_DIGITS] for _, quick_hash in facts],
    )
    found = same_clips(now, store.facts_of(rows.clip(min=0), videos=True), _own(rows))
    replaced = np.flatnonzero(found.differs & VIDEO).tolist()
    return [*dict.fromkeys(videos[place] for place in replaced)]


def _own(rows: Rows) -> Rows:
    """Return the place of each row in a table of these rows; -1 for -1."""
    return np.where(rows >= 0, np.arange(len(rows)), -1)


def films_of_two_files(stores: Sequence[Store]) -> str:
    """Return a sentence on the films of which stores read different files, or "" without any.

    A film is one file if its clips are parts of the file, and not files of their own.
    """
    files_of_film: dict[str, set[str]] = {}
    for store in stores:
        clips = store.facts_of(store.table.all_rows(), videos=True)
        start_s, end_s = (clips.column(name) for name in FILE_TIMES)
        is_part = ~(np.isnan(start_s) & np.isnan(end_s)) & ~clips.have_film_times
        films = clips.movie_ids[is_part].tolist()
        hashes = clips.column("video_hash")[is_part].tolist()
        for film, video_hash in set(zip(films, hashes, strict=True)):
            if film and video_hash:
                files_of_film.setdefault(film, set()).add(video_hash)
    several = [film for film, hashes in files_of_film.items() if len(hashes) > 1]
    if not several:
        return ""
    return f"the clips of these films were read from different files: {few(several)}"
