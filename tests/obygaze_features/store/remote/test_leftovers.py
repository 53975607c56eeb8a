"""What killed transfers leave behind is removed by the next one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.kills import kill_everywhere
from support.stores import (
    ARRAYS,
    fill_store,
    partial_copy,
    plan_store,
    some_values,
    tree,
)

from obygaze_features.store import StoreWriter, open_store, pack, pull

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


@pytest.mark.parametrize(
    "chosen", [{"arrays": ["clip"]}, {"films": ["tt0000100"]}], ids=["level", "film"]
)
def test_a_pull_of_a_part_after_one_that_was_killed_anywhere_leaves_nothing_else(
    tmp_path: Path, chosen: dict[str, list[str]]
) -> None:
    plan_store(tmp_path / "s", arrays=ARRAYS[:2])
    fill_store(tmp_path / "s", some_values(23, ARRAYS[:2])).seal()
    pull(tmp_path / "s", tmp_path / "expected", **chosen)
    expected, left = tree(tmp_path / "expected"), []
    target = tmp_path / "copies/s"

    def look() -> None:
        if target.exists():  # it is never there in part
            left.extend(tree(target).keys() ^ expected.keys())
        pull(tmp_path / "s", target, **chosen)
        left.extend(name for name in expected if tree(target)[name] != expected[name])
        left.extend(one.name for one in target.parent.iterdir() if one != target)
        aside(target)

    assert kill_everywhere(lambda: pull(tmp_path / "s", target, **chosen), look) > 20
    assert left == []


def test_a_pull_that_was_killed_while_it_adds_to_a_partial_copy(tmp_path: Path) -> None:
    plan_store(tmp_path / "s", arrays=ARRAYS[:2])
    fill_store(tmp_path / "s", some_values(23, ARRAYS[:2])).seal()
    expected, left = tree(tmp_path / "s"), []
    target = tmp_path / "copies/s"

    def start() -> None:
        partial_copy(tmp_path / "s", target, arrays=["clip"], films=["tt0000100"])

    def look() -> None:
        pull(tmp_path / "s", target)
        left.extend(tree(target).keys() ^ expected.keys())
        aside(target)
        start()

    start()
    kill_everywhere(lambda: pull(tmp_path / "s", target), look)
    assert left == []


@pytest.mark.parametrize("force", [False, True])
def test_a_pack_after_one_that_was_killed_anywhere_leaves_one_file(
    tmp_path: Path, force
) -> None:
    store = open_store(two_stores(tmp_path)[1])
    target, left = tmp_path / "packs/s.zip", []

    def look() -> None:
        pack(store, target, force=True)
        left.extend(one.name for one in target.parent.iterdir() if one != target)
        if not force:
            target.unlink()

    assert kill_everywhere(lambda: pack(store, target, force=force), look) > 3
    assert left == []
