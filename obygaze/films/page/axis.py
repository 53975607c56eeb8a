"""The time line of a film: where its pictures are, in seconds, and which video shows them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze.films.film_rates import refuse_behind_end
from obygaze_features.core.console import few
from obygaze_features.manifest.frame_rate import frame_rate_text
from obygaze_features.manifest.times import FilmTimes, Span

# A picture may be shown so far from the time that its number and the rate say, in seconds.
MOST_APART_S = 0.25
# What is so near below a whole number is one.
ROUNDING = 1e-6


@dataclass(frozen=True)
class FilmAxis:
    """The time line of a film.

    `boundaries` are the times of the pictures of the one video that shows all of the film, and the
    end of the last one; None if there is no such video, or if its pictures cannot be read.
    `is_steady` is whether these are the times that the numbers of pictures and the rate say. The
    number of the `first_picture` is not 0 where pictures begin later than the sound.
    """

    times: FilmTimes
    boundaries: NDArray[np.float64] | None
    is_steady: bool = True
    first_picture: int = 0

    @property
    def has_places(self) -> bool:
        """Whether pictures of the film have a place on the time line."""
        return not self.problem

    @property
    def problem(self) -> str:
        """Why pictures of the film have no place on the time line; empty where they have one."""
        if self.times.unknown:
            return f"the length of {few(self.times.unknown, 3)} is not known"
        if self.times.rate is None:
            return "the pictures per second are not known"
        if not self.is_steady:
            rate = frame_rate_text(self.times.rate)
            return f"the pictures of its video do not come at {rate} per second"
        return ""

    @property
    def n_pictures(self) -> int:
        """The number of pictures of the film; what a file says of its length may be wrong."""
        if self.boundaries is not None:
            return self.first_picture + len(self.boundaries) - 1
        return self.times.n_frames

    def refuse_behind_end(self, film: str, picture: int) -> None:
        """Raise an error for a mark with a picture that the film does not have."""
        rate = self.times.rate
        if rate is None or not self.has_places:
            return
        unsure = rate if self.boundaries is None else Fraction(0)
        refuse_behind_end(film, picture, self.n_pictures, unsure=unsure)

    def span(self, first: int, last: int) -> Span:
        """Return start and end of pictures on the time line; the rate must be known."""
        return self._start(first), self._start(last + 1)

    def _start(self, picture: int) -> float:
        in_video = picture - self.first_picture
        if self.boundaries is not None and in_video >= 0:
            return float(self.boundaries[min(in_video, len(self.boundaries) - 1)])
        rate = self.times.rate
        if rate is None:
            return 0.0
        # The nearest float: of 20,000 marks, fractions would take longer than all the rest.
        return picture * rate.denominator / rate.numerator

    def pieces(self) -> list[dict[str, Any]]:
        """Return the stretches that videos show, each with its first picture in the film."""
        pieces = []
        for piece in self.times.pieces:
            first_picture = self.times.frame_at(piece.start_s)
            pieces.append({**piece._asdict(), "first_picture": first_picture})
        return pieces

    def even_places(self, n: int) -> list[tuple[str, float] | None]:
        """Return a video and a time in it for the middle of each of `n` equal steps; None: none."""
        places: list[tuple[str, float] | None] = []
        for number in range(n):
            time_s = self.times.end_s * (number + 0.5) / n
            place = None
            for piece in self.times.pieces:
                if piece.start_s <= time_s < piece.end_s:
                    place = (piece.video, time_s - piece.start_s + piece.offset_s)
            places.append(place)
        return places


def film_axis(
    times: FilmTimes,
    boundaries_of: Callable[[str], NDArray[np.float64] | None],
    rate_of: Callable[[str], Fraction | None],
) -> FilmAxis:
    """Return the time line of a film.

    Args:
        times: Where its clips are.
        boundaries_of: Returns the times of the pictures of a video, with the end of the last one;
            None where they are not known.
        rate_of: Returns the pictures per second of a video, None if they are not known.
    """
    boundaries = None
    if len(times.pieces) == 1:
        (piece,) = times.pieces
        shows_all = (piece.start_s, piece.offset_s, piece.end_s) == (0, 0, times.end_s)
        if shows_all:
            boundaries = boundaries_of(piece.video)
    first_picture = 0
    if boundaries is not None and times.rate is not None:
        # As in `player.js`, which numbers the pictures on the screen. Rounded down, no picture is
        # before the time of its number, so that a clip with the times of a mark has its pictures.
        late = max(float(boundaries[0]), 0.0) * float(times.rate)
        first_picture = math.floor(late + ROUNDING)
    is_steady = _is_steady(times, boundaries, rate_of, first_picture)
    return FilmAxis(times, boundaries, is_steady, first_picture)


def _is_steady(
    times: FilmTimes,
    boundaries: NDArray[np.float64] | None,
    rate_of: Callable[[str], Fraction | None],
    first_picture: int,
) -> bool:
    """Return whether pictures are shown at the times that their numbers and the rate say."""
    if times.rate is None:
        return True
    rate = float(times.rate)
    if boundaries is not None:
        numbers = first_picture + np.arange(len(boundaries) - 1)
        apart_s = np.abs(boundaries[:-1] - numbers / rate)
        return bool(apart_s.max() <= MOST_APART_S)
    for piece in times.pieces:
        faster = float(rate_of(piece.video) or rate) / rate - 1
        if abs(faster) * (piece.end_s - piece.start_s) > MOST_APART_S:
            return False
    return True
