"""What experts marked and where clips lie, both in whole frames: the input of projecting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from obygaze_features.core.schema_check import Violations, raise_together
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.tables import CsvTable, TableRow, read_table, whole_number
from obygaze_features.manifest.vocabulary import canonical_concept, canonical_level

SEGMENT_COLUMNS = ("movie_id", "annotator", "start_frame", "end_frame", "level", "concepts")
CLIP_COLUMNS = ("clip_id", "movie_id", "start_frame", "end_frame")
UNUSABLE = "segments cannot be projected on clips"


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of film that one annotator gave a level; both ends are part of it."""

    movie_id: str
    annotator: str
    start_frame: int
    end_frame: int
    level: str
    concepts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClipSpan:
    """Where a clip lies in its film; both ends are part of it."""

    clip_id: str
    movie_id: str
    start_frame: int
    end_frame: int

    @property
    def n_frames(self) -> int:
        """The clip's length."""
        return self.end_frame - self.start_frame + 1


def read_inputs(
    segments: Path, clips: Path, *, canonical: bool = False
) -> tuple[tuple[Segment, ...], tuple[ClipSpan, ...]]:
    """Both tables; what is wrong with either is told together.

    With `canonical`, concepts are given their one name, and an unknown one is a violation.
    """
    wrong_segments, wrong_clips = Violations(segments), Violations(clips)
    read = _segments(segments, wrong_segments, canonical)
    spans = _spans(clips, wrong_clips)
    raise_together(UNUSABLE, wrong_segments, wrong_clips)
    return read, spans


def read_segments(path: Path, *, canonical: bool = False) -> tuple[Segment, ...]:
    """A table of segments, in the order of its rows."""
    found = Violations(path)
    segments = _segments(path, found, canonical)
    found.raise_if_any("this is not a table of segments")
    return segments


def read_spans(path: Path) -> tuple[ClipSpan, ...]:
    """A table of clips in frames, in the order of its rows."""
    found = Violations(path)
    spans = _spans(path, found)
    found.raise_if_any("this is not a table of clips")
    return spans


def unknown_concepts(segments: Iterable[Segment]) -> list[str]:
    """The concepts that the vocabulary knows under no spelling, sorted."""
    given = {concept for segment in segments for concept in segment.concepts}
    return sorted(concept for concept in given if canonical_concept(concept) is None)


def _segments(path: Path, found: Violations, canonical: bool) -> tuple[Segment, ...]:
    table = read_table(path, required=SEGMENT_COLUMNS, skip_blank=True, violations=found)
    _refuse_no_rows(table, found, "segments")
    read = (_segment(row, found, canonical) for row in table.rows)
    return tuple(segment for segment in read if segment is not None)


def _spans(path: Path, found: Violations) -> tuple[ClipSpan, ...]:
    table = read_table(path, required=CLIP_COLUMNS, skip_blank=True, violations=found)
    _refuse_no_rows(table, found, "clips")
    first_lines: dict[str, int] = {}
    spans = []
    for row in table.rows:
        clip_id = _word(row, "clip_id", found)
        first = first_lines.setdefault(clip_id, row.line)
        if clip_id and first != row.line:
            found.add(row.line, "clip_id", f"{clip_id!r} is already on line {first}")
        movie_id, frames = _word(row, "movie_id", found), _frames(row, found)
        if frames is not None:
            spans.append(ClipSpan(clip_id, movie_id, *frames))
    return tuple(spans)


def _refuse_no_rows(table: CsvTable, found: Violations, what: str) -> None:
    if not table.rows and not found:
        found.add(2, None, f"there is a header, but no {what}")


def _segment(row: TableRow, found: Violations, canonical: bool) -> Segment | None:
    movie_id, annotator = _word(row, "movie_id", found), _word(row, "annotator", found)
    frames, level = _frames(row, found), _level(row, found)
    concepts = _concepts(row, found, canonical)
    if frames is None:
        return None
    return Segment(movie_id, annotator, *frames, level, concepts)


def _word(row: TableRow, column: str, found: Violations) -> str:
    text = row[column]
    if not text.strip():
        found.add(row.line, column, "is empty")
    elif text != text.strip():
        found.add(row.line, column, f"{text!r} has blanks around it")
    return text


def _frames(row: TableRow, found: Violations) -> tuple[int, int] | None:
    start, end = _frame(row, "start_frame", found), _frame(row, "end_frame", found)
    if start is None or end is None:
        return None
    if end < start:
        found.add(row.line, "end_frame", f"the end {end} is before the start {start}")
        return None
    return start, end


def _frame(row: TableRow, column: str, found: Violations) -> int | None:
    frame = whole_number(row[column])
    if frame is None:
        found.add(row.line, column, f"{row[column]!r} is not a whole number of frames")
    elif frame < 0:
        found.add(row.line, column, f"{frame} is before the film starts, the first frame is 0")
        return None
    return frame


def _level(row: TableRow, found: Violations) -> str:
    level = row["level"]
    if level not in LEVELS:
        meant = canonical_level(level)
        hint = f"; write {meant}" if meant else ""
        found.add(row.line, "level", f"{level!r} is not one of {', '.join(LEVELS)}{hint}")
    return level


def _concepts(row: TableRow, found: Violations, canonical: bool) -> tuple[str, ...]:
    text = row["concepts"].strip()
    if text.startswith("["):
        found.add(row.line, "concepts", f"{text!r} is a list; join concepts with '|'")
        return ()
    names = [name.strip() for name in text.split("|")] if text else []
    if "" in names:
        found.add(row.line, "concepts", f"{text!r} has an empty concept")
    return tuple(_canonical(name, row, found) for name in names) if canonical else tuple(names)


def _canonical(name: str, row: TableRow, found: Violations) -> str:
    known = canonical_concept(name)
    if known is None and name:
        found.add(row.line, "concepts", f"{name!r} is not a known concept")
    return known or name
