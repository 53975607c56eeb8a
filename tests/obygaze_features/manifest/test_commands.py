"""The commands of manifests: they reach the functions, and a refusal changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import call_obygaze

GOOD = 'schema = "obygaze-manifest/1"\ndataset = "Tiny"\n'
TABLE = "clip_id,movie_id\na,m\n"


def test_an_import_of_other_bytes_leaves_what_is_there(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    words = ("-C", tmp_path, "manifest", "import", table, "-o", "mine")
    table.write_text(TABLE, encoding="utf-8")
    call_obygaze(*words).ok()
    before = (tmp_path / "manifests" / "mine.csv").read_bytes()
    table.write_text(TABLE + "b,m\n", encoding="utf-8")
    refused = call_obygaze(*words)
    assert refused.code == 1
    assert "Try: choose another name, or replace it with --force" in refused.stderr
    assert (tmp_path / "manifests" / "mine.csv").read_bytes() == before
    summary = json.loads(call_obygaze(*words, "--force", "--json").ok().stdout)
    assert summary["clips"] == 2


SHOWN = """clip_id,movie_id,scene,video,start_s,end_s,level,concepts,movie_title,annotator
a,m,,,70.0,3600.5,S,Body|Look,The Lake,ada
b,m,,,,,EN,,The Lake,ben
c,m,,,,,S,Look,The Lake,ben
"""
CONCEPTS = '\n[concepts]\nBody = "visual"\nLook = "visual"\n'


@pytest.fixture
def titled(tmp_path: Path) -> Path:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "m.toml").write_text(GOOD + CONCEPTS, encoding="utf-8")
    (tmp_path / "manifests" / "m.csv").write_text(SHOWN, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("options", "clips"),
    [
        (("--where", "level == S and not Body in concept"), ["c"]),
        (("--film", "m", "--clips", "b"), ["b"]),
    ],
)
def test_clips_are_selected(
    titled: Path, options: tuple[str, ...], clips: list[str]
) -> None:
    shown = (
        call_obygaze("manifest", "show", "m", *options, "--json", cwd=titled)
        .ok()
        .json()
    )
    assert [clip["clip_id"] for clip in shown["clips"]] == clips


def test_linking_a_wrong_folder_keeps_the_links(titled: Path) -> None:
    (titled / "videos").mkdir()
    (titled / "videos" / "a.mp4").touch()
    call_obygaze("manifest", "link", "m", "videos", cwd=titled).ok()
    before = (titled / "manifests" / "m.csv").read_bytes()
    assert b"a.mp4" in before
    (titled / "others").mkdir()
    (titled / "others" / "z.mp4").touch()
    refused = call_obygaze("manifest", "link", "m", "others", cwd=titled)
    assert (refused.code, refused.stdout) == (1, "")
    files, films, error = refused.stderr.split("\n", 2)
    assert files == "video files: z.mp4"
    assert films.startswith("films: ")
    assert error.startswith("Error: no file matches a clip\n  in: others\n  Try: ")
    assert (titled / "manifests" / "m.csv").read_bytes() == before
