"""Rule (b): what obygaze writes of marks, it reads back whole, or says what it leaves out.

Marks at random go through each format and back. Each is written down with what has to come back.
"""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from support.elan_rules import problems_of
from support.seeds import amount

from obygaze.films.elan_files import export_marks
from obygaze.films.importing import ImportedMarks, import_files_of_marks
from obygaze.films.labels import project_marks
from obygaze.films.marks import Mark, read_marks, written
from obygaze_features.manifest import read_manifest
from obygaze_features.manifest.annotators import apply_rule, make_annotations
from obygaze_features.manifest.io import as_id, write_manifest
from obygaze_features.manifest.model import Annotation, Clip, Header, Manifest

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
            exported = export_marks(table, tmp_path / kind)
            files = [*exported.files]
            assert [problems_of(path.read_bytes()) for path in files] == [[]] * len(
                files
            )
            assert exported.left_out == ()
        back = import_files_of_marks(files, kind, workspace=tmp_path)
        assert isinstance(back, ImportedMarks)
        assert list(back.marks) == marks
        assert back.left_out == ()


# ---- labels --------------------------------------------------------------------------------------

COLUMNS = ("Mood", "Grad", "comment")
MOODS = ("joy", "fear", "rage (?)", "'quoted' <i>")
COMMENTS = ("a | b", 'vgl. "Szene 3"', "=1+1")


def made_labels(seed: int) -> Manifest:
    """Return clips one after another, and what one to three people say of some of them."""
    draw = Random(seed)
    clips = []
    for film in draw.sample(("lake", "Sunset%20Blvd", "b.c"), 2):
        name = as_id(film)
        ends_s = sorted(draw.sample(range(1, 40), 6))
        for number, (start_s, end_s) in enumerate(pairwise([0, *ends_s])):
            span_s = float(start_s), float(end_s)
            clips.append(Clip(f"{name}-{number}", name, None, "", *span_s, "", (), {}))
    said = []
    for person in draw.sample(("ada", "ben", "Zoé & co"), draw.choice((1, 1, 2, 3))):
        for clip in draw.sample(clips, draw.randint(1, len(clips))):
            moods = sorted(draw.sample(MOODS, draw.randint(0, 3)))
            own = {
                "Mood": "|".join(moods),
                "Grad": draw.choice(("", "0", "1", "2.5")),
                "comment": draw.choice(("", *COMMENTS)),
            }
            level = draw.choice(("", "EN", "HN", "S"))
            names = tuple(draw.sample(("Look", "Body"), draw.randint(0, 2)))
            concepts = tuple(sorted(names)) if level else ()
            if level or any(own.values()):
                said.append(Annotation(clip.clip_id, person, level, concepts, own))
    header = Header("made up", {"Look": "visual", "Body": "visual"})
    blank = dict.fromkeys(COLUMNS, "")
    bare = tuple(replace(clip, extra=blank) for clip in clips)
    return Manifest("drawn-up", header, bare, COLUMNS, tuple(said))


def what_people_say(manifest: Manifest) -> dict[tuple[str, str], list[str]]:
    """Return the cells of each person and clip, without those in which nobody says anything."""
    said = {}
    rows = manifest.annotations or make_annotations(manifest, COLUMNS)
    for one in rows:
        cells = [one.level, "|".join(sorted(one.concepts)), *map(one.own.get, COLUMNS)]
        said[one.clip_id, one.annotator] = [cell or "" for cell in cells]
    return {key: cells for key, cells in said.items() if any(cells)}


@pytest.mark.parametrize("seed", range(amount(10, 60)))
def test_labels_come_back(seed: int, tmp_path: Path) -> None:
    """Nothing that a person says of a clip is lost, nothing is made up of what nobody said."""
    made = apply_rule(made_labels(seed), "agreed")
    path = tmp_path / "manifests" / "drawn-up.toml"
    path.parent.mkdir()
    write_manifest(made, path)
    exported = export_marks("drawn-up", tmp_path / "elan", workspace=tmp_path)
    files = sorted(tmp_path.glob("elan/*.eaf"))
    assert [problems_of(file.read_bytes()) for file in files] == [[]] * len(files)
    import_files_of_marks(files, "marks", workspace=tmp_path)
    back = project_marks(
        "marks", clips="drawn-up", rule="agreed", name="back", workspace=tmp_path
    )
    assert what_people_say(back.manifest) == what_people_say(made), exported.left_out
    again = read_manifest("back", workspace=tmp_path)
    assert what_people_say(again) == what_people_say(made)
    # From the labels, once more.
    export_marks("back", tmp_path / "again", workspace=tmp_path)
    for file in files:
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()
