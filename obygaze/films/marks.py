"""The table of marks: a span of a film, a column, a value, and who says it; a row a value.

Times are seconds on the clock of the decoded pictures; a mark ends before `end_s`. What one person
says of one span belongs together, as a level and its concepts. Four columns mean something:

- `level` and `concepts` have the words of the papers;
- `watched` says what was seen: the value is the column that was looked for, or `watched` for all;
- `comment` is free text.

All other columns are a person's own. The value `none` is a word for nothing, and `?` says that the
person could not tell.

A table with a row for each segment (level, concepts joined with '|', times, or pictures and their
`framerate`), as MObyGaze has them, is read as marks, too.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from obygaze_features.core.errors import FixInput
from obygaze_features.core.file_names import printable_line
from obygaze_features.core.files import TABLE_ENDINGS, csv_bytes
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import (
    CsvTable,
    TableRow,
    number_of_cell,
    read_table,
)
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.expression import plain_value
from obygaze_features.manifest.frame_rate import known_frame_rate, seconds_of_frames
from obygaze_features.manifest.io import as_id, ids_of_names
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.spans import FRAMES, RATE_COLUMN
from obygaze_features.manifest.vocabulary import canonical_concept, canonical_level

COLUMNS = ("movie_id", "start_s", "end_s", "column", "value", "annotator")
OF_SEGMENTS = ("movie_id", "annotator", "level")
LEVEL = "level"
CONCEPTS_COLUMN = "concepts"
WATCHED = "watched"
COMMENT = "comment"
# Of tiers with what a model says of clips, which are no marks.
SCORE = "score"
NOTHING = "none"
UNKNOWN = "?"
SPAN_EXPECTED = "expected seconds in the film, the start before the end"
FOLDER = "segments"


class Mark(NamedTuple):
    """A span of a film, and what somebody says of it in one column."""

    movie_id: str
    start_s: float
    end_s: float
    column: str
    value: str
    annotator: str


@dataclass(frozen=True)
class Marks:
    """The marks of tables in their order, and the pictures per second that tables state of films.

    Iterating yields the marks.
    """

    marks: tuple[Mark, ...]
    rates: Mapping[str, Fraction] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Mark]:
        return iter(self.marks)


def word_of(column: str, text: str) -> str:
    """Return the word of a column that a text stands for; "" if the column has no such word."""
    word = printable_line(text)
    if column == LEVEL:
        return word if word == UNKNOWN else canonical_level(word) or ""
    if column == CONCEPTS_COLUMN:
        return canonical_concept(word) or word.replace("|", "/")
    # What was watched is the name of a column.
    return word if column == WATCHED else plain_value(word, column)


def in_one_spelling(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    """Return marks in order, whose words and people have one spelling where only capitals differ.

    It is the most frequent one.
    """
    in_order = sorted(set(marks))
    counts: dict[tuple[str, str], Counter[str]] = {}
    for mark in in_order:
        for column, word in ((mark.column, mark.value), ("", mark.annotator)):
            counts.setdefault((column, word.lower()), Counter())[word] += 1
    chosen = {key: spellings.most_common(1)[0][0] for key, spellings in counts.items()}
    fixed = set()
    for mark in in_order:
        value = mark.value
        if mark.column != COMMENT:
            value = chosen[mark.column, value.lower()]
        annotator = chosen["", mark.annotator.lower()]
        fixed.add(mark._replace(value=value, annotator=annotator))
    return tuple(sorted(fixed))


def table_of_marks(name: PathLike, workspace: PathLike | None = None) -> Path:
    """Return the file of a table of marks, or of a manifest of segments.

    A name is that of a table in the workspace, else of a manifest.
    """
    path = Path(name)
    if path.suffix in TABLE_ENDINGS or path.is_file():
        return path
    here = Workspace.of(workspace)
    own = here.folder(FOLDER) / f"{path.name}.csv"
    if own.is_file() and path.name == str(name):
        return own
    return here.existing_manifest(str(name)).with_suffix(".csv")


def tables_of_marks(
    names: PathLike | Sequence[PathLike], workspace: PathLike | None = None
) -> list[Path]:
    """Return the files of one or more tables of marks."""
    tables = [names] if isinstance(names, str | os.PathLike) else names
    return [table_of_marks(name, workspace) for name in tables]


def read_marks(tables: Sequence[Path]) -> Marks:
    """Return the marks of tables; one error has all violations of a table.

    Raises:
        FixInput: A cell is wrong, or one person's marks of a film are in two tables: these may be
            of two people.
    """
    marks: list[Mark] = []
    rates: dict[str, Fraction] = {}
    table_of: dict[tuple[str, str], Path] = {}
    for path in dict.fromkeys(tables):
        read = read_table_of_marks(path)
        for mark in read.marks:
            require_one_file(table_of, mark, path)
        marks += read.marks
        for film, rate in read.rates.items():
            if rates.setdefault(film, rate) != rate:
                raise FixInput(
                    f"tables state two frame rates of the film {film}", where=str(path)
                )
    films = dict.fromkeys(mark.movie_id for mark in marks)
    ids_of_names(films, "film", ", ".join(map(str, tables)))
    return Marks(in_one_spelling(marks), rates)


def require_one_file(
    file_of: dict[tuple[str, str], Path], mark: Mark, path: Path
) -> None:
    """Raise an error if another file has marks of this person in this film."""
    earlier = file_of.setdefault((mark.movie_id, mark.annotator.lower()), path)
    if earlier != path:
        raise FixInput(
            f"two files have marks of {mark.annotator!r} in the film {mark.movie_id}: they may be"
            " of two people, or one is a copy of the other",
            where=f"{earlier}, {path}",
            hint="give each person a name, or put the marks of one person into one file",
        )


def read_table_of_marks(path: Path) -> Marks:
    """Return the marks of one table in one of the two forms."""
    violations = Violations(path)
    table = read_table(path, required=("movie_id",), violations=violations)
    is_long = {"column", "value"} <= {*table.columns}
    required = COLUMNS if is_long else OF_SEGMENTS
    for name in required:
        if name not in table.columns:
            violations.add(1, name, "required column is missing")
    violations.raise_if_any(
        "the marks cannot be read",
        f"a table of marks has the columns {', '.join(COLUMNS)}",
    )
    rates: dict[str, Fraction] = {}
    marks: list[Mark] = []
    for row in table.rows:
        rate = _rate_of(row, rates)
        said = [_said_of_row(row)] if is_long else _said_of_segment(row)
        film = as_id(row["movie_id"])
        annotator = printable_line(row["annotator"])
        for name, text in (("movie_id", film), ("annotator", annotator)):
            if not text or "|" in text:
                row.add(name, f"expected one name, got {text!r}")
        span_s = _span_of(row, rate, table)
        if span_s is not None:
            marks += [Mark(film, *span_s, *one, annotator) for one in said]
    violations.raise_if_any("the marks cannot be read")
    return Marks(in_one_spelling(marks), rates)


def written(marks: Iterable[Mark]) -> bytes:
    """Return the table of marks."""
    return csv_bytes(COLUMNS, sorted(set(marks)))


def marks_by_film(marks: Iterable[Mark]) -> dict[str, list[Mark]]:
    """Return the marks of each film in their order."""
    films: dict[str, list[Mark]] = {}
    for mark in sorted(marks):
        films.setdefault(mark.movie_id, []).append(mark)
    return films


def columns_in(marks: Iterable[Mark]) -> tuple[str, ...]:
    """Return the columns of marks: those of the papers first, then own ones, then comments."""
    first = (LEVEL, CONCEPTS_COLUMN)
    found = {mark.column for mark in marks} - {WATCHED}
    own = sorted(found.difference(first, [COMMENT]))
    last = [COMMENT] if COMMENT in found else []
    return (*(name for name in first if name in found), *own, *last)


def _said_of_row(row: TableRow) -> tuple[str, str]:
    """Return the column and the value of a row of the long table."""
    column = printable_line(row["column"])
    value = word_of(column, row["value"])
    if not column:
        row.add("column", "expected a name")
    if not value:
        row.add("value", _not_a_word(column, row["value"]))
    return column, value


def _said_of_segment(row: TableRow) -> list[tuple[str, str]]:
    """Return the columns and values of a row that has all of one segment."""
    level = printable_line(row["level"])
    comment = printable_line(row.cells.get(COMMENT, ""))
    # A level `watched` says only that the time was seen.
    if level == WATCHED:
        return [(WATCHED, WATCHED)]
    said = []
    if level:
        said.append((LEVEL, word_of(LEVEL, level)))
        if not said[0][1]:
            row.add("level", _not_a_word(LEVEL, row["level"]))
    for word in row.cells.get(CONCEPTS_COLUMN, "").split("|"):
        if printable_line(word):
            said.append((CONCEPTS_COLUMN, word_of(CONCEPTS_COLUMN, word)))
    if comment:
        said.append((COMMENT, comment))
    if not said:
        row.add("level", f"expected one of {', '.join(LEVELS)}, or {WATCHED}")
    return said


def _not_a_word(column: str, text: str) -> str:
    if column == LEVEL:
        return f"{text!r} is not one of {', '.join(LEVELS)}"
    return f"expected a word, got {text!r}"


def _rate_of(row: TableRow, rates: dict[str, Fraction]) -> Fraction | None:
    """Return the pictures per second that a row states of its film, which has one rate."""
    text = row.cells.get(RATE_COLUMN, "").strip()
    if not text:
        return None
    rate = known_frame_rate(text)
    if rate is None or rates.setdefault(as_id(row["movie_id"]), rate) != rate:
        row.add(RATE_COLUMN, f"{text!r} is not the frame rate of the film")
    return rate


def _span_of(
    row: TableRow, rate: Fraction | None, table: CsvTable
) -> tuple[float, float] | None:
    """Return start and end of a row in seconds; pictures need the rate of their film."""
    has_times = row.cells.get("start_s") or row.cells.get("end_s")
    if not has_times and {*FRAMES} <= {*table.columns}:
        frames = row.frames()
        if frames is None:
            return None
        if rate is None:
            row.add("start_frame", f"pictures have times by a column {RATE_COLUMN}")
            return None
        return seconds_of_frames(*frames, rate)
    cells = (row.cells.get("start_s"), row.cells.get("end_s"))
    start_s, end_s = map(number_of_cell, cells)
    if start_s is None or end_s is None or not 0 <= start_s < end_s:
        row.add("start_s", SPAN_EXPECTED)
        return None
    return start_s, end_s


def people_of(marks: Collection[Mark]) -> list[str]:
    """Return who made the marks, sorted."""
    return sorted({mark.annotator for mark in marks})
