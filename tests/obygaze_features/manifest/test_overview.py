"""What the commands of manifests print is what their functions return, in a notebook too."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import call_obygaze

from obygaze_features.core.errors import AlreadyThere, UnknownName
from obygaze_features.extraction.linking import link_manifest
from obygaze_features.manifest import (
    assign_folds,
    compute_stats,
    read_manifest,
    show_manifest,
)
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.overview import ManifestPage

TOML = 'schema = "obygaze-manifest/1"\ndataset = "Tiny"\n'
ROWS = """clip_id,movie_id,scene,video,start_s,end_s,level,concepts
a,m,,,,,S,
b,m,,,,,EN,
c,n,,,,,S,
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "tiny.toml").write_text(TOML, encoding="utf-8")
    (folder / "tiny.csv").write_text(ROWS, encoding="utf-8")
    (folder / "broken.toml").write_text("", encoding="utf-8")
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "a.mp4").touch()
    return tmp_path


def test_links_and_folds_are_written_to_the_manifest(workspace: Path) -> None:
    path = workspace / "manifests" / "tiny.toml"
    report = link_manifest("tiny", workspace / "videos", workspace=workspace)
    assert (report.by_name, report.without) == (("a",), ("b", "c"))
    assert read_manifest(path)["a"].video == "a.mp4"
    split = assign_folds(path, k=2)
    assert {fold: stats.clips for fold, stats in split.folds.items()} == {0: 2, 1: 1}
    assert read_manifest(path).folds == ("grouped",)
    with pytest.raises(AlreadyThere):
        assign_folds(path, k=2)


def test_that_no_films_are_stated_is_said(tmp_path: Path) -> None:
    clips = Clip("a", "", level="S"), Clip("b", "")
    manifest = Manifest("m", Header("d", films="none"), clips)
    write_manifest(manifest, tmp_path / "manifests" / "m.toml")
    assert "2 clips, films not stated" in repr(manifest)
    for words in (("show", "m"), ("stats", "m")):
        said = call_obygaze("manifest", *words, cwd=tmp_path).ok().stdout
        assert "not stated" in said
    assert (
        ManifestPage(manifest, manifest).to_json()["films"]
        == compute_stats(manifest).n_films
        == 0
    )
    with pytest.raises(UnknownName, match="no film 'lake'"):
        show_manifest(manifest, film="lake")
