"""An import that replaces a manifest keeps the videos of the clips that did not change."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import call_obygaze

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
    assert "4 clips kept their videos" in said
    assert (workspace / "manifests" / "films.csv").read_bytes() == before


def test_new_labels_and_clips_change_no_video(workspace: Path) -> None:
    table = TABLE.replace("lake-1,lake,0,4,S", "lake-1,lake,0,4,HN")
    said = imported(workspace, f"{table}lake-3,lake,8,9,S\n", "--force")
    assert "4 clips kept their videos" in said
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
    assert "3 clips kept their videos" in said
    assert "not kept: the videos of 1 clip that changed" in said
    assert videos(workspace)[was.partition(",")[0]] == ""
