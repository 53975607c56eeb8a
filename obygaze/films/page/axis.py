"""The time line of a film: where its pictures are, in seconds, and which video shows them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from obygaze.films.pictures import Floats
from obygaze_features.core.errors import ObygazeError
from obygaze_features.manifest.times import IN_A_ROW, FilmTimes


@dataclass(frozen=True)
class FilmAxis:
    """The time line of a film.

    `boundaries` are the times of the pictures of the one file that shows all of the film, and the
    end of the last one; None without such a file, and then `problem` says why pictures of the film
    cannot be marked.
    """

    times: FilmTimes
    boundaries: Floats | None
    problem: str = ""

    @property
    def is_of_film(self) -> bool:
        """Whether times on the time line are times in the film."""
        return self.times.axis != IN_A_ROW and not self.times.unknown

    @property
    def n_pictures(self) -> int:
        """The number of pictures of the film, 0 where they are not known."""
        return 0 if self.boundaries is None else len(self.boundaries) - 1


def film_axis(times: FilmTimes, boundaries_of: Callable[[str], Any]) -> FilmAxis:
    """Return the time line of a film.

    Args:
        times: Where its clips are.
        boundaries_of: Returns the times of the pictures of a video, with the end of the last one.
    """
    if not times.file:
        return FilmAxis(times, None, "there is no file of the whole film")
    try:
        return FilmAxis(times, boundaries_of(times.file))
    except ObygazeError as error:
        return FilmAxis(times, None, error.message)
