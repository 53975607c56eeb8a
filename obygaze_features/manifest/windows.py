"""Windows of whole films: a grid cuts every film, and the rows are computed, not stored.

Windows of seconds count on the clock of clips, from the beginning of the file; those of pictures
from the first picture. Each window has a picture. Only whole windows count: pictures after the last
one belong to no window.
The id of a window has its film and its span, so that windows of two grids share no id.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate
from typing import Annotated, Any, TypeVar, overload

from msgspec import Meta

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.refusal import refuse_if

CUT_COLUMNS = (
    "movie_id",
    "video",
    "n_frames",
    "fps",
    "duration_s",
    "begins_s",
    "first_row",
    "n_rows",
)
# Times are products of ticks: times that differ by less than this are equal.
ROUNDING_S = 1e-6
# Ids have times to the millisecond: windows that begin further apart than this have other ids.
LEAST_STEP_S = 0.001
# Of one film: those of its pictures are some hundred thousand.
MAX_WINDOWS = 100_000_000
FORMS = "window and stride in pictures, or seconds and every"

Row = TypeVar("Row")
_AT_LEAST_0 = Meta(ge=0)
# In the id of a window.
_TIME = re.compile(r"[0-9]+\.[0-9]{3}")


@dataclass(frozen=True)
class Grid:
    """How a film is cut: `window` pictures every `stride`, or `seconds` every `every` seconds."""

    window: Annotated[int, _AT_LEAST_0] = 0
    stride: Annotated[int, _AT_LEAST_0] = 0
    seconds: Annotated[float, _AT_LEAST_0] = 0
    every: Annotated[float, _AT_LEAST_0] = 0

    def check(self) -> Grid:
        """Return this grid, or raise an error unless it has one of the forms."""
        for name, value in asdict(self).items():
            if not 0 <= value < math.inf:
                raise FixUsage(f"{name} must be a finite number from 0, got {value:g}")
        pictures = (self.window, self.stride)
        seconds = (self.seconds, self.every)
        whole_grid = all(pictures) and not any(seconds)
        if not (whole_grid or (all(seconds) and not any(pictures))):
            raise FixUsage(f"expected {FORMS}; got {self or 'none of them'}")
        return self

    def __str__(self) -> str:
        """Return the grid in a few words."""
        return ", ".join(f"{name} {value:g}" for name, value in self.to_json().items())

    def to_json(self) -> dict[str, float]:
        """Return the values that are not 0; those that may have a fraction are floats."""
        values = {name: value for name, value in asdict(self).items() if value}
        return {
            n: v if n in ("window", "stride") else float(v) for n, v in values.items()
        }

    def n_windows(self, film: CutFilm) -> int:
        """Return the number of whole windows of a film, up to the end of its last picture."""
        n_before = 0
        if self.seconds:
            left = film.end_s - self.seconds + ROUNDING_S
            n_steps = left / self.every
            n_before = self._n_before(film)
        else:
            left = film.n_frames - self.window
            n_steps = left // self.stride
        if n_steps >= MAX_WINDOWS:
            raise FixUsage(
                f"a film of {film.end_s:g} s would have more than {MAX_WINDOWS:,} windows",
                where=str(self),
            )
        return 0 if left < 0 else 1 + math.floor(n_steps) - n_before

    def span_s(self, window: int, film: CutFilm) -> tuple[float, float]:
        """Return start and end of a window of a film in seconds."""
        if self.seconds:
            start_s = (self._n_before(film) + window) * self.every
            return start_s, start_s + self.seconds
        first = window * self.stride
        after = first + self.window
        return film.begins_s + first / film.fps, film.begins_s + after / film.fps

    def window_at(self, start_s: float, film: CutFilm) -> int:
        """Return the number of the window of a film that begins nearest to a time."""
        if self.seconds:
            return round(start_s / self.every) - self._n_before(film)
        return round((start_s - film.begins_s) / self.step_s(film))

    def _n_before(self, film: CutFilm) -> int:
        """Return how many steps of seconds end before the first picture: none is a window."""
        late_s = film.begins_s + ROUNDING_S - self.seconds
        return max(0, math.floor(late_s / self.every) + 1)

    def step_s(self, film: CutFilm) -> float:
        """Return how many seconds later than a window of a film the next one begins."""
        return self.every or self.stride / film.fps


@dataclass(frozen=True)
class CutFilm:
    """A film to cut: its video, its number of pictures, and its length.

    `fps` is its exact rate, 0 if the rate varies; `begins_s` is when its first picture is shown.
    """

    movie_id: str
    video: str
    n_frames: int
    fps: float
    duration_s: float
    begins_s: float = 0.0

    @property
    def end_s(self) -> float:
        """When the last picture ends."""
        return self.begins_s + self.duration_s


@dataclass(frozen=True)
class FilmRows(Sequence[Row]):
    """The windows of films as rows, made when they are asked for: `row_of(film, window)`."""

    films: tuple[CutFilm, ...]
    grid: Grid

    def __post_init__(self) -> None:
        """Refuse windows without a span, and windows whose spans their ids do not tell apart."""
        if self.grid.window:
            refuse_if(
                sorted(film.movie_id for film in self.films if not film.fps),
                FixInput,
                "windows of so many pictures have no times where the frame rate varies",
                hint="obygaze manifest windows --seconds cuts films by time",
            )
        for film in self.films:
            if self.grid.step_s(film) <= LEAST_STEP_S:
                raise FixUsage(
                    "windows must begin more than a millisecond after each other:"
                    f" {self.grid} begins more often",
                    where=film.movie_id,
                )

    def row_of(self, film: CutFilm, window: int) -> Row:
        """Return the row of a window."""
        raise NotImplementedError

    def id_of(self, film: CutFilm, window: int) -> str:
        """Return the id of a window."""
        return id_of_span(film.movie_id, *self.grid.span_s(window, film))

    @cached_property
    def by_id(self) -> Mapping[str, Row]:
        """The rows by their ids, made when they are asked for."""
        return _RowsById(self)

    @cached_property
    def _films_by_name(self) -> Mapping[str, tuple[CutFilm, int]]:
        """Each film and its number of windows, by its name."""
        return {
            film.movie_id: (film, after - first) for film, first, after in self._spans()
        }

    def window_of(self, clip_id: str) -> tuple[CutFilm, int] | None:
        """Return the film and the number of the window of an id; None where none has this id."""
        movie_id, _, span = clip_id.rpartition("_")
        start = span.partition("-")[0]
        if movie_id not in self._films_by_name or not _TIME.fullmatch(start):
            return None
        film, n_windows = self._films_by_name[movie_id]
        window = self.grid.window_at(float(start), film)
        is_there = 0 <= window < n_windows and self.id_of(film, window) == clip_id
        return (film, window) if is_there else None

    @cached_property
    def first_rows(self) -> tuple[int, ...]:
        """The first row of each film, and the number of all rows."""
        sizes = [self.grid.n_windows(film) for film in self.films]
        return tuple(accumulate(sizes, initial=0))

    @property
    def films_without(self) -> list[str]:
        """The films that are too short for a window."""
        return [film.movie_id for film, first, after in self._spans() if first == after]

    @property
    def seconds_without(self) -> dict[str, float]:
        """The seconds at the end of films that are in no window; less than a picture is none."""
        seconds = {}
        for film, first, after in self._spans():
            picture_s = film.duration_s / film.n_frames
            last = after - first - 1
            if self.grid.seconds:
                left_s = film.end_s - self.grid.span_s(last, film)[1]
            else:
                seen = last * self.grid.stride + self.grid.window
                left_s = (film.n_frames - seen) * picture_s
            if first < after and left_s > picture_s - ROUNDING_S:
                seconds[film.movie_id] = left_s
        return seconds

    @property
    def seconds_before(self) -> dict[str, float]:
        """The seconds at the beginning of films, without a picture, that are in no window."""
        if not self.grid.seconds:
            return {}
        seconds = {}
        for film, first, after in self._spans():
            start_s, _ = self.grid.span_s(0, film)
            if first < after and start_s > 0:
                seconds[film.movie_id] = start_s
        return seconds

    def __len__(self) -> int:
        return self.first_rows[-1]

    @overload
    def __getitem__(self, row: int) -> Row: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Row]: ...
    def __getitem__(self, row: int | slice) -> Row | Sequence[Row]:
        if isinstance(row, slice):
            return [self[one] for one in range(*row.indices(len(self)))]
        at = row + len(self) if row < 0 else row
        if not 0 <= at < len(self):
            raise IndexError(row)
        film = bisect_right(self.first_rows, at) - 1
        return self.row_of(self.films[film], at - self.first_rows[film])

    def __iter__(self) -> Iterator[Row]:
        return (self.row_of(film, window) for film, window in self.numbered())

    def numbered(self) -> Iterator[tuple[CutFilm, int]]:
        """Yield the film and the number of each window, without the rows."""
        for film, first, after in self._spans():
            for window in range(after - first):
                yield film, window

    def ids(self) -> Iterator[str]:
        """Yield the id of each window, without the rows."""
        return (self.id_of(film, window) for film, window in self.numbered())

    def film_cells(self) -> list[tuple[Any, ...]]:
        """Return the cells of the table of films."""
        return [
            (
                f.movie_id,
                f.video,
                f.n_frames,
                f.fps or "",
                f.duration_s,
                f.begins_s,
                first,
                after - first,
            )
            for f, first, after in self._spans()
        ]

    def _spans(self) -> Iterator[tuple[CutFilm, int, int]]:
        return zip(self.films, self.first_rows, self.first_rows[1:], strict=False)


@dataclass(frozen=True, eq=False)
class _RowsById(Mapping[str, Row]):
    """The windows of films by their ids."""

    rows: FilmRows[Row]

    def __getitem__(self, clip_id: str) -> Row:
        window = self.rows.window_of(clip_id)
        if window is None:
            raise KeyError(clip_id)
        return self.rows.row_of(*window)

    def __iter__(self) -> Iterator[str]:
        return self.rows.ids()

    def __len__(self) -> int:
        return len(self.rows)


def id_of_span(movie_id: str, start_s: float, end_s: float) -> str:
    """Return the id of a span of a film.

    >>> id_of_span("alba", 12, 14)
    'alba_12.000-14.000'
    """
    return f"{movie_id}_{start_s:.3f}-{end_s:.3f}"
