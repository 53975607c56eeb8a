"""Convert segments to clip labels: by overlap as a share of the clip, the highest level first.

The rules, all in whole frames so that the exact case is exact:

- a segment qualifies where its overlap with the clip is at least `threshold` of the clip; each
  segment is tested alone, fragments are never added up;
- the highest level among an annotator's qualifying segments is the clip's level, with the
  concepts of the qualifying segments of that level only;
- where none qualifies the level is EN with no ratio. If then even the frames that the annotator
  watched and did not mark are fewer than the threshold asks for, the clip is unlabelled;
- what was watched are the segments with the level `watched`. Of a film for which an annotator has
  none it is not known, and the whole film is taken as watched; `Projection.assumed` lists these;
- annotators of a film are merged the same way: highest level, concepts joined at that level.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache
from itertools import accumulate
from itertools import count as count_from
from pathlib import Path
from typing import Any

from obygaze_features.core.console import count
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import csv_bytes
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.schema_check import Violations, raise_together
from obygaze_features.manifest.frame_rate import (
    frame_rate,
    frame_rate_text,
    known_frame_rate,
)
from obygaze_features.manifest.model import LEVELS, Clip
from obygaze_features.manifest.tables import CsvTable, TableRow, read_table
from obygaze_features.manifest.times import (
    FILM_COLUMNS,
    FilmTimes,
    frames_between,
    times_of_films,
)

SEGMENT_COLUMNS = (
    "movie_id",
    "annotator",
    "start_frame",
    "end_frame",
    "level",
    "concepts",
)
# `arm` is "blind" if the page showed neither predictions nor labels, else "assisted"; `when` is in
# UTC; `version` counts the changes of a mark from 1.
# `framerate` and the times make the table one that other programs can place on other clips.
MORE_COLUMNS = (
    *("framerate", "start_s", "end_s"),
    *("comment", "arm", "when", "mark", "version"),
)
# The level of a segment that says only that its frames were watched.
WATCHED = "watched"
CLIP_NAMES = ("clip_id", "movie_id")
CLIP_FRAMES = ("start_frame", "end_frame")
CLIP_COLUMNS = (*CLIP_NAMES, *CLIP_FRAMES)
CSV_COLUMNS = (
    *("annotator", "clip_id", "movie_id", "level", "concepts"),
    *("overlap_frames", "clip_frames"),
)
TIME_COLUMNS = ("start_s", "end_s")
MISSING_FRAMES = "required column is missing; or start_s and end_s, in seconds"
DEFAULT_THRESHOLD = Fraction(1, 5)
NAME = re.compile(r"\S(.*\S)?", re.DOTALL)
NAME_FORM = "a name without blanks around it"
SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,20})?(e-[0-9]{1,2})?")
_SHARE = re.compile(r"[0-9]{1,9}/[1-9][0-9]{0,8}|[0-9]{0,9}\.?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of film that one annotator gave a level; both frames are part of it.

    The level `watched` says that the annotator has seen these frames.
    """

    movie_id: str
    annotator: str
    start_frame: int
    end_frame: int
    level: str
    concepts: tuple[str, ...] = ()
    comment: str = ""

    @property
    def is_watched(self) -> bool:
        """Whether it says only that its frames were watched; in manifests its comment does."""
        if self.level == WATCHED:
            return True
        return self.comment == WATCHED and not self.level and not self.concepts


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
    of a film without segments have no level; they are listed in `unseen`. `assumed` lists films
    with annotators: clips of these are EN only because the whole film is taken as watched.
    """

    threshold: Fraction
    by_annotator: Mapping[str, tuple[ClipLevel, ...]]
    merged: tuple[ClipLevel, ...]
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
) -> Projection:
    """Return the level of every clip, by annotator and merged.

    Args:
        segments: What the annotators marked and watched, in any order.
        spans: The clips.
        threshold: The least share of a clip that a segment must cover to count.
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
    merged: list[ClipLevel] = []
    unseen: list[str] = []
    assumed: set[tuple[str, str]] = set()
    for span in spans:
        levels = []
        for annotator, track in tracks.get(span.movie_id, {}).items():
            level = track.level_of(span, threshold)
            levels.append(level)
            by_annotator[annotator].append(level)
            if level.ratio is None and level.labelled and track.watched is None:
                assumed.add((span.movie_id, annotator))
        if levels:
            merged.append(merge(levels))
        else:
            unseen.append(span.clip_id)
    levels_by_annotator = {
        annotator: tuple(levels) for annotator, levels in by_annotator.items()
    }
    return Projection(
        threshold,
        levels_by_annotator,
        tuple(merged),
        tuple(unseen),
        tuple(sorted(assumed)),
    )


def merge(rows: Sequence[ClipLevel]) -> ClipLevel:
    """Return one level from several of a clip: the highest, with its concepts."""
    level = max((row.level for row in rows), key=LEVELS.index)
    winners = [row for row in rows if row.level == level]
    return ClipLevel(
        clip_id=rows[0].clip_id,
        level=level,
        concepts=tuple(
            sorted({concept for row in winners for concept in row.concepts})
        ),
        ratio=max(
            (row.ratio for row in winners if row.ratio is not None), default=None
        ),
        labelled=any(row.labelled for row in rows),
    )


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
        self.marked = Stretches(
            (segment.start_frame, segment.end_frame) for segment in self.segments
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
            return merge(qualifying)
        n_watched = (
            span.n_frames if self.watched is None else self.watched.n_frames_in(span)
        )
        n_unmarked = n_watched - self.marked.n_frames_in(span)
        return ClipLevel(span.clip_id, LEVELS[0], labelled=n_unmarked >= needed)


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
    projection: Projection, spans: Iterable[ClipSpan], *, by_annotator: bool = False
) -> bytes:
    """Return the merged levels as CSV, or with `by_annotator` those of each annotator.

    Where the frame rate of the clips is known, the rows have their times in seconds.
    """
    span_of = {span.clip_id: span for span in spans}
    has_times = all(span_of[row.clip_id].fps for row in projection.merged)
    columns = (*CSV_COLUMNS, *TIME_COLUMNS) if has_times else CSV_COLUMNS
    rows: list[tuple[object, ...]] = []
    if not by_annotator:
        for row in projection.merged:
            rows.append(_csv_cells(row, span_of[row.clip_id], has_times))
        return csv_bytes(columns[1:], rows)
    for annotator, levels in projection.by_annotator.items():
        for row in levels:
            cells = _csv_cells(row, span_of[row.clip_id], has_times)
            rows.append((annotator, *cells))
    return csv_bytes(columns, rows)


def _csv_cells(row: ClipLevel, span: ClipSpan, has_times: bool) -> tuple[object, ...]:
    """Return the cells of a clip, from its id on."""
    level = row.level if row.labelled else ""
    concepts = "|".join(row.concepts)
    overlap_frames, clip_frames = row.ratio or ("", "")
    cells = (row.clip_id, span.movie_id, level, concepts, overlap_frames, clip_frames)
    if not has_times or span.fps is None:
        return cells
    start_s = float(span.start_frame / span.fps)
    end_s = float((span.end_frame + 1) / span.fps)
    return (*cells, repr(start_s), repr(end_s))


def read_segments(path: Path, data: bytes | None = None) -> tuple[Segment, ...]:
    """Return the segments of a table with the columns movie_id to concepts, as `read_inputs`.

    `data` are the bytes of the file, where they were read before.
    """
    wrong = Violations(path)
    table = _table(path, SEGMENT_COLUMNS, "segments", wrong, data)
    segments = _segments(table)
    raise_together("the segments cannot be read", wrong)
    return segments


def read_inputs(
    segments: Path | Sequence[Path],
    clips: Path | Fraction,
    *,
    fps: float | str | Fraction | None = None,
) -> tuple[tuple[Segment, ...], tuple[ClipSpan, ...]]:
    """Return the segments and the clip spans of tables; one error has all violations of all.

    Args:
        segments: Tables with the columns movie_id, annotator, start_frame and end_frame (or start_s
            and end_s, in seconds), level and concepts (joined with '|'). A row with the level
            `watched` says what was watched, and so does the table `NAME.watched.csv` beside
            `NAME.csv`.
        clips: A table with the columns clip_id, movie_id, start_frame and end_frame, or start_s
            and end_s; or a length in seconds: the films are cut into clips of that length.
        fps: Frames per second of films without a `framerate` in the table of segments; another
            rate than in the table is an error.
    """
    given_rate = None if fps is None else frame_rate(fps)
    paths = [segments] if isinstance(segments, Path) else segments
    tables = []
    wrong = []
    for path in paths:
        wrong.append(Violations(path))
        tables.append(_table_with_spans(path, wrong[-1]))
    # What was watched has no concepts, and marks need none.
    watched_columns = [name for name in SEGMENT_COLUMNS if name != "concepts"]
    for path in map(watched_path, paths):
        if path.is_file():
            wrong.append(Violations(path))
            tables.append(_table(path, watched_columns, None, wrong[-1]))
    table = _joined(tables)

    @cache
    def rates_of_films() -> Mapping[str, Fraction]:
        return film_rates(table, given_rate, wrong[0])

    rates_of_marks: Mapping[str, Fraction] = {}
    if any(map(_is_in_seconds, table.rows)):
        rates_of_marks = rates_of_films()
    marked = _segments(table, rates_of_marks)
    spans: tuple[ClipSpan, ...] = ()
    wrong_clips = Violations(str(clips))
    if isinstance(clips, Fraction):
        rates = rates_of_films()
        if not any(wrong):
            spans = _equal_clips(marked, clips, rates)
    else:
        spans = _spans(clips, wrong_clips, rates_of_films)
    raise_together("the segments cannot be projected on clips", *wrong, wrong_clips)
    return marked, spans


def watched_path(segments: Path) -> Path:
    """Return the table beside a table of segments that says what its annotator has watched."""
    return segments.with_name(f"{segments.stem}.{WATCHED}.csv")


def _table(
    path: Path,
    required: Sequence[str],
    content: str | None,
    violations: Violations,
    data: bytes | None = None,
) -> CsvTable:
    return read_table(
        path,
        required=required,
        content=content,
        delimiter=None,
        skip_blank=True,
        violations=violations,
        data=data,
    )


def _table_with_spans(path: Path, violations: Violations) -> CsvTable:
    """Return a table of segments that has their frames, or their times in seconds."""
    table = _table(path, ("movie_id", "annotator", "level"), "segments", violations)
    columns = set(table.columns)
    has_spans = columns >= {*CLIP_FRAMES} or columns >= {*TIME_COLUMNS}
    if table.rows and not has_spans:
        missing = next(name for name in CLIP_FRAMES if name not in columns)
        violations.add(1, missing, MISSING_FRAMES)
        return CsvTable(table.columns, ())
    return table


def _is_in_seconds(row: TableRow) -> bool:
    """Whether a row has times in place of frames."""
    return "start_frame" not in row.cells and "start_s" in row.cells


def _joined(tables: Sequence[CsvTable]) -> CsvTable:
    """Return the rows of several tables, with the columns that all of them have."""
    columns = list(tables[0].columns)
    rows: list[TableRow] = []
    for table in tables:
        columns = [name for name in columns if name in table.columns]
        rows += table.rows
    return CsvTable(tuple(columns), tuple(rows))


def _segments(
    table: CsvTable, rates: Mapping[str, Fraction] | None = None
) -> tuple[Segment, ...]:
    """Return the segments of the rows that have one; violations are added for the others."""
    segments = []
    for row in table.rows:
        segment = segment_of(row, rates)
        if segment is not None:
            segments.append(segment)
    return tuple(segments)


def segment_of(
    row: TableRow, rates: Mapping[str, Fraction] | None = None
) -> Segment | None:
    """Return the segment of a row; violations of its values are added.

    With the frame rates of films, a row may have times in place of frames.
    """
    for column in ("movie_id", "annotator"):
        row.matching(column, NAME, NAME_FORM)
    if rates is not None and _is_in_seconds(row):
        frames = _frames_at(row, rates.get(row["movie_id"]))
    else:
        frames = row.frames()
    text = row.cells.get("concepts", "").strip()
    # A manifest has no level for it: there it is a comment.
    level = row["level"]
    if not level and row.cells.get("comment") == WATCHED:
        level = WATCHED
    if level != WATCHED:
        level = row.one_of("level", LEVELS)
    if text.startswith("["):
        row.add("concepts", f"{text!r} is a list; join concepts with '|'")
    if frames is None:
        return None
    concepts = tuple(name.strip() for name in text.split("|") if name.strip())
    return Segment(row["movie_id"], row["annotator"], *frames, level, concepts)


def _spans(
    path: Path, violations: Violations, rates_of: Callable[[], Mapping[str, Fraction]]
) -> tuple[ClipSpan, ...]:
    """Return the pictures of the clips of a table or of the rows of a manifest."""
    table = _table(path, CLIP_NAMES, "clips", violations)
    columns = set(table.columns)
    pairs_of_times = (CLIP_FRAMES, TIME_COLUMNS, FILM_COLUMNS)
    if not any(columns.issuperset(pair) for pair in pairs_of_times):
        missing = next(name for name in CLIP_FRAMES if name not in columns)
        violations.add(1, missing, MISSING_FRAMES)
        return ()
    has_all_frames = all(row.cells.get("start_frame") for row in table.rows)
    rates = {} if has_all_frames else rates_of()
    times_of_film = times_of_films(map(_clip_of, table.rows), rates=rates)
    line_of: dict[str, int] = {}
    spans = []
    for row in table.rows:
        for column in CLIP_NAMES:
            row.matching(column, NAME, NAME_FORM)
        clip_id = row.unique("clip_id", line_of)
        film = row["movie_id"]
        times = times_of_film[film]
        # A film without segments has no rate; its clips get no label, wherever they are.
        frames: tuple[int, int] | None = (0, 0)
        if row.cells.get("start_frame"):
            frames = row.frames()
        elif times.rate is not None:
            frames = _frames_of_clip(row, times)
        if frames is not None:
            spans.append(ClipSpan(clip_id, film, *frames, times.rate))
    return tuple(spans)


def _clip_of(row: TableRow) -> Clip:
    """Return the clip of a row, without times where its cells are none."""
    start_s, end_s = (_seconds(row.cells.get(name, "")) for name in TIME_COLUMNS)
    video = row.cells.get("video", "")
    return Clip(
        row["clip_id"], row["movie_id"], None, video, start_s, end_s, extra=row.cells
    )


def _seconds(cell: str) -> float | None:
    return float(cell) if SECONDS.fullmatch(cell) else None


def _frames_of_clip(row: TableRow, times: FilmTimes) -> tuple[int, int] | None:
    """Return the pictures of a clip in its film; a violation says why there are none."""
    for column in TIME_COLUMNS:
        cell = row.cells.get(column)
        if cell and row.matching(column, SECONDS, "a time in seconds") is None:
            return None
    frames = times.frames_of(row["clip_id"])
    if frames is None:
        row.add(
            "start_s",
            "not known where the clip is in its film: film_start_s and film_end_s say it",
        )
        return None
    return _one_frame_at_least(row, frames, times.rate)


def _frames_at(row: TableRow, rate: Fraction | None) -> tuple[int, int] | None:
    """Return the first and the last frame of a segment from its times in seconds."""
    start = row.matching("start_s", SECONDS, "a time in seconds")
    end = row.matching("end_s", SECONDS, "a time in seconds")
    if start is None or end is None or rate is None:
        return None
    frames = frames_between(Fraction(start[0]), Fraction(end[0]), rate)
    return _one_frame_at_least(row, frames, rate)


def _one_frame_at_least(
    row: TableRow, frames: tuple[int, int], rate: Fraction | None
) -> tuple[int, int]:
    first, last = frames
    if last < first:
        row.add(
            "end_s",
            f"no frame is between these times at {float(rate or 0):g} frames per second",
        )
    return first, max(first, last)


def film_rates(
    table: CsvTable, given_rate: Fraction | None, violations: Violations
) -> dict[str, Fraction]:
    """Return the frame rate of each film: that of its segments, else the one that was given.

    The film of rows without a name is called "".
    """
    rates: dict[str, Fraction] = {}
    if given_rate is None and table.rows and "framerate" not in table.columns:
        violations.add(1, "framerate", "required column is missing; or give --fps")
        return rates
    for row in table.rows:
        written = row.cells.get("framerate", "").strip()
        rate = known_frame_rate(written) if written else given_rate
        if rate is None:
            row.add("framerate", f"{written!r} is not a frame rate; give --fps")
            continue
        if given_rate not in (None, rate):
            row.add(
                "framerate",
                f"{written} is not the rate given by --fps; leave out --fps",
            )
            continue
        rate_before = rates.setdefault(row.cells.get("movie_id", ""), rate)
        if rate_before != rate:
            shown = frame_rate_text(rate_before)
            row.add(
                "framerate", f"{written} is not that of the film's other rows, {shown}"
            )
    return rates


def _equal_clips(
    segments: Iterable[Segment], seconds: Fraction, rates: Mapping[str, Fraction]
) -> tuple[ClipSpan, ...]:
    """Return clips of equal length that cover the marked part of each film.

    The clips begin at multiples of `seconds`, rounded to whole frames. The first holds the first
    marked frame of the film; a rest at the end that is shorter than a clip is left out.
    """
    if any(seconds * fps < 1 for fps in rates.values()):
        raise FixUsage(
            f"clips must have at least one frame, got {float(seconds):g} seconds"
        )
    marked: dict[str, tuple[int, int]] = {}
    for segment in segments:
        span = (segment.start_frame, segment.end_frame)
        first, last = marked.get(segment.movie_id, span)
        marked[segment.movie_id] = (
            min(first, segment.start_frame),
            max(last, segment.end_frame),
        )
    clips: list[ClipSpan] = []
    for film, fps in rates.items():
        frames_per_clip = seconds * fps
        first, last = marked[film]
        for number in count_from(int(first / frames_per_clip)):
            clip_start = round(number * frames_per_clip)
            next_start = round((number + 1) * frames_per_clip)
            if next_start <= first:
                continue  # rounded down, so that the next clip has the first marked frame
            if next_start - 1 > last:
                break
            clip_id = f"{film}-{number + 1:04d}"
            clips.append(ClipSpan(clip_id, film, clip_start, next_start - 1, fps))
    return tuple(clips)
