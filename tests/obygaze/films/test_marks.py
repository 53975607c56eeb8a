"""Marks: saved at once and whole, with two annotators, two tabs, kills and a full disk."""

from __future__ import annotations

import csv
import json
import os
import random
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support.cli import run_obygaze
from support.film_pages import (
    ask,
    film_clips,
    manifest,
    mark,
    save,
    segment,
    served,
    site,
    table,
)
from support.kills import kill_everywhere
from support.videos import write_video

from obygaze.films import marks as marks_module
from obygaze.films.mark_tables import read_mark_table
from obygaze.films.marks import (
    MarkTable,
    Outdated,
    WatchedTable,
)
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.model import Clip

CLIPS = [
    replace(clip, extra={"framerate": "25"}) for clip in film_clips("lake", "lake.mp4")
]


@pytest.fixture
def marks(tmp_path: Path) -> MarkTable:
    return table(tmp_path, manifest(tmp_path, CLIPS), "ada")


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def history_of(marks: MarkTable) -> list[Any]:
    lines = marks.path.with_suffix(".history.jsonl").read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def test_a_mark_is_a_row_that_projecting_reads(marks: MarkTable) -> None:
    saved = marks.save(mark(1))
    (row,) = rows_of(marks.path)
    assert marks.path.name == "films.ada.csv"
    assert row == {
        **{
            "movie_id": "lake",
            "annotator": "ada",
            "start_frame": "10",
            "end_frame": "20",
        },
        **{"level": "S", "concepts": "Look|Body", "comment": "why"},
        **{"when": saved["when"], "mark": mark(1)["mark"]},
        **{"framerate": "", "start_s": "", "end_s": ""},
    }
    assert [one.concepts for one in read_mark_table(marks.path).segments] == [
        ("Look", "Body")
    ]


def test_changes_and_deletions_are_in_the_history(marks: MarkTable) -> None:
    first = marks.save(mark(1))
    second = marks.save(mark(1, first["state"], level="HN"))
    assert marks.save(mark(1, second["state"], deleted=True))["deleted"]
    assert rows_of(marks.path) == []
    states = [(line["before"], line["after"]) for line in history_of(marks)]
    for saved in (first, second):
        del saved["deleted"]
    assert states == [(None, first), (first, second), (second, None)]


def test_rows_that_people_add_stay_and_can_be_changed(marks: MarkTable) -> None:
    columns = "movie_id;annotator;start_frame;end_frame;level;concepts"
    marks.path.write_text(f"\ufeff{columns}\nlake;ada;1;2;S;Look\n", "utf-8")
    (by_hand,) = marks.read().marks.values()
    assert by_hand["comment"] == ""
    marks.save(mark(1))
    assert len(rows_of(marks.path)) == 2
    marks.save({**by_hand, "level": "EN", "concepts": []})
    assert {row["level"] for row in rows_of(marks.path)} == {"S", "EN"}
    assert history_of(marks)[-1]["before"] == by_hand


def test_the_marks_of_somebody_else_are_not_those_of_the_annotator(
    marks: MarkTable,
) -> None:
    """A table of ben's that was renamed to ada's was shown, and changed, as hers."""
    columns = "movie_id,annotator,start_frame,end_frame,level,concepts"
    marks.path.write_text(f"{columns}\nlake,ben,1,2,S,Look\n", "utf-8")
    with pytest.raises(FixInput) as caught:
        marks.read()
    problem = f"{marks.path}:2: column 'annotator': expected ada, got 'ben'"
    assert caught.value.details == (problem,)


def test_a_row_that_was_copied_is_a_mark_of_its_own(marks: MarkTable) -> None:
    marks.save(mark(1))
    text = marks.path.read_text("utf-8")
    copy = text.split("\n")[1].replace(",10,20,", ",30,40,") + "\n"
    # Two copies that are equal are two marks, too.
    marks.path.write_text(f"{text}{copy}{copy}", "utf-8")
    marks.save(mark(2, start_frame=50, end_frame=60))
    starts = [row["start_frame"] for row in rows_of(marks.path)]
    assert starts == ["10", "30", "30", "50"]
    assert len({row["mark"] for row in rows_of(marks.path)}) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"movie_id": "../lake"}, "no film '../lake'"),
        ({"level": "T"}, "level must be one of"),
        ({"start_frame": 30}, "first and the last frame"),
        ({"start_frame": "1"}, "first and the last frame"),
        ({"start_frame": -1}, "first and the last frame"),
        ({"end_frame": True}, "first and the last frame"),
        ({"concepts": ["Look|Body"]}, "unknown concept"),
        ({"comment": "x" * 2001}, "at most 2000"),
        ({"mark": "<script>"}, "expected an id"),
    ],
)
def test_invalid_marks_change_nothing(
    marks: MarkTable, changes: Any, message: str
) -> None:
    with pytest.raises(FixInput, match=message):
        marks.save(mark(1, **changes))
    assert not marks.path.exists()


def test_a_comment_is_one_line_of_text(marks: MarkTable) -> None:
    text = 'a "quote", a\r\nbreak\x00 and <script>alert(1)</script> é\u202e'
    saved = marks.save(mark(1, comment=text))
    want = 'a "quote", a break and <script>alert(1)</script> é'
    assert saved["comment"] == want
    assert next(iter(marks.read().marks.values()))["comment"] == want


@pytest.mark.parametrize("name", ["", "../ada", "a/b", "a.b", "-a", "é", "a" * 51])
def test_names_of_annotators_are_names_of_files(tmp_path: Path, name: str) -> None:
    message = "the name of an annotator is that of a file"
    with pytest.raises(FixUsage, match=message) as caught:
        table(tmp_path, manifest(tmp_path, CLIPS), name)
    assert (caught.value.hint == "--annotate e") == (name == "é")
    assert not (tmp_path / "segments").exists()


def test_a_second_tab_does_not_overwrite_what_it_has_not_seen(tmp_path: Path) -> None:
    with served(site(tmp_path, CLIPS, "ada")) as server:
        shown = save(server, mark(1)).json()["state"]
        first = save(server, mark(1, shown, comment="first tab"))
        assert first.status == 200
        newest = first.json()["state"]
        assert save(server, mark(1, shown, comment="second tab")).status == 409
        second = save(server, mark(1, newest, comment="second tab"))
        newest = second.json()["state"]
        assert save(server, mark(1, newest, deleted=True)).status == 200
        assert save(server, mark(1, newest)).status == 409


def test_two_annotators_at_once_lose_nothing(tmp_path: Path) -> None:
    films, n = manifest(tmp_path, CLIPS), 25

    def work(annotator: str, first: int) -> None:
        own = table(tmp_path, films, annotator)
        for number in range(first, first + n):
            own.save(mark(number))

    # Two annotators, and two windows of each.
    jobs = [(name, first) for name in ("ada", "ben") for first in (0, 100)]
    threads = [threading.Thread(target=work, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in ("ada", "ben"):
        found = table(tmp_path, films, name)
        assert len(found.read().marks) == 2 * n == len(history_of(found))


def test_a_save_of_another_window_while_a_table_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows and the segments were read from two states of the file: zip() had two lengths."""
    films = manifest(tmp_path, CLIPS)
    table(tmp_path, films, "ada").save(mark(1))
    read_table = marks_module.read_table
    saves = [mark(2)]

    def read_then_save(*args: Any, **options: Any) -> Any:
        rows = read_table(*args, **options)
        if saves:
            other = saves.pop()
            table(tmp_path, films, "ada").save(other)
        return rows

    monkeypatch.setattr(marks_module, "read_table", read_then_save)
    window = table(tmp_path, films, "ada")
    assert not saves
    assert set(window.read().marks) == {mark(1)["mark"], mark(2)["mark"]}


def test_of_two_equal_changes_one_is_refused(marks: MarkTable) -> None:
    shown = marks.save(mark(1))["state"]
    marks.save(mark(1, shown, level="HN"))
    with pytest.raises(Outdated):
        marks.save(mark(1, shown, level="HN"))


def test_a_kill_during_saving_loses_nothing(tmp_path: Path) -> None:
    films = manifest(tmp_path, CLIPS)
    table(tmp_path, films, "ada").save(mark(1))

    def look() -> None:
        found = table(tmp_path, films, "ada")
        assert mark(1)["mark"] in found.read().marks
        if mark(2)["mark"] in found.read().marks:
            after = [line["after"] for line in history_of(found)]
            assert mark(2)["mark"] in [one["mark"] for one in after if one]
            shown = found.read().marks[mark(2)["mark"]]["state"]
            found.save(mark(2, shown, deleted=True))

    assert (
        kill_everywhere(lambda: table(tmp_path, films, "ada").save(mark(2)), look) >= 4
    )
    left = [file.name for file in (tmp_path / "segments").iterdir()]
    assert sorted(name for name in left if not name.startswith(".")) == [
        "films.ada.csv",
        "films.ada.history.jsonl",
    ]


def test_random_saves_equal_a_table_that_is_read_anew(tmp_path: Path) -> None:
    """What is remembered after a save may not differ from the file."""
    films = manifest(tmp_path, CLIPS)
    one, other = (table(tmp_path, films, "ada") for _ in range(2))
    one.path.write_text(
        "movie_id,annotator,start_frame,end_frame,level,concepts,comment\n"
        "lake,ada,5,9,EN,,x1\n",
        "utf-8",
    )
    draw = random.Random(5)
    model: dict[str, tuple[int, int, str]] = {}
    for _ in range(300):
        window = draw.choice((one, other))
        number = draw.randrange(40)
        known = window.read().marks.get(mark(number)["mark"])
        first, level = draw.randrange(200), draw.choice(("EN", "HN", "S"))
        shown = known["state"] if known else None
        values = {"start_frame": first, "end_frame": first + 5, "level": level}
        wanted = mark(number, shown, comment=f'"{first}", é', **values)
        if known and draw.random() < 0.3:
            window.save({**wanted, "deleted": True})
            del model[wanted["mark"]]
        else:
            saved = window.save(wanted)
            model[wanted["mark"]] = (first, first + 5, level)
            del saved["deleted"]
            assert window.read().marks[wanted["mark"]] == saved
        if (
            draw.random() < 0.1
        ):  # a change with an editor, which keeps the length of the file
            text = one.path.read_text("utf-8")
            one.path.write_text(text.replace(",x1", ",x2"), "utf-8")
        fresh = table(tmp_path, films, "ada").read()
        assert window.read() == fresh
        spans = {
            mark_id: (found["start_frame"], found["end_frame"], found["level"])
            for mark_id, found in fresh.marks.items()
            if mark_id in model
        }
        assert spans == model
        assert len(fresh.marks) == len(model) + 1
    assert "x2" in [row["comment"] for row in rows_of(one.path)]


def by_id(marks: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {saved["mark"]: saved for saved in marks}


def test_who_asks_has_what_is_there_and_nothing_if_it_is_as_it_was(
    tmp_path: Path,
) -> None:
    clips = [*CLIPS, *film_clips("pond", "pond.mp4")]
    clips = [replace(clip, extra={"framerate": "25"}) for clip in clips]
    page = site(tmp_path, clips, "ada")
    films = page.manifest
    ben = table(tmp_path, films, "ben")
    assert page.marks is not None
    path = page.marks.path
    draw = random.Random(6)
    shown: dict[str, Any] = {}
    for _ in range(100):
        n_changes = draw.randrange(3)
        for window in draw.choices((page.marks, ben), k=n_changes):
            number = draw.randrange(20)
            known = window.read().marks.get(mark(number)["mark"])
            state = known["state"] if known else None
            film = known["movie_id"] if known else draw.choice(("lake", "pond"))
            wanted = mark(number, state, movie_id=film, start_frame=draw.randrange(9))
            is_deleted = known is not None and draw.random() < 0.4
            window.save({**wanted, "deleted": is_deleted})
        if draw.random() < 0.1 and path.exists():
            n_changes += 1
            text = path.read_text("utf-8")
            path.write_text(text.replace("why", "how"), "utf-8")
        answer = page.marks_of("lake", shown.get("state", ""))
        if answer["marks"] is None:
            assert answer["segments"] is None
            assert answer["state"] == shown["state"]
        else:
            shown = answer
        whole = site(tmp_path, clips, "ada").marks_of("lake")
        assert by_id(shown["marks"]) == by_id(whole["marks"])
        assert shown["segments"] == whole["segments"]
    # Nothing changed: nothing is sent, also by the server.
    with served(page) as server:
        sent = ask(server, f"/api/marks?film=lake&known={shown['state']}").json()
    assert (sent["marks"], sent["segments"]) == (None, None)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    words = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(tmp_path)]
    if subprocess.run(words, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not permitted here")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_full_disk_is_said_and_what_was_saved_stays(small_disk: Path) -> None:
    with served(site(small_disk, CLIPS, "ada")) as server:
        statuses = [save(server, mark(n, comment="x" * 400)).status for n in range(12)]
        n_saved = statuses.count(200)
        assert 1 <= n_saved < 12
        assert statuses == [200] * n_saved + [507] * (12 - n_saved)
        found = table(small_disk, manifest(small_disk, CLIPS), "ada")
        assert len(found.read().marks) == n_saved
        words = ["mount", "-o", "remount,size=1m", str(small_disk)]
        subprocess.run(words, check=True)
        assert save(server, mark(99)).status == 200
        assert len(found.read().marks) == n_saved + 1


def test_a_damaged_table_is_not_overwritten(marks: MarkTable) -> None:
    marks.save(mark(1))
    text = marks.path.read_text("utf-8").replace(",S,", ",T,")
    marks.path.write_text(text, "utf-8")
    with pytest.raises(FixInput) as caught:
        marks.save(mark(2))
    assert "films.ada.csv:2: column 'level': 'T'" in caught.value.details[0]
    assert marks.path.read_text("utf-8") == text


def test_the_table_is_readable_by_others(marks: MarkTable) -> None:
    marks.save(mark(1))
    assert os.access(marks.path, os.R_OK)
    assert [one.annotator for one in read_mark_table(marks.path).segments] == [
        segment(0, 1).annotator
    ]


@pytest.mark.parametrize("column", ["shot size", ""])
def test_a_table_with_columns_of_others_is_not_written_anew(
    marks: MarkTable, column: str
) -> None:
    columns = f"movie_id,annotator,start_frame,end_frame,level,concepts,{column}"
    text = f"{columns}\nlake,ada,1,2,S,Look,close\n"
    marks.path.write_text(text, "utf-8")
    with pytest.raises(FixInput) as caught:
        marks.save(mark(1))
    assert "remove this column: the page writes the table anew" in str(
        caught.value.details
    )
    assert marks.path.read_text("utf-8") == text


def test_an_edit_by_hand_is_not_overwritten(marks: MarkTable) -> None:
    shown = marks.save(mark(1))
    text = marks.path.read_text("utf-8")
    marks.path.write_text(text.replace(",why,", ",corrected by hand,"), "utf-8")
    with pytest.raises(Outdated):
        marks.save({**shown, "level": "HN"})
    assert rows_of(marks.path)[0]["comment"] == "corrected by hand"
    (newer,) = marks.read().marks.values()
    again = marks.save({**newer, "level": "HN"})
    assert (again["level"], again["comment"]) == ("HN", "corrected by hand")


def test_a_mark_has_the_rate_of_its_film_and_its_times(tmp_path: Path) -> None:
    clips = [replace(clip, extra={"framerate": "23.976"}) for clip in CLIPS]
    page = site(tmp_path, clips, "ada")
    saved = page.save_mark(mark(1, start_frame=48, end_frame=71))
    assert saved["framerate"] == "23.976"
    # Frames 48 to 71 at 24000/1001 are from 2.002 s to 3.003 s.
    assert (float(saved["start_s"]), float(saved["end_s"])) == (2.002, 3.003)


def test_time_that_nobody_watched_is_no_easy_negative(tmp_path: Path) -> None:
    # Two annotators with two marks each in the first minute of twelve.
    clips = [
        replace(clip, extra={"framerate": "25"})
        for clip in film_clips("lake", "", 12, 60.0)
    ]
    rows = [f"{clip.clip_id},lake,{clip.start_s},{clip.end_s}" for clip in clips]
    (tmp_path / "clips.csv").write_text(
        "\n".join(["clip_id,movie_id,start_s,end_s", *rows])
    )
    for name in ("ada", "ben"):
        page = site(tmp_path, clips, name)
        page.save_mark(mark(1, start_frame=0, end_frame=499))
        page.save_mark(mark(2, start_frame=600, end_frame=1099, level="HN"))
    tables = [f"segments/films.{name}.csv" for name in ("ada", "ben")]
    words = (
        "manifest",
        "agree",
        *tables,
        "--clips",
        "clips.csv",
        "--json",
        "--permutations",
        "0",
    )
    # The first mark says that nothing was watched: only the clip with marks can be compared.
    nothing = run_obygaze(*words, cwd=tmp_path).ok()
    assert "counts as watched" not in nothing.stderr
    assert nothing.json()["pairs"][0]["n"] == 1
    # Tables from elsewhere say nothing of it.
    for name in ("ada", "ben"):
        (tmp_path / "segments" / f"films.{name}.watched.csv").unlink()
    unknown = run_obygaze(*words, cwd=tmp_path).ok()
    assert "clips without a mark as EN: ada in lake" in unknown.stderr
    assert unknown.json()["pairs"][0]["n"] == 12
    # Of the other eleven minutes, both have seen three: four clips can be compared.
    for name in ("ada", "ben"):
        page = site(tmp_path, clips, name)
        page.save_watched({"movie_id": "lake", "stretches": [[0, 2999], [3000, 5999]]})
    known = run_obygaze(*words, cwd=tmp_path).ok()
    assert "counts as watched" not in known.stderr
    assert known.json()["pairs"][0]["n"] == 4
    rows_seen = rows_of(tmp_path / "segments/films.ada.watched.csv")
    assert [
        (row["start_frame"], row["end_frame"], row["level"]) for row in rows_seen
    ] == [("0", "5999", "watched")]


def test_what_is_no_stretch_of_the_film_is_refused(tmp_path: Path) -> None:
    clips = [replace(clip, extra={"framerate": "25"}) for clip in CLIPS]
    with served(site(tmp_path, clips, "ada")) as server:
        for stretches in (
            [[5, 1]],
            [[-1, 3]],
            [[1.5, 3]],
            "all",
            [[1]],
            [["1", "2"]],
            None,
        ):
            sent = {"movie_id": "lake", "stretches": stretches}
            assert ask(server, "/api/watched", method="POST", sent=sent).status == 400
        sent = {"movie_id": "lake", "stretches": [[200, 10**30], [300, 400]]}
        # The film has 250 pictures.
        (watched,) = ask(server, "/api/watched", method="POST", sent=sent).json()
        assert (watched["start_frame"], watched["end_frame"]) == (200, 249)
        assert (watched["start"], watched["end"]) == (8.0, 10.0)
        sent = {"movie_id": "sea", "stretches": []}
        assert ask(server, "/api/watched", method="POST", sent=sent).status == 400


def test_what_is_no_name_is_refused_in_words(tmp_path: Path) -> None:
    page = site(tmp_path, CLIPS, "ada")
    for no_name in (["lake"], {"lake": 1}, 5, None):
        with pytest.raises(FixInput, match="the manifest has no film"):
            page.save_mark(mark(1, movie_id=no_name))
        with pytest.raises(FixUsage, match="the manifest has no film"):
            page.save_watched({"movie_id": no_name, "stretches": []})
        with pytest.raises(FixInput, match="level must be one of"):
            page.save_mark(mark(1, level=no_name))
    for concepts in ([["Look"]], [{}], ["Lok"]):
        with pytest.raises(FixInput, match="unknown concept"):
            page.save_mark(mark(1, concepts=concepts))
    with pytest.raises(FixInput, match="expected a list of names"):
        page.save_mark(mark(1, concepts=7))


def test_a_missing_video_does_not_move_the_marks(tmp_path: Path) -> None:
    for number in range(3):
        write_video(tmp_path / f"{number}.mp4", numbers=range(50))
    clips = [Clip(f"lake-{n}", "lake", n, f"{n}.mp4", level="EN") for n in range(3)]
    page = site(tmp_path, clips, "ada")
    page.save_mark(mark(1, start_frame=100, end_frame=149))
    assert page.film("lake")["can_mark"]
    (tmp_path / "0.mp4").unlink()
    later = site(tmp_path, clips, "ada")
    film = later.film("lake")
    # The rate is that of the videos that are there.
    assert (film["rate"], film["can_mark"], film["marks"]) == (25.0, False, [])
    assert "Marks have no place: the length of" in film["notes"][0]
    with pytest.raises(FixUsage, match=r"the length of 0\.mp4 is not known"):
        later.save_mark(mark(2, start_frame=0, end_frame=9))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("lake,bob,50,59,watched,", "expected ada, got 'bob'"),
        ("lake,ada,50,59,S,", "expected watched, got 'S'"),
    ],
)
def test_rows_by_hand_do_not_become_what_the_annotator_watched(
    tmp_path: Path, row: str, message: str
) -> None:
    path = tmp_path / "m.ada.watched.csv"
    header = "movie_id,annotator,start_frame,end_frame,level,concepts\n"
    text = f"{header}lake,ada,0,9,watched,\n{row}\n"
    path.write_text(text)
    with pytest.raises(FixInput) as caught:
        WatchedTable(path, "ada").add("lake", [(20, 30)], Fraction(25))
    assert message in caught.value.details[0]
    assert path.read_text() == text


def test_a_mark_after_the_end_of_the_film_is_refused(tmp_path: Path) -> None:
    """One such row was taken, and from then on the table could not be read."""
    page = site(tmp_path, CLIPS, "ada")
    assert page.marks is not None
    with served(page) as server:
        for last in (10**22, 275):
            answer = save(server, mark(1, start_frame=0, end_frame=last))
            assert answer.status == 400
            assert "the last picture of lake is 249" in answer.json()["error"]
        assert not page.marks.path.exists()
        # What a file says of its length may be a little less than it shows.
        assert save(server, mark(1, start_frame=0, end_frame=260)).status == 200
        assert save(server, mark(2)).status == 200


def test_a_table_that_cannot_be_read_does_not_close_the_film(tmp_path: Path) -> None:
    page = site(tmp_path, CLIPS, "ada")
    assert page.marks is not None
    with served(page) as server:
        assert save(server, mark(1)).status == 200
        page.marks.path.write_text("movie_id,level\nlake,S\n", "utf-8")
        shown = ask(server, "/api/film?film=lake").json()
        assert "required column" in shown["problem"]
        assert len(shown["spans"]) == 10
        refused = save(server, mark(2))
        assert refused.status == 400
        assert page.marks.path.read_text("utf-8") == "movie_id,level\nlake,S\n"
        page.marks.path.unlink()
        watched = tmp_path / "segments" / "films.ada.watched.csv"
        watched.write_text("mine\n1\n", "utf-8")
        assert ask(server, "/api/film?film=lake").status == 200


def test_marks_of_another_copy_are_neither_shown_nor_mixed(tmp_path: Path) -> None:
    """Their pictures would be at other times, and the table would have two rates."""
    page = site(tmp_path, CLIPS, "ada")
    assert page.marks is not None
    text = (
        "movie_id,annotator,start_frame,end_frame,level,concepts,framerate\n"
        "lake,ada,50,60,S,Look,50\n"
    )
    page.marks.path.write_text(text, "utf-8")
    film = page.film("lake")
    assert "counted at 50 per second, its video has 25" in film["problem"]
    assert film["marks"] == []
    with pytest.raises(FixInput, match="counted at 50 per second"):
        page.save_mark(mark(1))
    assert page.marks.path.read_text("utf-8") == text


def test_a_mark_that_is_not_there_cannot_be_deleted(marks: MarkTable) -> None:
    marks.save(mark(1))
    before = marks.path.read_text("utf-8")
    with pytest.raises(Outdated):
        marks.save(mark(2, deleted=True))
    assert marks.path.read_text("utf-8") == before
    assert len(history_of(marks)) == 1


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        # By hand: picture 5 begins at 5 / (25 / 3) = 0.6 s, picture 15 at 1.8 s.
        ("ada,5,14,S,Look|Body,25/3,,,", ("5", "14", "0.6", "1.8")),
        ("ada,,,S,Look|Body,25/3,0.6,1.8,", ("5", "14", "0.6", "1.8")),
        # Nobody knows which of the two was corrected.
        ("ada,5,14,S,Look|Body,25/3,1.2,2.52,", None),
        ("ada,10,20,S,Look|Body,25/3,0.6,1.8,", None),
    ],
)
def test_pictures_or_times_that_were_edited_by_hand_are_read_or_refused(
    tmp_path: Path, written: str, expected: tuple[str, str, str, str] | None
) -> None:
    """Times that were edited alone became those of the pictures again, with the next mark."""
    films = manifest(tmp_path, film_clips("lake", ""))
    marks = table(tmp_path, films, "ada")
    marks.save(mark(1, level="S", start_frame=10, end_frame=20), Fraction(25, 3))
    text = marks.path.read_text("utf-8")
    before = "ada,10,20,S,Look|Body,25/3,1.2,2.52,"
    assert before in text
    edited = text.replace(before, written)
    marks.path.write_text(edited, "utf-8")
    second = mark(2, start_frame=50, end_frame=60)
    if expected is None:
        with pytest.raises(FixInput) as refused:
            marks.save(second, Fraction(25, 3))
        assert "empty those that are wrong" in refused.value.details[0]
        assert marks.path.read_text("utf-8") == edited
        return
    marks.save(second, Fraction(25, 3))
    row, _ = csv.DictReader(marks.path.read_text("utf-8").splitlines())
    names = ("start_frame", "end_frame", "start_s", "end_s")
    assert tuple(row[name] for name in names) == expected


def test_stretches_of_films_are_joined(tmp_path: Path) -> None:
    watched = WatchedTable(tmp_path / "films.ada.watched.csv", "ada")
    assert watched.stretches("lake") == []
    # The first mark makes the table: nothing was seen so far.
    assert watched.add("lake", [], Fraction(25)) == []
    assert watched.path.read_text("utf-8") == (
        "movie_id,annotator,start_frame,end_frame,level,concepts,framerate\n"
    )
    assert watched.add("lake", [(0, 9), (20, 29)], Fraction(25)) == [(0, 9), (20, 29)]
    assert watched.add("sea", [(5, 5)], Fraction(24000, 1001)) == [(5, 5)]
    assert watched.add("lake", [(10, 12)], Fraction(25)) == [(0, 12), (20, 29)]
    assert watched.path.read_text("utf-8").splitlines()[1:] == [
        "lake,ada,0,12,watched,,25",
        "lake,ada,20,29,watched,,25",
        "sea,ada,5,5,watched,,23.976",
    ]


def test_what_was_watched_of_another_copy_is_not_counted_anew(tmp_path: Path) -> None:
    """The pictures of a copy of 24 per second would have become some of 25 per second."""
    watched = WatchedTable(tmp_path / "films.ada.watched.csv", "ada")
    watched.add("lake", [(0, 9)], Fraction(24))
    text = watched.path.read_text("utf-8")
    with pytest.raises(FixInput, match="counted at 24 per second, its video has 25"):
        watched.add("lake", [(20, 29)], Fraction(25))
    assert watched.path.read_text("utf-8") == text
    assert watched.add("sea", [(5, 5)], Fraction(25)) == [(5, 5)]
