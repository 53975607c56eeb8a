"""What an annotator has watched in the page, so that time nobody saw is no easy negative.

The table `segments/MANIFEST.NAME.watched.csv` beside the marks has stretches of pictures with the
level `watched`, as `obygaze manifest project` and `agree` read it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import csv_bytes, locked, write_atomic
from obygaze_features.manifest.frame_rate import frame_rate_text
from obygaze_features.manifest.projection import (
    SEGMENT_COLUMNS,
    WATCHED,
    Segment,
    Stretches,
)
from obygaze_features.manifest.tables import read_table

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
        return [(first, last) for first, last, _ in self._read().get(movie_id, ())]

    def segments(self) -> list[Segment]:
        """Return what was watched of all films as segments of the level `watched`."""
        return [
            Segment(movie_id, self.annotator, first, last, WATCHED)
            for movie_id, rows in self._read().items()
            for first, last, _ in rows
        ]

    def add(
        self, movie_id: str, stretches: Sequence[Stretch], rate: Fraction
    ) -> list[Stretch]:
        """Add stretches of a film, and return all that was watched of it."""
        with locked(self.path.parent):
            rows = self._read()
            known = [(first, last) for first, last, _ in rows.get(movie_id, ())]
            watched = Stretches([*known, *stretches]).pairs()
            text = frame_rate_text(rate)
            rows[movie_id] = [(first, last, text) for first, last in watched]
            lines = []
            for movie, of_movie in sorted(rows.items()):
                for first, last, framerate in of_movie:
                    lines.append(
                        (movie, self.annotator, first, last, WATCHED, "", framerate)
                    )
            write_atomic(self.path, csv_bytes(COLUMNS, lines))
        return watched

    def _read(self) -> dict[str, list[tuple[int, int, str]]]:
        if not self.path.exists():
            return {}
        rows: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        table = read_table(
            self.path, required=SEGMENT_COLUMNS, delimiter=None, skip_blank=True
        )
        for row in table.rows:
            if row["level"] != WATCHED:
                row.add(
                    "level",
                    f"expected {WATCHED}, got {row['level']!r}: marks have their table",
                )
            if self.annotator and row["annotator"] != self.annotator:
                row.add(
                    "annotator", f"expected {self.annotator}, got {row['annotator']!r}"
                )
            frames = row.frames()
            if frames is not None:
                rows[row["movie_id"]].append((*frames, row.cells.get("framerate", "")))
        if table.rows:
            table.rows[0].violations.raise_if_any(
                "this table of what was watched cannot be read"
            )
        return dict(rows)


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
