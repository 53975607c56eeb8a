"""The commands `store import` and `store export` are functions of names, paths and objects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.stores import copy_of_sealed

from obygaze_features.core.errors import EXIT_SOME_FAILED, AlreadyThere, FixUsage
from obygaze_features.manifest.adapters import csv_table
from obygaze_features.store import export_store, import_features, open_store

IDS = ["a-1", "a-2", "b-1"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with a store, a manifest with one clip more, and an npz file."""
    copy_of_sealed(tmp_path / "stores" / "toy")
    table = "clip_id,movie_id,level\n" + "".join(f"{i},{i[0]},S\n" for i in IDS)
    (tmp_path / "t.csv").write_text(table + "b-2,b,EN\n", encoding="utf-8")
    csv_table.read(tmp_path / "t.csv").save("films", workspace=tmp_path)
    vectors = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.savez(tmp_path / "f.npz", clip_id=IDS, X=vectors)
    return tmp_path


def test_features_are_imported_as_by_the_command(workspace: Path) -> None:
    made = import_features(
        "npz",
        workspace / "f.npz",
        "made",
        arrays={"clip": "X"},
        manifest="films",
        backbone="x-clip",
        facts={"note": "mine"},
        workspace=workspace,
    )
    words = ("npz", workspace / "f.npz", "-o", "typed", "--array", "clip=X")
    words = (
        *words,
        "--manifest",
        "films",
        "--backbone",
        "x-clip",
        "--fact",
        "note=mine",
    )
    typed = call_obygaze("-C", workspace, "store", "import", *words)
    assert typed.code == made.exit_code == EXIT_SOME_FAILED
    assert typed.stdout == f"{made}\n".replace("stores/made", "stores/typed")
    notes = [note.replace("stores/made", "stores/typed") for note in made.notes]
    assert typed.stderr.splitlines() == notes
    assert list(made.failed) == ["b-2"]
    ours = open_store(made.path)
    theirs = open_store("typed", workspace=workspace)
    assert ours.recipe == theirs.recipe
    vectors = ours.matrix("clip", clips=IDS).values
    assert vectors.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert (vectors == theirs.matrix("clip", clips=IDS).values).all()


def test_several_files_and_paths_are_taken(workspace: Path) -> None:
    np.savez(workspace / "g.npz", clip_id=["c-1"], X=np.zeros((1, 2), np.float32))
    files = [workspace / "f.npz", str(workspace / "g.npz")]
    made = import_features("npz", files, workspace / "two", arrays={"clip": "X"})
    assert (made.path, made.n_clips, made.exit_code) == (workspace / "two", 4, 0)


def test_a_store_is_exported_as_by_the_command(workspace: Path) -> None:
    ids = open_store(workspace / "stores" / "toy").clip_ids.tolist()
    lines = ["clip_id,movie_id,level", *(f"{clip},m,S" for clip in ids)]
    (workspace / "toy.csv").write_text("\n".join(lines), encoding="utf-8")
    csv_table.read(workspace / "toy.csv").save("of-toy", workspace=workspace)
    made = export_store(
        "toy",
        workspace / "made.npz",
        "npz",
        arrays=["pooled"],
        labels="of-toy",
        workspace=workspace,
    )
    words = ("npz", "toy", workspace / "typed.npz", "--array", "pooled")
    words = (*words, "--with-labels", "of-toy")
    typed = call_obygaze("-C", workspace, "store", "export", *words).ok()
    assert typed.stdout == f"{made}\n".replace("made.npz", "typed.npz")
    assert made.path.read_bytes() == (workspace / "typed.npz").read_bytes()
    store = open_store(workspace / "stores" / "toy")
    with pytest.raises(AlreadyThere):
        export_store(store, made.path, "npz", arrays=["clip"])
    with pytest.raises(FixUsage, match="folder of the workspace"):
        export_store("toy", workspace / "stores", "npy", workspace=workspace)
