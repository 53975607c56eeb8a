"""The table of marks that one window of the page writes, while all others look.

A change takes marks away and puts others in their place: undoing is the same change turned round,
and a change that is sent again does nothing. Each is a line of the history before the table is
replaced in one step.
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from threading import Lock

from obygaze.films.marks import COLUMNS, WATCHED, Mark, read_table_of_marks, written
from obygaze_features.core import system
from obygaze_features.core.console import few
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeError
from obygaze_features.core.files import write_atomic
from obygaze_features.core.tables import header_of, open_file

ANNOTATOR_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,49}")
Spans = Sequence[tuple[float, float]]


class OnlyLooks(ObygazeError):
    """Another window or another program writes these marks."""

    status = 423


class Outdated(ObygazeError):
    """The table is not as the page has shown it."""

    status = 409


class MarkFile:
    """The marks of one annotator, and what this person has watched: one table.

    Only the window that took its turn last may change it.
    """

    def __init__(self, path: Path, annotator: str) -> None:
        _require_name_of_file(annotator)
        self.path = path
        self.annotator = annotator
        self._turn = ""
        self._lock_of_program: int | None = None
        # Requests of several windows come in threads.
        self._lock_of_thread = Lock()
        self._data = b""
        self._marks: frozenset[Mark] = frozenset()
        path.parent.mkdir(exist_ok=True)
        self.read()

    def read(self) -> frozenset[Mark]:
        """Return what is in the table now; an error if the page would lose something of it."""
        with self._lock_of_thread:
            data = self._bytes()
            if data != self._data:
                self._marks = self._parsed(data) if data else frozenset()
                self._data = data
            return self._marks

    def read_before(self) -> frozenset[Mark]:
        """Return what was in the table when it was last read or written."""
        return self._marks

    def _bytes(self) -> bytes:
        if not self.path.exists():
            return b""
        with open_file(self.path) as stream:
            return stream.read()

    def _parsed(self, data: bytes) -> frozenset[Mark]:
        marks = frozenset(read_table_of_marks(self.path, data))
        others = {mark.annotator for mark in marks} - {self.annotator}
        if others:
            raise FixInput(
                f"expected marks of {self.annotator}, got those of {few(sorted(others))}",
                where=str(self.path),
            )
        columns = [name for name in header_of(self.path) if name not in COLUMNS]
        if columns:
            raise FixInput(
                f"the page would lose the columns {few(columns)} of this table",
                where=str(self.path),
                hint=f"a table with the columns {', '.join(COLUMNS)}",
            )
        return marks

    def take_turn(self) -> str:
        """Return the turn of a window that writes from now on; the one before it looks."""
        with self._lock_of_thread:
            self._require_lock_of_program()
            self._turn = token_hex(8)
            return self._turn

    def change(self, turn: str, gone: Iterable[Mark], new: Iterable[Mark]) -> None:
        """Put marks in the place of others.

        Raises:
            OnlyLooks: Another window or another program writes.
            Outdated: The table is not as it was read last.
        """
        with self._lock_of_thread:
            self._require_turn(turn)
            self._change({*gone}, {*new})

    def add_watched(self, turn: str, film: str, spans: Spans) -> None:
        """Add what was watched of a film."""
        with self._lock_of_thread:
            self._require_turn(turn)
            before = self._watched(film)
            known = [(mark.start_s, mark.end_s) for mark in before]
            joined = self._as_watched(film, [*known, *spans])
            self._change(before - joined, joined - before)

    def close(self) -> None:
        """Let another program write."""
        if self._lock_of_program is not None:
            os.close(self._lock_of_program)
            self._lock_of_program = None

    def _require_turn(self, turn: str) -> None:
        self._require_lock_of_program()
        # A window goes on after the program was started anew.
        self._turn = self._turn or turn
        if not turn or turn != self._turn:
            raise OnlyLooks("another window marks now")

    def _require_lock_of_program(self) -> None:
        if self._lock_of_program is not None:
            return
        folder = self.path.with_name(f".{self.path.stem}.lock")
        folder.mkdir(exist_ok=True)
        descriptor = system.open_lock(folder)
        if not system.take_lock(descriptor):
            os.close(descriptor)
            raise OnlyLooks("another program marks in this table now")
        self._lock_of_program = descriptor

    def _change(self, gone: set[Mark], new: set[Mark]) -> None:
        if self._bytes() != self._data:
            raise Outdated("another program has changed the table of your marks")
        if new <= self._marks and self._marks.isdisjoint(gone - new):
            return  # it was made before, and its answer was lost
        if not gone <= self._marks:
            raise Outdated("these marks are not in the table any more")
        new |= self._first_watched(new)
        when = datetime.now(UTC).isoformat(timespec="seconds")
        line = {"gone": sorted(gone), "new": sorted(new), "when": when}
        path = self.path.with_suffix(".history.jsonl")
        with path.open("a", encoding="utf-8", newline="\n") as history:
            # The line break comes first: the last line may have been cut off by a kill.
            history.write(f"\n{json.dumps(line, ensure_ascii=False)}")
        marks = (self._marks - gone) | new
        data = written(marks)
        write_atomic(self.path, data)
        self._marks = frozenset(marks)
        self._data = data

    def _first_watched(self, new: set[Mark]) -> set[Mark]:
        """Return that marks were watched, in films of which nothing says what was watched.

        Else a table of marks alone would say that all of these films was watched.
        """
        seen = set()
        for mark in new:
            if mark.column != WATCHED and not self._watched(mark.movie_id):
                span_s = (mark.start_s, mark.end_s)
                seen |= self._as_watched(mark.movie_id, [span_s])
        return seen

    def _watched(self, film: str) -> set[Mark]:
        return {
            mark
            for mark in self._marks
            if mark.movie_id == film and mark.column == mark.value == WATCHED
        }

    def _as_watched(self, film: str, spans: Spans) -> set[Mark]:
        """Return the marks of what was watched; spans that touch each other are one."""
        joined: list[tuple[float, float]] = []
        for start_s, end_s in sorted(spans):
            if joined and start_s <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end_s, joined[-1][1]))
            else:
                joined.append((start_s, end_s))
        return {
            Mark(film, *span_s, WATCHED, WATCHED, self.annotator) for span_s in joined
        }


def _require_name_of_file(annotator: str) -> None:
    if ANNOTATOR_NAME.fullmatch(annotator):
        return
    raise FixUsage(
        "the name of an annotator is that of a file, of letters without accents, digits, - and _:"
        f" got {annotator!r}",
        hint="--annotate NAME",
    )
