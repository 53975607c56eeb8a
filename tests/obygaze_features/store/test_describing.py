"""What is said of a store, and of all stores of a workspace."""

from __future__ import annotations

import json
from pathlib import Path

from support.cli import call_obygaze
from support.withdrawn_stores import FILM, write

from obygaze_features.core.workspace import Workspace
from obygaze_features.store.changing import subset
from obygaze_features.store.describing import (
    describe,
    describe_store,
    facts_of_store,
    list_stores,
)
from obygaze_features.store.publishing import describe_as_card
from obygaze_features.store.reading import open_store
from obygaze_features.store.verifying import verify


def test_a_page_on_a_store(tmp_path: Path) -> None:
    path = write(tmp_path / "films")
    (path / "README.md").write_text(
        "---\nlicense: cc-by-4.0\ncitation: Doe 2026\n---\n"
    )
    seal = open_store(path).seal
    subset(
        path,
        without=[FILM],
        reason="asked \x1b[2J",
        author="A",
        workspace=Workspace(tmp_path),
    )
    store = open_store(path)
    facts = facts_of_store(store)
    assert facts["counts"] == {"ok": 90, "failed": 1, "withdrawn": 3}
    assert facts["licence"] == "CC-BY-4.0"
    assert list(facts["replaces"][0]["films"]) == [FILM]
    json.dumps(facts)
    text = describe(store)
    assert "94 clips of the manifest 'films' (90 with features, 1 could" in text
    assert f"replaced the store with the seal {seal}: asked" in text
    assert f"by A (withdrawn: {FILM})" in text
    assert "\x1b" not in text
    for fact in ("CC-BY-4.0", "Doe 2026", store.seal, store.fingerprint, "tokens"):
        assert fact in text


def test_a_function_returns_what_its_command_prints(tmp_path: Path) -> None:
    path = write(tmp_path / "stores" / "films")

    def printed(*words: str) -> str:
        return call_obygaze("-C", tmp_path, "store", *words).ok().stdout[:-1]

    assert printed("ls") == str(list_stores(workspace=tmp_path))
    assert printed("info", "films") == str(describe_store("films", workspace=tmp_path))
    assert printed("card", "films") == str(
        describe_as_card("films", workspace=tmp_path)
    )
    report = verify("films", hashes=True, workspace=tmp_path)
    assert printed("verify", "films", "--hash") == str(report)
    # Names, paths and open stores are taken.
    store = open_store(path)
    for named in (path, str(path), store):
        assert describe_store(named).to_json()["seal_sha256"] == store.seal
        assert verify(named).n_bytes == report.n_bytes


def test_a_store_whose_change_was_interrupted_is_listed(tmp_path: Path) -> None:
    write(tmp_path / "stores" / "toy")
    (tmp_path / "stores" / "toy").rename(tmp_path / "stores" / "toy.next")
    (facts,) = list_stores(workspace=tmp_path).stores
    assert (facts["name"], facts["state"]) == ("toy", "sealed")
    assert [path.name for path in (tmp_path / "stores").iterdir()] == ["toy"]
