"""Convert segments to clip labels: by overlap as a share of the clip, the highest level first.

The rules, all in whole frames so that the exact case is exact:

- a segment qualifies where its overlap with the clip is at least `threshold` of the clip; each
  segment is tested alone, fragments are never added up;
- the highest level among an annotator's qualifying segments is the clip's level, with the
  concepts of the qualifying segments of that level only;
- where none qualifies the level is EN with no ratio, if the annotator has seen at least
  `SEEN_SHARE` of the clip; else the clip has no label;
- what was seen are the segments, those with the level `watched` among them. Of a film for which an
  annotator has none of this level, the whole film counts as watched; `Projection.assumed` lists
  these films;
- a rule makes one label of those of the annotators of a film: by default the highest level, with
  the concepts of those who gave it.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import accumulate
from types import MappingProxyType
from typing import Any

from obygaze.films.mark_tables import TIME_COLUMNS, WATCHED, Segment
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import csv_bytes
from obygaze_features.core.notebook import short_repr
from obygaze_features.manifest.annotators import HIGHEST, labelled
from obygaze_features.manifest.frame_rate import frame_rate_text
from obygaze_features.manifest.listing import TITLE
from obygaze_features.manifest.model import LEVELS, Annotation, Clip, Header, Manifest
from obygaze_features.manifest.own_labels import OF_PROJECTION
from obygaze_features.manifest.spans import RATE_COLUMN, Span

CSV_COLUMNS = ("clip_id", "movie_id", "level", "concepts", *OF_PROJECTION)
DEFAULT_THRESHOLD = Fraction(1, 5)
# A clip is a negative if most of it was seen.
SEEN_SHARE = Fraction(4, 5)
_SHARE = re.compile(r"[0-9]{1,9}/[1-9][0-9]{0,8}|[0-9]{0,9}\.?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class ClipSpan:
    """The frames of its film that a clip has; both frames are part of it.

    `fps` may be unknown, and then `times_s`, when the clip begins and ends in its film.
    """

    clip_id: str
    movie_id: str
    start_frame: int
    end_frame: int
    fps: Fraction | None = None
    times_s: Span | None = None

    @property
    def n_frames(self) -> int:
        """The length of the clip in frames."""
        return self.end_frame - self.start_frame + 1


def one_of_each(spans: Iterable[ClipSpan]) -> list[ClipSpan]:
    """Return the first span of those that have the same pictures of a film."""
    of_pictures: dict[tuple[str, int, int], ClipSpan] = {}
    for span in spans:
        pictures = (span.movie_id, span.start_frame, span.end_frame)
        of_pictures.setdefault(pictures, span)
    return list(of_pictures.values())


@dataclass(frozen=True, slots=True)
class ClipLevel:
    """The level of a clip, from one annotator or by the rule from all of them.

    `ratio` is overlap and clip length, in frames, of the largest segment that decided the level.
    `labelled` is False where no segment reaches the threshold and too little of the clip was seen.
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

    An annotator has levels for the clips of the films in which he or she marked or watched
    something. Clips of other films have no level; they are listed in `unseen`. `assumed` lists
    films with annotators: clips of these are EN only because the whole film counts as watched.
    `labels` has the clips with the labels that the rule makes, and what each annotator said.
    """

    threshold: Fraction
    by_annotator: Mapping[str, tuple[ClipLevel, ...]]
    merged: tuple[ClipLevel, ...]
    labels: Manifest
    unseen: tuple[str, ...] = ()
    assumed: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        counts = ", ".join(f"{n} {level}" for level, n in self.counts().items())
        size = count(len(self.merged), "clip")
        annotators = count(len(self.by_annotator), "annotator")
        threshold = f"threshold {threshold_text(self.threshold)}"
        return short_repr("Projection", size, counts, annotators, threshold)

    @property
    def unlabelled(self) -> tuple[str, ...]:
        """The clips without a label: nothing reaches the threshold, and too little was seen."""
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
            "projections": {
                name: [row.to_json() for row in levels] for name, levels in rows
            },
            "merged": [row.to_json() for row in self.merged],
            "unlabelled": len(self.unlabelled),
            "unlabelled_clips": list(self.unlabelled),
            "assumed_watched": [list(pair) for pair in self.assumed],
        }


def as_threshold(value: str | float | Fraction) -> Fraction:
    """Return the exact share of the clip that a text such as 0.2, .25 or 1/3 stands for."""
    text = str(value).strip()
    share = Fraction(text) if _SHARE.fullmatch(text) else None
    if share is None or share > 1:
        raise FixUsage(
            f"the threshold must be from 0 to 1, got {text!r}", hint="0.2 or 1/3"
        )
    return share


def threshold_text(threshold: Fraction) -> str:
    """Return a threshold as text: a decimal where that is exact, else a fraction."""
    text = f"{float(threshold):.12f}".rstrip("0").rstrip(".")
    return text if Fraction(text) == threshold else str(threshold)


def frames_needed(n_frames: int, threshold: Fraction) -> int:
    """Return the least overlap that reaches the threshold, at least one frame."""
    return max(1, -(-threshold.numerator * n_frames // threshold.denominator))


def project(
    segments: Iterable[Segment],
    spans: Iterable[ClipSpan],
    threshold: Fraction = DEFAULT_THRESHOLD,
    rule: str = HIGHEST,
) -> Projection:
    """Return the level of every clip, by annotator and merged.

    Args:
        segments: What the annotators marked and watched, in any order.
        spans: The clips.
        threshold: The least share of a clip that a segment must cover to count.
        rule: The rule that makes one label of those of the annotators.
    """
    marked: dict[str, dict[str, list[Segment]]] = defaultdict(lambda: defaultdict(list))
    by_annotator: dict[str, list[ClipLevel]] = {}
    for segment in sorted(
        segments, key=lambda segment: (segment.annotator, segment.start_frame)
    ):
        marked[segment.movie_id][segment.annotator].append(segment)
        by_annotator[segment.annotator] = []
    tracks: dict[str, dict[str, AnnotatorTrack]] = {}
    for movie_id, segments_of in marked.items():
        tracks[movie_id] = {
            name: AnnotatorTrack(segments_of_annotator)
            for name, segments_of_annotator in segments_of.items()
        }
    levels_of_clip: dict[str, list[ClipLevel]] = {}
    clips: list[Clip] = []
    annotations: list[Annotation] = []
    unseen: list[str] = []
    assumed: set[tuple[str, str]] = set()
    for span in spans:
        levels = []
        for annotator, track in tracks.get(span.movie_id, {}).items():
            level = track.level_of(span, threshold)
            levels.append(level)
            by_annotator[annotator].append(level)
            if level.labelled:
                annotations.append(
                    Annotation(
                        span.clip_id, annotator, level.level, level.concepts, own={}
                    )
                )
            if level.ratio is None and level.labelled and track.watched is None:
                assumed.add((span.movie_id, annotator))
        if levels:
            levels_of_clip[span.clip_id] = levels
            clips.append(Clip(span.clip_id, span.movie_id))
        else:
            unseen.append(span.clip_id)
    labels = labelled(_with_annotations(clips, annotations), rule)
    levels_by_annotator = {
        annotator: tuple(levels) for annotator, levels in by_annotator.items()
    }
    return Projection(
        threshold,
        levels_by_annotator,
        tuple(_level_of_label(clip, levels_of_clip[clip.clip_id]) for clip in labels),
        labels,
        tuple(unseen),
        tuple(sorted(assumed)),
    )


def _with_annotations(
    clips: Sequence[Clip], annotations: Sequence[Annotation]
) -> Manifest:
    """Return a manifest of clips without labels, and of what each annotator said of them."""
    names: set[str] = set()
    for one in annotations:
        names.update(one.concepts)
    header = Header("marks", dict.fromkeys(sorted(names), "unknown"))
    return Manifest("marks", header, tuple(clips), annotations=tuple(annotations))


def _level_of_label(clip: Clip, rows: Iterable[ClipLevel]) -> ClipLevel:
    """Return the label of a clip, with the largest ratio of the annotators who gave its level."""
    ratios = [row.ratio for row in rows if row.labelled and row.level == clip.level]
    return ClipLevel(
        clip_id=clip.clip_id,
        level=clip.level or LEVELS[0],
        concepts=clip.concepts,
        ratio=max((ratio for ratio in ratios if ratio), default=None),
        labelled=bool(clip.level),
    )


def highest_level(rows: Sequence[ClipLevel]) -> ClipLevel:
    """Return one level from those of the segments of a clip: the highest, with its concepts."""
    level = max((row.level for row in rows), key=LEVELS.index)
    winners = [row for row in rows if row.level == level]
    concepts: set[str] = set()
    for row in winners:
        concepts.update(row.concepts)
    ratio = max(row.ratio for row in winners if row.ratio)
    return ClipLevel(rows[0].clip_id, level, tuple(sorted(concepts)), ratio)


class AnnotatorTrack:
    """The segments of one annotator in one film, in the order of their starts.

    `watched` are the stretches that the annotator has seen, marked ones included; None if nothing
    is known of it.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = [segment for segment in segments if segment.level != WATCHED]
        self.starts = [segment.start_frame for segment in self.segments]
        # Segments may overlap each other, so ends are not sorted; how far any of them reaches is.
        self.reach = list(
            accumulate((segment.end_frame for segment in self.segments), max)
        )
        self.watched: Stretches | None = None
        if len(self.segments) < len(segments):
            self.watched = Stretches(
                (segment.start_frame, segment.end_frame) for segment in segments
            )

    def level_of(self, span: ClipSpan, threshold: Fraction) -> ClipLevel:
        """Return the level of a clip from this annotator."""
        needed = frames_needed(span.n_frames, threshold)
        first = bisect_left(self.reach, span.start_frame)
        last = bisect_right(self.starts, span.end_frame)
        qualifying = []
        for segment in self.segments[first:last]:
            overlap = overlap_frames(segment, span)
            if overlap >= needed:
                ratio = overlap, span.n_frames
                level = ClipLevel(span.clip_id, segment.level, segment.concepts, ratio)
                qualifying.append(level)
        if qualifying:
            return highest_level(qualifying)
        n_seen = span.n_frames
        if self.watched is not None:
            n_seen = self.watched.n_frames_in(span)
        is_seen = n_seen >= frames_needed(span.n_frames, SEEN_SHARE)
        return ClipLevel(span.clip_id, LEVELS[0], labelled=is_seen)


class Stretches:
    """Frames of a film as stretches that neither overlap nor touch, from the first to the last."""

    def __init__(self, stretches: Iterable[tuple[int, int]]) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        for start, end in sorted(stretches):
            if self.ends and start <= self.ends[-1] + 1:
                self.ends[-1] = max(self.ends[-1], end)
            else:
                self.starts.append(start)
                self.ends.append(end)

    def pairs(self) -> list[tuple[int, int]]:
        """Return the first and the last frame of each stretch, in order."""
        return list(zip(self.starts, self.ends, strict=True))

    def n_frames_in(self, span: ClipSpan) -> int:
        """Return how many frames of a clip are in these stretches."""
        first = bisect_left(self.ends, span.start_frame)
        last = bisect_right(self.starts, span.end_frame)
        n_frames = 0
        for start, end in zip(
            self.starts[first:last], self.ends[first:last], strict=True
        ):
            n_frames += min(end, span.end_frame) - max(start, span.start_frame) + 1
        return n_frames


def overlap_frames(segment: Segment, span: ClipSpan) -> int:
    """Return how many frames a segment and a clip share; not above 0 where they share none."""
    first = max(segment.start_frame, span.start_frame)
    return min(segment.end_frame, span.end_frame) - first + 1


def projection_to_csv(
    projection: Projection,
    spans: Iterable[ClipSpan],
    *,
    titles: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """Return the labels of clips as CSV.

    Clips have the times of their table, so that the rows are joined to it; else times by the frame
    rate of the film, where that is known. The rate is kept, so that nobody is asked for it again,
    and so are the titles of films, by their ids.
    """
    span_of = {span.clip_id: span for span in spans}
    columns = [*CSV_COLUMNS]
    if any(span_of[row.clip_id].times_s for row in projection.merged):
        columns += [*TIME_COLUMNS, RATE_COLUMN]
    if titles:
        columns.append(TITLE)
    columns += projection.labels.columns
    rows = []
    for row in projection.merged:
        span = span_of[row.clip_id]
        cells = _csv_cells(row, span)
        cells |= {TITLE: titles.get(span.movie_id, "")}
        cells |= projection.labels[row.clip_id].extra
        rows.append([cells[column] for column in columns])
    return csv_bytes(columns, rows)


def _csv_cells(row: ClipLevel, span: ClipSpan) -> dict[str, object]:
    """Return the cells of a clip by their columns."""
    level = row.level if row.labelled else ""
    concepts = "|".join(row.concepts)
    rate = frame_rate_text(span.fps) if span.fps else ""
    ratio = row.ratio or ("", "")
    times_s = span.times_s or ("", "")
    columns = (*CSV_COLUMNS, *TIME_COLUMNS, RATE_COLUMN)
    values = (row.clip_id, span.movie_id, level, concepts, *ratio, *times_s, rate)
    return dict(zip(columns, values, strict=True))
