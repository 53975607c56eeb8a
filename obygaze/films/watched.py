"""What an annotator has watched in the page, so that time nobody saw is no easy negative.

The table `segments/MANIFEST.NAME.watched.csv` beside the marks has stretches of pictures with the
level `watched`, as `obygaze manifest project` and `agree` read it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from obygaze.films.mark_tables import SEGMENT_COLUMNS, WATCHED, Segment
from obygaze.films.projection import Stretches
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import csv_bytes, locked, write_atomic
from obygaze_features.manifest.frame_rate import frame_rate_text
from obygaze_features.manifest.tables import read_table

COLUMNS = (*SEGMENT_COLUMNS, "framerate")
MAX_STRETCHES = 10_000
Stretch = tuple[int, int]


@dataclass(frozen=True)
class WatchedRow:
    """A row of the table; `other_cells` has the cells of the columns that others added."""

    first: int
    last: int
    framerate: str
    other_cells: Mapping[str, str]


@dataclass(frozen=True)
class WatchedTable:
    """The stretches of films that one annotator has watched."""

    path: Path
    annotator: str

    def stretches(self, movie_id: str) -> list[Stretch]:
        """Return what was watched of a film, as first and last pictures, in order."""
        return [(row.first, row.last) for row in self._read().get(movie_id, ())]

    def segments(self) -> list[Segment]:
        """Return what was watched of all films as segments of the level `watched`."""
        return [
            Segment(movie_id, self.annotator, row.first, row.last, WATCHED)
            for movie_id, rows in self._read().items()
            for row in rows
        ]

    def add(
        self, movie_id: str, stretches: Sequence[Stretch], rate: Fraction
    ) -> list[Stretch]:
        """Add stretches of a film, and return all that was watched of it.

        Columns that others added are kept. Where stretches become one, their cells are joined.
        """
        with locked(self.path.parent):
            rows = self._read()
            before = rows.get(movie_id, [])
            known = [(row.first, row.last) for row in before]
            watched = Stretches([*known, *stretches]).pairs()
            text = frame_rate_text(rate)
            rows[movie_id] = [
                WatchedRow(first, last, text, _joined_cells(before, first, last))
                for first, last in watched
            ]
            self._write(rows)
        return watched

    def remove(self, movie_id: str, stretches: Sequence[Stretch]) -> list[Stretch]:
        """Remove stretches of a film, and return all that was watched of it."""
        with locked(self.path.parent):
            rows = self._read()
            for start, end in stretches:
                rows_left = []
                for row in rows.get(movie_id, ()):
                    if row.last < start or row.first > end:
                        rows_left.append(row)
                        continue
                    if row.first < start:
                        rows_left.append(replace(row, last=start - 1))
                    if row.last > end:
                        rows_left.append(replace(row, first=end + 1))
                rows[movie_id] = rows_left
            self._write(rows)
        return [(row.first, row.last) for row in rows[movie_id]]

    def _write(self, rows: Mapping[str, Sequence[WatchedRow]]) -> None:
        """Write the table, with the columns that others added."""
        further_columns = _further_columns(rows)
        lines = []
        for film, of_film in sorted(rows.items()):
            for row in of_film:
                line = [film, self.annotator, row.first, row.last, WATCHED, ""]
                line.append(row.framerate)
                line += [row.other_cells.get(name, "") for name in further_columns]
                lines.append(line)
        write_atomic(self.path, csv_bytes((*COLUMNS, *further_columns), lines))

    def _read(self) -> dict[str, list[WatchedRow]]:
        if not self.path.exists():
            return {}
        rows: dict[str, list[WatchedRow]] = defaultdict(list)
        table = read_table(
            self.path, required=SEGMENT_COLUMNS, delimiter=None, skip_blank=True
        )
        others = [name for name in table.filled_columns if name not in COLUMNS]
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
                framerate = row.cells.get("framerate", "")
                more = {name: row.cells[name] for name in others}
                rows[row["movie_id"]].append(WatchedRow(*frames, framerate, more))
        if table.rows:
            table.rows[0].violations.raise_if_any(
                "this table of what was watched cannot be read"
            )
        return dict(rows)


def _joined_cells(rows: Iterable[WatchedRow], first: int, last: int) -> dict[str, str]:
    """Return the other cells of the rows within a stretch: different ones one after another."""
    cells: dict[str, list[str]] = {}
    for row in rows:
        if row.last < first or row.first > last:
            continue
        for name, cell in row.other_cells.items():
            texts = cells.setdefault(name, [])
            if cell and cell not in texts:
                texts.append(cell)
    return {name: "; ".join(texts) for name, texts in cells.items()}


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


def _further_columns(rows: Mapping[str, Sequence[WatchedRow]]) -> list[str]:
    """Return the columns that others added, in the order in which they are first seen."""
    names: dict[str, None] = {}
    for rows_of_film in rows.values():
        for row in rows_of_film:
            names.update(dict.fromkeys(row.other_cells))
    return list(names)
