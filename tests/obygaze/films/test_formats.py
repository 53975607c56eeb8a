"""The table of formats: help, options and docs loop over it, and what is written is read."""

from pathlib import Path
from typing import Any

import pytest
from support.cli import call_obygaze

from obygaze.films.elan_files import export_marks
from obygaze.films.formats import FORMATS, export_manifest, import_manifest
from obygaze.films.importing import import_files_of_marks
from obygaze_features.core import written_tables
from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.manifest import Clip, Header, Manifest

CLIPS = "clip_id,movie_id\na-1,a\n"


def test_an_option_of_another_format_is_refused(tmp_path: Path) -> None:
    for known in FORMATS:
        of_others = {one for other in FORMATS for one in other.options}
        for option in of_others - {*known.options}:
            given: dict[str, Any] = {option: "x"}
            with pytest.raises(
                FixUsage, match=rf"(?m) is for .*, not for {known.name}$"
            ):
                import_manifest(tmp_path / "x", format=known.name, **given)


def marked(*films: str) -> Manifest:
    clips = [Clip(f"{film}-1", film, None, "", 0.0, 2.0, "S") for film in films]
    return Manifest("films", Header("a test"), tuple(clips))


@pytest.mark.parametrize("ending", written_tables.SUFFIXES)
def test_what_is_written_is_read_back(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"lake{ending}"
    export_manifest(marked("lake"), path)
    (clip,) = import_manifest(path, workspace=tmp_path).manifest
    assert (clip.movie_id, clip.start_s, clip.end_s) == ("lake", 0.0, 2.0)
    assert clip.level == "S"


def test_marks_that_are_written_are_read_back(tmp_path: Path) -> None:
    export_marks(marked("lake"), tmp_path / "lake.eaf")
    (mark,) = import_files_of_marks(tmp_path / "lake.eaf", workspace=tmp_path).marks
    assert (mark.movie_id, mark.start_s, mark.end_s) == ("lake", 0.0, 2.0)
    assert mark.value == "S"


def test_films_and_elan_files_of_one_folder_are_read_by_two_commands(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "films"
    folder.mkdir()
    (folder / "._lake.eaf").touch()
    export_marks(marked("lake", "pier"), folder, workspace=tmp_path)
    for path in (folder, folder / "lake.eaf"):
        with pytest.raises(FixUsage) as refused:
            import_manifest(path, workspace=tmp_path)
        assert refused.value.hint == f"obygaze marks import {path}"
    (folder / "lake.mp4").touch()
    assert len(import_files_of_marks(folder, "m", workspace=tmp_path).marks) == 2
    assert len(import_manifest(folder, workspace=tmp_path).manifest) == 1


def test_videos_may_be_in_a_linked_folder(tmp_path: Path) -> None:
    """A folder with such a link has films, or the tables and marks of these films."""
    (tmp_path / "disk/lake").mkdir(parents=True)
    (tmp_path / "disk/lake/1.mp4").touch()
    project = tmp_path / "project"
    project.mkdir()
    (project / "disk").symlink_to(tmp_path / "disk")
    for name in (None, "table"):
        if name == "table":
            (project / "clips.csv").write_text(CLIPS, encoding="utf-8")
        made = import_manifest(
            project, name or "films", format=name, workspace=tmp_path
        )
        assert len(made.manifest) == 1, name
    export_marks(marked("lake"), project / "lake.eaf", workspace=tmp_path)
    assert len(import_files_of_marks(project, "marks", workspace=tmp_path).marks) == 1
    (tmp_path / "disk/clips.csv").write_text(CLIPS, encoding="utf-8")
    with pytest.raises(FixInput, match="without links to folders"):
        import_manifest(project, "again", format="table", workspace=tmp_path)


def test_several_sources_are_of_one_format(tmp_path: Path) -> None:
    for name in ("a.csv", "films/a.mp4"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(CLIPS, encoding="utf-8")
    paths = [tmp_path / "a.csv", tmp_path / "films"]
    with pytest.raises(FixUsage, match="got 2 formats: table, folder"):
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
