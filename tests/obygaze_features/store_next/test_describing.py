"""What is said of a store, and of all stores of a workspace."""

from __future__ import annotations

import json
from pathlib import Path

from support.filled_stores import compute, plan, values_of
from support.withdrawn_stores import FILM, write

from obygaze_features.core.workspace import Workspace
from obygaze_features.store_next.changing import subset
from obygaze_features.store_next.describing import (
    describe,
    list_stores,
    stores_text,
    summary,
)
from obygaze_features.store_next.reading import open_store


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
    facts = summary(store)
    assert facts["counts"] == {"ok": 90, "failed": 1, "withdrawn": 3}
    assert facts["licence"] == "CC-BY-4.0"
    assert list(facts["replaces"][0]["films"]) == [FILM]
    json.dumps(facts)
    text = describe(store)
    assert "94 clips of films (90 ok, 1 failed, 3 withdrawn)" in text
    assert f"took the place of {seal[:16]}: asked" in text
    assert f"by A (withdrawn: {FILM})" in text
    assert "\x1b" not in text
    for fact in ("CC-BY-4.0", "Doe 2026", store.seal, store.fingerprint, "tokens"):
        assert fact in text


def test_all_stores_of_a_workspace(tmp_path: Path) -> None:
    stores = tmp_path / "stores"
    stores.mkdir()
    write(stores / "films")
    subset(
        stores / "films",
        without=[FILM],
        reason="asked",
        workspace=Workspace(tmp_path),
    )
    filling = plan(stores / "more")
    for block in (0, 3):
        compute(filling, block, values_of())
    write(stores / "odd")
    odd = stores / "odd" / "store.json"
    odd.chmod(0o644)
    odd.write_text("{}")
    (stores / "empty").mkdir()
    listed = list_stores(Workspace(tmp_path))
    assert [(store.name, store.state) for store in listed][:2] == [
        ("films", "sealed"),
        ("more", "being filled, 2 of 6 blocks"),
    ]
    assert listed[0].n_clips == 94
    assert listed[0].arrays == ("pooled", "frames", "tokens")
    assert listed[2].name == "odd"
    assert listed[2].state.startswith("cannot be read")
    assert len(listed) == 3
    assert "2 of 6 blocks" in stores_text(listed)
