"""The table of clips: what a source states of each clip, as columns of equal length.

A manifest, the rows of a store and a table of results state the same facts of clips: the film, the
times, the frames, the video. Each becomes this table. `same_clips` compares two of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import FixInput
from obygaze_features.core.tables import number_of_cell
from obygaze_features.manifest.frame_rate import frame_rate_text, parse_frame_rate
from obygaze_features.manifest.model import Clip
from obygaze_features.manifest.spans import (
    FILM_TIMES,
    FRAMES,
    RATE_COLUMN,
    FrameSpan,
    named_file,
    span_in_film,
    stated_frames,
)

# Start and end of a clip in its file.
FILE_TIMES = ("start_s", "end_s")
FRAME_COLUMNS = (*FRAMES, RATE_COLUMN)
TEXT_COLUMNS = ("clip_id", "movie_id", "video", "video_hash")

ClipColumn = npt.NDArray[Any]
# Texts are objects: the clips of a film share one text, and a long text makes no other longer.
Texts = npt.NDArray[np.object_]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ClipTable:
    """Clips as columns of equal length.

    A text is "" and a number is NaN where the source does not state it. A column of which the
    source states nothing may be absent.

    Times in the film (FILM_TIMES) and times in the file (FILE_TIMES) are two pairs. A clip without
    times in the film states one pair of times, and does not say which of the two it is.

    Attributes:
        columns: The columns, by name: texts (TEXT_COLUMNS), all others numbers.
    """

    columns: Mapping[str, ClipColumn]

    @classmethod
    def of(
        cls,
        clip_id: Iterable[str],
        movie_id: Iterable[str | None] | None = None,
        start_s: Iterable[float | None] | None = None,
        end_s: Iterable[float | None] | None = None,
        frames: Iterable[FrameSpan | None] | None = None,
        **columns: Iterable[Any] | None,
    ) -> Self:
        """Return the table of these columns.

        A value of None is not stated. If a whole column is None, none of its values is stated.
        """
        stated = {
            "clip_id": clip_id,
            "movie_id": movie_id,
            "start_s": start_s,
            "end_s": end_s,
            **columns,
        }
        if frames is not None:
            stated |= _columns_of_frames([*frames])
        known = {name: one for name, one in stated.items() if one is not None}
        return cls({name: _column(name, one) for name, one in known.items()})

    @classmethod
    def of_clips(cls, clips: Sequence[Clip]) -> Self:
        """Return the table of the clips of a manifest."""
        in_film = [_times_in_film(clip) for clip in clips]
        counted = [stated_frames(clip.extra) for clip in clips]
        return cls.of(
            [clip.clip_id for clip in clips],
            [clip.movie_id for clip in clips],
            [clip.start_s for clip in clips],
            [clip.end_s for clip in clips],
            counted if any(counted) else None,
            film_start_s=[start_s for start_s, _ in in_film],
            film_end_s=[end_s for _, end_s in in_film],
            video=[clip.video for clip in clips],
        )

    @classmethod
    def of_cells(cls, rows: Sequence[Mapping[str, str]]) -> Self:
        """Return the table of the cells of a table of results."""
        times = {
            name: [_parse_seconds(row, name) for row in rows]
            for name in (*FILE_TIMES, *FILM_TIMES)
        }
        return cls.of(
            [row["clip_id"] for row in rows],
            [row.get("movie_id") for row in rows],
            frames=[stated_frames(row) for row in rows],
            **times,
        )

    def __len__(self) -> int:
        return len(self.columns["clip_id"])

    def some(self, places: Places | Flags) -> Self:
        """Return the table of some clips, selected by indices or by a mask."""
        return type(self)({name: one[places] for name, one in self.columns.items()})

    def with_columns(self, **columns: Iterable[Any]) -> Self:
        """Return the table with new or replaced columns."""
        made = {name: _column(name, values) for name, values in columns.items()}
        return type(self)({**self.columns, **made})

    def column(self, name: str) -> ClipColumn:
        """Return a column. If it is absent, none of its values is stated."""
        if name in self.columns:
            return self.columns[name]
        if name in TEXT_COLUMNS:
            return np.full(len(self), "", np.object_)
        return np.full(len(self), np.nan)

    @property
    def clip_ids(self) -> Texts:
        """The ids."""
        return self.columns["clip_id"]

    @property
    def movie_ids(self) -> Texts:
        """The films; "" where none is stated."""
        return self.column("movie_id")

    @property
    def have_frames(self) -> Flags:
        """For each clip whether its first and last frame are stated."""
        first, last = (self.column(name) for name in FRAMES)
        return np.asarray(np.isfinite(first) & np.isfinite(last))

    @property
    def have_film_times(self) -> Flags:
        """For each clip whether a time in the film is stated."""
        start_s, end_s = (self.column(name) for name in FILM_TIMES)
        return np.asarray(np.isfinite(start_s) | np.isfinite(end_s))

    @property
    def times(self) -> tuple[Floats, Floats]:
        """Start and end in the film, or the one pair of times that a clip states."""
        have_film_times = self.have_film_times
        in_film = [self.column(name) for name in FILM_TIMES]
        in_file = [self.column(name) for name in FILE_TIMES]
        return (
            np.where(have_film_times, in_film[0], in_file[0]),
            np.where(have_film_times, in_film[1], in_file[1]),
        )

    @property
    def frame_cells(self) -> dict[str, list[str]]:
        """The cells of frames and frame rate in a table, by column, as `of_cells` reads them."""
        first, last, rate = (self.column(name).tolist() for name in FRAME_COLUMNS)
        have_frames = self.have_frames.tolist()
        cells = [
            _frame_cells(*of_clip) if has_frames else ("", "", "")
            for has_frames, *of_clip in zip(have_frames, first, last, rate, strict=True)
        ]
        return {
            name: [of_clip[place] for of_clip in cells]
            for place, name in enumerate(FRAME_COLUMNS)
        }

    def filled(self, other: Self, places: Places) -> Self:
        """Return this table with facts that it does not state taken from a second table.

        Args:
            other: The second table.
            places: The row of each clip in the second table; -1: nothing is taken.
        """
        here = np.flatnonzero(places >= 0)
        there = other.some(places[here])
        have_frames = self.have_frames[here]
        columns = dict(self.columns)
        for name in there.columns:
            column = self.column(name).copy()
            ours = column[here]
            is_stated = ours != "" if name in TEXT_COLUMNS else ~np.isnan(ours)
            if name in FRAME_COLUMNS:
                # A frame rate belongs to the frames beside it.
                is_stated |= have_frames
            column[here] = np.where(is_stated, ours, there.columns[name])
            columns[name] = column
        return type(self)(columns)


def find_rows(
    ids: Sequence[str] | npt.NDArray[Any], in_ids: Sequence[str] | npt.NDArray[Any]
) -> Places:
    """Return the index of each id in `in_ids`, or -1 if it is missing there."""
    place_of = {one: place for place, one in enumerate(_listed(in_ids))}
    places = [place_of.get(one, -1) for one in _listed(ids)]
    return np.array(places, dtype=np.int64)


def _listed(ids: Sequence[str] | npt.NDArray[Any]) -> Sequence[str]:
    return ids.tolist() if isinstance(ids, np.ndarray) else ids


def _column(name: str, values: Iterable[Any]) -> ClipColumn:
    if name not in TEXT_COLUMNS:
        numbers = values if isinstance(values, np.ndarray) else [*values]
        return np.array(numbers, dtype=np.float64)
    texts = values.tolist() if isinstance(values, np.ndarray) else values
    return np.array([text or "" for text in texts], dtype=np.object_)


def _columns_of_frames(spans: Sequence[FrameSpan | None]) -> dict[str, Floats]:
    numbers = np.full((len(spans), len(FRAME_COLUMNS)), np.nan)
    for place, span in enumerate(spans):
        if span is not None:
            rate = np.nan if span.rate is None else float(span.rate)
            numbers[place] = span.first, span.last, rate
    return dict(zip(FRAME_COLUMNS, numbers.T.copy(), strict=True))


def _times_in_film(clip: Clip) -> tuple[float | None, float | None]:
    """Return start and end of a clip in its film; one of them may be unknown."""
    # The columns of FILM_TIMES are in few manifests.
    span = span_in_film(clip) if FILM_TIMES[0] in clip.extra else None
    if span is not None:
        return span
    return (None, None) if named_file(clip) else (clip.start_s, clip.end_s)


def _parse_seconds(row: Mapping[str, str], column: str) -> float | None:
    """Return a time of a row in seconds, or None if the cell is empty."""
    cell = row.get(column) or ""
    number = number_of_cell(cell)
    if cell.strip() and number is None:
        raise FixInput(
            f"{column} of the clip {row['clip_id']!r}: expected seconds, got {cell!r}",
            hint="write seconds, such as 70.5, or leave the cell empty",
        )
    return number


def _frame_cells(
    first: float, last: float, frames_per_s: float
) -> tuple[str, str, str]:
    """Return the cells of the first frame, the last frame and the frame rate."""
    rate = parse_frame_rate(frames_per_s)
    return f"{first:.0f}", f"{last:.0f}", frame_rate_text(rate) if rate else ""
