"""Results are written beside their place; only what is ours is replaced, and never lost."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.kills import kill_everywhere

from obygaze_features.core import drafts, holds, system
from obygaze_features.core.drafts import new_file, new_folder
from obygaze_features.core.errors import AlreadyThere, FixUsage, Stopped
from obygaze_features.core.own_results import OwnFolder, made_by_obygaze
from obygaze_features.core.system import posix


def _not_a_thing(folder: Path) -> str:
    return "" if made_by_obygaze(folder / "thing.json") else "no thing.json"


THING = OwnFolder("thing", _not_a_thing)
MARKER = json.dumps({"created_by": "obygaze 1"})


def fill(folder: Path, text: str) -> None:
    (folder / "deep").mkdir(parents=True, exist_ok=True)
    (folder / "deep" / "data").write_text(text)
    (folder / "thing.json").write_text(MARKER)


def write(folder: Path, text: str, *, force: bool = True) -> None:
    with new_folder(folder, THING, force=force) as draft:
        fill(draft, text)


def tree(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text()
        for path in root.rglob("*")
        if path.is_file()
    }


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    "name", [".", "./", "..", "a/..", "../here", "../../root/here", "/"]
)
def test_the_current_folder_and_those_above_it_are_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    here = tmp_path / "root" / "here"
    fill(here, "mine")
    fill(tmp_path / "root", "mine")
    monkeypatch.chdir(here)
    before = tree(tmp_path)
    with pytest.raises(FixUsage, match="cannot be the name"):
        write(Path(name), "new")
    with pytest.raises((FixUsage, AlreadyThere)), new_file(Path(name), force=True):
        pass
    assert tree(tmp_path) == before


def test_a_folder_of_the_same_kind_is_replaced_and_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    write(folder, "one", force=False)
    with pytest.raises(AlreadyThere, match="another thing has this name"):
        write(folder, "two", force=False)
    assert (folder / "deep" / "data").read_text() == "one"
    write(folder, "two")
    assert tree(folder) == {"deep/data": "two", "thing.json": MARKER}
    (folder / "thing.json").write_text('{"created_by": "somebody"}')
    with pytest.raises(AlreadyThere, match=r"not an obygaze thing: no thing\.json"):
        write(folder, "three")
    assert (folder / "deep" / "data").read_text() == "two"
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty", "one", force=False)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(AlreadyThere, match="it is a file"):
        write(tmp_path / "file", "one")
    assert (tmp_path / "file").read_text() == "mine"
    assert names(tmp_path) == ["a", "empty", "file"]
    assert names(tmp_path / "a") == ["b"]


def test_what_appears_while_the_new_folder_is_written_stays(tmp_path: Path) -> None:
    def write_slowly() -> None:
        with new_folder(tmp_path / "x", THING, force=True) as draft:
            fill(draft, "new")
            (tmp_path / "x").mkdir()
            (tmp_path / "x" / "thesis").write_text("mine")

    with pytest.raises(AlreadyThere):
        write_slowly()
    assert tree(tmp_path) == {"x/thesis": "mine"}


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    fill(tmp_path / "disk" / "thing", "old")
    (tmp_path / "disk" / "thing").chmod(0o700)
    (tmp_path / "name").symlink_to(tmp_path / "disk" / "thing")
    write(tmp_path / "name", "new")
    assert (tmp_path / "name").is_symlink()
    assert (tmp_path / "disk" / "thing" / "deep" / "data").read_text() == "new"
    assert (tmp_path / "disk" / "thing").stat().st_mode & 0o777 == 0o700
    assert names(tmp_path / "disk") == ["thing"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_kill_at_any_instant_leaves_the_old_folder_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool
) -> None:
    if not exchanges:  # as on network file systems
        monkeypatch.setattr(system, "exchange_names", lambda first, second: False)
    folder, seen = tmp_path / "x", list[str]()

    def look() -> None:
        if not exchanges and not folder.exists():
            seen.append("aside")
            drafts.remove_abandoned(folder)
        found = tree(folder)
        assert found in (
            {"deep/data": text, "thing.json": MARKER} for text in ("old", "new")
        )
        seen.append(found["deep/data"])
        write(folder, "old")
        assert names(tmp_path) == ["x"]

    write(folder, "old")
    n_kills = kill_everywhere(lambda: write(folder, "new"), look)
    assert n_kills >= 8
    assert seen.count("old") >= 4
    assert seen.count("new") >= 4
    assert ("aside" in seen) != exchanges


def test_a_kill_at_any_instant_leaves_the_old_file_or_the_new_one(
    tmp_path: Path,
) -> None:
    path, seen = tmp_path / "x.zip", set[str]()

    def write_file() -> None:
        with new_file(path, force=True) as draft:
            draft.write_text("new")

    def look() -> None:
        seen.add(path.read_text())
        with new_file(path, force=True) as draft:
            draft.write_text("old")
        assert names(tmp_path) == ["x.zip"]

    path.write_text("old")
    assert kill_everywhere(write_file, look) >= 2
    assert seen == {"old", "new"}


def test_a_file_is_written_once_and_never_over_a_folder(tmp_path: Path) -> None:
    def late(path: Path) -> None:
        with new_file(path) as draft:
            draft.write_text("new")
            path.write_text("mine", encoding="utf-8")

    with pytest.raises(AlreadyThere, match="this file exists"):
        late(tmp_path / "f")
    assert tree(tmp_path) == {"f": "mine"}
    (tmp_path / "d").mkdir()
    with (
        pytest.raises(AlreadyThere, match="got a folder"),
        new_file(tmp_path / "d", force=True),
    ):
        pass


def test_only_drafts_of_this_name_and_of_ended_processes_are_removed(
    tmp_path: Path,
) -> None:
    running = holds.hold_new(tmp_path, ".x~", ".draft")
    tag = holds.new_tag(tmp_path)
    keep = [
        f".x.y~{tag}.draft",
        f".x~y~{tag}.draft",
        ".x.draft",
        f".x~{tag}",
        f"{tag}.draft",
    ]
    for name in [*keep, f".x~{tag}.draft"]:
        fill(tmp_path / name, "t")
        os.utime(tmp_path / name, (0, 0))
    fill(tmp_path / "x", "t")
    drafts.remove_abandoned(tmp_path / "x")
    assert names(tmp_path) == sorted([*keep, "x", running.path.name])
    running.release()
    drafts.remove_abandoned(tmp_path / "x")
    assert names(tmp_path) == sorted([*keep, "x"])


def test_what_another_machine_took_over_ends_with_a_word_about_it(
    tmp_path: Path,
) -> None:
    with (
        pytest.raises(Stopped, match="another machine took"),
        new_folder(tmp_path / "x", THING),
    ):
        (draft,) = tmp_path.glob(".x~*.draft")
        draft.rename(tmp_path / "taken")
    assert names(tmp_path) == ["taken"]
    with pytest.raises(FileNotFoundError), new_folder(tmp_path / "x", THING):
        (tmp_path / "nothing").read_text()


def test_a_draft_of_another_user_is_neither_published_nor_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / f".x~{holds.new_tag(tmp_path)}.draft"
    fill(planted / "old", "old")
    os.utime(planted, (0, 0))
    monkeypatch.setattr(os, "getuid", lambda: planted.stat().st_uid + 1)
    drafts.remove_abandoned(tmp_path / "x")
    assert planted.exists() and not (tmp_path / "x").exists()


def test_names_as_long_as_file_systems_allow(tmp_path: Path) -> None:
    for name in ("x" * 255, "é" * 127):
        write(tmp_path / name, "one")
        write(tmp_path / name, "two")
        assert (tmp_path / name / "deep" / "data").read_text() == "two"


def test_without_force_a_folder_is_never_replaced(tmp_path: Path) -> None:
    fill(tmp_path / "thing", "old")
    with pytest.raises(AlreadyThere), new_folder(tmp_path / "thing", THING) as draft:
        fill(draft, "new")
    assert (tmp_path / "thing" / "deep" / "data").read_text() == "old"


def test_a_draft_is_read_by_its_user_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with new_file(tmp_path / "f") as draft:
            mode = draft.parent.stat().st_mode & 0o777
            draft.write_text("new")
    finally:
        os.umask(before)
    assert mode == 0o700


def test_a_file_or_folder_is_not_replaced_unless_that_is_asked_for(
    tmp_path: Path,
) -> None:
    (tmp_path / "f").write_text("old")
    with (
        pytest.raises(AlreadyThere, match="this file exists"),
        new_file(tmp_path / "f"),
    ):
        pass
    assert (tmp_path / "f").read_text() == "old"


def test_a_folder_is_replaced_where_names_cannot_be_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "thing", "old")
    monkeypatch.setattr(posix.ctypes, "CDLL", lambda name: object())
    write(tmp_path / "thing", "new")
    assert (tmp_path / "thing" / "deep" / "data").read_text() == "new"
    assert names(tmp_path) == ["thing"]
