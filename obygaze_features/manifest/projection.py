"""Convert segments to clip labels: by overlap as a share of the clip, the highest level first.

The rules, all in whole frames so that the exact case is exact:

- a segment qualifies where its overlap with the clip is at least `threshold` of the clip; each
  segment is tested alone, fragments are never added up;
- the highest level among an annotator's qualifying segments is the clip's level, with the
  concepts of the qualifying segments of that level only;
- where none qualifies the level is EN with no ratio. If then even the frames that nobody marked
  are fewer than the threshold asks for, the clip is also counted as unlabelled;
- annotators of a film are merged the same way: highest level, concepts joined at that level.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

from obygaze_features.core.console import count
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import csv_bytes
from obygaze_features.core.notebook import short_repr
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.segments import ClipSpan, Segment

CSV_COLUMNS = (
    *("annotator", "clip_id", "movie_id", "level", "concepts"),
    *("overlap_frames", "clip_frames"),
)
TIME_COLUMNS = ("start_s", "end_s")
DEFAULT_THRESHOLD = Fraction(1, 5)
_SHARE = re.compile(r"[0-9]{1,9}/[1-9][0-9]{0,8}|[0-9]{0,9}\.?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class ClipLevel:
    """The level of a clip, from one annotator or merged from all of them.

    `ratio` is overlap and clip length, in frames, of the largest segment that decided the level.
    `labelled` is False where neither a segment nor the unmarked rest of the clip reaches the
    threshold.
    """

    clip_id: str
    level: str
    concepts: tuple[str, ...] = ()
    ratio: tuple[int, int] | None = None
    labelled: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the level as a JSON object; it is null where the clip has no label."""
        record = asdict(self)
        return record if record.pop("labelled") else {**record, "level": None}


@dataclass(frozen=True, repr=False)
class Projection:
    """Levels of clips by annotator and merged, in the order of the clips.

    An annotator has levels for the clips of the films in which he or she marked segments. Clips
    of a film without segments have no level; they are listed in `unseen`.
    """

    threshold: Fraction
    by_annotator: Mapping[str, tuple[ClipLevel, ...]]
    merged: tuple[ClipLevel, ...]
    unseen: tuple[str, ...] = ()

    def __repr__(self) -> str:
        counts = ", ".join(f"{n} {level}" for level, n in self.counts().items())
        size = count(len(self.merged), "clip")
        annotators = count(len(self.by_annotator), "annotator")
        threshold = f"threshold {threshold_text(self.threshold)}"
        return short_repr("Projection", size, counts, annotators, threshold)

    @property
    def unlabelled(self) -> tuple[str, ...]:
        """The clips without a label: neither segments nor the unmarked rest reach the threshold."""
        return tuple(row.clip_id for row in self.merged if not row.labelled)

    def counts(self) -> dict[str, int]:
        """Return how many merged clips each level has; clips without a label are not counted."""
        levels = [row.level for row in self.merged if row.labelled]
        return {level: levels.count(level) for level in LEVELS}

    def to_json(self) -> dict[str, Any]:
        """Return the projection as one JSON document."""
        rows = self.by_annotator.items()
        return {
            "threshold": threshold_text(self.threshold),
            "projections": {name: [row.to_json() for row in levels] for name, levels in rows},
            "merged": [row.to_json() for row in self.merged],
            "unlabelled": len(self.unlabelled),
            "unlabelled_clips": list(self.unlabelled),
        }


def as_threshold(value: str | float | Fraction) -> Fraction:
    """Return the exact share of the clip that a text such as 0.2, .25 or 1/3 stands for."""
    text = str(value).strip()
    share = Fraction(text) if _SHARE.fullmatch(text) else None
    if share is None or share > 1:
        raise FixUsage(f"the threshold must be from 0 to 1, got {text!r}", hint="0.2 or 1/3")
    return share


def threshold_text(threshold: Fraction) -> str:
    """Return a threshold as text: a decimal where that is exact, else a fraction."""
    text = f"{float(threshold):.12f}".rstrip("0").rstrip(".")
    return text if Fraction(text) == threshold else str(threshold)


def frames_needed(n_frames: int, threshold: Fraction) -> int:
    """Return the least overlap that reaches the threshold, at least one frame."""
    return max(1, -(-threshold.numerator * n_frames // threshold.denominator))


def project(
    segments: Iterable[Segment], spans: Iterable[ClipSpan], threshold: Fraction = DEFAULT_THRESHOLD
) -> Projection:
    """Return the level of every clip, by annotator and merged.

    Args:
        segments: What the annotators marked, in any order.
        spans: The clips.
        threshold: The least share of a clip that a segment must cover to count.
    """
    tracks = _tracks(segments)
    annotators = sorted({annotator for films in tracks.values() for annotator in films})
    by_annotator: dict[str, list[ClipLevel]] = {annotator: [] for annotator in annotators}
    merged, unseen = [], []
    for span in spans:
        rows = []
        for annotator, track in tracks.get(span.movie_id, {}).items():
            rows.append(track.level_of(span, threshold))
            by_annotator[annotator].append(rows[-1])
        if rows:
            merged.append(merge(rows))
        else:
            unseen.append(span.clip_id)
    kept = {annotator: tuple(rows) for annotator, rows in by_annotator.items()}
    return Projection(threshold, kept, tuple(merged), tuple(unseen))


def merge(rows: Sequence[ClipLevel]) -> ClipLevel:
    """Return one level from several of a clip: the highest, with its concepts."""
    level = max((row.level for row in rows), key=LEVELS.index)
    winners = [row for row in rows if row.level == level]
    return ClipLevel(
        clip_id=rows[0].clip_id,
        level=level,
        concepts=tuple(sorted({concept for row in winners for concept in row.concepts})),
        ratio=max((row.ratio for row in winners if row.ratio is not None), default=None),
        labelled=any(row.labelled for row in rows),
    )


class AnnotatorTrack:
    """The segments of one annotator in one film, indexed for overlaps with clips."""

    def __init__(self, segments: Iterable[Segment]) -> None:
        self.segments = sorted(segments, key=lambda segment: segment.start_frame)
        self.starts = [segment.start_frame for segment in self.segments]
        # Segments may overlap each other, so ends are not sorted; how far any of them reaches is.
        self.reach = list(accumulate((segment.end_frame for segment in self.segments), max))

    def overlapping(self, span: ClipSpan) -> list[tuple[int, Segment]]:
        """Return the segments that share frames with a clip, each with how many."""
        first = bisect_left(self.reach, span.start_frame)
        last = bisect_right(self.starts, span.end_frame)
        shared = [(overlap_frames(segment, span), segment) for segment in self.segments[first:last]]
        return [(overlap, segment) for overlap, segment in shared if overlap > 0]

    def level_of(self, span: ClipSpan, threshold: Fraction) -> ClipLevel:
        """Return the level of a clip from this annotator."""
        needed = frames_needed(span.n_frames, threshold)
        touching = self.overlapping(span)
        qualifying = [
            ClipLevel(span.clip_id, segment.level, segment.concepts, (overlap, span.n_frames))
            for overlap, segment in touching
            if overlap >= needed
        ]
        if qualifying:
            return merge(qualifying)
        rest = span.n_frames - _covered(span, (segment for _, segment in touching))
        return ClipLevel(span.clip_id, LEVELS[0], labelled=rest >= needed)


def projection_to_csv(
    projection: Projection, spans: Iterable[ClipSpan], *, by_annotator: bool = False
) -> bytes:
    """Return the merged levels as CSV, or with `by_annotator` those of each annotator.

    Where the frame rate of the clips is known, the rows have their times in seconds.
    """
    span_of = {span.clip_id: span for span in spans}
    timed = bool(span_of) and all(span.fps for span in span_of.values())
    tracks = projection.by_annotator if by_annotator else {"": projection.merged}
    rows = []
    for annotator, levels in tracks.items():
        for row in levels:
            level = row.level if row.labelled else ""
            concepts, ratio = "|".join(row.concepts), row.ratio or ("", "")
            span = span_of[row.clip_id]
            times = _times(span) if timed else ()
            rows.append((annotator, row.clip_id, span.movie_id, level, concepts, *ratio, *times))
    first = 0 if by_annotator else 1
    columns = (*CSV_COLUMNS, *TIME_COLUMNS) if timed else CSV_COLUMNS
    return csv_bytes(columns[first:], (row[first:] for row in rows))


def _times(span: ClipSpan) -> tuple[str, ...]:
    fps = span.fps or Fraction(1)
    return repr(float(span.start_frame / fps)), repr(float((span.end_frame + 1) / fps))


def _tracks(segments: Iterable[Segment]) -> dict[str, dict[str, AnnotatorTrack]]:
    grouped: dict[str, dict[str, list[Segment]]] = defaultdict(lambda: defaultdict(list))
    for segment in segments:
        grouped[segment.movie_id][segment.annotator].append(segment)
    return {
        movie: {annotator: AnnotatorTrack(films[annotator]) for annotator in sorted(films)}
        for movie, films in grouped.items()
    }


def overlap_frames(segment: Segment, span: ClipSpan) -> int:
    """Return how many frames a segment and a clip share; not above 0 where they share none."""
    first = max(segment.start_frame, span.start_frame)
    return min(segment.end_frame, span.end_frame) - first + 1


def _covered(span: ClipSpan, segments: Iterable[Segment]) -> int:
    """Return how many frames of a clip are marked; `segments` are in the order of starts."""
    covered, next_frame = 0, span.start_frame
    for segment in segments:
        first, last = max(segment.start_frame, next_frame), min(segment.end_frame, span.end_frame)
        if last >= first:
            covered, next_frame = covered + last - first + 1, last + 1
    return covered
