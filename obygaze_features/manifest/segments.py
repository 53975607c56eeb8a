"""Segments that experts marked and spans of clips, both in whole frames: the input of `project`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from obygaze_features.core.errors import FixUsage
from obygaze_features.core.schema_check import Violations, raise_together
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.tables import TableRow, read_table
from obygaze_features.manifest.vocabulary import canonical_concept, canonical_level

RATE = re.compile(r"(?=.*[1-9])[0-9]{1,3}(\.[0-9]{1,6})?")
SEGMENT_COLUMNS = ("movie_id", "annotator", "start_frame", "end_frame", "level", "concepts")
CLIP_COLUMNS = ("clip_id", "movie_id", "start_frame", "end_frame")


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of film that one annotator gave a level; both frames are part of it."""

    movie_id: str
    annotator: str
    start_frame: int
    end_frame: int
    level: str
    concepts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClipSpan:
    """The frames of its film that a clip has; both frames are part of it. `fps` may be unknown."""

    clip_id: str
    movie_id: str
    start_frame: int
    end_frame: int
    fps: Fraction | None = None

    @property
    def n_frames(self) -> int:
        """The length of the clip in frames."""
        return self.end_frame - self.start_frame + 1


def read_inputs(
    segments: Path,
    clips: Path | Fraction,
    *,
    canonical: bool = False,
    fps: float | Fraction | None = None,
) -> tuple[tuple[Segment, ...], tuple[ClipSpan, ...]]:
    """Return the segments and the clip spans of two tables; one error has all violations of both.

    With `canonical`, concepts get their canonical names, and an unknown concept is a violation.
    `clips` may be a length in seconds: the films are cut into clips of that length (`spans_every`).
    """
    if isinstance(clips, Fraction):
        return read_segments(segments, canonical=canonical), spans_every(segments, clips, fps)
    wrong_segments, wrong_clips = Violations(segments), Violations(clips)
    read = read_segments(segments, canonical=canonical, violations=wrong_segments)
    spans = read_spans(clips, violations=wrong_clips)
    raise_together("the segments cannot be projected on clips", wrong_segments, wrong_clips)
    return read, spans


def read_segments(
    path: Path, *, canonical: bool = False, violations: Violations | None = None
) -> tuple[Segment, ...]:
    """Return the segments of a CSV file, in the order of its rows.

    Args:
        path: A table with the columns movie_id, annotator, start_frame, end_frame, level and
            concepts (joined with '|').
        canonical: Give concepts their canonical names; an unknown concept is a violation.
        violations: Collects the violations; without it they are raised here.
    """
    found = Violations(path) if violations is None else violations
    table = read_table(
        path,
        required=SEGMENT_COLUMNS,
        delimiter=None,
        skip_blank=True,
        violations=found,
        content="segments",
    )
    segments = tuple(one for row in table.rows if (one := _segment(row, canonical)) is not None)
    if violations is None:
        found.raise_if_any("this is not a table of segments")
    return segments


def read_spans(path: Path, *, violations: Violations | None = None) -> tuple[ClipSpan, ...]:
    """Return the clip spans of a CSV file, in the order of its rows.

    Args:
        path: A table with the columns clip_id, movie_id, start_frame and end_frame.
        violations: Collects the violations; without it they are raised here.
    """
    found = Violations(path) if violations is None else violations
    table = read_table(
        path,
        required=CLIP_COLUMNS,
        delimiter=None,
        skip_blank=True,
        violations=found,
        content="clips",
    )
    line_of: dict[str, int] = {}
    spans = []
    for row in table.rows:
        clip_id, movie_id, frames = _word(row, "clip_id"), _word(row, "movie_id"), row.frames()
        if clip_id:
            row.unique("clip_id", line_of)
        if frames is not None:
            spans.append(ClipSpan(clip_id, movie_id, *frames))
    if violations is None:
        found.raise_if_any("this is not a table of clips")
    return tuple(spans)


def spans_every(
    path: Path, seconds: float | str | Fraction, fps: float | Fraction | None = None
) -> tuple[ClipSpan, ...]:
    """Return clips of equal length that cover the marked part of each film of a table of segments.

    The clips begin at multiples of `seconds`, rounded to whole frames. The first holds the first
    marked frame of the film; a rest at the end that is shorter than a clip is left out.

    Args:
        path: A table with the columns of segments, and `framerate` unless `fps` is given.
        seconds: The length of a clip, at least that of a frame.
        fps: Frames per second of films without a `framerate`.
    """
    found, length = Violations(path), Fraction(str(seconds))
    required = ("movie_id", "start_frame", "end_frame", *(() if fps else ("framerate",)))
    table = read_table(path, required=required, delimiter=None, skip_blank=True, violations=found)
    rates: dict[str, Fraction] = {}
    marked: dict[str, tuple[int, int]] = {}
    for row in table.rows:
        movie, frames = row["movie_id"], row.frames()
        text = row.cells.get("framerate") or (str(fps) if fps else "")
        if frames is None or RATE.fullmatch(text) is None:
            row.add("framerate", f"{text!r} is not a frame rate; give --fps")
        elif rates.setdefault(movie, Fraction(text)) != Fraction(text):
            row.add("framerate", f"{text} is not that of the film's other rows, {rates[movie]}")
        elif length * rates[movie] < 1:
            raise FixUsage(f"clips must have at least one frame, got {seconds} seconds")
        else:
            first, last = marked.get(movie, frames)
            marked[movie] = min(first, frames[0]), max(last, frames[1])
    found.raise_if_any("the films cannot be cut into clips")
    return tuple(
        ClipSpan(
            f"{movie}-{n + 1:04d}", movie, round(n * step), round((n + 1) * step) - 1, rates[movie]
        )
        for movie, (first, last) in marked.items()
        for step in [length * rates[movie]]
        for n in range(int(first / step), int(last / step) + 1)
        if round((n + 1) * step) - 1 <= last
    )


def unknown_concepts(segments: Iterable[Segment]) -> list[str]:
    """Return the concepts that are not in the vocabulary under any spelling, sorted."""
    given = {concept for segment in segments for concept in segment.concepts}
    return sorted(concept for concept in given if canonical_concept(concept) is None)


def _segment(row: TableRow, canonical: bool) -> Segment | None:
    movie_id, annotator, frames = _word(row, "movie_id"), _word(row, "annotator"), row.frames()
    level, concepts = _level(row), _concepts(row, canonical)
    return Segment(movie_id, annotator, *frames, level, concepts) if frames else None


def _word(row: TableRow, column: str) -> str:
    text = row[column]
    if not text.strip():
        row.add(column, "the cell is empty")
    elif text != text.strip():
        row.add(column, f"{text!r} has blanks around it")
    return text


def _level(row: TableRow) -> str:
    level = row["level"]
    if level not in LEVELS:
        meant = canonical_level(level)
        hint = f"; write {meant}" if meant else ""
        row.add("level", f"{level!r} is not one of {', '.join(LEVELS)}{hint}")
    return level


def _concepts(row: TableRow, canonical: bool) -> tuple[str, ...]:
    text = row["concepts"].strip()
    if text.startswith("["):
        row.add("concepts", f"{text!r} is a list; join concepts with '|'")
        return ()
    names = [name.strip() for name in text.split("|")] if text else []
    if "" in names:
        row.add("concepts", f"{text!r} has an empty concept")
    if not canonical:
        return tuple(names)
    for name in names:
        if name and canonical_concept(name) is None:
            row.add("concepts", f"unknown concept {name!r}")
    return tuple(canonical_concept(name) or name for name in names)
