"""An import that replaces a manifest with links to videos is refused without --force."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import Result, call_obygaze

from obygaze_features.manifest import read_manifest

TABLE = """clip_id,movie_id,start_s,end_s,level
lake-1,lake,0,4,S
lake-2,lake,4,8,EN
alba-1,alba,0,4,EN
pond-1,pond,0,4,EN
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A manifest of which three clips are linked, and one has no video."""
    (tmp_path / "videos").mkdir()
    for name in ("lake.mp4", "alba-1.mp4"):
        (tmp_path / "videos" / name).touch()
    (tmp_path / "films.csv").write_text(TABLE)
    imported(tmp_path).ok()
    call_obygaze("manifest", "link", "films", "videos", cwd=tmp_path).ok()
    return tmp_path


def imported(workspace: Path, *options: str) -> Result:
    words = ("manifest", "import", "films.csv", "-o", "films", *options)
    return call_obygaze(*words, cwd=workspace)


def test_links_are_replaced_with_force_only(workspace: Path) -> None:
    before = read_manifest("films", workspace=workspace)
    refused = imported(workspace)
    assert refused.code == 1
    assert "this manifest has links of 3 clips to videos" in refused.stderr
    assert "choose another name, or replace it with --force" in refused.stderr
    assert read_manifest("films", workspace=workspace) == before
    done = imported(workspace, "--force").ok()
    assert "dropped the links of 3 clips to videos" in done.stderr
    call_obygaze("manifest", "link", "films", "videos", cwd=workspace).ok()
    assert read_manifest("films", workspace=workspace) == before


def test_a_manifest_without_links_is_the_same_again(tmp_path: Path) -> None:
    (tmp_path / "films.csv").write_text(TABLE)
    imported(tmp_path).ok()
    assert "links" not in imported(tmp_path).ok().stderr
