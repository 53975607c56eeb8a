"""The commands that move stores are functions, which take names, paths, URLs and open stores."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.stores import copy_of_sealed

from obygaze_features.core.errors import FixUsage
from obygaze_features.store import open_store, pack, pull, push, unpack


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a store, and an empty current folder outside it."""
    copy_of_sealed(tmp_path / "ws" / "stores" / "toy")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "ws"


def seal_of(path: Path) -> str:
    return open_store(path).seal_sha256


def test_a_function_returns_what_its_command_prints(workspace: Path) -> None:
    packed = pack("toy", workspace=workspace)
    assert packed.path == Path("toy.zip")
    typed = call_obygaze(
        "-C", workspace, "store", "pack", "toy", "-o", "typed.zip"
    ).ok()
    assert typed.stdout == f"{packed}\n".replace("toy.zip", "typed.zip")
    seconds = r"[0-9.]+ s"
    pulled = pull("toy", "pulled", workspace=workspace)
    assert pulled.target == str(workspace / "stores" / "pulled")
    typed = call_obygaze("-C", workspace, "store", "pull", "toy", "-o", "typed").ok()
    ours = f"{pulled}\n".replace("stores/pulled", "stores/typed")
    assert re.sub(seconds, "", typed.stdout) == re.sub(seconds, "", ours)


def test_new_stores_are_named_after_their_source(workspace: Path) -> None:
    seal = seal_of(workspace / "stores" / "toy")
    pack("toy", "films.zip", workspace=workspace)
    unpack("films.zip", workspace=workspace)
    assert seal_of(workspace / "stores" / "films") == seal
    other = workspace.parent / "other"
    other.mkdir()
    pull(f"{workspace}/stores/toy#sha256={seal}", workspace=other)
    assert seal_of(other / "stores" / "toy") == seal
    with pytest.raises(FixUsage, match="no name for the new store"):
        pull(Path(), workspace=other)


def test_paths_names_and_open_stores_are_moved(workspace: Path) -> None:
    path = workspace / "stores" / "toy"
    seal = seal_of(path)
    store = open_store(path)
    pull(path, Path("a"))
    pull(store.files, Path("b"))
    push("toy", "c", no_licence=True, workspace=workspace)
    push(store, Path("d"), no_licence=True)
    pack(path, "e.zip")
    unpack(Path("e.zip"), Path("e"))
    for name in "abcde":
        assert seal_of(Path(name)) == seal
    with pytest.raises(FixUsage, match="expected a folder for the new store"):
        pull(path, "https://example.org/toy")
