"""Cut whole films into windows by a grid.

Windows in seconds start at the beginning of the file, windows in pictures at the first picture.
Windows in seconds that end before the first picture are skipped. Pictures after the last whole
window belong to no window. The id of a window is made of its film and its span, so only
windows with the same span have the same id.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from obygaze_features.core.errors import FixInput, FixUsage

# Times that differ by less count as equal, because they are computed from rounded ticks.
ROUNDING_S = 1e-6
# Ids have times to the millisecond, so windows must start more than a millisecond apart.
LEAST_STEP_S = 0.001
# Limit for all films together, because each window is a clip in memory.
MAX_WINDOWS = 5_000_000
FORMS = "window and stride (in pictures), or seconds and every"


@dataclass(frozen=True)
class Grid:
    """How a film is cut, in pictures or in seconds; values of 0 are not used.

    A window of `window` pictures starts every `stride` pictures, or a window of `seconds` seconds
    every `every` seconds.
    """

    window: int = 0
    stride: int = 0
    seconds: float = 0
    every: float = 0

    def check(self) -> Grid:
        """Return this grid. Raise an error unless it is either in pictures or in seconds."""
        for name, value in asdict(self).items():
            if not 0 <= value < math.inf:
                raise FixUsage(f"{name} must be a finite number from 0, got {value:g}")
        pictures = (self.window, self.stride)
        seconds = (self.seconds, self.every)
        whole_grid = all(pictures) and not any(seconds)
        if not (whole_grid or (all(seconds) and not any(pictures))):
            raise FixUsage(f"expected {FORMS}, got {str(self) or 'none'}")
        return self

    def __str__(self) -> str:
        """Return the grid as text: `window 16, stride 8`."""
        return ", ".join(f"{name} {value:g}" for name, value in self.to_json().items())

    def to_json(self) -> dict[str, float]:
        """Return the values that are not 0; `seconds` and `every` are floats."""
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
        return 0 if left < 0 else 1 + math.floor(n_steps) - n_before

    def span_s(self, window: int, film: CutFilm) -> tuple[float, float]:
        """Return start and end of a window of a film, for a grid in seconds."""
        start_s = (self._n_before(film) + window) * self.every
        return start_s, start_s + self.seconds

    def _n_before(self, film: CutFilm) -> int:
        """Return the number of windows in seconds that end before the first picture."""
        late_s = film.begins_s + ROUNDING_S - self.seconds
        return max(0, math.floor(late_s / self.every) + 1)


@dataclass(frozen=True)
class CutFilm:
    """A film to cut: its video, its number of pictures, and its length.

    `fps` is the exact frame rate, or 0 if the rate varies. `begins_s` is the time of the first
    picture in the file, and `duration_s` the time from there to the end of the last picture.
    """

    movie_id: str
    video: str
    n_frames: int
    fps: float
    duration_s: float
    begins_s: float = 0.0

    @property
    def end_s(self) -> float:
        """The end of the last picture in the file, in seconds."""
        return self.begins_s + self.duration_s


def check_windows(grid: Grid, films: Iterable[CutFilm]) -> None:
    """Raise an error if windows have no times, start too close together, or are too many.

    Windows in pictures have no times if the frame rate of the film varies.
    """
    n_windows = 0
    for film in films:
        if grid.window and not film.fps:
            raise FixInput(
                f"windows of {grid.window} pictures have no times, because the frame rate of"
                f" {film.movie_id} varies",
                hint="use obygaze manifest windows --seconds to cut films by time",
            )
        step_s = grid.every or grid.stride / film.fps
        if step_s <= LEAST_STEP_S:
            raise FixUsage(
                f"expected more than a millisecond between the starts of windows, got {grid}",
                where=film.movie_id,
            )
        n_windows += grid.n_windows(film)
    if n_windows > MAX_WINDOWS:
        raise FixUsage(
            f"expected at most {MAX_WINDOWS:,} windows, got {n_windows:,} for these films",
            where=str(grid),
        )


def span_id(movie_id: str, start_s: float, end_s: float) -> str:
    """Return the id of a span of a film.

    >>> span_id("alba", 12, 14)
    'alba_12.000-14.000'
    """
    return f"{movie_id}_{start_s:.3f}-{end_s:.3f}"
