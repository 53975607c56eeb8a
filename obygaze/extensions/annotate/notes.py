"""Notes of annotators at pictures: the table `segments/MANIFEST.NAME.notes.csv`.

A note has no level: it is for what a mark does not say. An annotator has one note at a picture.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from obygaze.extensions.annotate.film_segments import plain
from obygaze_features.core.errors import FixInput, ObygazeError
from obygaze_features.core.files import csv_bytes, locked, write_atomic
from obygaze_features.manifest.frame_rate import frame_rate_text
from obygaze_features.manifest.tables import read_table

COLUMNS = ("movie_id", "annotator", "frame", "time_s", "framerate", "text", "when")
REQUIRED = ("movie_id", "annotator", "frame", "text")
MAX_TEXT = 4000


@dataclass(frozen=True)
class Note:
    """A note at a picture of a film."""

    movie_id: str
    annotator: str
    frame: int
    text: str
    time_s: str = ""
    framerate: str = ""
    when: str = ""


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
    notes = []
    for row in table.rows:
        frame = row.whole("frame", "the number of a picture (whole, from 0)")
        more = [row.cells.get(name, "") for name in ("time_s", "framerate", "when")]
        if frame is not None:
            facts = (row["movie_id"], row["annotator"], frame, row["text"])
            notes.append(Note(*facts, *more))
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
        notes = {(one.movie_id, one.frame): one for one in read_notes(path)}
        place = (note.movie_id, note.frame)
        earlier = notes.pop(place, None)
        text_by_now = earlier.text if earlier else ""
        if text_by_now not in (before, note.text):
            raise NoteChanged(text_by_now)
        if note.text:
            notes[place] = replace(
                note,
                time_s=repr(float(note.frame / rate)),
                framerate=frame_rate_text(rate),
                when=datetime.now(UTC).isoformat(timespec="seconds"),
            )
        rows = []
        for one in sorted(notes.values(), key=lambda one: (one.movie_id, one.frame)):
            rows.append([getattr(one, name) for name in COLUMNS])
        write_atomic(path, csv_bytes(COLUMNS, rows))


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
