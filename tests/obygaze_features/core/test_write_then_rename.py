import os
from pathlib import Path

import pytest
from support.kills import kill_everywhere
from support.leftovers import name_of_ended

from obygaze_features.core import overwrite, system
from obygaze_features.core.errors import AlreadyThere, FixUsage
from obygaze_features.core.files import write_then_rename
from obygaze_features.core.overwrite import OwnFolder, check_folder


def write_folder(folder: Path, text: str) -> None:
    with write_then_rename(folder) as new:
        (new / "deep").mkdir(parents=True)
        (new / "deep" / "data").write_text(text)


def write_file(path: Path, text: str) -> None:
    with write_then_rename(path) as new:
        new.write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_error_changes_nothing(tmp_path: Path) -> None:
    write_folder(tmp_path / "x", "old")
    with pytest.raises(ZeroDivisionError), write_then_rename(tmp_path / "x") as new:
        new.mkdir()
        (new / "data").write_text("new")
        raise ZeroDivisionError
    assert names(tmp_path) == ["x"]
    assert (tmp_path / "x" / "deep" / "data").read_text() == "old"


def test_what_appears_while_a_new_folder_is_written_stays(tmp_path: Path) -> None:
    def check() -> None:
        if (tmp_path / "x").exists():
            raise AlreadyThere("taken")

    with pytest.raises(AlreadyThere), write_then_rename(tmp_path / "x", check) as new:
        new.mkdir()
        (tmp_path / "x").mkdir()
        (tmp_path / "x" / "thesis").write_text("mine")
    assert names(tmp_path) == ["x"]
    assert (tmp_path / "x" / "thesis").read_text() == "mine"


@pytest.mark.parametrize("exchanges", [True, False])
def test_of_two_writers_of_a_name_the_last_one_counts(tmp_path, monkeypatch, exchanges):
    if not exchanges:
        monkeypatch.setattr(system, "exchange_names", lambda first, second: False)
    folder = tmp_path / "x"
    with write_then_rename(folder) as new:
        (new / "deep").mkdir(parents=True)
        (new / "deep" / "data").write_text("begun first")
        write_folder(folder, "finished first")
    assert (folder / "deep" / "data").read_text() == "begun first"
    assert names(tmp_path) == ["x"]


def test_a_folder_that_was_set_aside_gets_its_name_again(tmp_path: Path) -> None:
    """A process was killed between its two renames."""
    write_folder(name_of_ended(tmp_path / "x", "before-"), "old")
    with pytest.raises(ZeroDivisionError), write_then_rename(tmp_path / "x"):
        raise ZeroDivisionError
    assert (tmp_path / "x" / "deep" / "data").read_text() == "old"
    assert names(tmp_path) == ["x"]


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    thing = tmp_path / "disk" / "thing"
    write_folder(thing, "old")
    thing.chmod(0o700)
    (tmp_path / "name").symlink_to(thing)
    write_folder(tmp_path / "name", "new")
    assert (tmp_path / "name").is_symlink()
    assert (thing / "deep" / "data").read_text() == "new"
    assert thing.stat().st_mode & 0o777 == 0o700
    assert names(tmp_path / "disk") == ["thing"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_kill_at_any_instant_leaves_the_old_folder_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool
) -> None:
    if not exchanges:  # as on network file systems
        monkeypatch.setattr(system, "exchange_names", lambda first, second: False)
    folder = tmp_path / "x"
    seen = list[str]()

    def look() -> None:
        if folder.exists():
            seen.append((folder / "deep" / "data").read_text())
        else:
            (before,) = tmp_path.glob(".x.before-*")
            assert (before / "deep" / "data").read_text() == "old"
            seen.append("aside")
        write_folder(folder, "old")

    write_folder(folder, "old")
    assert kill_everywhere(lambda: write_folder(folder, "new"), look) >= 5
    assert {"old", "new"} <= set(seen) <= {"old", "new", "aside"}
    assert ("aside" in seen) != exchanges


def test_a_kill_at_any_instant_leaves_the_old_file_or_the_new_one(tmp_path) -> None:
    path = tmp_path / "x.mp4"
    seen = set[str]()

    def look() -> None:
        seen.add(path.read_text())
        write_file(path, "old")

    path.write_text("old")
    assert kill_everywhere(lambda: write_file(path, "new"), look) >= 2
    assert seen == {"old", "new"}


def test_names_as_long_as_file_systems_allow(tmp_path: Path) -> None:
    for name in ("x" * 255, "é" * 127, os.fsdecode(b"\xf0\x9f\x8e\xac" * 63)):
        write_folder(tmp_path / name, "one")
        write_folder(tmp_path / name, "two")
        assert (tmp_path / name / "deep" / "data").read_text() == "two"


THING = OwnFolder("thing", lambda folder: "no thing.json")


@pytest.mark.parametrize(
    ("data", "refusal"),
    [
        (b"mark, then more", ""),
        (b"more, then mark", ""),
        (b"more, mark in the middle", "it does not contain the words"),
        (b"", "it does not contain the words"),
    ],
)
def test_a_mark_may_be_at_either_end(tmp_path, monkeypatch, data, refusal) -> None:
    monkeypatch.setattr(overwrite, "_MARK_BYTES", 4)
    (tmp_path / "file").write_bytes(data)
    kind = OwnFolder.marked("thing", "the words", b"mark")
    assert kind.refusal(tmp_path / "file") == refusal


@pytest.mark.parametrize("text", ["", "{", "[]", '{"created_by": 7}', "[" * 100_000])
def test_what_is_not_a_document_of_ours(tmp_path: Path, text: str) -> None:
    (tmp_path / "thing.json").write_text(text)
    assert not overwrite.is_made_by_obygaze(tmp_path / "thing.json")
    with pytest.raises(AlreadyThere):
        check_folder(tmp_path, THING, force=True)


def test_the_folder_one_is_in_is_no_result(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (".", "..", str(tmp_path)):
        with pytest.raises(FixUsage, match="cannot be the name of a result"):
            check_folder(Path(name), THING, force=True)
