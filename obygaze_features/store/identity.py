"""What a row of a store says about its clip, and which row a clip of a manifest has."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, ObygazeError
from obygaze_features.manifest.model import Clip
from obygaze_features.manifest.same_clip import (
    UNKNOWN,
    Identity,
    compare_clips,
    known_film,
)
from obygaze_features.manifest.times import times_of_films
from obygaze_features.store.decoding import MOVIE_ID, OK_CODE, VIDEO_HASH, Rows
from obygaze_features.store.layout import TIMES_OF_WINDOWS
from obygaze_features.store.records import ManifestMark
from obygaze_features.store.rows import Row
from obygaze_features.store.table import RowTable

if TYPE_CHECKING:
    from obygaze_features.store.reading import Store

SHOWN_CLIPS = 20
EXTRACT_AGAIN = "obygaze extract run MANIFEST -b BACKBONE --store BACKBONE=NAME"
IMPORT_AGAIN = "obygaze store import FORMAT FILE --manifest MANIFEST -o NAME"


class OfManifest(Protocol):
    """What says whose clips its rows are: the record of a store, or a plan."""

    @property
    def manifest(self) -> ManifestMark:
        """The manifest."""


def identity_of(row: Row, source: OfManifest | None = None) -> Identity:
    """Return what a row says about its clip, for `compare_clips`.

    Nobody says whether the times of a row are those in the film or in a file.

    Args:
        row: The row.
        source: Of what it is a row. If this was imported without a manifest, the film may only be a
            guess from the id; then it is not known.
    """
    film = known_film(row.movie_id)
    times = (row.start_s, row.end_s)
    return Identity(
        clip_id=row.clip_id,
        movie_id=film,
        in_either=None if times == (None, None) else times,
        video=row.video_hash,
    )


def identities_of(ids: Sequence[str], store: "Store") -> list[Identity]:
    """Return what a store says about the clips of some ids: the id alone where it has no row."""
    rows = store.table.find(ids)
    known = np.flatnonzero(rows >= 0)
    identities = [Identity(clip_id) for clip_id in ids]
    of_rows = identities_of_rows(rows[known], store)
    for place, identity in zip(known.tolist(), of_rows, strict=True):
        identities[place] = identity
    return identities


def identities_of_rows(rows: Rows, store: "Store") -> list[Identity]:
    """Return what a store says about the clips of some rows; windows have times in its arrays."""
    identities = [identity_of(row, store.record) for row in store.table.some(rows)]
    if not has_times_of_windows(store):
        return identities
    has_times = np.flatnonzero(store.table.codes_of(rows) == OK_CODE)
    start_s, end_s = (store.read(name, rows[has_times]) for name in TIMES_OF_WINDOWS)
    for place, *times in zip(
        has_times.tolist(), start_s.tolist(), end_s.tolist(), strict=True
    ):
        identities[place] = identities[place]._replace(in_either=(times[0], times[1]))
    return identities


def has_times_of_windows(store: "Store") -> bool:
    """Return whether a store has start and end of each row as arrays, as of windows."""
    arrays = [store.record.array(name) for name in TIMES_OF_WINDOWS]
    # A stranger's arrays of these names may be anything.
    return all(array is not None and not array.shape for array in arrays)


def videos_of_films(films: Iterable[str], store: "Store") -> dict[str, set[str]]:
    """Return the hashes of the videos of each film, as far as a store knows them."""
    table = store.table
    known_films = table.films.runs_of_film.keys() & set(films)
    columns = table.columns(table.films.rows_of(known_films))
    videos: dict[str, set[str]] = {}
    for film, video in zip(columns[MOVIE_ID], columns[VIDEO_HASH], strict=True):
        if video:
            videos.setdefault(film, set()).add(video)
    return videos


class Matched(NamedTuple):
    """The rows of clips of a manifest.

    Args:
        rows: The row of each clip; -1 for one that the store does not have.
        n_by_ids: How many of them are known by their ids alone.
    """

    rows: Rows
    n_by_ids: int


def match(clips: Sequence[Clip], store: "Store") -> Matched:
    """Return which rows of a store the clips of a manifest are.

    A clip that has the id of another clip in the store is an error: their films or times differ.
    """
    rows = store.table.find([clip.clip_id for clip in clips])
    known = np.flatnonzero(rows >= 0)
    n_by_ids = 0
    contradictions = {}
    of_rows = identities_of_rows(rows[known], store)
    for place, there in zip(known.tolist(), of_rows, strict=True):
        compared = compare_clips(Identity.of_clip(clips[place]), there)
        if compared.contradiction:
            contradictions[there.clip_id] = compared.contradiction
        n_by_ids += compared.sameness is UNKNOWN
    if contradictions:
        again = EXTRACT_AGAIN
        if store.recipe.is_unknown:
            again = IMPORT_AGAIN
        raise another_clip(contradictions, "store", store.location, again)
    return Matched(rows, n_by_ids)


def _identities_in_store(clips: Sequence[Clip], store: "Store") -> list[Identity]:
    """Return what a store says about clips of a manifest; an error where it has others."""
    match(clips, store)
    return identities_of([clip.clip_id for clip in clips], store)


def videos_of_clips(clips: Sequence[Clip], store: "Store") -> list[str]:
    """Return the hash of the video of each clip; "" where a store does not know it.

    That of a segment, which has no row, is that of the windows of its film.
    """
    videos_of_film = videos_of_films([clip.movie_id for clip in clips], store)
    in_store = _identities_in_store(clips, store)
    videos = []
    for clip, identity in zip(clips, in_store, strict=True):
        of_film = videos_of_film.get(clip.movie_id, set())
        is_one_file = len(of_film) == 1
        videos.append(next(iter(of_film)) if is_one_file else identity.video)
    return videos


def of_clips_in_store(
    clips: Sequence[Clip], store: "Store", *, are_segments: bool = False
) -> dict[str, Identity]:
    """Return what a manifest and a store say of clips, whose videos the store may know."""
    identities = {}
    if are_segments:
        videos = videos_of_clips(clips, store)
        for clip, video in zip(clips, videos, strict=True):
            identities[clip.clip_id] = of_segment(clip, video)
        return identities
    in_store = _identities_in_store(clips, store)
    for clip, row in zip(clips, in_store, strict=True):
        identities[clip.clip_id] = of_row(clip, row)
    return identities


def of_row(clip: Clip, in_store: Identity) -> Identity:
    """Return what a clip of a manifest and its row in a store say.

    Times of the store may be unknown, and so may its films.
    """
    identity = Identity.of_clip(clip)
    return identity._replace(in_either=in_store.in_either, video=in_store.video)


def of_segment(clip: Clip, video: str) -> Identity:
    """Return what is known of a segment, of which a store has the windows of its film.

    Of a film in one file, times in the film are those in the file.
    """
    segment = Identity.of_clip(clip)
    in_either = None if segment.in_file else segment.in_film
    return segment._replace(in_either=in_either, video=video)


def replaced_videos(clips: Iterable[Clip], folder: str, table: RowTable) -> list[str]:
    """Return the videos whose files have another length than those whose features a store has.

    A file that is not there says nothing, nor does a store that does not know its files. A segment
    has the features of the windows of its film, whose file is not that of a clip.

    Args:
        clips: The clips of a manifest.
        folder: The folder of their videos; "" if it is not known.
        table: The rows of the store.
    """
    with_video = [clip for clip in clips if clip.video and folder]
    rows = table.find([clip.clip_id for clip in with_video])
    videos: dict[int, str] = {}
    for clip, row in zip(with_video, rows.tolist(), strict=True):
        if row >= 0:
            videos[row] = clip.video
    segments = [with_video[place] for place in np.flatnonzero(rows < 0)]
    for film, times in times_of_films(segments).items():
        if times.file and film in table.films.runs_of_film:
            of_film = table.films.rows_of([film])
            is_window = np.char.startswith(table.clip_ids_of(of_film), f"{film}:")
            videos |= dict.fromkeys(of_film[is_window].tolist(), times.file)
    lengths_of_video: dict[str, set[int]] = {}
    numbers = np.array([*videos], dtype=np.int64)
    for number, row in zip(videos, table.some(numbers), strict=True):
        if row.is_ok and row.video_bytes is not None:
            lengths = lengths_of_video.setdefault(videos[number], set())
            lengths.add(row.video_bytes)
    replaced = []
    for video, lengths in lengths_of_video.items():
        with suppress(OSError):
            if lengths != {Path(folder, video).stat().st_size}:
                replaced.append(video)
    return replaced


def another_clip(
    contradictions: Mapping[str, str],
    there: str,
    where: str,
    again: str = EXTRACT_AGAIN,
) -> ObygazeError:
    """Return the error that ids of a manifest are those of other clips.

    Args:
        contradictions: What differs, by the ids: the value in the manifest and the one there.
        there: What has the other clips: the store, or the files.
        where: Its name.
        again: The command that makes a store of the clips of the manifest.
    """
    lines = [f"{clip!r}: {text}" for clip, text in contradictions.items()]
    (clip_id, difference), *others = contradictions.items()
    too = f"; {count(len(others), 'other clip')} too" if others else ""
    return FixInput(
        f"clip {clip_id!r} is another one in the {there}: {difference} (in the manifest, and"
        f" in the {there}){too}",
        where=where,
        hint="the manifest of these clips, or a store of another name with their features as they"
        f" are now: {again}",
        details=lines[1:SHOWN_CLIPS],
    )
