from collections.abc import Callable
from pathlib import Path

import pytest

from obygaze.audits.cooccurrence import audit_cooc
from obygaze.audits.texts import GroupNames
from obygaze.films.elan import write_elan
from obygaze.films.importing import import_files_of_marks
from obygaze.films.marks import Mark, read_marks
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.adapters import csv_table
from obygaze_features.manifest.adapters.join_table import join
from obygaze_features.manifest.adapters.table_mapping import TableMapping
from obygaze_features.manifest.annotators import parse_orders
from obygaze_features.manifest.expression import parse
from obygaze_features.manifest.io import annotators_path, read_manifest, write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.spelling import Spelling

# Each cell as somebody types it, and as a manifest has it.
MOODS = {
    "Calm": "Calm",
    "calm": "Calm",
    " CALM ": "Calm",
    "très  bien": "très bien",
    "tre\u0300s bien": "très bien",
    "4.0": "4",
    "04": "4",
    "sad|Calm|calm": "sad|Calm",
    "007x": "007x",
    "-0.0": "0",
    "sad\u200b": "sad",
}
# One word, as a person, Excel, pandas, R and a web page write it.
ONE = ("1", "1.0", "01", " 1 ", "1\u200b")


def table_of(folder: Path, header: str, *rows: str) -> Path:
    path = folder / "t.csv"
    path.write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return path


def moods_of(manifest: Manifest) -> list[str]:
    return [clip.extra["mood"] for clip in manifest]


def test_a_table_has_each_word_once(tmp_path: Path) -> None:
    rows = [f"c{number},lake,{mood}" for number, mood in enumerate(MOODS)]
    path = table_of(tmp_path, "clip_id,movie_id,mood", *rows)
    manifest = csv_table.read(path).manifest
    assert moods_of(manifest) == list(MOODS.values())
    clips = tuple(Clip(clip.clip_id, "lake") for clip in manifest)
    joined = join(Manifest("bare", Header("m"), clips), path).manifest
    assert moods_of(joined) == list(MOODS.values())


def test_an_annotator_is_one_person_however_the_name_is_typed(tmp_path: Path) -> None:
    rows = ["c1,lake,ada,S", "c1,lake,ben,S", "c2,lake, Ada ,S", "c2,lake,BEN,EN"]
    path = table_of(tmp_path, "clip_id,movie_id,annotator,level", *rows)
    manifest = csv_table.read(path, name="m", rule="agreed").manifest
    assert manifest.annotators == ("ada", "ben")
    write_manifest(manifest, tmp_path / "m.toml")
    beside = annotators_path(tmp_path / "m.toml")
    text = beside.read_text("utf-8")
    beside.write_text(text.replace("c2,ada", "c2,Ada"), "utf-8")
    assert read_manifest(tmp_path / "m.toml") == manifest
    beside.write_text(f"{text}c1,ADA,EN,\n", "utf-8")
    with pytest.raises(FixInput, match="not valid") as error:
        read_manifest(tmp_path / "m.toml")
    assert "has a row for this clip on line 2" in error.value.details[0]


def _of_rows(folder: Path) -> set[str]:
    rows = [f"c{number},lake,{word}" for number, word in enumerate(ONE)]
    path = table_of(folder, "clip_id,movie_id,mood", *rows)
    return set(moods_of(csv_table.read(path).manifest))


def _of_marks(folder: Path) -> set[str]:
    rows = [f"lake,{n},{n + 1},mood,{word},ada" for n, word in enumerate(ONE)]
    path = table_of(folder, "movie_id,start_s,end_s,column,value,annotator", *rows)
    return {mark.value for mark in read_marks([path])}


def _of_tiers(folder: Path, **options: dict[str, str]) -> set[str]:
    marks = [Mark("lake", n, n + 0.5, "mood", one, "ada") for n, one in enumerate(ONE)]
    file = folder / "lake.eaf"
    file.write_bytes(write_elan(marks))
    path = import_files_of_marks([file], "lake", workspace=folder, **options).path
    return {mark.value for mark in read_marks([path])}


def _of_expressions(folder: Path) -> set[str]:
    holds = [parse(f'mood == "{word}"').holds(lambda _: ["1"]) for word in ONE]
    return {"1"} if all(holds) else set()


def _of_orders(folder: Path) -> set[str]:
    return {parse_orders({"mood": f"{word},2"})["mood"][0] for word in ONE}


def _of_levels(folder: Path) -> set[str]:
    return {"1" for word in ONE if TableMapping(levels={"1.0": "S"}).level(word) == "S"}


def _of_groups(folder: Path) -> set[str]:
    name_of = GroupNames(["mood"])
    return {*frozenset().union(*(name_of({"mood": word}) for word in ONE))}


def _of_things(folder: Path) -> set[str]:
    rows = [{"caption": "a man", "mood": word} for word in ONE]
    return {one["thing"] for one in audit_cooc(rows, things="mood").values["things"]}


DOORS = {
    "rows of a table": _of_rows,
    "marks of a table": _of_marks,
    "tiers of ELAN": _of_tiers,
    "expressions": _of_expressions,
    "--order": _of_orders,
    "--word": _of_levels,
    "groups of captions": _of_groups,
    "things of captions": _of_things,
}


@pytest.mark.parametrize("door", DOORS)
def test_one_function_makes_a_word_of_a_cell_at_every_door(tmp_path, door) -> None:
    read: Callable[[Path], set[str]] = DOORS[door]
    assert read(tmp_path) == {"1"}


def test_an_option_names_a_word_of_a_tier_in_any_spelling(tmp_path: Path) -> None:
    assert _of_tiers(tmp_path, words={"1.0": "low"}) == {"low"}


def test_a_manifest_that_was_edited_by_hand_has_each_word_once(tmp_path: Path) -> None:
    clips = [Clip(f"c{n}", "lake", extra={"mood": "calm"}) for n in range(3)]
    manifest = Manifest("m", Header("m"), tuple(clips), ("mood",))
    write_manifest(manifest, tmp_path / "m.toml")
    rows = tmp_path / "m.csv"
    rows.write_text(rows.read_text("utf-8").replace("calm", "Calm", 1), "utf-8")
    assert moods_of(read_manifest(tmp_path / "m.toml")) == ["Calm"] * 3


def test_marks_of_a_person_are_of_one_however_the_name_is_typed(tmp_path: Path) -> None:
    rows = (
        *("lake,0,1,concepts,Gun,Ada", "lake,2,3,concepts,gun|look,ada"),
        "lake,4,5,concepts,Gun,Ada",
    )
    header = "movie_id,start_s,end_s,column,value,annotator"
    marks = read_marks([table_of(tmp_path, header, *rows)])
    assert {mark.annotator for mark in marks} == {"Ada"}
    said = {mark.value for mark in marks if mark.column == "concepts"}
    assert said == {"Gun", "Look"}


def test_what_an_annotator_could_not_tell_is_no_word(tmp_path: Path) -> None:
    """A run would count such a clip as negative; with a second annotator it never did."""
    assert Spelling().cell("?|low", "mood") == "low"
    assert Spelling().cell("?", "comment") == "?"
    table = tmp_path / "t.csv"
    rows = "clip_id,movie_id,annotator,mood\na-1,a,ada,low\na-2,a,ada,?\n"
    table.write_text(rows, encoding="utf-8")
    clips = csv_table.read(table).manifest
    assert [clip.values("mood") for clip in clips] == [("low",), ()]
    made = clips.with_column("tone", {"a-1": "?", "a-2": "high"})
    assert [clip.values("tone") for clip in made] == [(), ("high",)]
