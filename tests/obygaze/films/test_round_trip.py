"""`marks import`, `marks export`, `marks import`: the marks of drawn ELAN files stay."""

from pathlib import Path
from random import Random

import pytest
from support.seeds import amount

from obygaze.films.elan_files import export_marks
from obygaze.films.importing import import_files_of_marks
from obygaze.films.marks import read_marks

pympi = pytest.importorskip("pympi")
FILMS = ("alba", "Der Hof", "L'Été", "a+b #2 & <c>")
PEOPLE = ("Anna", "Ben K.", "@home", "Zoë #2", "")
TIERS = (
    *("level", "concepts", "watched", "comment", "mood", "Gewalt #3", "a@b"),
    *("mood@Ada", "Ort / Zeit", "größe", "level #2", "x | y"),
)
WORDS = (
    *("sad", "SAD", "glad|sad", "strong (?)", "?", "", "none", "1,5", "2.50", "2.5"),
    *("<b> & \"c\" 'd'", "two  blanks ", "line\nbreak", "Größe", "Gro\u0308\u00dfe"),
    *("#1", "=1+1", "@Ben", "日本", "a / b"),
)
LEVELS = ("S", "EN", "hn", "NS", "?", "S|HN", "")
CONCEPTS = ("Look", "Body|Look", "look", "Farbe", "none")


def draw_file(draw: Random, film: str, author: str) -> "pympi.Eaf":
    """Draw a file of a film with tiers of several people; marks of a tier do not overlap."""
    file = pympi.Eaf(author=author or "unspecified")
    if draw.random() < 0.8:
        origin_ms = draw.choice([0, 0, 1500])
        name = f"file:///C:/Filme/{film.replace('#', '%23')}.mp4"
        file.add_linked_file(name, mimetype="video/mp4", time_origin=origin_ms)
    file.remove_tier("default")
    file.add_tier("always", ann="Anna")
    file.add_annotation("always", 0, 1000, "seen")
    for tier in draw.sample(TIERS, draw.randrange(1, 7)):
        person = draw.choice(PEOPLE)
        file.add_tier(tier, ann=person or None)
        time_ms = draw.randrange(0, 3000)
        for _ in range(draw.randrange(0, 6)):
            end_ms = time_ms + draw.randrange(1, 5000)
            words = {"level": LEVELS, "level #2": LEVELS, "concepts": CONCEPTS}
            words |= {"watched": ("watched", "level", "mood")}
            word = draw.choice(words.get(tier, WORDS))
            file.add_annotation(tier, time_ms, end_ms, word)
            time_ms = end_ms + draw.choice([0, 0, draw.randrange(1, 4000)])
    return file


def imported(folder: Path, name: str, workspace: Path) -> list[tuple[object, ...]]:
    made = import_files_of_marks(folder, name, workspace=workspace)
    return [tuple(mark) for mark in read_marks([made.path], workspace)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(amount(25, 1000)))
def test_marks_that_are_exported_and_imported_again_are_the_same(
    tmp_path, seed
) -> None:
    draw = Random(seed)
    for number, film in enumerate(draw.sample(FILMS, draw.randrange(1, 4))):
        author = draw.choice(["Cleo", "", f"person {number}"])
        path = tmp_path / "elan" / f"{film.replace('/', '_')}.eaf"
        path.parent.mkdir(exist_ok=True)
        draw_file(draw, film, author).to_file(str(path))
    marks = imported(tmp_path / "elan", "first", tmp_path)
    export_marks("first", tmp_path / "again", workspace=tmp_path)
    assert imported(tmp_path / "again", "second", tmp_path) == marks
    first, second = (tmp_path / f"segments/{name}.csv" for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
