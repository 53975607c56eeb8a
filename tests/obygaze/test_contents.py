"""What a workspace has, and what a machine has."""

import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from support.cli import call_obygaze
from support.stores import sealed_store

import obygaze as og
from obygaze.doctor import Facts, check_up, find_problems, is_within, to_text
from obygaze_features.core.workspace import Workspace
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
    assert (
        "Warning: runs/killed: expected a finished run, but this file is missing"
        in done.stderr
    )
    typed = call_obygaze("-C", tmp_path, "ls", "--json").ok().json()
    assert {**typed, "json_version": 1} == {"json_version": 1, **listed.to_json()}


def test_an_empty_workspace(tmp_path: Path) -> None:
    done = call_obygaze("-C", tmp_path, "ls").ok()
    assert done.stdout == ""
    assert f"the workspace {tmp_path} is empty" in done.stderr


def package(name: str, needs: str, version: str | None, extras: Sequence[str]) -> Facts:
    good = version is not None and is_within(version, needs)
    known = {"name": name, "needs": needs, "version": version}
    return {**known, "extras": extras, "good": good}


def with_packages(found: Facts, *packages: Facts) -> Facts:
    return {
        **found,
        "packages": packages,
        "problems": find_problems(packages),
        "ok": False,
    }


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return check_up(Workspace(tmp_path_factory.mktemp("workspace"))).facts


def test_all_that_is_required_is_found_where_the_tests_run(workspace):
    result = call_obygaze("-C", workspace, "doctor", "--json")
    assert (result.code, result.stderr) == (0, "")
    told = result.json()
    assert told["ok"] is True
    assert told["problems"] == []
    versions = {package["name"]: package["version"] for package in told["packages"]}
    assert versions["numpy"] == metadata.version("numpy")
    assert told["workspace"] == str(workspace)


def test_a_package_that_is_absent_or_old_fails_only_where_it_is_required(found):
    packages = (
        package("numpy", ">=2.0", "1.26", ()),
        package("zarr", ">=3.1", None, ()),
        package("av", ">=14", None, ["extract"]),
    )
    ill = with_packages(found, *packages)
    assert ill["problems"] == [
        'numpy>=2.0, found 1.26: pip install "numpy>=2.0"',
        'zarr>=3.1, found none: pip install "zarr>=3.1"',
    ]
    text = click.unstyle(to_text(ill))
    assert "Problem: zarr>=3.1" in text
    assert (
        'av missing (needs >=14)  ->  in the clone of obygaze: pip install -e ".[extract]"'
        in text
    )
    assert find_problems(packages[2:]) == []


def test_a_driver_that_fails_is_reported(workspace, monkeypatch):
    def fails() -> bool:
        raise RuntimeError("CUDA error: no driver")

    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=fails))
    monkeypatch.setitem(sys.modules, "torch", torch)
    facts = check_up(Workspace(workspace)).facts
    reason = "RuntimeError: CUDA error: no driver"
    assert facts["problems"] == [f"torch is installed but does not work: {reason}"]
    assert facts["devices"] is None


def test_one_kind_is_listed_alone(tmp_path: Path) -> None:
    clips = Clip("a", "lake", level="S"), Clip("b", "pier")
    manifest = Manifest("films", Header("made up"), clips)
    write_manifest(manifest, tmp_path / "manifests" / "films.toml")
    sealed_store(tmp_path / "stores" / "seen")
    (tmp_path / "stores" / "broken").mkdir()
    (tmp_path / "stores" / "broken" / "store.json").write_text("{}")
    listed = call_obygaze("-C", tmp_path, "manifest", "ls").ok()
    assert listed.stdout.splitlines() == [
        "manifest  clips  films  view",
        "films         2      2  raw",
    ]
    listed = call_obygaze("-C", tmp_path, "store", "ls").ok()
    header, row = listed.stdout.splitlines()
    assert header.split() == ["store", "made", "with", "clips", "arrays", "size"]
    assert row.startswith("seen")
    assert "Warning: stores/broken: " in listed.stderr
    (facts,) = og.store.ls(workspace=tmp_path).to_json()["stores"]
    assert facts["name"] == "seen"
    none = call_obygaze("-C", tmp_path, "models", "ls").ok()
    assert (none.stdout, none.stderr) == ("", "no models in the workspace\n")
