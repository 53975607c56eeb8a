"""The table of what was watched: stretches are joined, and refused where they would be lost."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from obygaze.films.marks import WatchedTable
from obygaze_features.core.errors import FixInput

HEADER = "movie_id,annotator,start_frame,end_frame,level,concepts"


def test_stretches_of_films_are_joined(tmp_path: Path) -> None:
    watched = WatchedTable(tmp_path / "films.ada.watched.csv", "ada")
    assert watched.stretches("lake") == []
    # The first mark makes the table: nothing was seen so far.
    assert watched.add("lake", [], Fraction(25)) == []
    assert watched.path.read_text("utf-8") == f"{HEADER},framerate\n"
    assert watched.add("lake", [(0, 9), (20, 29)], Fraction(25)) == [(0, 9), (20, 29)]
    assert watched.add("sea", [(5, 5)], Fraction(24000, 1001)) == [(5, 5)]
    assert watched.add("lake", [(10, 12)], Fraction(25)) == [(0, 12), (20, 29)]
    assert watched.path.read_text("utf-8").splitlines()[1:] == [
        "lake,ada,0,12,watched,,25",
        "lake,ada,20,29,watched,,25",
        "sea,ada,5,5,watched,,23.976",
    ]


@pytest.mark.parametrize("column", ["room", ""])
def test_a_table_with_columns_of_others_is_not_written_anew(
    tmp_path: Path, column: str
) -> None:
    path = tmp_path / "films.ada.watched.csv"
    text = f"{HEADER},framerate,{column}\nlake,ada,0,9,watched,,25,lab\n"
    path.write_text(text, "utf-8")
    with pytest.raises(FixInput) as caught:
        WatchedTable(path, "ada").add("lake", [(20, 30)], Fraction(25))
    assert "remove this column" in caught.value.details[0]
    assert path.read_text("utf-8") == text


def test_what_was_watched_of_another_copy_is_not_counted_anew(tmp_path: Path) -> None:
    """The pictures of a copy of 24 per second would have become some of 25 per second."""
    watched = WatchedTable(tmp_path / "films.ada.watched.csv", "ada")
    watched.add("lake", [(0, 9)], Fraction(24))
    text = watched.path.read_text("utf-8")
    with pytest.raises(FixInput, match="counted at 24 per second, its video has 25"):
        watched.add("lake", [(20, 29)], Fraction(25))
    assert watched.path.read_text("utf-8") == text
    assert watched.add("sea", [(5, 5)], Fraction(25)) == [(5, 5)]
