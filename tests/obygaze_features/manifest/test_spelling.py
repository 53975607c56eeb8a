"""A word, a number and a name of a person have one spelling, however they were typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from obygaze.films.marks import read_marks
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.adapters import csv_table
from obygaze_features.manifest.adapters.join_table import join
from obygaze_features.manifest.io import annotators_of, read_manifest, write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest

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
}
MARKS = "movie_id,annotator,start_frame,end_frame,level,concepts,framerate\n"


def table_of(folder: Path, header: str, *rows: str) -> Path:
    """Write a table."""
    path = folder / "t.csv"
    path.write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return path


def moods_of(manifest: Manifest) -> list[str]:
    """Return the cells of the column of moods."""
    return [clip.extra["mood"] for clip in manifest]


def test_a_table_has_each_word_once(tmp_path: Path) -> None:
    rows = [f"c{number},lake,{mood}" for number, mood in enumerate(MOODS)]
    path = table_of(tmp_path, "clip_id,movie_id,mood", *rows)
    manifest = csv_table.read(path).manifest
    assert moods_of(manifest) == list(MOODS.values())
    clips = tuple(Clip(clip.clip_id, "lake") for clip in manifest)
    joined = join(Manifest("bare", Header("m"), clips), path).manifest
    assert moods_of(joined) == list(MOODS.values())


def test_a_manifest_that_was_edited_by_hand_has_each_word_once(tmp_path: Path) -> None:
    clips = [Clip(f"c{n}", "lake", extra={"mood": "calm"}) for n in range(3)]
    manifest = Manifest("m", Header("m"), tuple(clips), ("mood",))
    write_manifest(manifest, tmp_path / "m.toml")
    rows = tmp_path / "m.csv"
    rows.write_text(rows.read_text("utf-8").replace("calm", "Calm", 1), "utf-8")
    assert moods_of(read_manifest(tmp_path / "m.toml")) == ["Calm"] * 3


def test_an_annotator_is_one_person_however_the_name_is_typed(tmp_path: Path) -> None:
    """Of `Ada` and `ada`, agreement was that of two people."""
    rows = ["c1,lake,ada,S", "c1,lake,ben,S", "c2,lake, Ada ,S", "c2,lake,BEN,EN"]
    path = table_of(tmp_path, "clip_id,movie_id,annotator,level", *rows)
    manifest = csv_table.read(path, name="m", rule="agreed").manifest
    assert manifest.annotators == ("ada", "ben")
    write_manifest(manifest, tmp_path / "m.toml")
    beside = annotators_of(tmp_path / "m.toml")
    text = beside.read_text("utf-8")
    beside.write_text(text.replace("c2,ada", "c2,Ada"), "utf-8")
    assert read_manifest(tmp_path / "m.toml") == manifest
    beside.write_text(f"{text}c1,ADA,EN,\n", "utf-8")
    with pytest.raises(FixInput, match="not valid") as error:
        read_manifest(tmp_path / "m.toml")
    assert "said something of this clip on line 2" in error.value.details[0]


def test_marks_of_a_person_are_of_one_however_the_name_is_typed(tmp_path: Path) -> None:
    """Of `Ada` and `ada`, alpha was -.061, where one person had marked."""
    path = tmp_path / "marks.csv"
    rows = ("lake,Ada,0,24,S,Gun", "lake,ada,50,74,HN,gun|look", "lake,Ada,80,90,S,Gun")
    path.write_text(MARKS + "".join(f"{row},25\n" for row in rows), "utf-8")
    marks = read_marks([path])
    assert {mark.annotator for mark in marks} == {"Ada"}
    said = {mark.value for mark in marks if mark.column == "concepts"}
    assert said == {"Gun", "Look"}
