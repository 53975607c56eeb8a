"""Notes of annotators at pictures: the table `segments/MANIFEST.NAME.notes.csv`.

A note has no level: it is for what a mark does not say. An annotator has one note at a picture.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from obygaze.films.film_segments import plain
from obygaze_features.core.errors import FixInput, ObygazeError
from obygaze_features.core.files import csv_bytes, locked, write_atomic
from obygaze_features.manifest.frame_rate import frame_rate_text
from obygaze_features.manifest.tables import read_table

COLUMNS = ("movie_id", "annotator", "frame", "time_s", "framerate", "text", "when")
REQUIRED = ("movie_id", "annotator", "frame", "text")
MAX_TEXT = 4000


@dataclass(frozen=True)
class Note:
    """A note at a picture of a film; `more` are the cells of columns that others added."""

    movie_id: str
    annotator: str
    frame: int
    text: str
    time_s: str = ""
    framerate: str = ""
    when: str = ""
    more: Mapping[str, str] = field(default_factory=dict)


class NoteChanged(ObygazeError):
    """A note is no longer as it was shown; `facts` has its text by now."""

    status = 409

    def __init__(self, text: str) -> None:
        super().__init__("this note was changed in another window since it was shown")
        self.facts = {"text": text}


def notes_path(table: Path) -> Path:
    """Return the table of the notes of an annotator, beside that of the marks."""
    return table.with_suffix(".notes.csv")


def read_notes(path: Path) -> list[Note]:
    """Return the notes of a table; none if there is no table."""
    if not path.is_file():
        return []
    table = read_table(path, required=REQUIRED, delimiter=None, skip_blank=True)
    other_columns = [name for name in table.filled_columns if name not in COLUMNS]
    notes = []
    for row in table.rows:
        frame = row.whole("frame", "the number of a picture (whole, from 0)")
        if frame is None:
            continue
        note = Note(
            movie_id=row["movie_id"],
            annotator=row["annotator"],
            frame=frame,
            text=row["text"],
            time_s=row.cells.get("time_s", ""),
            framerate=row.cells.get("framerate", ""),
            when=row.cells.get("when", ""),
            more={name: row.cells[name] for name in other_columns},
        )
        notes.append(note)
    if table.rows:
        table.rows[0].violations.raise_if_any("these notes cannot be read")
    return notes


def save_note(path: Path, note: Note, before: str, rate: Fraction) -> None:
    """Write a note in place of the one at the same picture; one without a text deletes it.

    Args:
        path: The table.
        note: The note.
        before: The text that was shown, "" for a new note; another one by now is an error.
        rate: The pictures per second of the film.
    """
    with locked(path.parent):
        notes = read_notes(path)
        earlier = next(
            (other for other in notes if _place(other) == _place(note)), None
        )
        text_by_now = earlier.text if earlier else ""
        if text_by_now not in (before, note.text):
            raise NoteChanged(text_by_now)
        if earlier is not None:
            notes.remove(earlier)
        if note.text:
            saved = replace(
                note,
                time_s=repr(float(note.frame / rate)),
                framerate=frame_rate_text(rate),
                when=datetime.now(UTC).isoformat(timespec="seconds"),
                more=earlier.more if earlier else {},
            )
            notes.append(saved)
        notes.sort(key=lambda other: (other.movie_id, other.frame))
        write_atomic(path, _table_of(notes))


def _place(note: Note) -> tuple[str, str, int]:
    """Return what tells a note from others: somebody may have written one for another person."""
    return note.movie_id, note.annotator, note.frame


def _table_of(notes: Sequence[Note]) -> bytes:
    """Return the table of notes, with the columns that others added."""
    further_columns: dict[str, None] = {}
    for note in notes:
        further_columns.update(dict.fromkeys(note.more))
    rows = []
    for note in notes:
        row = [getattr(note, name) for name in COLUMNS]
        row += [note.more.get(name, "") for name in further_columns]
        rows.append(row)
    return csv_bytes((*COLUMNS, *further_columns), rows)


def checked_note(
    sent: Mapping[str, Any], annotator: str, n_frames: int
) -> tuple[Note, str]:
    """Return the note that the page sent, and the text that it showed before."""
    frame = sent.get("frame")
    texts: Sequence[Any] = (sent.get("text"), sent.get("before"))
    if type(frame) is not int or not 0 <= frame < n_frames:
        raise FixInput(f"frame: expected a picture from 0 to {n_frames - 1}")
    if not all(isinstance(text, str) and len(text) <= MAX_TEXT for text in texts):
        raise FixInput(f"text, before: expected texts of at most {MAX_TEXT} letters")
    note = Note(str(sent.get("movie_id")), annotator, frame, plain(texts[0]))
    return note, texts[1]
