"""The segments of one film in frames, and marks as other programs have them."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from obygaze.films.mark_tables import Segment


@dataclass(frozen=True)
class FilmSegments:
    """The segments of one film, and the file of the film where it is known."""

    movie_id: str
    fps: Fraction
    video: Path | None = None
    segments: list[Segment] = field(default_factory=list)

    def ms(self, frame: int) -> int:
        """Return the first whole millisecond at which a frame is shown."""
        return math.ceil(1000 * frame / self.fps)

    @property
    def marks(self) -> list[Segment]:
        """The segments that say more than that they were watched."""
        return [segment for segment in self.segments if not segment.is_watched]


class ReadMark(NamedTuple):
    """A mark in a file of another program, in seconds; level and comment may be empty."""

    annotator: str
    start_s: Fraction
    end_s: Fraction
    level: str = ""
    concepts: tuple[str, ...] = ()
    comment: str = ""
