"""A workspace of four clips, for tests of commands that only need some."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.once import made_once

TABLE = """\
clip_id,movie_id,level,concepts,decade
a-1,a,EN,,1990
a-2,a,S,Look|Body,1990
b-1,b,HN,Clothing,2000
b-2,b,S,Look,2000
"""


def make_four_clips(root: Path) -> None:
    """Make the manifest `films`, its store `mine`, the model `kept`, and two lists of clips."""
    (root / "clips.csv").write_text(TABLE, encoding="utf-8")
    rows = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    np.savez(root / "rows.npz", clip_id=["a-1", "a-2", "b-1", "b-2"], X=rows)
    (root / "ids.txt").write_text("\ufeffa-1\n\nb-2\n", encoding="utf-8")
    (root / "table.csv").write_text("film,clip_id\na,a-1\nb,b-2\n", encoding="utf-8")
    at = ["-C", root]
    call_obygaze(*at, "manifest", "import", root / "clips.csv", "-o", "films").ok()
    npz = ["store", "import", root / "rows.npz", "--array", "clip=X"]
    terms = ["--manifest", "films", "--licence", "CC0-1.0"]
    call_obygaze(*at, *npz, *terms, "-o", "mine").ok()
    call_obygaze(
        *at, "train", "ridge", "--store", "mine", "--manifest", "films", "-o", "kept"
    ).ok()


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder is a workspace of four clips, which a test may change."""
    copy = tmp_path / "copy"
    shutil.copytree(made_once("workspaces", make_four_clips, "four"), copy)
    monkeypatch.chdir(copy)
    return copy
