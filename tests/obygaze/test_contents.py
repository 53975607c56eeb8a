"""`obygaze ls`: what a workspace has, and what of it cannot be read."""

from __future__ import annotations

from pathlib import Path

from support.cli import call_obygaze
from support.stores import sealed_store

import obygaze as og
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest


def test_each_kind_has_rows_and_what_is_broken_is_named(tmp_path: Path) -> None:
    clips = Clip("a", "lake", level="S"), Clip("b", "pier")
    manifest = Manifest("films", Header("made up"), clips)
    write_manifest(manifest, tmp_path / "manifests" / "films.toml")
    (tmp_path / "manifests" / "half.toml").touch()
    sealed_store(tmp_path / "stores" / "seen")
    sealed_store(tmp_path / "stores" / "broken")
    broken = tmp_path / "stores" / "broken" / "store.json"
    broken.chmod(0o644)
    broken.write_text("{}")
    (tmp_path / "runs" / "killed").mkdir(parents=True)
    listed = og.ls(workspace=tmp_path)
    names = [(entry.kind, entry.name) for entry in listed.entries]
    assert names == [("manifest", "films"), ("store", "seen")]
    assert listed.entries[0].has == "2 clips of 2 films, raw view"
    assert listed.entries[1].has.startswith("23 clips, ")
    assert [*listed.broken] == ["manifests/half", "stores/broken", "runs/killed"]
    done = call_obygaze("-C", tmp_path, "ls").ok()
    assert done.stdout == f"{listed}\n"
    assert "Warning: stores/broken: this is not a document of a store" in done.stderr
    assert "Warning: runs/killed: no finished run here" in done.stderr
    typed = call_obygaze("-C", tmp_path, "ls", "--json").ok().json()
    assert {**typed, "json_version": 1} == {"json_version": 1, **listed.to_json()}


def test_an_empty_workspace(tmp_path: Path) -> None:
    done = call_obygaze("-C", tmp_path, "ls").ok()
    assert done.stdout == ""
    assert f"nothing in {tmp_path} yet" in done.stderr
