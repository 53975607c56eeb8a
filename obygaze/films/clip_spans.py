"""The clips that marks are projected on: the pictures of the film that each clip has."""

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import count as count_from
from pathlib import Path
from types import MappingProxyType

from obygaze.films.mark_tables import (
    FILM_SECONDS,
    FRAME_COLUMNS,
    MISSING_FRAMES,
    NAME,
    NAME_FORM,
    NO_TIMES,
    TIME_COLUMNS,
    Marks,
    check_times,
    clip_of_row,
    has_frames,
)
from obygaze.films.projection import ClipSpan
from obygaze_features.core.console import few
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeWarning
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import CsvTable, TableRow, read_table
from obygaze_features.manifest.adapters.table_times import check_clocks
from obygaze_features.manifest.frame_rate import (
    frame_rate_text,
    known_frame_rate,
    seconds_of_frames,
)
from obygaze_features.manifest.io import as_id
from obygaze_features.manifest.model import clock, is_only_watched
from obygaze_features.manifest.spans import FILM_TIMES
from obygaze_features.manifest.times import (
    IN_A_ROW,
    RATE_COLUMN,
    FilmTimes,
    spans_in_films,
    times_of_films,
)
from obygaze_features.manifest.windows import id_of_span

CLIP_NAMES = ("clip_id", "movie_id")


def read_clip_spans(path: Path, marks: Marks) -> tuple[ClipSpan, ...]:
    """Return the pictures of the clips of a table, or of the rows of a manifest.

    Args:
        path: A table with clip_id, movie_id, and start_frame and end_frame, or times in seconds as
            a manifest has them.
        marks: What is to be projected on the clips; its frame rates number their pictures.
    """
    violations = Violations(path)
    table = read_table(
        path,
        required=CLIP_NAMES,
        content="clips",
        violations=violations,
    )
    columns = set(table.columns)
    if "first_row" in columns and "clip_id" not in columns:
        manifest = shell_word(path.with_suffix(".toml"))
        written = shell_word(f"{path.stem}.csv")
        raise FixInput(
            "this is a manifest of windows: its table has a row for each film, not for each clip",
            where=str(path),
            hint=f"obygaze manifest export {manifest} {written}, then --clips {written}",
        )
    pairs = (FRAME_COLUMNS, TIME_COLUMNS, FILM_TIMES)
    if not violations and not any(columns.issuperset(pair) for pair in pairs):
        missing = next(name for name in FRAME_COLUMNS if name not in columns)
        violations.add(1, missing, MISSING_FRAMES)
    violations.raise_if_any("the clips cannot be read")
    table = _with_films_of_marks(table, marks)
    marked_films = {segment.movie_id for segment in marks.segments}
    clips = []
    rows = []
    for row in table.rows:
        clip = clip_of_row(row, row["clip_id"])
        # What an annotator has watched is no clip.
        if not is_only_watched(clip):
            clips.append(clip)
            rows.append(row)
    check_clocks(rows, [row.cells for row in rows])
    times_of_film = times_of_films(clips, rates=marks.rates)
    in_a_row = [
        film
        for film, times in times_of_film.items()
        if film in marked_films and times.axis == IN_A_ROW and not times.unknown
    ]
    warn_of_clips_in_a_row(in_a_row)
    said_s = spans_in_films(clips)
    line_of: dict[str, int] = {}
    spans = []
    n_placed = 0
    n_unplaced = 0
    for row in rows:
        for column in CLIP_NAMES:
            row.matching(column, NAME, NAME_FORM)
        clip_id = row.unique("clip_id", line_of)
        film = row["movie_id"]
        times = times_of_film[film]
        # Clips of a film without segments get no label, wherever they are.
        frames: tuple[int, int] | None = (0, 0)
        _check_rate(row, marks)
        if has_frames(row):
            frames = row.frames()
            check_times(row, frames, marks.rates.get(film), said_s.get(clip_id))
        elif film in marked_films:
            marks.rate_of(film)
            frames = _frames_of_clip(row, times)
            n_placed += frames is not None
            n_unplaced += times.frames_of(clip_id) is None
        if frames is not None:
            rate = marks.rates.get(film)
            times_s = said_s.get(clip_id)
            if times_s is None and rate is not None:
                times_s = seconds_of_frames(*frames, rate)
            spans.append(ClipSpan(clip_id, film, *frames, rate, times_s))
    if n_unplaced and not n_placed:
        raise FixInput(
            "the clips have no times in their films",
            where=str(path),
            hint="--every 30 cuts the films into clips of 30 s; or a table of clips with"
            " film_start_s and film_end_s",
        )
    violations.raise_if_any("the clips cannot be read")
    return tuple(spans)


def _with_films_of_marks(table: CsvTable, marks: Marks) -> CsvTable:
    """Return a table of clips with the names that films have in the marks.

    One of the two may have titles, the other the ids that an import made of them.
    """
    films = {segment.movie_id for segment in marks.segments}
    film_of_id = {as_id(film): film for film in films}
    rows = []
    for row in table.rows:
        name = row["movie_id"]
        if name not in films:
            film = film_of_id.get(as_id(name), name)
            row = replace(row, cells={**row.cells, "movie_id": film})
        rows.append(row)
    return replace(table, rows=tuple(rows))


def warn_of_clips_in_a_row(films: Sequence[str]) -> None:
    """Warn of films whose clips are taken one after another."""
    if films:
        warnings.warn(
            f"where clips are in their films is not known, they count as following each other:"
            f" {few(films, 5)}",
            ObygazeWarning,
            stacklevel=3,
        )


def _check_rate(row: TableRow, marks: Marks) -> None:
    """Add that the pictures of a clip are counted at another rate than the marks of its film."""
    written = row.cells.get(RATE_COLUMN, "").strip()
    rate_of_marks = marks.rates.get(row["movie_id"])
    if written and rate_of_marks not in (None, known_frame_rate(written)):
        shown = frame_rate_text(rate_of_marks)
        row.add(RATE_COLUMN, f"{written} is not that of the marks of the film, {shown}")


def _frames_of_clip(row: TableRow, times: FilmTimes) -> tuple[int, int] | None:
    """Return the pictures of a clip in its film; a violation says why there are none."""
    for column in TIME_COLUMNS:
        cell = row.cells.get(column)
        if cell and row.matching(column, FILM_SECONDS, "a time in seconds") is None:
            return None
    frames = times.frames_of(row["clip_id"])
    if frames is None:
        row.add("start_s", NO_TIMES)
        return None
    first, last = frames
    if last < first:
        rate = float(times.rate or 0)
        row.add(
            "end_s", f"no frame is between these times at {rate:g} frames per second"
        )
    return first, max(first, last)


def equal_clips(
    marks: Marks, seconds: Fraction, n_frames: Mapping[str, int] = MappingProxyType({})
) -> tuple[ClipSpan, ...]:
    """Return clips of equal length from the beginning of each film to its end.

    A film of unknown length ends with its last mark. The clips begin at multiples of `seconds`,
    rounded to whole frames. A rest at the end that is shorter than a clip is left out.

    Args:
        marks: The marks.
        seconds: The length of a clip.
        n_frames: The number of frames of films whose length is known.
    """
    clips: list[ClipSpan] = []
    for film, last_marked in _last_marked_frames(marks).items():
        last = max(last_marked, n_frames.get(film, 0) - 1)
        rate = marks.rate_of(film)
        frames_per_clip = seconds * rate
        if frames_per_clip < 1:
            raise FixUsage(
                f"clips must have at least one frame, got {float(seconds):g} seconds"
            )
        for number in count_from():
            clip_start = round(number * frames_per_clip)
            next_start = round((number + 1) * frames_per_clip)
            if next_start - 1 > last:
                break
            times_s = seconds_of_frames(clip_start, next_start - 1, rate)
            clip_id = id_of_span(film, *times_s)
            clips.append(
                ClipSpan(clip_id, film, clip_start, next_start - 1, rate, times_s)
            )
    return tuple(clips)


def where_films_end(marks: Marks, known: Collection[str] = ()) -> list[str]:
    """Return a sentence on where films end for clips of equal length, if some are not known."""
    ends = []
    for film, last in _last_marked_frames(marks).items():
        end_s = float((last + 1) / marks.rate_of(film))
        if film not in known:
            ends.append(f"{film} at {clock(end_s, 1)}")
    if not ends:
        return []
    return [
        "the tables do not say how long a film is, so the clips of --every end at its last segment"
        f" ({few(ends, 3)}), without a rest that is shorter than a clip; of films that manifests"
        " are linked to, they end with the video, if its copies are equally long"
    ]


def rests_of_films(
    clips: Iterable[ClipSpan], marks: Marks, n_frames: Mapping[str, int]
) -> list[str]:
    """Return a sentence on the ends of films of known length that are in no clip."""
    last_of_film = {clip.movie_id: clip.end_frame for clip in clips}
    rests = []
    for film, n_frames_of_film in n_frames.items():
        n_left = n_frames_of_film - 1 - last_of_film.get(film, -1)
        if n_left > 0:
            rests.append(f"{film} {float(n_left / marks.rate_of(film)):.1f} s")
    if not rests:
        return []
    return [
        f"no clip has the end of a film, where it is shorter than a clip: {few(rests, 3)}"
    ]


def _last_marked_frames(marks: Marks) -> Mapping[str, int]:
    """Return the last frame of the segments of each film."""
    last: dict[str, int] = {}
    for segment in marks.segments:
        film = segment.movie_id
        last[film] = max(last.get(film, 0), segment.end_frame)
    return last
