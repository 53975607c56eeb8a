"""Small films for tests: segments and clips in a few words, as objects or as the tables on disk."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

from obygaze.films.clip_spans import equal_clips, read_clip_spans
from obygaze.films.mark_tables import SEGMENT_COLUMNS, Marks, Segment, read_marks
from obygaze.films.projection import ClipSpan


def marks(text: str, *, film: str = "m", annotator: str = "A") -> list[Segment]:
    """Segments from '0-99 S Body|Look, 100-149 HN': first and last frame, level, concepts."""
    found = []
    for part in filter(str.strip, text.split(",")):
        frames, level, *concepts = part.split(maxsplit=2)
        start, end = map(int, frames.split("-"))
        names = tuple(concepts[0].strip().split("|")) if concepts else ()
        found.append(Segment(film, annotator, start, end, level, names))
    return found


def clips(text: str, *, film: str = "m") -> list[ClipSpan]:
    """Clips from '0-99 100-199', called m-001, m-002."""
    bounds = [tuple(map(int, part.split("-"))) for part in text.split()]
    return [
        ClipSpan(f"{film}-{number:03d}", film, start, end)
        for number, (start, end) in enumerate(bounds, start=1)
    ]


def write_segments(path: Path, segments: Iterable[Segment]) -> Path:
    """The table of segments that the command reads."""
    rows = [
        (
            s.movie_id,
            s.annotator,
            s.start_frame,
            s.end_frame,
            s.level,
            "|".join(s.concepts),
        )
        for s in segments
    ]
    return _write(path, SEGMENT_COLUMNS, rows)


def write_spans(path: Path, spans: Iterable[ClipSpan]) -> Path:
    """The table of clips that the command reads."""
    rows = [(s.clip_id, s.movie_id, s.start_frame, s.end_frame) for s in spans]
    return _write(path, ("clip_id", "movie_id", "start_frame", "end_frame"), rows)


def read_inputs(
    segments: Path, cut: Path | Fraction, fps: str | int | None = None
) -> tuple[tuple[Segment, ...], tuple[ClipSpan, ...]]:
    """The segments of a table, and the clips of a table, or those of an equal length."""
    found = read_marks(segments, fps=fps)
    if isinstance(cut, Fraction):
        return found.segments, equal_clips(found, cut)
    return found.segments, read_clip_spans(cut, found)


def read_segments(path: Path) -> tuple[Segment, ...]:
    """The segments of a table."""
    return read_marks(path).segments


def read_spans(path: Path) -> tuple[ClipSpan, ...]:
    """The clips of a table of frames."""
    return read_clip_spans(path, Marks(tuple(marks("0-9 S"))))


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    return path
