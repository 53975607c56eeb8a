"""An import that replaces a manifest keeps the videos of the clips that did not change."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.data import real_data

from obygaze_features.manifest import read_manifest

TABLE = """clip_id,movie_id,start_s,end_s,level
lake-1,lake,0,4,S
lake-2,lake,4,8,EN
alba-1,alba,0,4,EN
alba-2,alba,5,9,S
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A manifest whose clips are parts of a film, but one, which has a file of its own."""
    (tmp_path / "videos").mkdir()
    for name in ("lake.mp4", "alba.mp4", "alba-2.mp4"):
        (tmp_path / "videos" / name).touch()
    imported(tmp_path, TABLE)
    call_obygaze("manifest", "link", "films", "videos", cwd=tmp_path).ok()
    return tmp_path


def imported(workspace: Path, table: str, *options: str) -> str:
    """What the import of a table says on stderr."""
    (workspace / "films.csv").write_text(table)
    words = ("manifest", "import", "csv", "films.csv", "-o", "films", *options)
    return call_obygaze(*words, cwd=workspace).ok().stderr


def videos(workspace: Path) -> dict[str, str]:
    shown = call_obygaze("manifest", "show", "films", "--json", cwd=workspace).json()
    return {clip["clip_id"]: clip["video"] for clip in shown["clips"]}


def test_clips_that_are_the_same_keep_their_videos(workspace: Path) -> None:
    before = (workspace / "manifests" / "films.csv").read_bytes()
    linked = videos(workspace)
    assert linked["lake-1"].endswith("lake.mp4")
    assert linked["alba-2"].endswith("alba-2.mp4")
    said = imported(workspace, TABLE, "--force")
    assert "kept the videos of 4 clips" in said
    assert (workspace / "manifests" / "films.csv").read_bytes() == before
    header = read_manifest("films", workspace=workspace).header
    assert header.video_root == str((workspace / "videos").resolve())


def test_new_labels_and_clips_change_no_video(workspace: Path) -> None:
    table = TABLE.replace("lake-1,lake,0,4,S", "lake-1,lake,0,4,HN")
    said = imported(workspace, f"{table}lake-3,lake,8,9,S\n", "--force")
    assert "kept the videos of 4 clips" in said
    assert videos(workspace)["lake-1"].endswith("lake.mp4")
    assert videos(workspace)["lake-3"] == ""


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("lake-1,lake,0,4", "lake-1,lake,0,3"),
        ("alba-2,alba,5,9", "alba-2,alba,5,10"),
        ("lake-1,lake,0,4", "lake-1,alba,0,4"),
    ],
)
def test_clips_that_changed_have_no_video_until_they_are_linked(
    workspace: Path, was: str, becomes: str
) -> None:
    said = imported(workspace, TABLE.replace(was, becomes), "--force")
    assert "kept the videos of 3 clips" in said
    assert "not kept: the videos of 1 clip that changed" in said
    assert videos(workspace)[was.partition(",")[0]] == ""


def test_times_in_a_file_of_its_own_that_changed_are_not_kept(tmp_path: Path) -> None:
    table = (
        "clip_id,movie_id,video,start_s,end_s,film_start_s,film_end_s\n"
        "a,lake,a.mp4,1,2,10,11\nb,lake,b.mp4,1,2,20,21\n"
    )
    (tmp_path / "videos").mkdir()
    for name in ("a.mp4", "b.mp4"):
        (tmp_path / "videos" / name).touch()
    imported(tmp_path, table)
    call_obygaze("manifest", "link", "films", "videos", cwd=tmp_path).ok()
    changed = table.replace("a,lake,a.mp4,1,2", "a,lake,a.mp4,1.5,3.5")
    said = imported(tmp_path, changed, "--force")
    assert "kept the videos of 1 clip" in said
    clip = read_manifest("films", workspace=tmp_path)["a"]
    assert (clip.start_s, clip.end_s, clip.video) == (1.5, 3.5, "")
    # The name of its file waits for the next link.
    call_obygaze("manifest", "link", "films", "videos", cwd=tmp_path).ok()
    assert videos(tmp_path) == {"a": "a.mp4", "b": "b.mp4"}


def test_a_folder_that_was_imported_from_elsewhere_keeps_no_links(
    tmp_path: Path,
) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder / "lake").mkdir(parents=True)
        (tmp_path / folder / "lake" / "s.mp4").touch()
    words = ("manifest", "import", "folder", "first", "-o", "films")
    call_obygaze(*words, cwd=tmp_path).ok()
    call_obygaze("manifest", "link", "films", "second", cwd=tmp_path).ok()
    said = call_obygaze(*words, "--force", cwd=tmp_path).ok().stderr
    assert "not kept: the videos of 1 clip" in said
    header = read_manifest("films", workspace=tmp_path).header
    assert header.video_root == str((tmp_path / "first").resolve())


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_data_set_with_names_of_files_of_its_own(
    tmp_path: Path, is_linked: bool
) -> None:
    """ObyGaze12 has a column video_name: all of its clips seemed to have changed at each import."""
    data = real_data("obygaze12", "ObyGaze12_thresh_02.csv")
    words = ("-C", tmp_path, "manifest", "import", "obygaze12", data)
    first = call_obygaze(*words).ok()
    assert "75 without video, 1839 with the name of a file that is not linked here" in (
        call_obygaze("-C", tmp_path, "manifest", "stats", "obygaze12").ok().stdout
    )
    assert "not kept" not in first.stderr
    if is_linked:
        folder = tmp_path / "videos" / "tt0108160"
        folder.mkdir(parents=True)
        for number in (1, 2, 3):
            (folder / f"tt0108160_scene_{number}.avi").touch()
        link = ("manifest", "link", "obygaze12", tmp_path / "videos")
        call_obygaze("-C", tmp_path, *link)
    before = (tmp_path / "manifests" / "obygaze12.csv").read_bytes()
    again = call_obygaze(*words, "--force").ok()
    assert "not kept" not in again.stderr
    assert ("kept the videos of 3 clips" in again.stderr) == is_linked
    assert (tmp_path / "manifests" / "obygaze12.csv").read_bytes() == before
