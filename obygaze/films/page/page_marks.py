"""Marks as the page has them: a level, concepts and a comment of a stretch of pictures.

In the table these are rows of one span. Other columns are shown, and not changed.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from obygaze.films.marks import (
    COMMENT,
    CONCEPTS_COLUMN,
    LEVEL,
    UNKNOWN,
    WATCHED,
    Mark,
    word_of,
)
from obygaze.films.pictures import Floats, pictures_of, times_of_pictures
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import LEVELS

MAX_COMMENT = 2000
MAX_STRETCHES = 10_000
OF_PAGE = (LEVEL, CONCEPTS_COLUMN, COMMENT)
JsonObject = dict[str, Any]


def segments_of(marks: Iterable[Mark]) -> list[JsonObject]:
    """Return what each person says of each span, in the columns that the page can change."""
    said: dict[tuple[str, float, float], dict[str, list[str]]] = {}
    for mark in sorted(marks):
        if mark.column in OF_PAGE:
            of_span = said.setdefault((mark.annotator, mark.start_s, mark.end_s), {})
            of_span.setdefault(mark.column, []).append(mark.value)
    segments = []
    for (annotator, start_s, end_s), values in said.items():
        segments.append(
            {
                "annotator": annotator,
                "start": start_s,
                "end": end_s,
                "level": "/".join(values.get(LEVEL, ())),
                "concepts": values.get(CONCEPTS_COLUMN, []),
                "comment": "; ".join(values.get(COMMENT, ())),
            }
        )
    return segments


def own_columns_of(marks: Iterable[Mark]) -> list[JsonObject]:
    """Return the marks in columns of the annotators' own."""
    own = []
    for mark in sorted(marks):
        if mark.column not in (*OF_PAGE, WATCHED):
            facts = {"annotator": mark.annotator, "column": mark.column}
            own.append(
                {
                    **facts,
                    "value": mark.value,
                    "start": mark.start_s,
                    "end": mark.end_s,
                }
            )
    return own


def with_pictures(
    segments: Iterable[JsonObject], boundaries: Floats
) -> list[JsonObject]:
    """Return segments with their first and last pictures; an error where two are one.

    The page could not change one of them alone.
    """
    of_pictures: dict[tuple[int, int], JsonObject] = {}
    for segment in segments:
        pictures = pictures_of(boundaries, segment["start"], segment["end"])
        is_one = segment["level"] in ("", UNKNOWN, *LEVELS)
        if not is_one or pictures in of_pictures:
            raise FixInput(
                f"the pictures {pictures[0]} to {pictures[1]} have two marks"
            )
        placed = placed_pictures(*pictures, boundaries)
        of_pictures[pictures] = {**segment, **placed}
    return [*of_pictures.values()]


def placed_pictures(first: int, last: int, boundaries: Floats) -> JsonObject:
    """Return pictures with their place on the time line."""
    start_s, end_s = times_of_pictures(boundaries, first, last)
    return {"first": first, "last": last, "start": start_s, "end": end_s}


def watched_of(marks: Iterable[Mark], boundaries: Floats) -> list[JsonObject]:
    """Return what was watched, whatever was looked for."""
    watched = []
    for mark in sorted(marks):
        if mark.column == mark.value == WATCHED:
            pictures = pictures_of(boundaries, mark.start_s, mark.end_s)
            watched.append(placed_pictures(*pictures, boundaries))
    return watched


class RowsOfFilm:
    """Makes rows of the table of what the page sends of a film."""

    def __init__(self, film: str, annotator: str, boundaries: Floats) -> None:
        self.film = film
        self.annotator = annotator
        self.boundaries = boundaries

    def spans(self, stretches: Any) -> list[tuple[float, float]]:
        """Return the spans of stretches of pictures."""
        if not isinstance(stretches, list) or len(stretches) > MAX_STRETCHES:
            raise FixInput("stretches: expected a list of first and last pictures")
        spans = []
        for stretch in stretches:
            if not isinstance(stretch, list) or len(stretch) != 2:
                raise FixInput("stretches: expected first and last pictures")
            spans.append(self._span(*stretch))
        return spans

    def rows(self, marks: Any) -> list[Mark]:
        """Return the rows of marks."""
        if not isinstance(marks, list):
            raise FixInput("expected a list of marks")
        rows: list[Mark] = []
        for mark in marks:
            rows += self._rows(mark)
        return rows

    def _span(self, first: Any, last: Any) -> tuple[float, float]:
        n_pictures = len(self.boundaries) - 1
        if type(first) is not int or type(last) is not int:
            raise FixInput("expected the first and the last picture")
        if not 0 <= first <= last < n_pictures:
            raise FixInput(f"expected pictures from 0 to {n_pictures - 1}")
        return times_of_pictures(self.boundaries, first, last)

    def _rows(self, mark: Any) -> list[Mark]:
        if not isinstance(mark, Mapping):
            raise FixInput("expected a mark")
        span_s = self._span(mark.get("first"), mark.get("last"))
        concepts = mark.get("concepts") or []
        if not isinstance(concepts, list):
            raise FixInput("concepts: expected a list of names")
        said = [(LEVEL, mark.get("level")), (COMMENT, mark.get("comment"))]
        said += [(CONCEPTS_COLUMN, concept) for concept in concepts]
        rows = []
        for column, value in said:
            if value not in ("", None):
                word = self._word(column, value)
                rows.append(Mark(self.film, *span_s, column, word, self.annotator))
        return rows

    def _word(self, column: str, value: Any) -> str:
        word = word_of(column, value) if isinstance(value, str) else ""
        if not word:
            raise FixInput(f"{value!r} is not a word of {column}")
        if len(word) > MAX_COMMENT:
            raise FixInput(f"a comment has at most {MAX_COMMENT} letters")
        return word

    def as_in_table(self, rows: Iterable[Mark], table: Collection[Mark]) -> list[Mark]:
        """Return rows with the times of the table, which may be beside those of pictures."""
        found = []
        for row in rows:
            if row not in table:
                row = next(filter(self._is_like(row), table), row)
            found.append(row)
        return found

    def _is_like(self, row: Mark) -> Any:
        pictures = pictures_of(self.boundaries, row.start_s, row.end_s)

        def is_like(other: Mark) -> bool:
            if (row.movie_id, *row[3:]) != (other.movie_id, *other[3:]):
                return False
            return pictures == pictures_of(self.boundaries, other.start_s, other.end_s)

        return is_like
