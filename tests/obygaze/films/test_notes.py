"""Notes at pictures: saved at once, changed and deleted, by several people and windows."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.film_pages import ask, film_clips, mark, served, site

from obygaze.films.mark_tables import read_segments
from obygaze.films.notes import read_notes

CLIPS = [
    replace(clip, extra={"framerate": "25"})
    for clip in (*film_clips("lake", "", 4), *film_clips("pond", "", 4))
]


def note(frame: int, text: str, before: str = "", **changes: Any) -> dict[str, Any]:
    """What the page sends to save a note."""
    facts = {"movie_id": "lake", "frame": frame, "text": text, "before": before}
    return {**facts, **changes}


def test_notes_are_saved_changed_and_deleted(tmp_path: Path) -> None:
    page = site(tmp_path, CLIPS, "eva")
    page.save_mark(mark(1))
    with served(page) as server:

        def save(sent: dict[str, Any]) -> Any:
            return ask(server, "/api/note", method="POST", sent=sent)

        assert save(note(50, " the  door\x07 opens\n")).json() == [
            {"annotator": "eva", "frame": 50, "text": "the door opens"}
        ]
        save(note(10, "a lamp, “lit”"))
        save(note(7, "elsewhere", movie_id="pond"))
        found = ask(server, "/api/film?film=lake").json()["picture_notes"]
        assert [(one["frame"], one["text"]) for one in found] == [
            (10, "a lamp, “lit”"),
            (50, "the door opens"),
        ]
        path = tmp_path / "segments" / "films.eva.notes.csv"
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        assert (rows[1]["time_s"], rows[1]["framerate"]) == ("2.0", "25")
        # Another window had shown no note, or an older one.
        refused = save(note(50, "a window", before=""))
        assert (refused.status, refused.json()["text"]) == (409, "the door opens")
        assert (
            len(save(note(50, "the door shuts", before="the door opens")).json()) == 2
        )
        assert len(save(note(50, "", before="the door shuts")).json()) == 1
        assert save(note(50, "")).status == 200  # it is deleted already
    assert [(one.movie_id, one.text) for one in read_notes(path)] == [
        ("lake", "a lamp, “lit”"),
        ("pond", "elsewhere"),
    ]
    assert len(read_segments(tmp_path / "segments" / "films.eva.csv")) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"movie_id": "../lake"},
        {"frame": 100},
        {"frame": True},
        {"frame": "1"},
        {"text": 5},
        {"text": "x" * 4001},
        {"before": None},
    ],
)
def test_what_is_no_note_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with served(site(tmp_path, CLIPS, "eva")) as server:
        sent = {**note(1, "text"), **changes}
        assert ask(server, "/api/note", method="POST", sent=sent).status == 400
    with served(site(tmp_path, CLIPS)) as server:
        assert ask(server, "/api/note", method="POST", sent=note(1, "x")).status == 404
    assert not list((tmp_path / "segments").glob("*.notes.csv"))


def test_notes_of_others_are_shown_but_not_to_the_blind(tmp_path: Path) -> None:
    for name in ("eva", "ada"):
        page = site(tmp_path, CLIPS, name)
        page.save_mark(mark(1))
        page.save_note(note(25, f"by {name}"))
    texts = [one["text"] for one in page.film("lake")["picture_notes"]]
    assert texts == ["by ada", "by eva"]
    blind = site(tmp_path, CLIPS, "ada", blind=True)
    assert [one["text"] for one in blind.film("lake")["picture_notes"]] == ["by ada"]


def test_notes_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    page = site(tmp_path, CLIPS, "eva")
    path = tmp_path / "segments" / "films.eva.notes.csv"
    path.write_text("movie_id,annotator,frame,text\nlake,eva,first,x\n", "utf-8")
    film = page.film("lake")
    assert film["picture_notes"] == []
    assert "films.eva.notes.csv is not shown" in film["notes"][0]


def test_what_somebody_wrote_into_a_table_of_notes_stays(tmp_path: Path) -> None:
    """A save in the page rewrote the table without other columns, and one note at a picture."""
    page = site(tmp_path, CLIPS, "eva")
    path = tmp_path / "segments" / "films.eva.notes.csv"
    path.write_text(
        "movie_id,annotator,frame,text,theme\n"
        "lake,eva,30,the lamp,light\n"
        "lake,ada,30,of a colleague,\n"
        "pond,eva,9,a frog,animals\n",
        "utf-8",
    )
    page.save_note(note(50, "the door"))
    page.save_note(note(30, "the lamps", before="the lamp"))
    with path.open(encoding="utf-8", newline="") as stream:
        rows = [tuple(row.values()) for row in csv.DictReader(stream)]
    shown = {(row[0], row[1], row[2], row[5], row[7]) for row in rows}
    assert shown == {
        ("lake", "eva", "30", "the lamps", "light"),
        ("lake", "ada", "30", "of a colleague", ""),
        ("lake", "eva", "50", "the door", ""),
        ("pond", "eva", "9", "a frog", "animals"),
    }
