"""Rule (b): what obygaze writes of marks, it reads back whole, or says what it leaves out.

Marks at random go through each format and back. Each is written down with what has to come back.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from support.elan_rules import problems_of
from support.seeds import amount

from obygaze.films.exchange import ImportedMarks
from obygaze.films.formats import export_manifest, import_manifest
from obygaze.films.marks import Mark, read_marks, written

FILMS = ("film-0", "Les_Yeux_2", "-ete", "a.b")
# Names of tiers, of what was watched, and of lanes are only names.
PEOPLE = (
    *("ada", "ada concepts", "ada #2", "watched", "eva@uni.de", "ben <b>", "Zoé & co"),
    *("S", "山田", 'the "other" one', "=1+1"),
)
# In one column, words of other capitals are one word.
WORDS = {
    "level": ("EN", "HN", "NS", "S", "?"),
    "concepts": ("Body", "Look", "our own & odd", "one, two; three", "'quoted' <i>"),
    "Gewalt": ("stark", "schwach (?)", "none", "?"),
    "Szene #1": ("Bahnhof", "=1+1"),
    "a@b": ('x "y"', "<v ada>"),
    "watched": ("watched", "Gewalt"),
    "comment": (
        *("S", "watched", 'a < b & "c" --> d', "it's &#x27;quoted&#x27; &amp; <v ada>"),
        *("=1+1, then; more", "a|b", "NOTE", "WEBVTT STYLE", "é ü"),
    ),
}


def made_marks(seed: int) -> list[Mark]:
    """Return marks at whole milliseconds, which may overlap."""
    draw = Random(seed)
    marks = set()
    films = draw.sample(FILMS, draw.randint(1, 2))
    people = draw.sample(PEOPLE, draw.randint(1, 4))
    spans = []
    for _ in range(20):
        start_ms = draw.randrange(9_000_000)
        spans.append((start_ms, start_ms + draw.choice((1, 40, 5000))))
    for _ in range(draw.randint(1, 60)):
        column = draw.choice(list(WORDS))
        start_ms, end_ms = draw.choice(spans)
        said = (column, draw.choice(WORDS[column]), draw.choice(people))
        marks.add(Mark(draw.choice(films), start_ms / 1000, end_ms / 1000, *said))
    return sorted(marks)


@pytest.mark.parametrize("seed", range(amount(10, 300)))
def test_marks_come_back(seed: int, tmp_path: Path) -> None:
    marks = made_marks(seed)
    table = tmp_path / "marks.csv"
    table.write_bytes(written(marks))
    assert list(read_marks([table]).marks) == marks
    for kind in ("marks", "elan"):
        files = [table]
        if kind == "elan":
            exported = export_manifest(table, tmp_path / kind, format=kind)
            files = [*exported.files]
            assert [problems_of(path.read_bytes()) for path in files] == [[]] * len(
                files
            )
            assert exported.left_out == ()
        back = import_manifest(files, kind, format="marks", workspace=tmp_path)
        assert isinstance(back, ImportedMarks)
        assert list(back.marks) == marks
        assert back.left_out == ()
