"""The table of formats: help, options and docs loop over it, and what is written is read."""

from pathlib import Path
from typing import Any

import pytest
from support.cli import call_obygaze

from obygaze.films.formats import FORMATS, WRITTEN, export_manifest, import_manifest
from obygaze.films.importing import ImportedMarks
from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.manifest import Clip, Header, Manifest

CLIPS = "clip_id,movie_id\na-1,a\n"


def test_an_option_of_another_format_is_refused(tmp_path: Path) -> None:
    for known in FORMATS:
        of_others = {one for other in FORMATS for one in other.options}
        for option in of_others - {*known.options}:
            given: dict[str, Any] = {option: "x"}
            with pytest.raises(FixUsage, match=rf" is for .*, not for {known.name}$"):
                import_manifest(tmp_path / "x", format=known.name, **given)
    # A table of marks has no empty tiers.
    with pytest.raises(FixUsage, match=r"^--coded is for elan, not for marks$"):
        import_manifest(tmp_path / "x", format="marks", coded=["mood"])


def marked(*films: str) -> Manifest:
    clips = [Clip(f"{film}-1", film, None, "", 0.0, 2.0, "S") for film in films]
    return Manifest("films", Header("a test"), tuple(clips))


@pytest.mark.parametrize("ending", WRITTEN)
def test_what_is_written_is_read_back(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"lake{ending}"
    export_manifest(marked("lake"), path)
    again = import_manifest(path, workspace=tmp_path)
    is_marks = isinstance(again, ImportedMarks)
    (row,) = again.marks if is_marks else again.manifest
    assert (row.movie_id, row.start_s, row.end_s) == ("lake", 0.0, 2.0)
    assert (row.value if is_marks else row.level) == "S"


def test_a_folder_of_films_and_of_elan_files_is_asked_about(tmp_path: Path) -> None:
    films = tmp_path / "films"
    films.mkdir()
    (films / "lake.mp4").touch()
    (films / "._lake.eaf").touch()
    import_manifest(films, workspace=tmp_path)
    export_manifest(marked("lake", "pier"), films, format="elan", workspace=tmp_path)
    with pytest.raises(FixUsage, match="the folder has films and ELAN files"):
        import_manifest(films, workspace=tmp_path)
    import_manifest(films, "again", format="folder", workspace=tmp_path)


def test_videos_may_be_in_a_linked_folder(tmp_path: Path) -> None:
    """A folder with such a link has films, or the tables and marks of these films."""
    (tmp_path / "disk/lake").mkdir(parents=True)
    (tmp_path / "disk/lake/1.mp4").touch()
    project = tmp_path / "project"
    project.mkdir()
    (project / "disk").symlink_to(tmp_path / "disk")
    for name in (None, "table", "elan"):
        if name == "table":
            (project / "clips.csv").write_text(CLIPS, encoding="utf-8")
        if name == "elan":
            export_manifest(marked("lake"), project / "lake.eaf", workspace=tmp_path)
        made = import_manifest(
            project, name or "films", format=name, workspace=tmp_path
        )
        clips = made.marks if isinstance(made, ImportedMarks) else made.manifest
        assert len(clips) == 1, name
    (tmp_path / "disk/clips.csv").write_text(CLIPS, encoding="utf-8")
    with pytest.raises(FixInput, match="without links to folders"):
        import_manifest(project, "again", format="table", workspace=tmp_path)


def test_several_sources_are_of_one_format(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "a.eaf"):
        (tmp_path / name).write_text(CLIPS, encoding="utf-8")
    paths = [tmp_path / "a.csv", tmp_path / "a.eaf"]
    with pytest.raises(FixUsage, match="got 2 formats: table, elan"):
        import_manifest(paths, "x", workspace=tmp_path)
    paths = [tmp_path / "films-1", tmp_path / "films-2"]
    for path in paths:
        path.mkdir()
    with pytest.raises(FixUsage, match="expected one source for folder, got 2 sources"):
        import_manifest(paths, "x", workspace=tmp_path)
    with pytest.raises(NotFound):
        import_manifest([Path("mobygaze"), tmp_path / "a.csv"], workspace=tmp_path)


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
        ("f", 1, "got lists in the column 'x'"),
        ("b", 4, "of text"),
        ("cut", 4, "cannot be read"),
    ):
        refused = call_obygaze("manifest", "import", f"{name}.parquet", cwd=tmp_path)
        assert (refused.code, problem in refused.stderr) == (code, True)
