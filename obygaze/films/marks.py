"""What an annotator marks and watches in the page: two tables on disk, and a history of marks.

The table is the truth: each change replaces it in one step, in the form that `obygaze manifest
project` reads, and people may edit it. The history beside it only grows: each change in the page
is a line of JSON with the state before and after, written before the table is.

What was watched is a table of its own, with the level `watched`, so that time nobody saw is no easy
negative.
"""

import json
import re
from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from obygaze.films.film_rates import check_rate
from obygaze.films.mark_tables import (
    MORE_COLUMNS,
    SEGMENT_COLUMNS,
    WATCHED,
    Marks,
    Segment,
    plain,
    rates_of_rows,
    read_watched,
    refuse_other_columns,
    segment_of,
)
from obygaze.films.projection import Stretches
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
from obygaze_features.core.tables import open_file, read_table
from obygaze_features.manifest.frame_rate import (
    frame_rate_text,
    known_frame_rate,
    seconds_of_frames,
)
from obygaze_features.manifest.model import LEVELS, ascii_id

ANNOTATOR_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,49}")
ID = re.compile(r"[0-9a-f-]{8,40}")
MAX_COMMENT = 2000
NO_VOCABULARY = Vocabulary()
COLUMNS = (*SEGMENT_COLUMNS, *MORE_COLUMNS)

WATCHED_COLUMNS = (*SEGMENT_COLUMNS, "framerate")
MAX_STRETCHES = 10_000
Stretch = tuple[int, int]
Mark = dict[str, Any]


@dataclass(frozen=True)
class TableState:
    """The marks of an annotator in order, and their lines in the table, by id, with its bytes.

    `tag` is another text after each change.
    """

    marks: dict[str, Mark]
    lines: dict[str, str]
    data: bytes
    tag: str


NO_MARKS = TableState({}, {}, b"", "")


class Outdated(ObygazeError):
    """A mark was changed elsewhere since it was read."""

    status = 409

    def __init__(self) -> None:
        super().__init__(
            "this mark was changed in another window since it was shown here"
        )


class MarkTable:
    """The marks of one annotator: the file `segments/MANIFEST.NAME.csv`.

    `films` and `concepts` are those of the manifest.
    """

    def __init__(
        self,
        path: Path,
        annotator: str,
        films: Sequence[str],
        concepts: Sequence[str],
    ) -> None:
        self.path = path
        self.annotator = annotator
        self.films = films
        self.concepts = concepts
        # As it was last read or written. It is used only while the file has the same bytes, so a
        # change by another program is always seen. Threads replace it as a whole.
        self._last = NO_MARKS
        if not ANNOTATOR_NAME.fullmatch(self.annotator):
            rule = "letters without accents, digits, - and _"
            hint = f"--annotate NAME: {rule}"
            plain_name = ascii_id(self.annotator)
            if ANNOTATOR_NAME.fullmatch(plain_name):
                hint = f"--annotate {plain_name}"
            raise FixUsage(
                f"the name of an annotator is that of a file, of {rule}: got {self.annotator!r}",
                hint=hint,
            )
        self.path.parent.mkdir(exist_ok=True)
        self.read()

    def create(self) -> None:
        """Write the table without a mark if there is none: who marks nothing annotates, too."""
        with locked(self.path.parent):
            if not self.path.exists():
                write_atomic(self.path, csv_line(COLUMNS).encode("utf-8"))

    def read(self) -> TableState:
        """Return what is in the table; a mark that was added by hand gets a hash as its id."""
        if not self.path.exists():
            return NO_MARKS
        with open_file(self.path) as stream:
            data = stream.read()
        # Another thread may replace it at any time.
        state = self._last
        if state.data != data:
            marks = self._parsed(data)
            lines = {own_id: csv_line(_row(mark)) for own_id, mark in marks.items()}
            state = _state_of(marks, lines, data)
            self._last = state
        return state

    def _parsed(self, data: bytes) -> dict[str, Mark]:
        """Return the marks in a table in order, or raise one error of all its violations."""
        violations = Violations(self.path)
        table = read_table(
            self.path,
            required=SEGMENT_COLUMNS,
            data=data,
            violations=violations,
        )
        refuse_other_columns(table, COLUMNS, violations)
        rates = rates_of_rows(table.rows)
        marks: dict[str, Mark] = {}
        for row in table.rows:
            if row["annotator"] != self.annotator:
                problem = f"expected {self.annotator}, got {row['annotator']!r}"
                row.add("annotator", problem)
            segment = segment_of(row, rates)
            if segment is None:
                continue
            mark = _mark_of(segment)
            mark |= {name: row.cells.get(name, "") for name in MORE_COLUMNS}
            mark["comment"] = segment.comment
            # Whoever edits the table by hand may have emptied the times.
            rate = known_frame_rate(mark["framerate"])
            mark |= _times(segment.start_frame, segment.end_frame, rate)
            if not mark["mark"] or mark["mark"] in marks:  # a copy of a row
                mark["mark"] = sha256_bytes(repr((row.line, row.cells)).encode())[:32]
            marks[mark["mark"]] = _with_state(mark)
        violations.raise_if_any("this table of marks cannot be read")
        in_order = sorted(marks.values(), key=_place)
        return {mark["mark"]: mark for mark in in_order}

    def save(
        self,
        wanted: Mapping[str, Any],
        rate: Fraction | None = None,
        vocabulary: Vocabulary = NO_VOCABULARY,
    ) -> Mark:
        """Add, change or (`deleted`) delete one mark, and return its new state.

        Args:
            wanted: The values of the columns. `mark` is an id that the caller makes, and `state`
                is that of the mark as it was shown, None for a new mark.
            rate: The pictures per second of the film.
            vocabulary: Concepts that the mark may have beside those of the manifest.

        Raises:
            Outdated: The mark was changed by now; then nothing is saved.
            FixInput: A value is not valid.
        """
        mark = self._checked(wanted, rate)
        is_deleted = wanted.get("deleted") is True
        with locked(self.path.parent):
            state = self.read()
            check_rates(state.marks.values(), mark["movie_id"], rate)
            before = state.marks.get(mark["mark"])
            is_newest = wanted.get("state") == (before["state"] if before else None)
            # A mark that is not there cannot be deleted.
            if not is_newest or (before is None and is_deleted):
                raise Outdated
            self._check_concepts(mark, before, vocabulary)
            mark = _with_state(mark)
            after = None if is_deleted else mark
            change = {"before": before, "after": after, "when": mark["when"]}
            path = self.path.with_suffix(".history.jsonl")
            with path.open("a", encoding="utf-8", newline="\n") as history:
                # The line break comes first: the last line may have been cut off by a kill.
                history.write(f"\n{json.dumps(change, ensure_ascii=False)}")
            self._write(state, mark["mark"], after)
        return {**mark, "deleted": is_deleted}

    def _write(self, state: TableState, own_id: str, after: Mark | None) -> None:
        """Write the table with one mark changed, or without it; the lines of others stay."""
        in_order = [mark for mark in state.marks.values() if mark["mark"] != own_id]
        lines = dict(state.lines)
        lines.pop(own_id, None)
        if after is not None:
            insort(in_order, after, key=_place)
            lines[own_id] = csv_line(_row(after))
        texts = [lines[mark["mark"]] for mark in in_order]
        data = (csv_line(COLUMNS) + "".join(texts)).encode("utf-8")
        write_atomic(self.path, data)
        marks = {mark["mark"]: mark for mark in in_order}
        self._last = _state_of(marks, lines, data)

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

    def _checked(self, wanted: Mapping[str, Any], rate: Fraction | None) -> Mark:
        """Return the mark that was asked for; an error where a value is not valid."""
        names = ("mark", "movie_id", "level", "start_frame", "end_frame")
        own_id, film, level, start, end = (wanted.get(name) for name in names)
        concepts = wanted.get("concepts") or []
        comment = str(wanted.get("comment") or "")
        # The page may send any JSON: a list or an object is no name, and has no hash.
        if not isinstance(own_id, str) or not ID.fullmatch(own_id):
            raise FixInput("mark: expected an id")
        if not isinstance(film, str) or film not in self.films:
            raise FixInput(f"the manifest has no film {film!r}")
        if not isinstance(level, str) or level not in LEVELS:
            raise FixInput(f"level must be one of {', '.join(LEVELS)}")
        if type(start) is not int or type(end) is not int or not 0 <= start <= end:
            raise FixInput("expected the first and the last frame, from 0")
        if not isinstance(concepts, list):
            raise FixInput("concepts: expected a list of names")
        if not all(isinstance(name, str) and "|" not in name for name in concepts):
            raise FixInput("unknown concept")
        if len(comment) > MAX_COMMENT:
            raise FixInput(f"a comment has at most {MAX_COMMENT} letters")
        framerate = frame_rate_text(rate) if rate else ""
        return {
            "movie_id": film,
            "annotator": self.annotator,
            "start_frame": start,
            "end_frame": end,
            "level": level,
            "concepts": concepts,
            "comment": plain(comment),
            "framerate": framerate,
            **_times(start, end, rate),
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "mark": own_id,
        }


def _times(first: int, last: int, rate: Fraction | None) -> dict[str, str]:
    """Return start and end of pictures in the film in seconds, empty without a rate."""
    if rate is None:
        return {"start_s": "", "end_s": ""}
    start_s, end_s = seconds_of_frames(first, last, rate)
    return {"start_s": repr(start_s), "end_s": repr(end_s)}


def check_rates(marks: Iterable[Mark], film: str, rate: Fraction | None) -> None:
    """Raise an error if marks of a film were made of a copy with another frame rate."""
    for mark in marks:
        if mark["movie_id"] == film:
            check_rate(film, known_frame_rate(mark["framerate"]), rate)


def _mark_of(segment: Segment) -> Mark:
    """Return the values of a segment as they are sent to the page."""
    values = {name: getattr(segment, name) for name in SEGMENT_COLUMNS}
    return {**values, "concepts": list(segment.concepts)}


def _with_state(mark: Mark) -> Mark:
    """Return a mark with a hash of all its values, by which a change of any of them is seen."""
    values = {name: value for name, value in mark.items() if name != "state"}
    text = json.dumps(values, sort_keys=True, ensure_ascii=False)
    return {**values, "state": sha256_bytes(text.encode("utf-8", "replace"))[:32]}


def _state_of(marks: dict[str, Mark], lines: dict[str, str], data: bytes) -> TableState:
    return TableState(marks, lines, data, sha256_bytes(data)[:16])


def _place(mark: Mark) -> tuple[object, ...]:
    """Return by what marks are in order in the table."""
    frames = (mark["start_frame"], mark["end_frame"])
    return (mark["movie_id"], mark["annotator"], *frames, mark["mark"])


def _row(mark: Mark) -> list[Any]:
    """Return the cells of a mark in the table."""
    cells = {**mark, "concepts": "|".join(mark["concepts"])}
    return [cells[name] for name in COLUMNS]


# ---- what was watched ----------------------------------------------------------------------------


@dataclass(frozen=True)
class WatchedTable:
    """The stretches of films that one annotator has watched."""

    path: Path
    annotator: str

    def stretches(self, movie_id: str) -> list[Stretch]:
        """Return what was watched of a film, as first and last pictures, in order."""
        return _stretches_by_film(self._read()).get(movie_id, [])

    def add(
        self, movie_id: str, stretches: Sequence[Stretch], rate: Fraction
    ) -> list[Stretch]:
        """Add stretches of a film, and return all that was watched of it."""
        with locked(self.path.parent):
            known = self._read()
            check_rate(movie_id, known.rates.get(movie_id), rate)
            watched = _stretches_by_film(known)
            before = watched.get(movie_id, [])
            watched[movie_id] = Stretches([*before, *stretches]).pairs()
            self._write(watched, {**known.rates, movie_id: rate})
        return watched[movie_id]

    def _write(
        self,
        watched: Mapping[str, Sequence[Stretch]],
        rates: Mapping[str, Fraction],
    ) -> None:
        rows = []
        for film, stretches in sorted(watched.items()):
            rate = rates.get(film)
            text = "" if rate is None else frame_rate_text(rate)
            for first, last in stretches:
                rows.append((film, self.annotator, first, last, WATCHED, "", text))
        write_atomic(self.path, csv_bytes(WATCHED_COLUMNS, rows))

    def _read(self) -> Marks:
        if not self.path.exists():
            return Marks(())
        return read_watched(self.path, self.annotator, WATCHED_COLUMNS)


def _stretches_by_film(marks: Marks) -> dict[str, list[Stretch]]:
    """Return the stretches of each film, in order."""
    stretches: dict[str, list[Stretch]] = {}
    for segment in marks.segments:
        stretch = (segment.start_frame, segment.end_frame)
        stretches.setdefault(segment.movie_id, []).append(stretch)
    return {film: Stretches(pairs).pairs() for film, pairs in stretches.items()}


def checked_stretches(sent: Mapping[str, Any], n_frames: int) -> list[Stretch]:
    """Return the stretches that the page sent; an error where they are not frames of the film."""
    stretches = sent.get("stretches")
    if not isinstance(stretches, list) or len(stretches) > MAX_STRETCHES:
        raise FixInput("stretches: expected a list of first and last pictures")
    checked = []
    for stretch in stretches:
        is_pair = isinstance(stretch, list) and [
            type(number) for number in stretch
        ] == [int, int]
        if not is_pair or not 0 <= stretch[0] <= stretch[1]:
            raise FixInput(
                f"expected the first and the last picture, from 0, got {stretch!r}"
            )
        first, last = stretch
        if first < n_frames:
            checked.append((first, min(last, n_frames - 1)))
    return checked
