"""Marks on clips: what each person says of each clip, column by column.

- A value counts for a clip if it covers at least the threshold of it. In `level`, and in columns
  with an order, each mark is tested alone, and the highest value is the clip's. In other columns
  the marks of a value are taken together, and the value that covers most is the clip's; several
  words of one span are one value, `fear|joy`.
- `concepts` are those of the marks that gave the level; without levels, all that count. A mark of a
  concept is of the person's level mark with the same span, else of those that it overlaps.
- `comment` has all comments that touch the clip.
- Where nothing counts, the cell is the word for nothing, `none` (of levels EN), if four fifths of
  the clip were seen, else empty. Seen is what is marked, and what is `watched`. Where a person has
  no `watched` of a column in a film, all of it counts as seen if this person marked this column in
  it; but not in clips that were drawn, where a clip without a mark is one that nobody judged.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple, Self

from obygaze.films.marks import (
    COMMENT,
    CONCEPTS_COLUMN,
    LEVEL,
    NOTHING,
    UNKNOWN,
    WATCHED,
    Mark,
    columns_in,
)
from obygaze_features.core.errors import FixUsage
from obygaze_features.manifest.annotators import spelled_order
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.spans import FrameSpan

DEFAULT_THRESHOLD = Fraction(1, 5)
# A clip is a negative if most of it was seen.
SEEN_SHARE = 0.8
# Times of other programs have whole milliseconds, at both ends.
MARK_ROUNDING_S = 0.002
_SHARE = re.compile(r"[0-9]{1,9}/[1-9][0-9]{0,8}|[0-9]{0,9}\.?[0-9]{1,18}")
Orders = Mapping[str, Sequence[str]]


class ClipSpan(NamedTuple):
    """A clip as a span of its film, in seconds, and in frames, if its table counts them."""

    clip_id: str
    movie_id: str
    start_s: float
    end_s: float
    frames: FrameSpan | None = None

    @property
    def length_s(self) -> float:
        """How long the clip is."""
        return self.end_s - self.start_s

    def at_rate(self) -> Self:
        """Return the clip at frame / rate, as times alone."""
        times_s = self.frames.times_s if self.frames else None
        start_s, end_s = times_s or (self.start_s, self.end_s)
        return self._replace(start_s=start_s, end_s=end_s, frames=None)


class Answer(NamedTuple):
    """What one person says of a clip: a cell for each column.

    `covered` is the share of the clip that the longest mark of its level covers; None without one.
    """

    clip_id: str
    annotator: str
    cells: Mapping[str, str]
    covered: float | None = None

    @property
    def level(self) -> str:
        """The level, "" where there is none."""
        return self.cells.get(LEVEL, "")

    @property
    def concepts(self) -> tuple[str, ...]:
        """The concepts, sorted."""
        return tuple(filter(None, self.cells.get(CONCEPTS_COLUMN, "").split("|")))


@dataclass
class Projection:
    """The answers of all people, clip after clip.

    `unseen` are the clips of films without marks. `assumed` has the films with annotators and
    columns of which clips have the word for nothing, though nothing says what was watched.
    `n_without_level` marks of concepts are of nobody's level, and so of no clip.
    """

    columns: tuple[str, ...]
    answers: list[Answer] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    assumed: set[tuple[str, str, str]] = field(default_factory=set)
    n_without_level: int = 0


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


def with_nothing(orders: Orders) -> dict[str, tuple[str, ...]]:
    """Return the orders of columns from the word for nothing; levels have the order of the paper.

    >>> with_nothing({"Gewalt": ["schwach", "stark"]})["Gewalt"]
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
    are_drawn: bool = False,
) -> Projection:
    """Return what each person says of each clip.

    Args:
        marks: What people marked and watched, in any order.
        spans: The clips.
        threshold: The least share of a clip that a value must cover to count.
        orders: The words of columns with an order, from the lowest.
        are_drawn: Whether the clips are a sample, of which each clip was to be judged.
    """
    marks = sorted(marks)
    spelled = {}
    for column, order in (orders or {}).items():
        said = {mark.value for mark in marks if mark.column == column}
        spelled[column] = spelled_order(column, order, said - {NOTHING})
    complete = with_nothing(spelled)
    projection = Projection(columns_in(marks))
    people = _people_of_films(marks, projection.columns, complete, are_drawn=are_drawn)
    for span in spans:
        of_film = people.get(span.movie_id, [])
        if not of_film:
            projection.unseen.append(span.clip_id)
        for person in of_film:
            projection.answers.append(person.answer(span, float(threshold)))
    for film, of_film in people.items():
        for person in of_film:
            for column in person.assumed:
                projection.assumed.add((film, person.name, column))
            if LEVEL in person.tracks:
                alone = [mark for mark, own in person.levels_of.items() if not own]
                projection.n_without_level += len(alone)
    return projection


def _people_of_films(
    marks: Iterable[Mark],
    columns: Sequence[str],
    orders: Orders,
    *,
    are_drawn: bool,
) -> dict[str, list["_Person"]]:
    """Return who marked or watched something in each film."""
    marks_of: dict[str, dict[str, list[Mark]]] = {}
    own_columns: dict[str, set[str]] = {}
    for mark in marks:
        of_film = marks_of.setdefault(mark.movie_id, {})
        of_film.setdefault(mark.annotator, []).append(mark)
        of_person = own_columns.setdefault(mark.annotator, set())
        if mark.column == WATCHED and mark.value in columns:
            of_person.add(mark.value)
        elif mark.column not in (WATCHED, COMMENT):
            of_person.add(mark.column)
    people: dict[str, list[_Person]] = {}
    for film, of_film in marks_of.items():
        for name, own in sorted(of_film.items()):
            # Who watched, and marked nothing in any film, looked for what others marked.
            looked_for = {*(own_columns[name] or columns), COMMENT}
            used = [column for column in columns if column in looked_for]
            person = _Person(name, own, used, orders, are_drawn=are_drawn)
            people.setdefault(film, []).append(person)
    return people


class _Person:
    """What one person marked and watched in a film."""

    def __init__(
        self,
        name: str,
        marks: Sequence[Mark],
        columns: Sequence[str],
        orders: Orders,
        *,
        are_drawn: bool,
    ) -> None:
        self.name = name
        self.orders = orders
        self.tracks: dict[str, Track] = {}
        self.seen: dict[str, Track] = {}
        watched = [mark for mark in marks if mark.column == WATCHED]
        own = [mark for mark in marks if mark.column != WATCHED]
        for column in columns:
            self.tracks[column] = Track(mark for mark in own if mark.column == column)
            looked = [mark for mark in watched if mark.value in (WATCHED, column)]
            if looked:
                self.seen[column] = Track([*looked, *own])
        # The columns in which all of the film counts as seen, where nothing says what was watched.
        self.counts_as_seen = set[str]()
        if not are_drawn:
            self.counts_as_seen = {mark.column for mark in own}
            self.counts_as_seen -= {COMMENT, CONCEPTS_COLUMN}
        self.levels_of = _levels_of_concepts(self.tracks)
        # The columns in which a clip got the word for nothing because all counts as seen.
        self.assumed: set[str] = set()
        # The same marks at frame / rate, if all of them count frames.
        self.in_frames: _Person | None = None
        if all(mark.frames for mark in marks):
            counted = [mark.at_rate() for mark in marks]
            self.in_frames = _Person(
                name, counted, columns, orders, are_drawn=are_drawn
            )
            self.in_frames.assumed = self.assumed

    def answer(self, span: ClipSpan, threshold: float) -> Answer:
        """Return what this person says of a clip.

        What both count in frames is compared in frames: whether a film is linked changes no label.
        """
        if self.in_frames is not None and span.frames and span.frames.rate:
            return self.in_frames.answer(span.at_rate(), threshold)
        needed_s = max(threshold * span.length_s, 2 * MARK_ROUNDING_S) - MARK_ROUNDING_S
        cells: dict[str, str] = {}
        of_level: list[tuple[Mark, float]] = []
        for column, track in self.tracks.items():
            if column == CONCEPTS_COLUMN:
                continue
            touching = track.touching(span)
            if column == COMMENT:
                texts = dict.fromkeys(mark.value for mark, _ in touching)
                cells[column] = " / ".join(texts)
                continue
            counting = [one for one in touching if one[1] >= needed_s]
            if column in self.orders:
                value = self._highest(column, [mark.value for mark, _ in counting])
            else:
                value = _longest(touching, span, needed_s)
            if column == LEVEL:
                of_level = [one for one in counting if one[0].value == value]
            value = value or self._nothing(column, span)
            cells[column] = "" if value == UNKNOWN else value
        if CONCEPTS_COLUMN in self.tracks:
            cells[CONCEPTS_COLUMN] = self._concepts(
                span, needed_s, [one for one, _ in of_level]
            )
        covered = max((overlap_s for _, overlap_s in of_level), default=None)
        share = None if covered is None else covered / span.length_s
        return Answer(span.clip_id, self.name, cells, share)

    def _highest(self, column: str, values: Iterable[str]) -> str:
        """Return the highest of some values; what is not known is below all that is."""
        order = (UNKNOWN, *self.orders[column])
        return max(values, key=order.index, default="")

    def _concepts(
        self, span: ClipSpan, needed_s: float, of_level: Sequence[Mark]
    ) -> str:
        """Return the concepts of the marks that gave the level; without levels, all that count."""
        names = set()
        for mark, overlap_s in self.tracks[CONCEPTS_COLUMN].touching(span):
            has_level = not self.levels_of[mark].isdisjoint(of_level)
            if overlap_s >= needed_s and (has_level or LEVEL not in self.tracks):
                names.add(mark.value)
        return "|".join(sorted(names - {NOTHING, UNKNOWN}))

    def _nothing(self, column: str, span: ClipSpan) -> str:
        """Return the word for nothing if enough of the clip was seen, else ""."""
        nothing = self.orders.get(column, (NOTHING,))[0]
        if column in self.seen:
            needed_s = SEEN_SHARE * span.length_s - MARK_ROUNDING_S
            is_seen = self.seen[column].covered_s(span) >= needed_s
        else:
            is_seen = column in self.counts_as_seen
            if is_seen:
                self.assumed.add(column)
        return nothing if is_seen else ""


def _levels_of_concepts(tracks: Mapping[str, "Track"]) -> dict[Mark, set[Mark]]:
    """Return for each mark of a concept the marks of levels that it belongs to."""
    levels_of: dict[Mark, set[Mark]] = {}
    if CONCEPTS_COLUMN in tracks:
        levels = tracks.get(LEVEL, Track(()))
        for mark in tracks[CONCEPTS_COLUMN].marks:
            span = ClipSpan("", mark.movie_id, mark.start_s, mark.end_s)
            touching = [level for level, _ in levels.touching(span)]
            same = {level for level in touching if level[1:3] == mark[1:3]}
            levels_of[mark] = same or {*touching}
    return levels_of


class Track:
    """Marks of a film, to be found by their times. They may overlap each other."""

    def __init__(self, marks: Iterable[Mark]) -> None:
        self.marks = sorted(marks, key=lambda mark: mark.start_s)
        self.starts = [mark.start_s for mark in self.marks]
        # Ends are not sorted; how far any of the marks reaches is.
        self.reach = list(accumulate((mark.end_s for mark in self.marks), max))

    def touching(self, span: ClipSpan) -> list[tuple[Mark, float]]:
        """Return the marks that a clip has time in common with, and how much."""
        first = bisect_right(self.reach, span.start_s)
        last = bisect_left(self.starts, span.end_s)
        touching = []
        for mark in self.marks[first:last]:
            overlap_s = min(mark.end_s, span.end_s) - max(mark.start_s, span.start_s)
            if overlap_s > 0:
                touching.append((mark, overlap_s))
        return touching

    def covered_s(self, span: ClipSpan) -> float:
        """Return how much of a clip the marks cover together."""
        return covered_s((mark for mark, _ in self.touching(span)), span)


def covered_s(marks: Iterable[Mark], span: ClipSpan) -> float:
    """Return how much of a clip some marks, in the order of their starts, cover together."""
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
    """Return the value that covers most of a clip, of equal ones the one that begins first."""
    marks_of: dict[str, list[Mark]] = {}
    for value, mark in _values_of_spans(touching):
        marks_of.setdefault(value, []).append(mark)
    longest = ""
    most_s = needed_s
    for value, marks in marks_of.items():
        value_s = covered_s(marks, span)
        if value_s >= most_s + (MARK_ROUNDING_S if longest else 0):
            longest = value
            most_s = value_s
    return longest


def _values_of_spans(
    touching: Iterable[tuple[Mark, float]],
) -> Iterator[tuple[str, Mark]]:
    """Yield the value of each span, with one of its marks; the word for nothing never competes."""
    words_of: dict[tuple[float, float], list[Mark]] = {}
    for mark, _ in touching:
        if mark.value != NOTHING:
            words_of.setdefault((mark.start_s, mark.end_s), []).append(mark)
    for marks in words_of.values():
        words = {mark.value for mark in marks}
        # Who says a word of a span, too, can tell something.
        known = sorted(words - {UNKNOWN}) or [UNKNOWN]
        yield "|".join(known), marks[0]
