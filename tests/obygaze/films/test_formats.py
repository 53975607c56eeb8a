"""The table of formats: help, options and docs loop over it, and what is written is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.cli import call_obygaze

from obygaze.films.formats import FORMATS, WRITTEN, export_manifest, import_manifest
from obygaze.films.importing import ImportedMarks
from obygaze_features.core.errors import FixUsage, NotFound
from obygaze_features.manifest import Clip, Header, Manifest, read_manifest
from obygaze_features.manifest.adapters import SavedManifest

CLIPS = "clip_id,movie_id\na-1,a\n"


def test_an_option_of_another_format_is_refused(tmp_path: Path) -> None:
    for known in FORMATS:
        of_others = {one for other in FORMATS for one in other.options}
        for option in of_others - {*known.options}:
            given: dict[str, Any] = {option: "x"}
            with pytest.raises(FixUsage, match=rf" is for .*, not for {known.name}$"):
                import_manifest(tmp_path / "x", format=known.name, **given)


def marked() -> Manifest:
    clips = []
    for n, film in enumerate(["lake", "pier", "Ete"]):
        times = (2.0 * n, 2.0 * n + 2)
        rate = {"framerate": "25"}
        clips.append(Clip(f"{film}-1", film, None, "", *times, "S", extra=rate))
    return Manifest("films", Header("a test"), tuple(clips), ("framerate",))


TIMES = [("lake", 0.0, 2.0), ("pier", 2.0, 4.0), ("Ete", 4.0, 6.0)]


def spans(imported: SavedManifest | ImportedMarks) -> set[tuple[str, Any, Any]]:
    rows = imported.marks if isinstance(imported, ImportedMarks) else imported.manifest
    return {(row.movie_id, row.start_s, row.end_s) for row in rows}


@pytest.mark.parametrize("ending", WRITTEN)
def test_what_is_written_is_read_back(ending: str, tmp_path: Path) -> None:
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


def test_a_folder_of_films_and_of_elan_files_is_asked_about(tmp_path: Path) -> None:
    films = tmp_path / "films"
    films.mkdir()
    (films / "lake.mp4").touch()
    (films / "._lake.eaf").touch()
    import_manifest(films, workspace=tmp_path)
    export_manifest(marked(), films, format="elan", workspace=tmp_path)
    with pytest.raises(FixUsage, match="the folder has films and ELAN files"):
        import_manifest(films, workspace=tmp_path)
    import_manifest(films, "again", format="folder", workspace=tmp_path)


def test_several_sources_are_of_one_format(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "a.eaf"):
        (tmp_path / name).write_text(CLIPS, encoding="utf-8")
    paths = [tmp_path / "a.csv", tmp_path / "a.eaf"]
    with pytest.raises(FixUsage, match="the files have 2 formats: table, elan"):
        import_manifest(paths, "x", workspace=tmp_path)
    paths = [tmp_path / "films-1", tmp_path / "films-2"]
    for path in paths:
        path.mkdir()
    with pytest.raises(FixUsage, match="folder is one source, got 2 sources"):
        import_manifest(paths, "x", workspace=tmp_path)
    with pytest.raises(NotFound):
        import_manifest([Path("mobygaze"), tmp_path / "a.csv"], workspace=tmp_path)


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
    # A text that is once in the file, and in each row of the table.
    bomb = pyarrow.table({"clip_id": ["x" * 100_000] * 1_000})
    parquet.write_table(bomb, tmp_path / "b.parquet")
    assert (tmp_path / "b.parquet").stat().st_size < 1_000_000
    whole = (tmp_path / "f.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-20])
    for name, code, problem in (
        ("f", 1, "'x' has lists"),
        ("b", 4, "of text"),
        ("cut", 4, "not a Parquet file"),
    ):
        refused = call_obygaze("manifest", "import", f"{name}.parquet", cwd=tmp_path)
        assert (refused.code, problem in refused.stderr) == (code, True)
