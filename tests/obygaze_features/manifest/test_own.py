"""Data sets that own code reads."""

from pathlib import Path

from obygaze_features.core.parts import find_part, trust
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.own import read_own

CODE = """
from obygaze_features.manifest import Clip, Header, ImportedManifest, Manifest


def read(files, *, name):
    manifest = Manifest(name, Header("Piers"), (Clip("pier-1", "pier"),))
    return ImportedManifest(manifest, "one table is old", ["two tables"], {"tables": 2})
"""


def test_all_that_own_code_says_of_its_files_is_kept(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODE)
    name = f"{tmp_path / 'mine.py'}:read"
    trust([name])
    imported = read_own(find_part(name), [], "piers")
    assert imported.warnings == ("one table is old",)
    assert imported.notes == ("two tables",)
    assert imported.facts == {"tables": 2}


PEOPLE = """
from obygaze_features.manifest import Annotation, Clip, Header, ImportedManifest, Manifest
from obygaze_features.manifest.annotators import labelled


def read(files, *, name):
    said = [Annotation("pier-1", who, "S", (), {"mood": "calm"}) for who in ("ada", "ben")]
    clips = (Clip("pier-1", "pier"),)
    manifest = Manifest(name, Header("Piers"), clips, annotations=tuple(said))
    return ImportedManifest(labelled(manifest, "agreed"))
"""


def test_own_code_gives_what_several_people_said(tmp_path: Path) -> None:
    (tmp_path / "people.py").write_text(PEOPLE)
    name = f"{tmp_path / 'people.py'}:read"
    trust([name])
    saved = read_own(find_part(name), [], "piers").save("piers", workspace=tmp_path)
    again = read_manifest("piers", workspace=tmp_path)
    assert again == saved.manifest
    assert again.annotators == ("ada", "ben")
    assert (again["pier-1"].level, again["pier-1"].extra["mood"]) == ("S", "calm")
