"""Project marks on clips: make the annotation of each annotator for each clip, column by column.

- A value counts for a clip if the share of the clip that it covers is at least the threshold. In
  `level`, and in columns with an order, each mark is tested alone, and the clip gets the highest
  value that counts. In other columns the marks of a value are tested together, and the clip gets
  the value that covers most of it. Several words of one span are one value, such as `fear|joy`.
- `concepts` has the concepts that count and belong to a mark of the level of the clip. If the
  marks have no levels, it has all concepts that count. A mark of a concept belongs to the level
  mark of the same annotator with the same span. Without such a level mark, it belongs to all level
  marks of the annotator that it overlaps.
- `comment` has all comments that overlap the clip by more than rounded times can.
- If no value counts, the cell depends on how much of the clip the annotator has seen. If it is at
  least four fifths, the cell is `none` (in `level`: EN). If it is less, the cell is empty. An
  annotator has seen all spans that the annotator marked, including the spans of `watched` marks,
  but not those of comments; of sampled clips, only the spans marked in the same column count. In
  a film without a `watched` mark of the annotator for the column, the annotator has seen the whole
  film if any mark of the annotator in this film is in the column. Films with sampled clips are an
  exception: a clip without a mark was not judged.
- In a column of numbers, such as ratings, the cell is empty and not `none`. A column with only one
  number is not a column of numbers: 1 may stand for yes.
- A mark without a value says that nothing is known of its span: the annotator has not seen the span
  for this column.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from math import inf
from typing import NamedTuple

from obygaze.films.marks import (
    COMMENT,
    CONCEPTS_COLUMN,
    LEVEL,
    NO_UNKNOWN,
    NOTHING,
    UNKNOWN,
    WATCHED,
    Mark,
    columns_in,
)
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.tables import number_of_cell
from obygaze_features.manifest.annotators import match_order
from obygaze_features.manifest.model import LEVELS, Annotation
from obygaze_features.manifest.spans import FrameSpan

DEFAULT_THRESHOLD = Fraction(1, 5)
# The share of a clip that an annotator must have seen for the clip to be a negative.
SEEN_SHARE = 0.8
# Other programs round the start and the end of a mark to milliseconds.
MARK_ROUNDING_S = 0.002
_SHARE = re.compile(r"[0-9]{1,9}/[1-9][0-9]{0,8}|[0-9]{0,9}\.?[0-9]{1,18}")
Orders = Mapping[str, Sequence[str]]


class ClipSpan(NamedTuple):
    """A clip as a span of its film in seconds, and in frames if its table counts frames."""

    clip_id: str
    movie_id: str
    start_s: float
    end_s: float
    frames: FrameSpan | tuple[()] = ()

    @property
    def length_s(self) -> float:
        """The length of the clip in seconds."""
        return self.end_s - self.start_s


@dataclass
class Projection:
    """The annotations of all annotators for the clips, clip after clip.

    Attributes:
        columns: The columns of the marks.
        answers: The annotation of each annotator for each clip.
        unseen: The ids of the clips of films without marks.
        assumed: Each film, annotator and column in which a clip became `none` (in `level`: EN)
            although no mark states what was watched.
        outside_s: For each film, annotator and column with marks of what was watched, how many
            seconds of other marks lie outside; they count as watched too.
        number_columns: The columns of numbers; in these, a clip without a mark has no value.
        without_number: The columns of numbers in which a watched clip has no mark.
        n_without_level: Number of concept marks that belong to no level mark; they count for no
            clip.
    """

    columns: tuple[str, ...]
    answers: list[Annotation] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    assumed: set[tuple[str, str, str]] = field(default_factory=set)
    outside_s: dict[tuple[str, str, str], float] = field(default_factory=dict)
    number_columns: frozenset[str] = frozenset()
    without_number: set[str] = field(default_factory=set)
    n_without_level: int = 0


def as_threshold(value: str | float | Fraction) -> Fraction:
    """Return the exact value of a share such as 0.2, .25 or 1/3."""
    text = str(value).strip()
    share = Fraction(text) if _SHARE.fullmatch(text) else None
    if share is None or share > 1:
        raise FixUsage(f"--threshold: expected a share from 0 to 1, got {text!r}")
    return share


def complete_orders(orders: Orders) -> dict[str, tuple[str, ...]]:
    """Return the orders of columns, each with `none` as the lowest word, and the order of levels.

    >>> complete_orders({"Gewalt": ["schwach", "stark"]})["Gewalt"]
    ('none', 'schwach', 'stark')
    """
    own = {}
    for column, words in orders.items():
        own[column] = tuple(dict.fromkeys((NOTHING, *words)))
    return {**own, LEVEL: LEVELS}


def project(
    marks: Iterable[Mark],
    spans: Iterable[ClipSpan],
    threshold: Fraction = DEFAULT_THRESHOLD,
    orders: Orders | None = None,
    *,
    sampled_films: Collection[str] = (),
    are_moments: bool = False,
) -> Projection:
    """Return the annotation of each annotator for each clip.

    Args:
        marks: The marks of all annotators, in any order.
        spans: The clips.
        threshold: The smallest share of a clip that a value must cover to count.
        orders: The words of columns with an order, from the lowest; None: no column has an order.
        sampled_films: The films with sampled clips, which annotators judge one by one.
        are_moments: Whether no mark starts or ends inside a clip. Then all marks of a clip count,
            and a column without an order has all their values.
    """
    marks = sorted(marks)
    spelled = {}
    for column, order in (orders or {}).items():
        said = {mark.value for mark in marks if mark.column == column}
        spelled[column] = match_order(column, order, said - {NOTHING, ""})
    numbers = frozenset(_number_columns(marks) - {*spelled})
    projection = Projection(columns_in(marks), number_columns=numbers)
    people = _people_of_films(
        marks, projection, complete_orders(spelled), sampled_films
    )
    for span in spans:
        if span.movie_id not in people:
            projection.unseen.append(span.clip_id)
        for person, in_frames in people.get(span.movie_id, ()):
            # If marks and clips both count frames, frames are compared, so that linking a film to
            # its file changes no label.
            if in_frames is not None and span.frames and span.frames.rate:
                times_s = span.frames.times_s or (span.start_s, span.end_s)
                counted = ClipSpan(span.clip_id, span.movie_id, *times_s)
                answer = in_frames.answer(counted, float(threshold))
            elif are_moments:
                answer = person.answer(span, float(threshold), is_moment=True)
            else:
                answer = person.answer(span, float(threshold))
            projection.answers.append(answer)
    return projection


def _number_columns(marks: Iterable[Mark]) -> set[str]:
    """Return the columns with several numbers and no other words; 2,5 is a number too."""
    numbers_of: dict[str, set[float | None]] = {}
    for mark in marks:
        if mark.column not in NO_UNKNOWN and mark.value not in ("", UNKNOWN):
            number = number_of_cell(mark.value.replace(",", "."))
            numbers_of.setdefault(mark.column, set()).add(number)
    return {
        column
        for column, numbers in numbers_of.items()
        if len(numbers) > 1 and None not in numbers
    }


def _people_of_films(
    marks: Iterable[Mark],
    projection: Projection,
    orders: Orders,
    sampled_films: Collection[str],
) -> dict[str, list[tuple["_Person", "_Person | None"]]]:
    """Return the annotators of each film, each with the same marks at two kinds of times.

    The first have their times in seconds. The second have the times frame / rate; they are None if
    a mark of the annotator does not count frames.
    """
    marks_of: dict[str, dict[str, list[Mark]]] = {}
    marked_by: dict[str, set[str]] = {}
    for mark in marks:
        of_film = marks_of.setdefault(mark.movie_id, {})
        of_film.setdefault(mark.annotator, []).append(mark)
        column = mark.value if mark.column == WATCHED else mark.column
        marked_by.setdefault(mark.annotator, set()).add(column)
    people: dict[str, list[tuple[_Person, _Person | None]]] = {}
    for film, of_film in marks_of.items():
        for name, own in sorted(of_film.items()):
            # An annotator who watched for all columns, or whose marks name none, looked for all.
            looked_for = (marked_by[name] - {COMMENT}) & {*projection.columns}
            if WATCHED in marked_by[name] or not looked_for:
                looked_for = {*projection.columns}
            looked_for.add(COMMENT)
            used = [column for column in projection.columns if column in looked_for]
            person = _Person(own, used, projection, orders, film in sampled_films)
            alone = [mark for mark, levels in person.levels_of.items() if not levels]
            projection.n_without_level += len(alone) * (LEVEL in projection.columns)
            in_frames = None
            if all(mark.frames for mark in own):
                counted = [mark.at_rate() for mark in own]
                in_frames = _Person(
                    counted, used, projection, orders, film in sampled_films
                )
            people.setdefault(film, []).append((person, in_frames))
    return people


class _Person:
    """The marks of one annotator in a film."""

    def __init__(
        self,
        marks: Sequence[Mark],
        columns: Sequence[str],
        projection: Projection,
        orders: Orders,
        is_sampled: bool,
    ) -> None:
        self.film = marks[0].movie_id
        self.name = marks[0].annotator
        self.projection = projection
        self.orders = orders
        own = [mark for mark in marks if mark.column != WATCHED and mark.value]
        # Columns for which the whole film counts as seen if no mark states what was watched.
        self.counts_as_seen = {mark.column for mark in own if not is_sampled}
        self.counts_as_seen -= {COMMENT, CONCEPTS_COLUMN}
        self.tracks = {LEVEL: Track(()), CONCEPTS_COLUMN: Track(())}
        self.seen: dict[str, Track] = {}
        self.unknown: dict[str, Track] = {}
        self.columns = columns
        for column in columns:
            nothing = [m for m in marks if m.column == column and not m.value]
            self.unknown[column] = Track(nothing)
            self.tracks[column] = Track(mark for mark in own if mark.column == column)
            words = (WATCHED, column)
            watched = [m for m in marks if m.column == WATCHED and m.value in words]
            if watched:
                # A comment judges nothing, and each column of a sampled clip is judged alone.
                marked = []
                for mark in own:
                    is_other = is_sampled or mark.column == COMMENT
                    if mark.column == column or not is_other:
                        marked.append(mark)
                self.seen[column] = Track(without_overlaps([*watched, *marked]))
                # `?` is no label, so it does not count as watched in its own column.
                said = [m for m in marked if (m.column, m.value) != (column, UNKNOWN)]
                reached = without_overlaps([*watched, *said])
                film = ClipSpan("", "", 0.0, inf)
                watched_s = covered_s(without_overlaps(watched), film)
                outside_s = covered_s(reached, film) - watched_s
                if outside_s > MARK_ROUNDING_S:
                    projection.outside_s[self.film, self.name, column] = outside_s
        # The level marks to which each concept mark belongs.
        self.levels_of: dict[Mark, set[Mark]] = {}
        for mark in self.tracks[CONCEPTS_COLUMN].marks:
            levels = {level for level, _ in self.tracks[LEVEL].overlapping(mark)}
            same = {level for level in levels if level[1:3] == mark[1:3]}
            self.levels_of[mark] = same or levels

    def answer(
        self, span: ClipSpan, threshold: float, *, is_moment: bool = False
    ) -> Annotation:
        """Return the annotation of this annotator for a clip.

        No mark starts or ends inside a moment, so its times have no rounding errors.
        """
        rounding_s = 0.0 if is_moment else MARK_ROUNDING_S
        needed_s = max(threshold * span.length_s, 2 * rounding_s) - rounding_s
        cells = dict.fromkeys(self.projection.columns, "")
        of_level: set[Mark] = set()
        concepts = set()
        for column in self.columns:
            touching = self.tracks[column].overlapping(span)
            counting = [mark for mark, overlap_s in touching if overlap_s >= needed_s]
            if column == COMMENT:
                texts: dict[str, None] = {}
                for mark, overlap_s in touching:
                    length_s = mark.end_s - mark.start_s
                    if 2 * overlap_s > min(length_s, 2 * MARK_ROUNDING_S):
                        texts[mark.value] = None
                cells[column] = " / ".join(texts)
                continue
            if column == CONCEPTS_COLUMN:
                # `level` is the first column, so the level of the clip is known here.
                has_levels = LEVEL in self.projection.columns
                for mark in counting:
                    if not has_levels or self.levels_of[mark] & of_level:
                        concepts.add(mark.value)
                continue
            if column in self.orders:
                # `?` is below all other values.
                order = (UNKNOWN, *self.orders[column])
                words = [mark.value for mark in counting]
                value = max(words, key=order.index, default="")
            elif is_moment:
                words = sorted({mark.value for mark in counting} - {NOTHING})
                value = "|".join(word for word in words if word != UNKNOWN)
                value = value or "".join(words)
            else:
                value = _longest(touching, span, needed_s)
            if column == LEVEL:
                of_level = {mark for mark in counting if mark.value == value}
            value = value or self._nothing(column, span, rounding_s)
            cells[column] = "" if value == UNKNOWN else value
        level = cells.pop(LEVEL, "")
        cells.pop(CONCEPTS_COLUMN, None)
        names = tuple(sorted(concepts - {NOTHING}))
        return Annotation(span.clip_id, self.name, level, names, cells)

    def _nothing(self, column: str, span: ClipSpan, rounding_s: float) -> str:
        """Return `none` (in `level`: EN) if enough of the clip was seen, else "".

        In a column of numbers, return "".
        """
        nothing = self.orders.get(column, (NOTHING,))[0]
        needed_s = SEEN_SHARE * span.length_s - rounding_s
        unknown = [mark for mark, _ in self.unknown[column].overlapping(span)]
        if span.length_s - covered_s(unknown, span) < needed_s:
            return ""
        is_seen = column in self.counts_as_seen
        if column in self.seen:
            seen = [mark for mark, _ in self.seen[column].overlapping(span)]
            is_seen = covered_s(seen, span) >= needed_s
        if not is_seen:
            return ""
        if column in self.projection.number_columns:
            self.projection.without_number.add(column)
            return ""
        if column not in self.seen:
            self.projection.assumed.add((self.film, self.name, column))
        return nothing


class Track:
    """An index of the marks of a film by time; marks may overlap."""

    def __init__(self, marks: Iterable[Mark]) -> None:
        self.marks = sorted(marks, key=lambda mark: mark.start_s)
        self.starts = [mark.start_s for mark in self.marks]
        # The ends are not sorted, but the running maximum of the ends is.
        self.reach = list(accumulate((mark.end_s for mark in self.marks), max))

    def overlapping(self, span: ClipSpan | Mark) -> list[tuple[Mark, float]]:
        """Return the marks that overlap a span, each with the overlap in seconds."""
        first = bisect_right(self.reach, span.start_s)
        last = bisect_left(self.starts, span.end_s)
        touching = []
        for mark in self.marks[first:last]:
            overlap_s = min(mark.end_s, span.end_s) - max(mark.start_s, span.start_s)
            if overlap_s > 0:
                touching.append((mark, overlap_s))
        return touching


def without_overlaps(marks: Iterable[Mark]) -> list[Mark]:
    """Return marks that cover the same times and do not overlap, so that they are found fast."""
    merged: list[Mark] = []
    for mark in sorted(marks, key=lambda mark: mark.start_s):
        if merged and mark.start_s <= merged[-1].end_s:
            end_s = max(mark.end_s, merged[-1].end_s)
            merged[-1] = merged[-1]._replace(end_s=end_s)
        else:
            merged.append(mark)
    return merged


def covered_s(marks: Iterable[ClipSpan | Mark], span: ClipSpan | Mark) -> float:
    """Return how many seconds of a span marks cover together; the marks are sorted by start."""
    total_s = 0.0
    reached_s = span.start_s
    for mark in marks:
        end_s = min(mark.end_s, span.end_s)
        total_s += max(0.0, end_s - max(reached_s, mark.start_s))
        reached_s = max(reached_s, end_s)
    return total_s


def _longest(
    touching: Iterable[tuple[Mark, float]], span: ClipSpan, needed_s: float
) -> str:
    """Return the value that covers most of a clip, or "" if no value covers `needed_s` seconds.

    If two values cover equally much, the value that begins first is returned. Several words of one
    span are one value. Marks with `none` are ignored.
    """
    of_span: dict[tuple[float, float], list[Mark]] = {}
    for mark, _ in touching:
        if mark.value != NOTHING:
            of_span.setdefault((mark.start_s, mark.end_s), []).append(mark)
    marks_of: dict[str, list[Mark]] = {}
    for marks in of_span.values():
        # `?` next to a word of the same span does not count.
        words = sorted({mark.value for mark in marks} - {UNKNOWN}) or [UNKNOWN]
        marks_of.setdefault("|".join(words), []).append(marks[0])
    longest = ""
    most_s = needed_s
    for value, marks in marks_of.items():
        value_s = covered_s(marks, span)
        if value_s >= most_s + (MARK_ROUNDING_S if longest else 0):
            longest = value
            most_s = value_s
    return longest
