"""What an annotator marks in the page: a table of segments on disk, and its history.

The table is the truth: each change replaces it in one step, in the form that `obygaze manifest
project` reads, and people may edit it. The history beside it only grows: each change in the page
is a line of JSON with the state before and after, written before the table is.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from secrets import token_hex
from typing import Any

from obygaze.films.film_segments import plain
from obygaze.films.mark_tables import (
    MORE_COLUMNS,
    SEGMENT_COLUMNS,
    Segment,
    other_rate,
    segment_of,
)
from obygaze.films.vocabulary import Vocabulary
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeError
from obygaze_features.core.files import (
    csv_bytes,
    csv_line,
    locked,
    sha256_bytes,
    write_atomic,
)
from obygaze_features.core.schema_check import Violations
from obygaze_features.manifest.frame_rate import frame_rate_text, known_frame_rate
from obygaze_features.manifest.model import LEVELS, ascii_id
from obygaze_features.manifest.tables import open_file, read_table

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,49}")
ID = re.compile(r"[0-9a-f-]{8,40}")
MAX_COMMENT = 2000
NO_VOCABULARY = Vocabulary()

Mark = dict[str, Any]


@dataclass(frozen=True)
class BadRow:
    """A row that somebody wrote by hand and that is no mark: its line, its cells, and why not."""

    line: int
    cells: Mapping[str, str]
    problem: str

    @property
    def text(self) -> str:
        """The cells that are not empty."""
        return ", ".join(cell for cell in self.cells.values() if cell)


@dataclass(frozen=True)
class TableState:
    """What is in the table of an annotator: marks by their id, rows that are none, and columns.

    `origin` is another text whenever the file was read anew; `saved_ids` are the ids of the marks
    that were saved since, in their order.
    """

    marks: dict[str, Mark]
    bad_rows: tuple[BadRow, ...] = ()
    columns: tuple[str, ...] = ()
    origin: str = field(default="", compare=False)
    saved_ids: tuple[str, ...] = field(default=(), compare=False)

    @property
    def tag(self) -> str:
        """A text that is another one after each change of the table."""
        return f"{self.origin}-{len(self.saved_ids)}"

    def saved_since(self, tag: str) -> tuple[str, ...] | None:
        """Return the ids of marks that were saved since the table had a tag; None: not known."""
        origin, _, n_saved = tag.partition("-")
        if origin != self.origin or not n_saved.isdecimal():
            return None
        return self.saved_ids[int(n_saved) :]


@dataclass(frozen=True)
class MarkChange:
    """A mark to be added, changed or (`deleted`) deleted.

    Args:
        wanted: The values of the columns. `mark` is an id that the caller makes, and `version`
            the one that was changed, 0 for a new mark; `state` is that of the mark as it was
            shown, so that a change by hand, which keeps the version, is seen.
        rate: The pictures per second of the film.
        span_s: Start and end of the mark in the film, in seconds.
    """

    wanted: Mapping[str, Any]
    rate: Fraction | None = None
    span_s: tuple[float, float] | None = None

    @property
    def deleted(self) -> bool:
        """Whether the mark is to be deleted."""
        return self.wanted.get("deleted") is True


@dataclass(eq=False)
class _Rows:
    """The marks of a table as rows in their order, each with its line of CSV.

    A save changes some rows and joins the lines: nothing else is made of the other marks.
    """

    columns: tuple[str, ...]
    rows: list[list[Any]]
    lines: list[str]

    @classmethod
    def of(cls, marks: Mapping[str, Mark], columns: Sequence[str]) -> "_Rows":
        """Return the rows of marks."""
        rows = sorted(_row(mark, columns) for mark in marks.values())
        return cls(tuple(columns), rows, [csv_line(row) for row in rows])

    def remove(self, mark: Mark) -> None:
        """Remove the row of a mark."""
        number = bisect_left(self.rows, _row(mark, self.columns))
        del self.rows[number]
        del self.lines[number]

    def add(self, mark: Mark) -> None:
        """Add the row of a mark at its place."""
        row = _row(mark, self.columns)
        number = bisect_left(self.rows, row)
        self.rows.insert(number, row)
        self.lines.insert(number, csv_line(row))

    def to_bytes(self) -> bytes:
        """Return the table as CSV."""
        return "".join([csv_line(self.columns), *self.lines]).encode("utf-8")


@dataclass(frozen=True, eq=False)
class _TableBytes:
    """The bytes of a table, what is in it, and the rows of its marks."""

    data: bytes
    state: TableState
    rows: _Rows


@dataclass(eq=False)
class _LastTable:
    """The table as it was last read or written.

    It is used only while the file has these bytes, so a change by another program is always seen.
    Threads replace it as a whole.
    """

    table: _TableBytes | None = None


class Outdated(ObygazeError):
    """A mark was changed elsewhere since it was read; `facts` has its state, None if deleted."""

    status = 409

    def __init__(self, newer: Mark | None) -> None:
        super().__init__(
            "this mark was changed in another window since it was shown here"
        )
        self.facts = {"newer": newer}


@dataclass(frozen=True)
class MarkTable:
    """The marks of one annotator: the file `segments/MANIFEST.NAME.csv`.

    `films` and `concepts` are those of the manifest.
    """

    path: Path
    annotator: str
    films: Sequence[str]
    concepts: Sequence[str]
    _last: _LastTable = field(default_factory=_LastTable, init=False, compare=False)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.annotator):
            rule = "letters without accents, digits, - and _"
            hint = f"--annotate NAME: {rule}"
            plain_name = ascii_id(self.annotator)
            if NAME.fullmatch(plain_name):
                hint = f"--annotate {plain_name}"
            raise FixUsage(
                f"the name of an annotator is that of a file, of {rule}: got {self.annotator!r}",
                hint=hint,
            )
        self.path.parent.mkdir(exist_ok=True)
        self.read()

    def read(self) -> TableState:
        """Return what is in the table; a mark that was added by hand gets a hash as its id.

        Rows that are no segments do not keep the others from being read, and stay in the file.
        """
        if not self.path.exists():
            return TableState({})
        with open_file(self.path) as stream:
            data = stream.read()
        last = self._last.table
        if last is None or last.data != data:
            state = self._parsed(data)
            # Made now, so that the first save is as fast as the others.
            columns = _columns_of(state.marks, state.columns)
            rows = _Rows.of(state.marks, columns)
            last = _TableBytes(data, state, rows)
            self._last.table = last
        # A copy, so that a caller cannot change what the next one gets.
        return replace(last.state, marks=dict(last.state.marks))

    def _parsed(self, data: bytes) -> TableState:
        """Return what is in the bytes of a table."""
        table = read_table(
            self.path,
            required=SEGMENT_COLUMNS,
            delimiter=None,
            skip_blank=True,
            data=data,
        )
        other_columns = _other_columns(table.filled_columns)
        marks: dict[str, Mark] = {}
        bad_rows = []
        for row in table.rows:
            problems = Violations(self.path.name)
            segment = segment_of(replace(row, violations=problems))
            if segment is None or problems:
                bad_rows.append(BadRow(row.line, row.cells, "; ".join(problems.lines)))
                continue
            mark = _mark_of(segment)
            mark |= {name: row.cells.get(name, "") for name in MORE_COLUMNS}
            mark["more"] = {name: row.cells[name] for name in other_columns}
            mark["version"] = int(mark["version"]) if mark["version"].isdecimal() else 1
            if not mark["mark"] or mark["mark"] in marks:  # a copy of a row
                mark["mark"] = sha256_bytes(repr(row.cells).encode())[:32]
            marks[mark["mark"]] = _with_state(mark)
        origin = token_hex(8)
        return TableState(marks, tuple(bad_rows), table.filled_columns, origin)

    def save(
        self,
        wanted: Mapping[str, Any],
        rate: Fraction | None = None,
        span_s: tuple[float, float] | None = None,
    ) -> Mark:
        """Add, change or delete one mark, and return its new state, as `save_all` does."""
        (saved,) = self.save_all([MarkChange(wanted, rate, span_s)])
        return saved

    def save_all(
        self, changes: Sequence[MarkChange], vocabulary: Vocabulary = NO_VOCABULARY
    ) -> list[Mark]:
        """Make all changes in one step, and return the new states of their marks.

        A mark has the concepts of the manifest and of the vocabulary.

        Raises:
            Outdated: A mark was changed by now; then nothing is saved.
            FixInput: A value is not valid.
        """
        checked = [self._checked(change) for change in changes]
        with locked(self.path.parent):
            state = self.read()
            marks = state.marks
            no_cells = dict.fromkeys(_other_columns(state.columns), "")
            history = []
            rates = {}
            for change, changed_mark in zip(changes, checked, strict=True):
                rates[changed_mark["movie_id"]] = change.rate
            for film, rate in rates.items():
                check_rate(marks.values(), film, rate)
            for change, changed_mark in zip(changes, checked, strict=True):
                mark_id = changed_mark["mark"]
                before = marks.pop(mark_id, None)
                _require_newest(change.wanted, before)
                other_cells = before["more"] if before else no_cells
                self._check_concepts(changed_mark, before, vocabulary)
                changed_mark["more"] = dict(other_cells)
                changed_mark |= _with_state(changed_mark)
                after = None if change.deleted else changed_mark
                if after:
                    marks[mark_id] = after
                when = changed_mark["when"]
                history.append({"before": before, "after": after, "when": when})
            self._add_to_history(history)
            if state.bad_rows or not state.columns:
                self._write(marks, state.bad_rows)
            else:
                self._write_changed(state, history)
        saved = []
        for change, changed_mark in zip(changes, checked, strict=True):
            saved.append({**changed_mark, "deleted": change.deleted})
        return saved

    def _write_changed(
        self, state: TableState, history: Sequence[Mapping[str, Any]]
    ) -> None:
        """Write the table after some changes; the rows of the other marks are as they were."""
        last = self._last.table
        # While the rows are changed they are not those of the file.
        self._last.table = None
        # Another thread may have read what an editor wrote in the meantime.
        if last is None or last.state.tag != state.tag:
            columns = _columns_of(state.marks, state.columns)
            rows = _Rows.of(state.marks, columns)
        else:
            rows = last.rows
            for line in history:
                if line["before"]:
                    rows.remove(line["before"])
                if line["after"]:
                    rows.add(line["after"])
        data = rows.to_bytes()
        write_atomic(self.path, data)
        changed_ids = [(line["after"] or line["before"])["mark"] for line in history]
        written = replace(
            state,
            marks=dict(state.marks),
            columns=rows.columns,
            saved_ids=(*state.saved_ids, *changed_ids),
        )
        self._last.table = _TableBytes(data, written, rows)

    def _add_to_history(self, lines: Sequence[Mapping[str, Any]]) -> None:
        path = self.path.with_suffix(".history.jsonl")
        # The line break comes first: the last line may have been cut off by a kill.
        texts = [f"\n{json.dumps(line, ensure_ascii=False)}" for line in lines]
        with path.open("a", encoding="utf-8", newline="\n") as history:
            history.write("".join(texts))

    def _write(self, marks: Mapping[str, Mark], bad_rows: Sequence[BadRow]) -> None:
        """Write the table: the marks in order, then the rows that are none, as they were."""
        names = list(_columns_of(marks, ()))
        for bad_row in bad_rows:
            names += [name for name, cell in bad_row.cells.items() if name or cell]
        columns = tuple(dict.fromkeys(names))
        rows = sorted(_row(mark, columns) for mark in marks.values())
        for bad_row in bad_rows:
            rows.append([bad_row.cells.get(name, "") for name in columns])
        write_atomic(self.path, csv_bytes(columns, rows))

    def _check_concepts(
        self, mark: Mark, before: Mark | None, vocabulary: Vocabulary
    ) -> None:
        """Put the concepts of a mark in order, with those above them; an error for unknown ones.

        What a mark had before it keeps, though the vocabulary does not have it any more.
        """
        marked = vocabulary.with_concepts_above(mark["concepts"])
        known = dict.fromkeys([*self.concepts, *vocabulary.concepts])
        had = before["concepts"] if before else []
        if not all(name in known or name in had for name in marked):
            raise FixInput("unknown concept")
        mark["concepts"] = [
            name for name in dict.fromkeys([*known, *had]) if name in marked
        ]

    def _checked(self, change: MarkChange) -> Mark:
        """Return the mark that was asked for; an error where a value is not valid."""
        wanted = change.wanted
        names = ("mark", "version", "movie_id", "level", "start_frame", "end_frame")
        own_id, version, film, level, start, end = (wanted.get(name) for name in names)
        concepts = wanted.get("concepts") or []
        comment = str(wanted.get("comment") or "")
        # The page may send any JSON: a list or an object is no name, and has no hash.
        if not isinstance(own_id, str) or not ID.fullmatch(own_id):
            raise FixInput("mark: expected an id")
        if type(version) is not int:
            raise FixInput("version: expected a whole number")
        if not isinstance(film, str) or film not in self.films:
            raise FixInput(f"the manifest has no film {film!r}")
        if not isinstance(level, str) or level not in LEVELS:
            raise FixInput(f"level must be one of {', '.join(LEVELS)}")
        is_span = type(start) is int and type(end) is int and 0 <= start <= end
        if not is_span:
            raise FixInput("expected the first and the last frame, from 0")
        if not isinstance(concepts, list):
            raise FixInput("concepts: expected a list of names")
        if not all(isinstance(name, str) and "|" not in name for name in concepts):
            raise FixInput("unknown concept")
        if len(comment) > MAX_COMMENT:
            raise FixInput(f"a comment has at most {MAX_COMMENT} letters")
        framerate = frame_rate_text(change.rate) if change.rate else ""
        start_s, end_s = map(repr, change.span_s) if change.span_s else ("", "")
        return {
            "movie_id": film,
            "annotator": self.annotator,
            "start_frame": start,
            "end_frame": end,
            "level": level,
            "concepts": concepts,
            "comment": plain(comment),
            "framerate": framerate,
            "start_s": start_s,
            "end_s": end_s,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "mark": own_id,
            "version": int(version or 0) + 1,
        }


def check_rate(marks: Iterable[Mark], film: str, rate: Fraction | None) -> None:
    """Raise an error if marks of a film were made of a copy with another frame rate."""
    written = {mark["framerate"] for mark in marks if mark["movie_id"] == film} - {""}
    for text in sorted(written):
        if rate is not None and known_frame_rate(text) != rate:
            raise other_rate(film, text, rate)


def _require_newest(wanted: Mapping[str, Any], before: Mark | None) -> None:
    """Raise Outdated unless the mark that was changed is the one in the table."""
    if wanted["version"] != (before["version"] if before else 0):
        raise Outdated(before)
    if before is None and wanted.get("deleted") is True:
        raise Outdated(None)
    if before and wanted.get("state") not in (None, before["state"]):
        raise Outdated(before)


def _mark_of(segment: Segment) -> Mark:
    """Return the values of a segment as they are sent to the page."""
    values = {name: getattr(segment, name) for name in SEGMENT_COLUMNS}
    return {**values, "concepts": list(segment.concepts)}


def _other_columns(columns: Sequence[str]) -> list[str]:
    """Return the columns of a table that others added."""
    return [name for name in columns if name not in (*SEGMENT_COLUMNS, *MORE_COLUMNS)]


def _columns_of(marks: Mapping[str, Mark], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a table of marks, with those that it had, also if it has no marks."""
    names = [*SEGMENT_COLUMNS, *MORE_COLUMNS, *_other_columns(columns)]
    for mark in marks.values():
        names += mark["more"]
    return tuple(dict.fromkeys(names))


def _with_state(mark: Mark) -> Mark:
    """Return a mark with a hash of all its values, by which a change of any of them is seen."""
    values = {name: value for name, value in mark.items() if name != "state"}
    # A new column, in which nothing is written yet, is no change of the mark.
    filled = {name: cell for name, cell in mark["more"].items() if cell}
    text = json.dumps({**values, "more": filled}, sort_keys=True, ensure_ascii=False)
    return {**values, "state": sha256_bytes(text.encode("utf-8", "replace"))[:32]}


def _row(mark: Mark, columns: Sequence[str]) -> list[Any]:
    """Return the cells of a mark in the table."""
    # A column of somebody may be called as a value that is in no column, such as `state`.
    cells = {**mark, **mark["more"], "concepts": "|".join(mark["concepts"])}
    return [cells.get(name, "") for name in columns]
