import errno
import json
import multiprocessing
import os
import stat
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obygaze_features.core import files
from obygaze_features.core.errors import AlreadyThere
from obygaze_features.core.files import csv_for_people


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
