"""What is said of a store, and of all stores of a workspace."""

from __future__ import annotations

import json
from pathlib import Path

from support.withdrawn_stores import FILM, write

from obygaze_features.core.workspace import Workspace
from obygaze_features.store.changing import subset
from obygaze_features.store.describing import (
    describe,
    facts_of_store,
)
from obygaze_features.store.reading import open_store


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
    assert facts["replaces"] == [seal]
    assert [entry["movie_id"] for entry in facts["tombstones"]] == [FILM]
    json.dumps(facts)
    text = describe(store)
    assert "94 clips of the manifest 'films' (90 with features, 1 could" in text
    assert f"replaced the store with the seal {seal}" in text
    assert f"by A (withdrawn: {FILM})" in text
    assert "\x1b" not in text
    for fact in ("CC-BY-4.0", "Doe 2026", store.seal, store.fingerprint, "tokens"):
        assert fact in text
