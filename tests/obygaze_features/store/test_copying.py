"""Whole copies of stores: pull and push between folders, web servers, buckets and the hub."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.fake_hub import FakeHub, hub_here
from support.store_servers import web_server
from support.withdrawn_stores import (
    FILM,
    has_planted,
    holds_planted,
    remove_replaced,
    rows_of,
    values_of,
    write,
)
from support.written_stores import check_store, files_of

from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixInput,
    FixUsage,
    NotFound,
)
from obygaze_features.core.workspace import Workspace
from obygaze_features.store.card import Terms
from obygaze_features.store.changing import subset
from obygaze_features.store.copying import pull, push
from obygaze_features.store.finding import EARLIER
from obygaze_features.store.reading import open_store
from obygaze_features.store.targets import (
    OWN_PLACE,
    FolderTarget,
    HubTarget,
)

pytest.importorskip("obstore")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "stores").mkdir()
    return Workspace(tmp_path)


@pytest.fixture
def store(workspace: Workspace) -> Path:
    return write(workspace.root / "stores" / "films")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Another workspace, to which stores are copied."""
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def withdraw(store: Path, workspace: Workspace, name: str = FILM) -> None:
    made = subset(store, without=[name], reason="the owner asked", workspace=workspace)
    remove_replaced(made)


def is_copy(copy: Path, store: Path) -> bool:
    return files_of(copy) == files_of(store)


# Pull.


def test_a_copy_has_the_same_files(store: Path, home: Path) -> None:
    with web_server(store.parent) as server:
        made = pull(f"{server.url}/films", home / "copy")
        assert is_copy(home / "copy", store)
        assert made.n_sent == len(open_store(store).record.files)
        check_store(home / "copy", rows_of(), values_of())
        n_requests = len(server.requests)
        again = pull(f"{server.url}/films", home / "copy")
        assert again.n_sent == 0
        # store.json, and README.md, of which the head may have been corrected.
        assert len(server.requests) == n_requests + 2
    assert [path.name for path in home.iterdir()] == ["copy"]


def test_a_copy_that_missed_a_change_goes_on_after_a_kill(
    store: Path, workspace: Workspace, home: Path
) -> None:
    """The new copy waited as `copy.next` for a store that was never here."""
    pull(store, home / "copy")
    for name in ("clip 1", "clip 2"):
        subset(store, without=[name], reason="asked", workspace=workspace)
    # A process was killed before the first of the two renames.
    pull(store, home / "elsewhere")
    (home / "elsewhere").rename(home / "copy.next")
    made = pull(store, home / "copy")
    assert is_copy(home / "copy", store)
    # What the earlier copy has is listed nevertheless.
    assert [copy.kind for copy in made.copies] == [EARLIER]
    names = {path.name.partition(".before-")[0] for path in home.iterdir()}
    assert names == {"copy"}


def test_what_is_in_the_way_is_refused(store: Path, home: Path) -> None:
    (home / "copy").mkdir()
    with pytest.raises(AlreadyThere, match="not a copy of this store"):
        pull(store, home / "copy")
    write(home / "other", values=values_of(seed=1))
    with pytest.raises(AlreadyThere, match="another store"):
        pull(store, home / "other")
    assert not is_copy(home / "other", store)
    with pytest.raises(FixInput, match="cannot be the name"):
        pull(store, home / "a.next")


def test_no_interruption_keeps_what_was_withdrawn(
    store: Path, workspace: Workspace, home: Path
) -> None:
    """A half pull of the store before, a copy by cp with a damaged byte, half an rsync over it."""
    with web_server(store.parent) as server:
        url = f"{server.url}/films"
        server.denied = ("c.1.0.0.0",)
        with pytest.raises(FixInput, match="access denied"):
            pull(url, home / "copy")
        server.denied = ()
        assert holds_planted(home)
        shutil.copytree(store, home / "cp")
        for name in ("data.zarr/tokens/c.0.0.0.0", "checks"):
            path = home / "cp" / name
            path.chmod(0o644)
            data = bytearray(path.read_bytes())
            data[5] ^= 1
            path.write_bytes(bytes(data))
        withdraw(store, workspace)
        pull(url, home / "copy")
        assert is_copy(home / "copy", store)
        assert not holds_planted(home / "copy")
        assert [path.name for path in home.glob(".*")] == []
        made = pull(url, home / "cp", workspace=Workspace(home))
        assert is_copy(home / "cp", store)
        for copy in made.copies:
            shutil.rmtree(copy.path)
        assert not holds_planted(home)
        # The new store.json over the old files, which have the same lengths.
        old = write(home / "old")
        shutil.copytree(old, home / "rsync")
        (home / "rsync" / "store.json").unlink()
        shutil.copy(store / "store.json", home / "rsync" / "store.json")
        pull(url, home / "rsync")
        assert is_copy(home / "rsync", store)
        assert not holds_planted(home / "rsync")


# Push.


def test_what_a_push_refuses(store: Path, home: Path) -> None:
    (home / "shared").mkdir()
    (home / "shared" / "README.md").write_text("my own")
    with pytest.raises(AlreadyThere, match=r"README\.md does not belong"):
        push(store, home / "shared", no_licence=True)
    assert (home / "shared" / "README.md").read_text() == "my own"
    (home / "shared" / "README.md").rename(home / "shared" / "thesis.tex")
    with pytest.raises(AlreadyThere, match=r"^thesis\.tex does not belong") as error:
        push(store, home / "shared", no_licence=True)
    assert error.value.hint == OWN_PLACE
    (home / "shared" / "model.json").write_text("{}")
    with pytest.raises(AlreadyThere, match="does not belong to this store") as error:
        push(store, home / "shared", no_licence=True)
    assert error.value.hint == OWN_PLACE
    push(store, home / "taken", no_licence=True)
    other = write(home / "other", values=values_of(seed=1))
    with pytest.raises(AlreadyThere, match="another store is there"):
        push(other, home / "taken", no_licence=True)
    with pytest.raises(FixUsage, match="web server"):
        push(store, "https://example.org/films", no_licence=True)
    for place in ("me@host.org:/data/films", "host:films"):
        with pytest.raises(FixUsage, match="not sent by ssh"):
            push(store, place, no_licence=True)
    for name in ("x#y", "a/../x"):
        with pytest.raises(FixUsage, match="this address means s3://films/x"):
            push(store, f"s3://films/{name}", no_licence=True)
        with pytest.raises(FixUsage, match=r"this address means|unknown ending"):
            open_store(f"s3://films/{name}")
    for name in ("x#y", "x/../y"):
        with pytest.raises(FixUsage, match="invalid address"):
            push(store, f"hf://lab/{name}", no_licence=True)
    for name in ("é", "x.git"):
        with pytest.raises(FixUsage, match=r"(?i)repo.id"):
            push(store, f"hf://lab/{name}", no_licence=True)
        with pytest.raises(FixUsage, match=r"(?i)repo.id"):
            open_store(f"hf://lab/{name}")
    with pytest.raises(FixUsage, match="expected a folder, got a file"):
        push(store, store / "ids" / "new", no_licence=True)
    with pytest.raises(FixUsage, match="states no licence"):
        push(store, home / "new", publish=True, creators=["Doe, Jane"])
    assert not (home / "new").exists()
    path = store / "data.zarr/tokens/c.1.0.0.0"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(Corrupt, match="is damaged"):
        push(store, home / "new", no_licence=True)
    assert not (home / "new" / "store.json").exists()


def test_a_publication(store: Path, workspace: Workspace, home: Path) -> None:
    pytest.importorskip("pyarrow")
    (store / "README.md").write_text("---\nlicense: cc-by-4.0\n---\nmine\n")
    out = home / "out"
    push(store, out, publish=True, creators=["Doe, Jane"])
    card = (out / "README.md").read_text("utf-8")
    assert "features.parquet" in card
    assert card.endswith("---\nmine\n")
    # A push without publication leaves it as it is, unless the table is of the store before.
    published = files_of(out)
    assert push(store, out, no_licence=True).notes == ()
    assert files_of(out) == published
    withdraw(store, workspace)
    made = push(store, out, no_licence=True)
    names = "croissant.json, CITATION.cff, features.parquet"
    assert made.notes[0].startswith(
        f"removed there, since the store or its terms have changed: {names};"
    )
    assert "features.parquet" not in (out / "README.md").read_text("utf-8")
    assert not (out / "croissant.json").exists()
    assert not (out / "features.parquet").exists()
    assert not has_planted(out)
    pull(out, home / "copy")
    # The licence stays when clips are withdrawn.
    card = (home / "copy" / "README.md").read_text("utf-8")
    assert card.startswith("---\nlicense: cc-by-4.0\n")


def test_the_same_terms_are_stated_twice(store: Path, home: Path) -> None:
    terms = {"licence": "cc-by-4.0", "citation": "Doe (2026).\nGazes."}
    for licence in ("cc-by-4.0", "CC-BY-4.0", "cc-by-4.0"):
        push(store, home / "shared", **{**terms, "licence": licence})
    for other in ({"licence": "MIT"}, {"citation": "Doe (2027)."}):
        with pytest.raises(AlreadyThere, match="is stated already"):
            push(store, home / "shared", **other)


# Buckets and the hub.


def test_a_store_that_changes_while_it_is_pushed(
    store: Path, workspace: Workspace, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No store is there then: its files might be of two stores."""
    real = FolderTarget.put
    *_, last = open_store(store).record.files

    def put(self: FolderTarget, name: str, *given: Any) -> None:
        if name == last:
            withdraw(store, workspace)
        real(self, name, *given)

    with monkeypatch.context() as patch:
        patch.setattr(FolderTarget, "put", put)
        with pytest.raises(Corrupt, match="the store was replaced while it was read"):
            push(store, home / "shared", no_licence=True)
    with pytest.raises(NotFound, match="was not finished"):
        open_store(home / "shared")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with hub_here(monkeypatch) as hub:
        yield hub


@pytest.mark.check("a server of the hub")
def test_a_store_is_pushed_to_the_hub(
    hub: FakeHub, store: Path, workspace: Workspace, home: Path
) -> None:
    url = "hf://lab/films"
    hub.files[".gitattributes"] = b"* -text"
    push(store, url, no_licence=True)
    assert hub.private
    assert hub.files[".gitattributes"]
    pull(url, home / "copy")
    assert is_copy(home / "copy", store)
    withdraw(store, workspace)
    planted = np.full(16, 1234.5, "float32").tobytes()
    assert any(planted in data for data in hub.files.values())
    hub.keeps_history = True
    made = push(store, url, no_licence=True)
    assert "huggingface.co/datasets/lab/films/settings" in made.notes[0]
    assert any(
        planted in data for files in hub.history.values() for data in files.values()
    )
    # The same again removes the history.
    hub.keeps_history = False
    (said,) = push(store, url, no_licence=True).notes
    assert "(hf://lab/films@COMMIT) do not work any more" in said
    everything = [hub.files, *hub.history.values()]
    assert not any(planted in data for files in everything for data in files.values())
    pull(url, home / "copy", workspace=Workspace(home))
    assert is_copy(home / "copy", store)
    # From now on addresses at a commit stay: nothing was withdrawn after them.
    before = hub.head
    assert push(store, url, no_licence=True).notes == ()
    (store / "README.md").write_text("---\nlicense: cc-by-4.0\n---\nmine\n")
    push(store, url)
    assert hub.commits.count("squashed") == 1
    assert open_store(f"{url}@{before}").seal == open_store(store).seal


@pytest.mark.check("a server of the hub")
@pytest.mark.parametrize("n_finished", [0, 2])
def test_the_history_of_the_hub_is_removed_after_a_push_that_was_killed(
    n_finished: int,
    hub: FakeHub,
    store: Path,
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the earlier store was removed there, and after the new one was sent."""
    url = "hf://lab/films"
    push(store, url, no_licence=True)
    withdraw(store, workspace)
    finish = HubTarget.finish
    n_calls = 0

    def killed(self: HubTarget, message: str) -> None:
        nonlocal n_calls
        if n_calls == n_finished:
            raise KeyboardInterrupt
        n_calls += 1
        finish(self, message)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(HubTarget, "finish", killed)
        patch.setattr(HubTarget, "forget", lambda self: killed(self, ""))
        push(store, url, no_licence=True)
    push(store, url, no_licence=True)
    assert hub.commits.count("squashed") == 1
    push(store, url, no_licence=True)
    assert hub.commits.count("squashed") == 1


@pytest.mark.check("a server of the hub")
def test_half_a_store_on_the_hub_may_have_what_was_withdrawn_since(
    hub: FakeHub,
    store: Path,
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finish = HubTarget.finish

    def half(self: HubTarget, message: str) -> None:
        del self._additions[-2:]  # README.md and store.json
        finish(self, message)

    with monkeypatch.context() as patch:
        patch.setattr(HubTarget, "finish", half)
        push(store, "hf://lab/films", no_licence=True)
    assert "store.json" not in hub.files
    withdraw(store, workspace)
    push(store, "hf://lab/films", no_licence=True)
    assert hub.commits[-1] == "squashed"


def test_a_licence_that_was_corrected_reaches_the_copies(
    store: Path, home: Path
) -> None:
    pull(store, home / "copy")
    assert open_store(home / "copy").terms == Terms()
    (store / "README.md").write_text("---\nlicense: cc-by-4.0\n---\nmine\n")
    pull(store, home / "copy")
    copy = open_store(home / "copy")
    assert copy.terms.licence == "CC-BY-4.0"
    assert copy.seal == open_store(store).seal
    # What the source does not state stays.
    (home / "copy" / "README.md").write_text("---\nlicense: mit\ncitation: A\n---\n")
    pull(store, home / "copy")
    assert open_store(home / "copy").terms == Terms("CC-BY-4.0", "A")
