"""Data sets that own code reads."""

from pathlib import Path

from obygaze_features.core.parts import find_part, trust
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
