"""Make the columns of tables that list clips, with titles of films and clock times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from obygaze_features.core.files import json_values
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.written_tables import Columns
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    Clip,
    Manifest,
    clock,
)
from obygaze_features.manifest.vocabulary import film_facts

if TYPE_CHECKING:
    from obygaze_features.manifest.clip_table import ClipTable

CLOCK_DECIMALS = 3
# The column of the title of a film. Titles of scenes are a column of the user's own.
TITLE = "movie_title"


def manifest_columns(manifest: Manifest) -> Columns:
    """Return the clips of a manifest as columns, without empty columns.

    Times are seconds in `start_s` and `end_s`, and clock times in `start` and `end`, unless the
    manifest has columns of these names.
    """
    clips = manifest.clips
    columns: dict[str, Sequence[Any]] = {
        "clip_id": [clip.clip_id for clip in clips],
        "movie_id": [clip.movie_id for clip in clips],
        TITLE: [film_title(clip) for clip in clips],
        "scene": [clip.scene for clip in clips],
        **_time_columns([c.start_s for c in clips], [c.end_s for c in clips]),
        "level": [clip.level for clip in clips],
        "concepts": ["|".join(clip.concepts) for clip in clips],
        "video": [clip.video for clip in clips],
    }
    for name in manifest.columns:
        # `film_title` above also finds titles that the rows of clips do not have.
        if name != TITLE:
            columns[name] = [clip.extra.get(name, "") for clip in clips]
    for split in manifest.folds:
        columns[f"fold:{split}"] = [clip.fold(split) for clip in clips]
    return _filled(columns)


def film_columns(facts: ClipTable, manifest: Manifest | None) -> Columns:
    """Return the films, times and frames of clips as columns, without `clip_id`.

    Args:
        facts: The facts of the clips.
        manifest: A manifest with titles of films, and with facts that are missing in `facts`; None:
            no manifest.
    """
    # Imported here because it loads NumPy, which would slow down the help of commands.
    from obygaze_features.manifest.clip_table import ClipTable
    from obygaze_features.manifest.same_clips import same_clips

    if manifest is not None:
        clips = ClipTable.of_clips(manifest.clips)
        facts = facts.filled(clips, same_clips(facts, clips).places_of_same)
    movie_ids = facts.movie_ids.tolist()
    title_of_film = film_titles(set(movie_ids), manifest)
    titles = [title_of_film.get(film) for film in movie_ids]
    times = _time_columns(*map(json_values, facts.times))
    stated = {TITLE: titles, **times, **facts.frame_cells}
    return {"movie_id": movie_ids, **_filled(stated)}


def film_title(clip: Clip) -> str | None:
    """Return the title of a clip's film, or None if it is unknown."""
    return _own_title(clip) or film_facts(clip.movie_id).get("title")


def _own_title(clip: Clip) -> str:
    return clip.extra.get(TITLE) or _title_of_video(clip.video, clip.movie_id)


@lru_cache(maxsize=1024)
def _title_of_video(video: str, movie_id: str) -> str:
    """Return the name of a video if the id of the film was made from this name, else ""."""
    name = PurePosixPath(video).stem
    return name if name != movie_id == ascii_id(name) else ""


def _time_columns(
    start_s: Sequence[float | None], end_s: Sequence[float | None]
) -> dict[str, Sequence[Any]]:
    """Return the times of clips, in seconds and as clock times."""
    return {
        "start_s": start_s,
        "end_s": end_s,
        "start": [*map(clock_or_none, start_s)],
        "end": [*map(clock_or_none, end_s)],
    }


def clock_or_none(seconds: float | None, decimals: int = CLOCK_DECIMALS) -> str | None:
    """Return a time as hours, minutes and seconds, or None if it is unknown."""
    return None if seconds is None else clock(seconds, decimals)


def _filled(columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Return the columns of ids, and all other columns that are not empty."""
    filled = {}
    for name, values in columns.items():
        is_empty = all(value in (None, "") for value in values)
        if name in CLIP_COLUMNS[:2] or not is_empty:
            filled[name] = values
    return filled


def titles_in_manifest(manifest: Manifest) -> dict[str, str]:
    """Return the titles that a manifest has, by film."""
    title_of_film: dict[str, str] = {}
    for clip in manifest.clips:
        title = _own_title(clip)
        if title:
            title_of_film.setdefault(clip.movie_id, title)
    return title_of_film


def film_titles(
    movie_ids: Iterable[str], manifest: Manifest | None = None
) -> dict[str, str]:
    """Return the known titles by film: from the manifest, else from the list of published films."""
    titles = {} if manifest is None else titles_in_manifest(manifest)
    title_of_film = {}
    for movie_id in movie_ids:
        title = titles.get(movie_id) or film_facts(movie_id).get("title")
        if title:
            title_of_film[movie_id] = title
    return title_of_film
