"""The table of marks: one window writes, others look, and nothing is lost by kills."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.film import marks as film_marks
from support.film import write_marks
from support.film_pages import table

from obygaze.films.marks import LEVEL, WATCHED, Mark, read_marks, written
from obygaze.films.writer import MarkFile, Outdated
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeError


def level(start_s: float, end_s: float, word: str = "S", film: str = "lake") -> Mark:
    return Mark(film, start_s, end_s, LEVEL, word, "ada")


def watched(start_s: float, end_s: float, film: str = "lake") -> Mark:
    return Mark(film, start_s, end_s, WATCHED, WATCHED, "ada")


@pytest.fixture
def marks(tmp_path: Path) -> Iterator[MarkFile]:
    made = table(tmp_path, "ada")
    yield made
    made.close()


def on_disk(marks: MarkFile) -> set[Mark]:
    return {*read_marks([marks.path])}


def history_of(marks: MarkFile) -> list[Any]:
    lines = marks.path.with_suffix(".history.jsonl").read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def test_a_change_is_undone_by_the_change_turned_round(marks: MarkFile) -> None:
    turn = marks.take_turn()
    marks.change(turn, [], [level(1, 2)])
    # Of the first mark of a film it is known that it was watched, and nothing else.
    assert on_disk(marks) == {level(1, 2), watched(1, 2)}
    marks.change(turn, [level(1, 2)], [level(1, 3, "HN")])
    assert on_disk(marks) == {level(1, 3, "HN"), watched(1, 2)}
    # Sent again, because the answer was lost, it does nothing.
    before = history_of(marks)
    marks.change(turn, [level(1, 2)], [level(1, 3, "HN")])
    assert history_of(marks) == before
    marks.change(turn, [level(1, 3, "HN")], [level(1, 2)])
    assert on_disk(marks) == {level(1, 2), watched(1, 2)}
    changes = [(line["gone"], line["new"]) for line in history_of(marks)]
    assert changes[1] == ([[*level(1, 2)]], [[*level(1, 3, "HN")]])
    assert changes[2] == changes[1][::-1]
    with pytest.raises(Outdated, match="not in the table any more"):
        marks.change(turn, [level(5, 6)], [level(5, 7)])
    # What is not there can be taken away once more.
    marks.change(turn, [level(5, 6)], [])


def test_of_two_programs_one_writes(marks: MarkFile, tmp_path: Path) -> None:
    turn = marks.take_turn()
    marks.change(turn, [], [level(1, 2)])
    take = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from pathlib import Path; from support.film_pages import table\n"
        "marks = table(Path(sys.argv[1]), 'ada')\n"
        "print(len(marks.read()), end=' ')\n"
        "try: print(bool(marks.take_turn()))\n"
        "except Exception as error: print(error)\n"
    )

    def other_program() -> str:
        argv = [sys.executable, "-c", take, str(tmp_path)]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    assert other_program() == "2 another program marks in this table now\n"
    # Each annotator has a lock of his or her own.
    other = table(tmp_path, "ben")
    assert other.take_turn()
    other.close()
    marks.close()
    assert other_program() == "2 True\n"


def test_a_table_that_another_program_changed_is_not_overwritten(
    marks: MarkFile,
) -> None:
    turn = marks.take_turn()
    marks.change(turn, [], [level(1, 2)])
    tier = Mark("lake", 1, 2, "Gewalt", "stark", "ada")
    marks.path.write_bytes(written([level(1, 2, "EN"), tier]))
    with pytest.raises(Outdated, match="another program has changed the table"):
        marks.change(turn, [], [level(3, 4)])
    assert on_disk(marks) == {level(1, 2, "EN"), tier}
    assert marks.read() == {level(1, 2, "EN"), tier}
    marks.change(turn, [], [level(3, 4)])
    assert {tier, level(3, 4)} <= on_disk(marks)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "movie_id,start_s,end_s,column,value,annotator\nlake,2,1,level,S,ada\n",
            "cannot be read",
        ),
        (
            "movie_id,start_s,end_s,column,value,annotator\nlake,1,2,level,S,ben\n",
            "expected marks of ada, got those of ben",
        ),
        (
            "movie_id,start_s,end_s,column,value,annotator,why\nlake,1,2,level,S,ada,x\n",
            "the page would lose the columns why",
        ),
        ("movie_id,annotator,level,start_s,end_s\nlake,ada,S,1,2\n", "would lose"),
        ("\x00\x00", "is not text"),
    ],
)
def test_a_table_of_another_form_is_not_overwritten(
    marks: MarkFile, text: str, problem: str
) -> None:
    turn = marks.take_turn()
    marks.path.write_text(text, "utf-8")
    with pytest.raises(ObygazeError, match=problem):
        marks.read()
    with pytest.raises(Outdated):
        marks.change(turn, [], [level(1, 2)])
    assert marks.path.read_text("utf-8") == text


def test_what_was_watched_is_joined(marks: MarkFile) -> None:
    turn = marks.take_turn()
    draw = random.Random(4)
    seen: set[int] = set()
    for _ in range(60):
        start = draw.randrange(200)
        end = start + draw.randrange(1, 30)
        marks.add_watched(turn, "lake", [(start, end)])
        seen |= {*range(start, end)}
        rows = sorted(on_disk(marks))
        assert {s for row in rows for s in range(int(row[1]), int(row[2]))} == seen
        assert all(a.end_s < b.start_s for a, b in pairwise(rows))
    marks.add_watched(turn, "pond", [(0, 1)])
    marks.change(turn, [], [level(500, 501)])
    assert watched(500, 501) not in on_disk(marks)


def test_random_changes_equal_a_model(marks: MarkFile) -> None:
    turn = marks.take_turn()
    draw = random.Random(5)
    model: set[Mark] = set()
    done: list[tuple[set[Mark], set[Mark]]] = []
    for _ in range(200):
        if done and draw.random() < 0.3:
            new, gone = done.pop()
        else:
            gone = (
                {draw.choice(sorted(model))} if model and draw.random() < 0.5 else set()
            )
            start = draw.randrange(200)
            word = draw.choice(("EN", "HN", "S"))
            new = {level(start, start + draw.random() + 0.01, word)} - model
            done.append((gone, new))
        marks.change(turn, gone, new)
        model = (model - gone) | new
        found = on_disk(marks)
        assert {mark for mark in found if mark.column == LEVEL} == model
        assert found == marks.read()


@pytest.mark.parametrize("name", ["", "../ada", "a.b", "a" * 51])
def test_names_of_annotators_are_names_of_files(tmp_path: Path, name: str) -> None:
    message = "the name of an annotator is that of a file"
    with pytest.raises(FixUsage, match=message) as caught:
        table(tmp_path, name)
    assert caught.value.hint == "--annotate NAME"
    assert not (tmp_path / "segments").exists()


def test_who_or_what_differs_by_capitals_alone_is_one(tmp_path: Path) -> None:
    ada = write_marks(tmp_path / "ada.csv", film_marks("0-9 S", annotator="Ada"))
    again = write_marks(tmp_path / "again.csv", film_marks("0-9 EN", annotator="ada"))
    with pytest.raises(FixInput, match="two files have marks of"):
        read_marks([ada, again])
    both = [*film_marks("0-9 S", film="Lake"), *film_marks("20-29 S", film="lake")]
    with pytest.raises(FixInput, match="'Lake' and 'lake' both become the film"):
        read_marks([write_marks(tmp_path / "both.csv", both)])
    people = [
        *film_marks("0-9 S", annotator="Weiß"),
        *film_marks("0-9 S", annotator="Weiss"),
    ]
    read = read_marks([write_marks(tmp_path / "people.csv", people)])
    assert {mark.annotator for mark in read.marks} == {"Weiß", "Weiss"}
