from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.folder_hub import FolderHub
from support.stores import a_recipe, copy_of_sealed, sealed_store

from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    FixUsage,
    Mismatch,
    Stopped,
)
from obygaze_features.store import open_store
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.remote import hub as hub_module
from obygaze_features.store.remote.fetch import pull
from obygaze_features.store.remote.hub import HubTarget, HuggingFaceHub, Repo
from obygaze_features.store.remote.object_store import Unreachable
from obygaze_features.store.remote.send import push


def tree(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderHub:
    made = FolderHub(tmp_path / "hub")
    monkeypatch.setattr(hub_module, "HuggingFaceHub", made.of)
    return made


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    return copy_of_sealed(tmp_path / "s")


def test_a_hub_that_cannot_be_reached_is_no_bug(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """huggingface_hub changed its HTTP library, whose errors nobody knew."""
    package = pytest.importorskip("huggingface_hub")
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    hub = HuggingFaceHub(Repo("lab/films"))
    hub.api = package.HfApi(endpoint="http://127.0.0.1:9")
    with pytest.raises(Unreachable, match="the hub cannot be reached"):
        hub.head()


@pytest.mark.parametrize(
    ("url", "repo"),
    [
        ("hf://lab/films", Repo("lab/films")),
        ("hf://datasets/lab/films", Repo("lab/films")),
        ("hf://lab/films/x/clip", Repo("lab/films", "x/clip")),
        ("hf://lab/films/x@v1.0", Repo("lab/films", "x", "v1.0")),
        ("hf://lab/films@refs/pr/3", Repo("lab/films", "", "refs/pr/3")),
    ],
)
def test_addresses(url: str, repo: Repo) -> None:
    assert Repo.parse(url) == repo


@pytest.mark.parametrize(
    "url", ["hf://lab", "hf://", "hf://lab/films/../x", "hf://lab/fi lms"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(FixUsage):
        Repo.parse(url)


def test_a_store_goes_to_the_hub_and_back(
    tmp_path: Path, sealed: Path, hub: FolderHub
) -> None:
    push(open_store(sealed), "hf://lab/films")
    assert tree(tmp_path / "hub" / "lab" / "films") == tree(sealed)
    assert hub.messages == ["Features: toy"]
    pull("hf://lab/films", tmp_path / "got")
    assert tree(tmp_path / "got") == tree(sealed)
    store = open_store("hf://lab/films")
    np.testing.assert_array_equal(
        store.matrix("clip").values, open_store(sealed).matrix("clip").values
    )


def test_a_folder_of_a_repository_is_a_place_too(
    tmp_path: Path, sealed: Path, hub: FolderHub
) -> None:
    push(open_store(sealed), "hf://lab/films/toy")
    assert tree(tmp_path / "hub" / "lab" / "films" / "toy") == tree(sealed)


def test_nothing_is_seen_before_the_commit_and_it_goes_on(
    tmp_path: Path, sealed: Path, hub: FolderHub
) -> None:
    hub.breaks_after = 5
    with pytest.raises(ConnectionError):
        push(open_store(sealed), "hf://lab/films")
    assert tree(tmp_path / "hub" / "lab" / "films") == {}
    hub.breaks_after = None
    push(open_store(sealed), "hf://lab/films")
    assert tree(tmp_path / "hub" / "lab" / "films") == tree(sealed)
    assert hub.sent[-1] == "store.json"


def test_large_files_that_are_there_are_not_sent_again(
    sealed: Path, hub: FolderHub
) -> None:
    push(open_store(sealed), "hf://lab/films")
    hub.sent.clear()
    push(open_store(sealed), "hf://lab/films")
    small = {name for name, data in tree(sealed).items() if len(data) <= 90} | {
        "seal.json",
        "store.json",
    }
    assert set(hub.sent) == small


@pytest.mark.parametrize("films", [None, ["tt0000101"]])
def test_a_part_on_the_hub_is_a_store_of_its_own(
    tmp_path: Path, sealed: Path, hub: FolderHub, films: list[str] | None
) -> None:
    pull(sealed, tmp_path / "expected", arrays=["pooled"], films=films)
    for _ in range(2):
        store = open_store(sealed)
        assert push(store, "hf://lab/films", arrays=["pooled"], films=films).part
        assert tree(tmp_path / "hub" / "lab" / "films") == tree(tmp_path / "expected")
    found = open_store("hf://lab/films")
    assert found.feature_arrays == ("pooled",)
    with pytest.raises(AlreadyThere, match="another part"):
        push(open_store(sealed), "hf://lab/films")
    assert tree(tmp_path / "hub" / "lab" / "films") == tree(tmp_path / "expected")


def test_many_files_are_committed_by_about_100(
    tmp_path: Path, hub: FolderHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed_store(tmp_path / "s", 240, 4)  # 60 blocks of four arrays
    there, commit = [], hub.commit

    def counted(*given: Any) -> str:
        before = set(tree(tmp_path / "hub"))
        made = commit(*given)
        there.append(set(tree(tmp_path / "hub")) - before)
        return made

    monkeypatch.setattr(hub, "commit", counted)
    push(open_store(tmp_path / "s"), "hf://lab/films")
    assert tree(tmp_path / "hub" / "lab" / "films") == tree(tmp_path / "s")
    # 4 x 60 blocks, 7 zarr.json, 2 id arrays of one chunk each, clips.csv, README, two documents.
    n_files = len(tree(tmp_path / "s"))
    assert [len(names) for names in there] == [90, 90, n_files - 180] and n_files >= 250
    assert [
        {"store.json", "seal.json"} <= {Path(n).name for n in names} for names in there
    ] == [
        False,
        False,
        True,
    ]
    assert hub.sent[-1] == "store.json"


def test_a_push_that_another_one_overtakes_starts_again(
    tmp_path: Path, sealed: Path, hub: FolderHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = hub.head

    def overtaken() -> str:
        monkeypatch.setattr(hub, "head", head)
        seen = head()
        other = FolderHub(hub.root)
        other.messages = hub.messages
        monkeypatch.setattr(hub_module, "HuggingFaceHub", other.of)
        push(open_store(sealed), "hf://lab/films")
        monkeypatch.setattr(hub_module, "HuggingFaceHub", hub.of)
        return seen

    target = HubTarget("hf://lab/films")
    monkeypatch.setattr(hub, "head", overtaken)
    with pytest.raises(Stopped):
        push(open_store(sealed), target)
    push(open_store(sealed), "hf://lab/films")
    assert tree(tmp_path / "hub" / "lab" / "films") == tree(sealed)


def test_another_store_is_not_replaced(
    tmp_path: Path, sealed: Path, hub: FolderHub
) -> None:
    push(open_store(sealed), "hf://lab/films")
    sealed_store(tmp_path / "other", recipe=a_recipe(compute={"dtype": "float16"}))
    with pytest.raises(Mismatch, match=r"compute\.dtype"):
        push(open_store(tmp_path / "other"), "hf://lab/films")
    sealed_store(tmp_path / "third", manifest_name="third")
    with pytest.raises(AlreadyThere):
        push(open_store(tmp_path / "third"), "hf://lab/films")
    assert tree(tmp_path / "hub" / "lab" / "films") == tree(sealed)


def test_a_file_that_the_hub_refuses_is_named_before_anything_is_sent(
    tmp_path: Path, hub: FolderHub
) -> None:
    files = {"films.zip": FileMark(20_000_000_001, ""), "README.md": FileMark(1, "")}
    with pytest.raises(FixInput, match=r"at most 20\.0 GB"):
        HubTarget("hf://lab/films").prepare(files)
    assert not (tmp_path / "hub").exists()
