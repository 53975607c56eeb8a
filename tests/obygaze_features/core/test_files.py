import errno
import hashlib
import json
import multiprocessing
import os
import random
import re
import stat
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.kills import kill_everywhere
from support.leftovers import name_of_ended

from obygaze_features.core import files, overwrite, system
from obygaze_features.core.errors import AlreadyThere, FixUsage
from obygaze_features.core.file_names import FileNames, check_new_name, file_name
from obygaze_features.core.files import csv_for_people, write_then_rename
from obygaze_features.core.overwrite import OwnFolder, check_folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("mask, mode", [(0o002, 0o664), (0o077, 0o600)])
def test_the_umask_decides_who_may_read(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        files.write_atomic(tmp_path / "atomic", b"x")
        files.write_exclusive(tmp_path / "exclusive", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "atomic").stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "exclusive").stat().st_mode) == mode


def test_several_results_are_written_all_or_none(tmp_path):
    (tmp_path / "second").write_bytes(b"mine")
    results = {tmp_path / "first": b"1", tmp_path / "second": b"2"}
    with pytest.raises(AlreadyThere):
        files.write_all_new(results)
    assert names(tmp_path) == ["second"]
    files.write_all_new(results, force=True)
    assert (tmp_path / "second").read_bytes() == b"2"


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "file"
    files.write_atomic(path, b"old")
    full = mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write_atomic(path, b"new")
    with pytest.raises(OSError, match="No space left"):
        files.write_exclusive(tmp_path / "other", b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def _race(path: Path, data: bytes, start, wins) -> None:
    start.wait()
    if files.write_exclusive(path, data):
        wins.put(data)


def test_of_racing_writers_exactly_one_wins_and_its_bytes_are_there(tmp_path):
    context = multiprocessing.get_context("fork")
    path = tmp_path / "marker"
    start, wins = context.Event(), context.Queue()
    racers = [
        context.Process(target=_race, args=(path, bytes([i]) * 10_000, start, wins))
        for i in range(4)
    ]
    for racer in racers:
        racer.start()
    start.set()
    for racer in racers:
        racer.join()
    assert path.read_bytes() == wins.get(timeout=5)
    assert wins.empty()
    assert names(tmp_path) == ["marker"]


def test_sync_dir_forgives_only_what_a_network_disk_cannot_do(tmp_path, monkeypatch):
    sync = mock.Mock(side_effect=OSError(errno.EINVAL, "Invalid argument"))
    monkeypatch.setattr(os, "fsync", sync)
    files.sync_dir(tmp_path)
    sync.side_effect = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output"):
        files.sync_dir(tmp_path)


def test_write_new_takes_the_same_bytes_again_and_other_bytes_only_with_force(tmp_path):
    path = tmp_path / "result"
    files.write_new(path, b"one")
    files.write_new(path, b"one")
    with pytest.raises(AlreadyThere) as caught:
        files.write_new(path, b"two")
    assert caught.value.where == str(path)
    assert "--force" in str(caught.value)
    assert path.read_bytes() == b"one"
    files.write_new(path, b"two", force=True)
    assert path.read_bytes() == b"two"


def test_write_new_never_follows_a_link_that_leads_nowhere(tmp_path):
    (tmp_path / "result").symlink_to(tmp_path / "nowhere")
    with pytest.raises(AlreadyThere):
        files.write_new(tmp_path / "result", b"one")
    assert names(tmp_path) == ["result"]


def test_of_two_who_write_one_new_name_the_second_is_told(tmp_path, monkeypatch):
    path = tmp_path / "result"
    looked = files.is_free_for

    def look_then_be_overtaken(target, data):
        free = looked(target, data)
        if free:
            target.write_bytes(b"by another process")
        return free

    monkeypatch.setattr(files, "is_free_for", look_then_be_overtaken)
    with pytest.raises(AlreadyThere):
        files.write_new(path, b"by this one")
    assert path.read_bytes() == b"by another process"
    assert names(tmp_path) == ["result"]


@pytest.mark.parametrize("has_links", [True, False])
def test_write_exclusive_never_touches_what_is_there(tmp_path, monkeypatch, has_links):
    if not has_links:
        refused = mock.Mock(side_effect=OSError(errno.EPERM, os.strerror(errno.EPERM)))
        monkeypatch.setattr(os, "link", refused)
    assert files.write_exclusive(tmp_path / "file", b"first") is True
    assert files.write_exclusive(tmp_path / "file", b"second") is False
    assert (tmp_path / "file").read_bytes() == b"first"
    assert names(tmp_path) == ["file"]


def test_a_full_disk_replaces_none_of_several_results(tmp_path, monkeypatch):
    results = {tmp_path / "rows": b"1", tmp_path / "header": b"2"}
    files.write_all_new(results)
    write_synced = files.write_synced

    def write_on_a_full_disk(path, data):
        if data == b"4":
            raise OSError(errno.ENOSPC, "No space left on device")
        write_synced(path, data)

    monkeypatch.setattr(files, "write_synced", write_on_a_full_disk)
    later = {tmp_path / "rows": b"3", tmp_path / "header": b"4"}
    with pytest.raises(OSError, match="No space") as caught:
        files.write_all_new(later, force=True)
    assert caught.value.filename == str(tmp_path / "header")
    assert {path: path.read_bytes() for path in results} == results
    assert names(tmp_path) == ["header", "rows"]


def _count_up(path: Path) -> None:
    for _ in range(20):
        with files.lock_folder(path.parent):
            path.write_text(str(int(path.read_text("utf-8")) + 1), encoding="utf-8")


def test_a_lock_holds_off_other_processes(tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0", encoding="utf-8")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_count_up, args=(counter,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert counter.read_text("utf-8") == "60"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(max_examples=30)
@given(JSON_VALUES)
def test_both_spellings_of_json_read_back_as_the_value(value):
    assert json.loads(files.canonical_json(value)) == value
    assert json.loads(files.pretty_json(value)) == value


def test_text_in_csv_is_no_formula() -> None:
    row = ["=1+2", "+x", "-x", "@x", "\tx", "-1.5", "+2e3", "-", "a=b", -1.5, None]
    expected = "'=1+2,'+x,'-x,'@x,'\tx,-1.5,+2e3,-,a=b,-1.5,\n"
    assert csv_for_people(["=h"], [row]) == f"'=h\n{expected}".encode()


def write_folder(folder: Path, text: str) -> None:
    with write_then_rename(folder) as new:
        (new / "deep").mkdir(parents=True)
        (new / "deep" / "data").write_text(text)


def write_file(path: Path, text: str) -> None:
    with write_then_rename(path) as new:
        new.write_text(text)


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
def test_a_kill_leaves_the_old_folder_or_the_new_one(tmp_path, monkeypatch, exchanges):
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


PLAIN = ["joy", "EN_S", "EN-S", "v1.2", "лицо", "脸部", "tt0108160-001", "a+b"]
STRANGE = ["", " ", ".", "..", "../../etc", "/etc/passwd", "a/b", "a\\b", "a:b", "-o"]
STRANGE += [".hidden", "~", "CON", "nul.txt", "COM1", "a\nb\x00c", "a\x1b[31m", "b."]
STRANGE += ["\ud800", "x" * 400, "脸" * 200]


def test_plain_names_stay_and_blanks_become_hyphens() -> None:
    assert [file_name(text) for text in PLAIN] == PLAIN
    assert file_name("Type of  shot") == "Type-of-shot"


@pytest.mark.parametrize("text", STRANGE)
def test_a_name_is_one_part_of_a_path_on_every_system(text, tmp_path) -> None:
    name = file_name(text)
    assert re.fullmatch(r"[\w+][\w.+-]*", name)
    assert name.split(".")[0].upper() not in {"CON", "NUL", "COM1"}
    path = tmp_path / f"{name}.png"
    path.write_bytes(b"")
    assert [found.name for found in tmp_path.iterdir()] == [f"{name}.png"]


def test_different_texts_have_different_names() -> None:
    texts = [*PLAIN, *STRANGE, "a|b", "a?b", "etc"]
    assert len({file_name(text) for text in texts}) == len(texts)
    names = FileNames()
    used = [names.unique_name(text) for text in (*texts, "JOY", "a b", "a-b", "joy")]
    assert len({name.casefold() for name in used}) == len(used)


def test_names_that_windows_cannot_have_are_refused_on_every_system(tmp_path) -> None:
    for name, reason in (
        ("con", "CON is the name of a device on Windows"),
        ("lpt³", "LPT³ is the name of a device on Windows"),
        ("films.", "it ends with a dot or a blank"),
        ("a:b", "it contains ':'"),
    ):
        with pytest.raises(FixUsage) as caught:
            check_new_name(tmp_path / name)
        assert caught.value.message == f"invalid name {name!r}: {reason}"
        # What has such a name already can be used where it is.
        (tmp_path / name).mkdir()
        check_new_name(tmp_path / name)


def test_a_name_that_some_system_takes_for_another_one_is_refused(tmp_path) -> None:
    same = "which is the same name on Windows and macOS"
    pairs = [("films", "Films"), ("Straße", "STRASSE"), ("Ame\u0301lie", "Am\u00e9lie")]
    for there, name in pairs:
        (tmp_path / there).mkdir()
        with pytest.raises(AlreadyThere, match=same):
            check_new_name(tmp_path / name)
        check_new_name(tmp_path / there)
        check_new_name(tmp_path / f"{name}-2")


@pytest.mark.parametrize("n_bytes", [196_608, 196_609, 300_001])
def test_the_quick_hash_covers_the_size_and_three_parts(tmp_path, n_bytes) -> None:
    data = random.Random(n_bytes).randbytes(n_bytes)
    path = tmp_path / "film.mp4"
    path.write_bytes(data)
    middle = (n_bytes - 65_536) // 2
    parts = (data[:65_536], data[middle : middle + 65_536], data[-65_536:])
    covered = data if n_bytes == 196_608 else b"".join(parts)
    expected = hashlib.sha256(f"{n_bytes}\n".encode() + covered).hexdigest()
    assert files.quick_sha256(path) == (n_bytes, expected)
