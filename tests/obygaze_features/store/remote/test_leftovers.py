"""What killed transfers leave behind is removed by the next one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.kills import kill_everywhere
from support.stores import (
    ARRAYS,
    fill_store,
    plan_store,
    some_values,
    tree,
)

from obygaze_features.store import StoreWriter, pull

pytestmark = pytest.mark.check("kills copies before every change of the disk")


def two_stores(tmp_path: Path) -> tuple[Path, Path]:
    """A store of six blocks, and one of the same recipe of three."""
    for name, n_clips in (("long", 23), ("s", 9)):
        plan_store(tmp_path / name, n_clips, arrays=ARRAYS[:1])
        fill_store(tmp_path / name, some_values(n_clips, ARRAYS[:1]))
    StoreWriter(tmp_path / "s").seal()
    return tmp_path / "long", tmp_path / "s"


def aside(folder: Path) -> None:
    folder.rename(folder.parents[1] / f"done-{os.urandom(8).hex()}")


def test_a_pull_after_one_that_was_killed_anywhere_leaves_nothing_else(
    tmp_path: Path,
) -> None:
    long, store = two_stores(tmp_path)
    expected, left = tree(store), []
    target = tmp_path / "copies/s"

    def look() -> None:
        if target.exists() and not (target / "seal.json").exists():
            aside(target)  # the long one, whole
        pull(store, target)
        left.extend(tree(target).keys() ^ expected.keys())
        left.extend(one.name for one in target.parent.iterdir() if one != target)
        aside(target)

    assert kill_everywhere(lambda: pull(long, target), look) > 20
    assert kill_everywhere(lambda: pull(store, target), look) > 20
    assert left == []
