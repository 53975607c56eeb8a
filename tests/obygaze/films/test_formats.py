"""The table of formats: help, options and docs loop over it, and what is written is read."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.cli import ROOT, call_obygaze

from obygaze.films.exchange import ImportedMarks
from obygaze.films.formats import (
    BY_ENDING,
    FLAGS,
    FORMATS,
    LabelFormat,
    export_manifest,
    import_manifest,
    takers,
)
from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.function_commands import parse_docstring
from obygaze_features.manifest import Clip, Header, Manifest, read_manifest
from obygaze_features.manifest.adapters import SavedManifest

OPTIONS = {option for known in FORMATS for option in known.options}
CLIPS = "clip_id,movie_id\na-1,a\n"


def in_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_help_and_docs_have_each_format(known: LabelFormat) -> None:
    told = in_one_line(parse_docstring(import_manifest).help)
    endings = ", ".join(known.endings)
    start = f"{known.name} ({endings}): " if endings else f"{known.name}: "
    assert start + known.about in told
    page = (ROOT / "docs" / "guide" / "data.md").read_text(encoding="utf-8")
    (row,) = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in page.splitlines()
        if line.startswith("|") and f"`{known.name}`" in line
    ]
    assert row[1] == endings


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_an_option_of_another_format_is_refused(
    known: LabelFormat, tmp_path: Path
) -> None:
    for option in OPTIONS - {*known.options}:
        given: dict[str, Any] = {option: "x"}
        with pytest.raises(FixUsage) as caught:
            import_manifest(tmp_path / "x", format=known.name, **given)
        flag = FLAGS.get(option, f"--{option.replace('_', '-')}")
        names = takers(option).removeprefix("For ")
        assert caught.value.message == f"{flag} is for {names}, not for {known.name}"


def marked() -> Manifest:
    clips = []
    for n, film in enumerate(["lake", "pier", "Ete"]):
        times = (2.0 * n, 2.0 * n + 2)
        rate = {"framerate": "25"}
        clips.append(Clip(f"{film}-1", film, None, "", *times, "S", extra=rate))
    return Manifest("films", Header("a test"), tuple(clips), ("framerate",))


WRITTEN = [(known.name, ending) for known in FORMATS for ending in known.written]
TIMES = [("lake", 0.0, 2.0), ("pier", 2.0, 4.0), ("Ete", 4.0, 6.0)]


def spans(imported: SavedManifest | ImportedMarks) -> set[tuple[str, Any, Any]]:
    rows = imported.marks if isinstance(imported, ImportedMarks) else imported.manifest
    return {(row.movie_id, row.start_s, row.end_s) for row in rows}


@pytest.mark.parametrize(("name", "ending"), WRITTEN)
def test_what_is_written_is_read_back(name: str, ending: str, tmp_path: Path) -> None:
    assert BY_ENDING[ending].name == name
    path = tmp_path / f"lake{ending}"
    one = marked()
    export_manifest(replace(one, clips=one.clips[:1]), path)
    again = import_manifest(path, workspace=tmp_path)
    assert spans(again) == {TIMES[0]}
    if isinstance(again, ImportedMarks):
        assert again.path == tmp_path / "segments" / "lake.csv"
        assert [mark.value for mark in again.marks] == ["S"]
    else:
        assert [clip.level for clip in again.manifest] == ["S"]
        assert read_manifest("lake", workspace=tmp_path) == again.manifest


@pytest.mark.parametrize(("name", "ending"), [("elan", ".eaf"), ("vtt", ".vtt")])
def test_the_films_of_a_manifest_become_a_folder(
    name: str, ending: str, tmp_path: Path
) -> None:
    with pytest.raises(FixUsage, match="is of one film, and the marks are of 3"):
        export_manifest(marked(), tmp_path / f"lake{ending}")
    folder = tmp_path / "out"
    export_manifest(marked(), folder, format=name)
    assert len(list(folder.glob(f"*{ending}"))) == 3
    read_as = None if name == "elan" else name
    made = import_manifest(folder, format=read_as, workspace=tmp_path)
    assert made.path == tmp_path / "segments" / "out.csv"
    assert spans(made) == set(TIMES)


def test_a_folder_of_films_and_of_elan_files_is_asked_about(tmp_path: Path) -> None:
    films = tmp_path / "films"
    films.mkdir()
    (films / "lake.mp4").touch()
    (films / "._lake.eaf").touch()
    import_manifest(films, workspace=tmp_path)
    export_manifest(marked(), films, format="elan", workspace=tmp_path)
    with pytest.raises(FixUsage, match="the folder has films and ELAN files") as caught:
        import_manifest(films, workspace=tmp_path)
    assert caught.value.hint == "--as folder for the films, or --as elan"
    import_manifest(films, "again", format="folder", workspace=tmp_path)


@pytest.mark.parametrize(
    ("file", "hint"),
    [
        ("rows.npz", "obygaze store import"),
        ("lake.srt", "obygaze extract words"),
        ("a film.mp4", "obygaze manifest import"),
        ("notes.odt", ".csv, .tsv, .txt, .xlsx, .xlsm, .parquet, .eaf, .vtt, or --as"),
    ],
)
def test_another_ending_is_refused_with_what_reads_it(
    file: str, hint: str, tmp_path: Path
) -> None:
    (tmp_path / file).touch()
    with pytest.raises(FixUsage, match="no manifest is made of") as caught:
        import_manifest(tmp_path / file)
    assert str(caught.value.hint).startswith(hint)


def test_several_sources_are_of_one_format(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "a.eaf"):
        (tmp_path / name).write_text(CLIPS, encoding="utf-8")
    paths = [tmp_path / "a.csv", tmp_path / "a.eaf"]
    with pytest.raises(FixUsage, match="the files have 2 formats: table, elan"):
        import_manifest(paths, "x", workspace=tmp_path)
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    with pytest.raises(FixUsage, match="table is one source, got 2 sources"):
        import_manifest(paths, "x", workspace=tmp_path)
    with pytest.raises(NotFound) as caught:
        import_manifest([Path("mobygaze"), tmp_path / "a.csv"], workspace=tmp_path)
    assert caught.value.hint == "FILE --as mobygaze"


@pytest.mark.parametrize("name", ["../b", "sub/b", "/tmp/b", "b.toml"])
def test_a_manifest_is_no_path(name: str, tmp_path: Path) -> None:
    """It was written beside the workspace."""
    here = tmp_path / "here"
    here.mkdir()
    (here / "a.csv").write_text(CLIPS, encoding="utf-8")
    refused = call_obygaze("manifest", "import", "a.csv", "-o", name, cwd=here)
    assert refused.code == 2
    assert f"invalid name '{name}': a manifest has a name, not a path" in refused.stderr
    assert [path.name for path in tmp_path.rglob("*.*")] == ["a.csv"]


def test_labels_in_parquet_are_a_table(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {
        "clip_id": ["lake-1", "Été-1"],
        "movie_id": ["lake", "Été"],
        "start_s": [0.5, 2.0],
        "end_s": [1.0, 3.0],
        "level": ["S", None],
        "concepts": ["Look|Body", ""],
        "mood": ["1,2", "3,4"],
        "seen": [True, False],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    made = import_manifest(tmp_path / "t.parquet", workspace=tmp_path).manifest
    lake, ete = made
    assert (lake.start_s, lake.end_s, lake.level) == (0.5, 1.0, "S")
    assert (lake.concepts, lake.extra["mood"]) == (("Look", "Body"), "1,2")
    assert (ete.movie_id, ete.level, ete.concepts) == ("Ete", "", ())
    assert (lake.extra["seen"], ete.extra["seen"]) == ("TRUE", "FALSE")
    with pytest.raises(FixUsage, match="--sheet is for spreadsheets"):
        import_manifest(tmp_path / "t.parquet", "x", sheet="A", workspace=tmp_path)


def test_parquet_that_is_no_table_of_labels_is_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    features = pyarrow.table({"clip_id": ["a"], "x": [[0.5, 1.0]]})
    parquet.write_table(features, tmp_path / "f.parquet")
    with pytest.raises(FixInput, match="'x' has lists") as caught:
        import_manifest(tmp_path / "f.parquet", workspace=tmp_path)
    assert "obygaze store import" in str(caught.value.hint)
    # A text that is once in the file, and in each row of the table.
    bomb = pyarrow.table({"clip_id": ["x" * 100_000] * 10_000})
    parquet.write_table(bomb, tmp_path / "b.parquet")
    assert (tmp_path / "b.parquet").stat().st_size < 1_000_000
    whole = (tmp_path / "f.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-20])
    for name, problem in (("b", "of text"), ("cut", "not a Parquet file")):
        refused = call_obygaze("manifest", "import", f"{name}.parquet", cwd=tmp_path)
        assert (refused.code, problem in refused.stderr) == (4, True)
