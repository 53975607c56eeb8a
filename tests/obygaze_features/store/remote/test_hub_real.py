"""The real huggingface_hub, in processes of its own, against a server that answers as the hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.cli import Result, run_obygaze
from support.fake_hub import FakeHub, fake_hub
from support.stores import copy_of_sealed

from obygaze_features.store import open_store

pytestmark = pytest.mark.check("a server of the hub")

pytest.importorskip("huggingface_hub")


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with fake_hub() as running:
        yield running


@pytest.fixture
def home(workspace: Path) -> Path:
    copy_of_sealed(workspace / "stores" / "toy")
    return workspace


def run(hub: FakeHub, home: Path, *words: str) -> Result:
    environment = {
        "HF_ENDPOINT": hub.url,
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_TOKEN": "hf_ours",
        "OBYGAZE_DEBUG": None,
    }
    return run_obygaze("-C", home, "store", *words, env=environment)


def tree(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def test_there_and_back(hub: FakeHub, home: Path) -> None:
    run(hub, home, "push", "toy", "hf://lab/films").ok()
    assert hub.private
    assert hub.commits == ["Features: toy"]
    assert hub.files == tree(home / "stores" / "toy")
    hub.asked.clear()
    hub.tokens.clear()
    part = run(
        hub, home, "pull", "hf://lab/films", "-o", "part", "--array", "pooled", "--json"
    ).ok()
    assert hub.tokens == {"Bearer hf_ours"}
    # One more, for the id of the last commit.
    assert part.json()["n_requests"] == len(hub.asked) - 1
    np.testing.assert_array_equal(
        open_store(home / "stores" / "part").matrix("pooled").values,
        open_store(home / "stores" / "toy").matrix("pooled").values,
    )
    info = run(hub, home, "info", "hf://lab/films").ok()
    assert "toy" in info.stdout
    # Again: nothing large is sent twice, and the hub has one commit more.
    uploads = len(hub.blobs)
    hub.asked.clear()
    run(hub, home, "push", "toy", "hf://lab/films").ok()
    assert len(hub.blobs) == uploads
    assert not any(line.startswith("PUT") for line in hub.asked)


def test_a_part_is_a_store_of_its_own(hub: FakeHub, home: Path) -> None:
    run(hub, home, "pull", "toy", "-o", "part", "--array", "clip").ok()
    for _ in range(2):
        run(hub, home, "push", "toy", "hf://lab/films/x", "--array", "clip").ok()
        assert hub.files == {
            f"x/{name}": data for name, data in tree(home / "stores/part").items()
        }
    refused = run(hub, home, "push", "toy", "hf://lab/films/x")
    assert refused.code == 1 and "another part" in refused.stderr


def test_reads_stay_at_one_commit_and_a_commit_names_the_one_before(
    hub: FakeHub, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(hub, home, "push", "toy", "hf://lab/films").ok()
    assert hub.parents == [f"{0:040x}"]
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    store = open_store("hf://lab/films")
    # Somebody pushes another store to the same place.
    hub.history[hub.head] = dict(hub.files)
    hub.files = dict.fromkeys(hub.files, b"{}")
    hub.commits.append("another store")
    found = store.matrix("pooled").values
    np.testing.assert_array_equal(
        found, open_store(home / "stores/toy").matrix("pooled").values
    )


def test_a_push_that_another_one_overtakes_is_stopped(hub: FakeHub, home: Path) -> None:
    info = hub._info

    def late(*given: object) -> tuple[int, object, dict]:
        answer = info(b"", {})
        hub.commits.append("another push")
        hub._info = info
        return answer

    hub._info = late
    stopped = run(hub, home, "push", "toy", "hf://lab/films")
    assert (
        stopped.code == 75
        and "another process changed this repository" in stopped.stderr
    )
    run(hub, home, "push", "toy", "hf://lab/films").ok()
    assert hub.files == tree(home / "stores" / "toy")


def test_what_the_hub_refuses_is_said(hub: FakeHub, home: Path) -> None:
    missing = run(hub, home, "pull", "hf://lab/films", "-o", "x")
    assert missing.code == 1
    assert "no store here" in missing.stderr
    hub.refuse = True
    refused = run(hub, home, "push", "toy", "hf://lab/films")
    assert refused.code == 1
    assert "hf auth login" in refused.stderr
