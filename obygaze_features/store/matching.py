"""Which rows of a store the clips of a manifest are, and whether both mean the same clips."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from obygaze_features.manifest.clip_facts import ClipFacts, require_same
from obygaze_features.manifest.model import Clip
from obygaze_features.manifest.spans import FILM_TIMES, FRAMES, RATE_COLUMN
from obygaze_features.store.decoding import Rows
from obygaze_features.store.readable import ReadableStore

EXTRACT_AGAIN = "obygaze extract run MANIFEST -b BACKBONE --store BACKBONE=NAME"
IMPORT_AGAIN = "obygaze store import FILE --manifest MANIFEST -o NAME"


class Matched(NamedTuple):
    """The rows of clips of a manifest.

    Args:
        rows: The row of each clip; -1 for one that the store does not have.
        n_by_ids: How many of them only their ids hold together.
    """

    rows: Rows
    n_by_ids: int


def match(clips: Sequence[Clip], store: ReadableStore) -> Matched:
    """Return which rows of a store the clips of a manifest are.

    A clip whose film or span is another one in the store is an error.
    """
    rows = store.table.find([clip.clip_id for clip in clips])
    known = np.flatnonzero(rows >= 0)
    n_by_ids = require_same(
        ClipFacts.of_clips([clips[place] for place in known.tolist()]),
        facts_of_rows(rows[known], store),
        ("the manifest", "the store"),
        where=store.location,
        hint="the manifest of these clips, or a store of another name with their features:"
        f" {IMPORT_AGAIN if store.recipe.is_unknown else EXTRACT_AGAIN}",
    )
    return Matched(rows, n_by_ids)


def facts_of_rows(rows: Rows, store: ReadableStore) -> ClipFacts:
    """Return what a store states of the clips of some rows."""
    return ClipFacts(
        store.table.clip_ids_of(rows),
        store.table.movie_ids_of(rows),
        store.table.numbers("start_s", rows),
        store.table.numbers("end_s", rows),
        _frames_of(rows, store),
    )


def _frames_of(rows: Rows, store: ReadableStore) -> npt.NDArray[np.float64]:
    """Return the first frame, the last one and the rate of some rows; NaN where unknown."""
    columns = []
    for name in (*FRAMES, RATE_COLUMN):
        values = store.table.numbers(name, rows).astype(np.float64)
        values[values < 0] = np.nan
        columns.append(values)
    return np.stack(columns, axis=1)


def files_of_rows(rows: Rows, store: ReadableStore) -> list[str]:
    """Return the hash of the video of some rows; "" where the store does not know it."""
    return store.table.texts("video_hash", rows)


def replaced_videos(
    clips: Sequence[Clip], folder: str, store: ReadableStore
) -> list[str]:
    """Return the videos whose files have another length than those whose features a store has.

    A file that is not there says nothing, nor does a store that does not know its files. A segment
    of a film has the features of the windows of its film.

    Args:
        clips: Clips of a manifest.
        folder: The folder of their videos; "" if it is not known.
        store: The store.
    """
    with_video = [clip for clip in clips if clip.video and folder]
    rows = store.table.find([clip.clip_id for clip in with_video])
    video_of_row: dict[int, str] = {}
    video_of_film: dict[str, str] = {}
    is_of_windows = bool(store.recipe.windows)
    for clip, row in zip(with_video, rows.tolist(), strict=True):
        if row >= 0:
            video_of_row[row] = clip.video
        elif is_of_windows and _is_in_film(clip, store):
            video_of_film[clip.movie_id] = clip.video
    for film, video in video_of_film.items():
        windows = store.table.rows_of([film]).tolist()
        video_of_row.update(dict.fromkeys(windows, video))
    lengths_of_video: dict[str, set[int]] = {}
    numbers = np.array([*video_of_row], dtype=np.int64)
    for number, row_there in zip(video_of_row, store.table.some(numbers), strict=True):
        if row_there.is_ok and row_there.video_bytes is not None:
            lengths = lengths_of_video.setdefault(video_of_row[number], set())
            lengths.add(row_there.video_bytes)
    replaced = []
    for video, lengths in lengths_of_video.items():
        with suppress(OSError):
            if lengths != {Path(folder, video).stat().st_size}:
                replaced.append(video)
    return replaced


def _is_in_film(clip: Clip, store: ReadableStore) -> bool:
    """Return whether a clip is a part of the video of its film, which a store has."""
    has_own_video = any(clip.extra.get(name) for name in FILM_TIMES)
    is_part = (clip.start_s, clip.end_s) != (None, None)
    is_known = bool(len(store.table.rows_of([clip.movie_id])))
    return is_part and is_known and not has_own_video
