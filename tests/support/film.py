"""Small films for tests: marks and clips in a few words, as objects or as the tables on disk.

Pictures are counted at 25 a second.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from obygaze.films.marks import COLUMNS, Mark
from obygaze.films.projection import ClipSpan

RATE = 25


def marks(text: str, *, film: str = "m", annotator: str = "A") -> list[Mark]:
    """Marks from '0-99 S Body|Look, 100-149 HN': first and last picture, level, concepts.

    A level `watched` says what was seen, and `Gewalt=stark` is a column and its value.
    """
    found = []
    for part in filter(str.strip, text.split(",")):
        pictures, level, *concepts = part.split(maxsplit=2)
        first, last = map(int, pictures.split("-"))
        span_s = first / RATE, (last + 1) / RATE
        column, sign, value = level.partition("=")
        if not sign:
            column, value = "watched" if level == "watched" else "level", level
        found.append(Mark(film, *span_s, column, value, annotator))
        for name in concepts[0].strip().split("|") if concepts else ():
            found.append(Mark(film, *span_s, "concepts", name, annotator))
    return found


def clips(text: str, *, film: str = "m") -> list[ClipSpan]:
    """Clips from '0-99 100-199', called m-001, m-002."""
    spans = []
    for number, part in enumerate(text.split(), start=1):
        first, last = map(int, part.split("-"))
        own_id = f"{film}-{number:03d}"
        spans.append(ClipSpan(own_id, film, first / RATE, (last + 1) / RATE))
    return spans


def write_marks(path: Path, rows: Iterable[Mark]) -> Path:
    return _write(path, COLUMNS, (row[: len(COLUMNS)] for row in rows))


def rows_of_segments(segments: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table of marks, of segments in frames with a level and concepts.

    A level `watched` says what was seen; a frame or a rate may be wrong.
    """
    rows = []
    for segment in segments:
        rate = segment["framerate"]
        counts = Fraction(rate if str(rate)[:1].isdigit() else RATE)
        frames = {name: segment[name] for name in ("start_frame", "end_frame")}
        place = {
            "movie_id": segment["movie_id"],
            "start_s": f"{float(frames['start_frame'] / counts):.9f}",
            "end_s": f"{float((frames['end_frame'] + 1) / counts):.9f}",
        }
        level = segment["level"]
        words = [("watched" if level == "watched" else "level", level)]
        words += [("concepts", name) for name in segment.get("concepts", "").split("|")]
        for column, value in words:
            if value:
                said = {"column": column, "value": value}
                said["annotator"] = segment["annotator"]
                rows.append({**place, **said, **frames, "framerate": rate})
    return rows


def write_spans(path: Path, spans: Iterable[ClipSpan]) -> Path:
    columns = ("clip_id", "movie_id", "start_s", "end_s")
    return _write(path, columns, (span[: len(columns)] for span in spans))


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    return path
