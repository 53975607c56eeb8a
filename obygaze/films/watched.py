"""What an annotator has watched in the page, so that time nobody saw is no easy negative.

The table `segments/MANIFEST.NAME.watched.csv` beside the marks has stretches of pictures with the
level `watched`, as `obygaze manifest project` and `agree` read it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from obygaze.films.mark_tables import (
    SEGMENT_COLUMNS,
    WATCHED,
    Marks,
    Segment,
    check_rate,
    read_watched,
)
from obygaze.films.projection import Stretches
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import csv_bytes, locked, write_atomic
from obygaze_features.manifest.frame_rate import frame_rate_text

COLUMNS = (*SEGMENT_COLUMNS, "framerate")
MAX_STRETCHES = 10_000
Stretch = tuple[int, int]


@dataclass(frozen=True)
class WatchedTable:
    """The stretches of films that one annotator has watched."""

    path: Path
    annotator: str

    def stretches(self, movie_id: str) -> list[Stretch]:
        """Return what was watched of a film, as first and last pictures, in order."""
        return _stretches_by_film(self._read()).get(movie_id, [])

    def segments(self) -> list[Segment]:
        """Return what was watched of all films as segments of the level `watched`."""
        return list(self._read().segments)

    def add(
        self, movie_id: str, stretches: Sequence[Stretch], rate: Fraction
    ) -> list[Stretch]:
        """Add stretches of a film, and return all that was watched of it."""
        with locked(self.path.parent):
            known = self._read()
            check_rate(movie_id, known.rates.get(movie_id), rate)
            watched = _stretches_by_film(known)
            before = watched.get(movie_id, [])
            watched[movie_id] = Stretches([*before, *stretches]).pairs()
            self._write(watched, {**known.rates, movie_id: rate})
        return watched[movie_id]

    def _write(
        self,
        watched: Mapping[str, Sequence[Stretch]],
        rates: Mapping[str, Fraction],
    ) -> None:
        rows = []
        for film, stretches in sorted(watched.items()):
            rate = rates.get(film)
            text = "" if rate is None else frame_rate_text(rate)
            for first, last in stretches:
                rows.append((film, self.annotator, first, last, WATCHED, "", text))
        write_atomic(self.path, csv_bytes(COLUMNS, rows))

    def _read(self) -> Marks:
        if not self.path.exists():
            return Marks(())
        return read_watched(self.path, self.annotator, COLUMNS)


def _stretches_by_film(marks: Marks) -> dict[str, list[Stretch]]:
    """Return the stretches of each film, in order."""
    stretches: dict[str, list[Stretch]] = {}
    for segment in marks.segments:
        stretch = (segment.start_frame, segment.end_frame)
        stretches.setdefault(segment.movie_id, []).append(stretch)
    return {film: Stretches(pairs).pairs() for film, pairs in stretches.items()}


def checked_stretches(sent: Mapping[str, Any], n_frames: int) -> list[Stretch]:
    """Return the stretches that the page sent; an error where they are not frames of the film."""
    stretches = sent.get("stretches")
    if not isinstance(stretches, list) or len(stretches) > MAX_STRETCHES:
        raise FixInput("stretches: expected a list of first and last pictures")
    checked = []
    for stretch in stretches:
        is_pair = isinstance(stretch, list) and [
            type(number) for number in stretch
        ] == [int, int]
        if not is_pair or not 0 <= stretch[0] <= stretch[1]:
            raise FixInput(
                f"expected the first and the last picture, from 0, got {stretch!r}"
            )
        first, last = stretch
        if first < n_frames:
            checked.append((first, min(last, n_frames - 1)))
    return checked
