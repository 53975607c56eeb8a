"""The commands that look at manifests: one that is broken never hides the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import call_obygaze

from obygaze_features.manifest.io import read_manifest

GOOD = 'schema = "obygaze-manifest/1"\ndataset = "Tiny"\n'
ROWS = "clip_id,movie_id,scene,video,start_s,end_s,level,concepts\na,m,,,,,S,\n"
TABLE = "clip_id,movie_id\na,m\n"


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A workspace with a good manifest and one of each way not to be one."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    for name, toml, rows in [
        ("good", GOOD, ROWS),
        ("half", GOOD, None),
        ("later", GOOD.replace("/1", "/2"), ROWS),
        ("empty", "", ROWS),
    ]:
        (folder / f"{name}.toml").write_text(toml, encoding="utf-8")
        if rows is not None:
            (folder / f"{name}.csv").write_text(rows, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", ["", "-x", "a\nb", "."])
def test_a_manifest_is_given_a_name_that_can_be_typed(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "t.csv").write_text(TABLE, encoding="utf-8")
    argv = (
        "-C",
        tmp_path,
        "manifest",
        "import",
        tmp_path / "t.csv",
        f"-o{name}",
    )
    if not name:
        argv = (*argv[:-1], "-o", "")
    refused = call_obygaze(*argv)
    assert (refused.code, refused.stdout) == (2, "")
    assert not (tmp_path / "manifests").exists()


def test_an_import_keeps_the_licence_and_the_citation_of_its_mapping(
    tmp_path: Path,
) -> None:
    (tmp_path / "t.csv").write_text(TABLE, encoding="utf-8")
    (tmp_path / "t.toml").write_text(
        'licence = "MIT"\ncitation = "Roe"\n', encoding="utf-8"
    )
    words = ("-C", tmp_path, "manifest", "import", tmp_path / "t.csv", "-o", "a")
    call_obygaze(*words, "--mapping", tmp_path / "t.toml").ok()
    header = read_manifest(tmp_path / "manifests/a.toml").header
    assert (header.licence, header.citation) == ("MIT", "Roe")


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
        (("--where", "concept == Look and concept == Body"), ["a"]),
        (("--where", "concept == Look and level == S"), ["a", "c"]),
        (("--where", "level in {EN, HN}"), ["b"]),
        (("--where", "annotator == ben and level == S"), ["c"]),
        (("--where", "'The Lake' in movie_title and not start_s"), ["b", "c"]),
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


def test_selections_without_clips(titled: Path) -> None:
    refused = call_obygaze(
        "manifest", "show", "m", "--where", "concept == Boddy", cwd=titled
    )
    assert "unknown concept 'Boddy' (did you mean 'Body'?)" in refused.stderr
    refused = call_obygaze(
        "manifest", "show", "m", "--where", "level == NS", cwd=titled
    )
    assert "no clip with level == NS" in refused.stderr


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


def clips_of_films(folder: Path, n_clips: int = 24) -> Path:
    """A workspace with the manifest `clips` of one film."""
    levels = ("EN", "", "S")
    rows = [
        f"lake-{n:03d},lake,lake-{n:03d}.mp4,{levels[n % 3]}" for n in range(n_clips)
    ]
    table = "\n".join(["clip_id,movie_id,video,level", *rows])
    (folder / "clips.csv").write_text(table)
    call_obygaze("manifest", "import", "clips.csv", cwd=folder).ok()
    return folder


def test_clips_of_a_film_are_all_clips_with_a_level_or_without(tmp_path: Path) -> None:
    clips_of_films(tmp_path)
    done = call_obygaze("manifest", "stats", "clips", cwd=tmp_path).ok()
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("lake")]
    assert line.split()[:6] == ["lake", "24", "8", "0", "0", "8"]
    document = (
        call_obygaze("manifest", "stats", "clips", "--json", cwd=tmp_path).ok().json()
    )
    assert document["clips_by_film"] == {"lake": 24}


def test_a_folder_does_not_hide_a_manifest_of_its_name(tmp_path: Path) -> None:
    columns = "clip_id,movie_id,annotator,start_frame,end_frame,level,framerate"
    rows = f"{columns}\na,film,ada,0,9,S,10\n"
    (tmp_path / "marks.csv").write_text(rows)
    call_obygaze("manifest", "import", "marks.csv", cwd=tmp_path).ok()
    (tmp_path / "marks.csv").unlink()
    (tmp_path / "marks").mkdir()
    words = ("manifest", "project", "marks", "--every", "1")
    shown = call_obygaze(*words, cwd=tmp_path).ok().stdout.split()
    assert shown[-3:] == ["film_0.000-1.000", "S", "S"]
