"""Lanes of numbers by time: the columns of a table that somebody has, such as shot lengths.

A row is a stretch of a film (`start_s` and `end_s`, or `start_frame` and `end_frame`), a moment
(`time_s`, which holds until the next one of its film) or a clip of the manifest (`clip_id`). Each
further column of numbers is a lane; `NAME_low` and `NAME_high` are the interval of the column NAME.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from obygaze_features.core.console import few
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.tables import CsvTable, TableRow, read_table

Span = tuple[float, float]
# Start and end in seconds, the value and the ends of its interval.
Bar = tuple[float, float, float, float | None, float | None]
PLACES = ("start_s", "end_s", "start_frame", "end_frame", "time_s", "framerate")
FORMS = "columns movie_id with start_s and end_s, start_frame and end_frame, or time_s; or clip_id"
DECIMAL_COMMA = re.compile(r"[-+]?[0-9]+,[0-9]+")
NAMES = ("movie_id", "clip_id", "annotator", "level", "concepts", *PLACES)


@dataclass(frozen=True)
class NumberLane:
    """A column of numbers: its bars by film, and its least and largest value in all films."""

    name: str
    bars: Mapping[str, Sequence[Bar]]
    low: float
    high: float


def read_lanes(
    path: Path,
    rates: Mapping[str, float],
    spans_of_clips: Mapping[str, tuple[str, Span]],
) -> list[NumberLane]:
    """Return the columns of numbers of a table, in its order; rows of other films are left out.

    Args:
        path: A CSV file or a spreadsheet.
        rates: Pictures per second of each film of the manifest; 0 where they are not known.
        spans_of_clips: The film of each clip, with its start and end in seconds.
    """
    table = read_table(path, required=(), delimiter=None, skip_blank=True)
    if table.delimiter != ",":
        table = _with_points(table)
    spans = _spans(table, path, rates, spans_of_clips)
    numbers = {}
    for name in table.filled_columns:
        cells = [row.cells[name].strip() for row in table.rows]
        values = [_number(cell) for cell in cells]
        n_numbers = len(values) - values.count(None)
        # Blank cells are gaps; a column with other text is no column of numbers.
        if name not in NAMES and 0 < n_numbers == len(cells) - cells.count(""):
            numbers[name] = values
    lanes = []
    for name, values in numbers.items():
        if _is_end(name, numbers):
            continue
        blank = [None] * len(values)
        lows = numbers.get(f"{name}_low", blank)
        highs = numbers.get(f"{name}_high", blank)
        lane = _lane(name, spans, values, lows, highs)
        if lane.bars:
            lanes.append(lane)
    if not lanes:
        raise FixInput(
            "no column of this table has numbers for a film of the manifest",
            where=str(path),
            hint=f"{FORMS}; and a column of numbers. The films are {few(list(rates))}",
        )
    return lanes


def _with_points(table: CsvTable) -> CsvTable:
    """Return a table with points in place of the decimal commas of French and German programs."""
    rows = []
    for row in table.rows:
        cells = {}
        for name, cell in row.cells.items():
            is_number = DECIMAL_COMMA.fullmatch(cell.strip()) is not None
            cells[name] = cell.replace(",", ".") if is_number else cell
        rows.append(replace(row, cells=cells))
    return replace(table, rows=tuple(rows))


def _is_end(name: str, numbers: Iterable[str]) -> bool:
    """Return whether a column is an end of the interval of another one."""
    for ending in ("_low", "_high"):
        if name.endswith(ending) and name.removesuffix(ending) in numbers:
            return True
    return False


def _lane(
    name: str,
    spans: Sequence[tuple[str, Span] | None],
    values: Sequence[float | None],
    lows: Sequence[float | None],
    highs: Sequence[float | None],
) -> NumberLane:
    bars: dict[str, list[Bar]] = {}
    ends: list[float] = []
    for span, value, low, high in zip(spans, values, lows, highs, strict=True):
        if span is None or value is None:
            continue
        film, (start_s, end_s) = span
        bars.setdefault(film, []).append((start_s, end_s, value, low, high))
        ends += [end for end in (value, low, high) if end is not None]
    for of_film in bars.values():
        of_film.sort(key=lambda bar: bar[:2])
    return NumberLane(name, bars, min(ends, default=0.0), max(ends, default=0.0))


def _spans(
    table: CsvTable,
    path: Path,
    rates: Mapping[str, float],
    spans_of_clips: Mapping[str, tuple[str, Span]],
) -> list[tuple[str, Span] | None]:
    """Return the film and the times of each row; None where the film or the clip is unknown."""
    columns = set(table.filled_columns)
    rows = table.rows
    if {"movie_id", "start_s", "end_s"} <= columns:
        spans = [_between_seconds(row, rates) for row in rows]
    elif {"movie_id", "start_frame", "end_frame"} <= columns:
        spans = [_between_frames(row, rates) for row in rows]
    elif {"movie_id", "time_s"} <= columns:
        spans = _after_moments(rows, rates)
    elif "clip_id" in columns:
        spans = [spans_of_clips.get(row["clip_id"]) for row in rows]
    else:
        raise FixInput(
            "this table does not say where its numbers are", where=str(path), hint=FORMS
        )
    if rows:
        rows[0].violations.raise_if_any("this table cannot be shown as lanes")
    return spans


def _between_seconds(
    row: TableRow, rates: Mapping[str, float]
) -> tuple[str, Span] | None:
    start_s = _seconds(row, "start_s")
    end_s = _seconds(row, "end_s")
    if start_s is None or end_s is None or row["movie_id"] not in rates:
        return None
    if end_s <= start_s:
        row.add("end_s", f"{row['end_s']} is not after start_s, {row['start_s']}")
        return None
    return row["movie_id"], (start_s, end_s)


def _between_frames(
    row: TableRow, rates: Mapping[str, float]
) -> tuple[str, Span] | None:
    frames = row.frames()
    rate = rates.get(row["movie_id"], 0.0)
    if frames is None or not rate:
        return None
    first, last = frames
    return row["movie_id"], (first / rate, (last + 1) / rate)


def _after_moments(
    rows: Sequence[TableRow], rates: Mapping[str, float]
) -> list[tuple[str, Span] | None]:
    """Return for each moment the time up to the next one.

    The last one of a film holds for the median of the others, or for a second.
    """
    times_of_film: dict[str, list[float]] = {}
    moments = [_seconds(row, "time_s") for row in rows]
    for row, time_s in zip(rows, moments, strict=True):
        if time_s is not None and row["movie_id"] in rates:
            times_of_film.setdefault(row["movie_id"], []).append(time_s)
    next_of_film = {}
    for film, times in times_of_film.items():
        distinct = sorted(set(times))
        steps = [later - time for time, later in pairwise(distinct)]
        last_step = median(steps) if steps else 1.0
        following = [*distinct[1:], distinct[-1] + last_step]
        next_of_film[film] = dict(zip(distinct, following, strict=True))
    spans: list[tuple[str, Span] | None] = []
    for row, time_s in zip(rows, moments, strict=True):
        film = row["movie_id"]
        if time_s is None or film not in next_of_film:
            spans.append(None)
        else:
            spans.append((film, (time_s, next_of_film[film][time_s])))
    return spans


def _seconds(row: TableRow, column: str) -> float | None:
    value = _number(row[column])
    if value is None or value < 0:
        row.add(column, f"{row[column]!r} is not a time in seconds")
        return None
    return value


def _number(text: str) -> float | None:
    """Return the number in a cell; None where there is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
