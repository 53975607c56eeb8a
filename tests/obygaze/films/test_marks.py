"""The table of marks: what cannot be read is said, and names are one however they were typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.film import marks as film_marks
from support.film import write_marks

from obygaze.films.marks import read_marks
from obygaze_features.core.errors import FixInput, ObygazeError


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "movie_id,start_s,end_s,column,value,annotator\nlake,2,1,level,S,ada\n",
            "cannot be read",
        ),
        ("\x00\x00", "which no text has"),
    ],
)
def test_what_is_no_table_of_marks_is_refused(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "ada.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(ObygazeError, match=problem):
        read_marks([path])


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
