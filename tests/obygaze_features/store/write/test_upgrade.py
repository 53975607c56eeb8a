"""Stores of earlier programs, brought to the newest format as a version that changes no row."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.archive import ARCHIVE
from support.cli import call_obygaze
from support.store_damage import flip, restamped
from support.stores import (
    CountedFiles,
    partial_copy,
    plan_store,
    sealed_store,
    some_ids,
    some_values,
    tree,
)

from obygaze_features.core.errors import (
    Corrupt,
    FixInput,
    FixUsage,
    ObygazeError,
)
from obygaze_features.store import (
    ArraySpec,
    RowStatus,
    Store,
    StoreWriter,
    open_store,
    pack,
    pull,
    store_log,
    upgrade,
    verify,
    withdraw,
)
from obygaze_features.store.format.records import with_checksum
from obygaze_features.store.write import gathering

N_CLIPS = 35  # nine blocks of four clips
CLIPS, FILMS = some_ids(N_CLIPS)
VALUES = some_values(N_CLIPS)
GATHERED = ["clip", "frames", "pooled", "time_s"]


def seal_of(path: Path) -> dict:
    return json.loads((path / "seal.json").read_bytes())


def as_before(path: Path, *, checksums: bool) -> None:
    """Make a sealed store one of an earlier program, which gathered nothing.

    The first programs recorded no checksums of chunks either.
    """
    seal = seal_of(path)
    del seal["sha256"]
    shutil.rmtree(path / "gathered")
    names = [name for name in seal["files"] if not name.startswith("gathered/")]
    seal["files"] = {name: seal["files"][name] for name in names}
    seal["version"] = 1
    if not checksums:
        del seal["crc32c"]
        store = json.loads((path / "store.json").read_bytes())
        del store["sha256"], store["plan_id"]
        (path / "store.json").write_bytes(with_checksum(store))
    (path / "seal.json").write_bytes(with_checksum(seal))
    restamped(path)


@pytest.fixture(params=[True, False], ids=["checksums", "no checksums"])
def store(request, tmp_path: Path) -> Path:
    """A store of format 1, which would be of format 2 if it were sealed today."""
    sealed_store(tmp_path / "s", N_CLIPS)
    as_before(tmp_path / "s", checksums=request.param)
    assert not verify(tmp_path / "s", hashes=True).problems
    return tmp_path / "s"


def assert_reads(store: Store, present: slice = slice(None)) -> None:
    for name, values in VALUES.items():
        matrix = store.matrix(name, missing="drop")
        np.testing.assert_array_equal(matrix.values, values[present])
    assert store.clip_ids.tolist() == CLIPS
    assert store.movie_ids.tolist() == FILMS


def arrays_of(store: Store) -> dict[str, tuple[list[str], bytes, dict]]:
    """What is read of each array: the clips, their numbers, and why others have none."""
    read = {}
    for spec in store.plan.arrays:
        matrix = store.matrix(spec.name, missing="drop")
        clips = matrix.clip_ids.tolist()
        read[spec.name] = (clips, matrix.values.tobytes(), dict(matrix.reasons))
    return read


def test_it_gets_what_a_store_sealed_today_has(store, tmp_path):
    sealed_store(tmp_path / "today", N_CLIPS)
    before = open_store(store)
    sha256 = before.seal_sha256
    names = sorted(tree(store / "data.zarr"))
    blocks = {name: (store / "data.zarr" / name).stat() for name in names}
    made = upgrade(store, author="A. Author")
    assert (made.number, made.change, made.is_new) == (2, "format", True)
    assert made.numbers == {"arrays": 4}
    today = seal_of(tmp_path / "today")
    seal = seal_of(store)
    assert seal["version"] == today["version"] == 2
    assert seal["crc32c"] == today["crc32c"]
    for name in GATHERED:
        key = f"gathered/{name}"
        assert (store / key).read_bytes() == (tmp_path / "today" / key).read_bytes()
        assert seal["files"][key] == today["files"][key]
    # No file of a block was touched.
    assert sorted(tree(store / "data.zarr")) == names
    for name, status in blocks.items():
        now = (store / "data.zarr" / name).stat()
        assert (now.st_ino, now.st_mtime_ns) == (status.st_ino, status.st_mtime_ns)
    newest = open_store(store)
    assert newest.fingerprint == before.fingerprint
    assert newest.plan.data == before.plan.data
    assert_reads(newest)
    assert_reads(before)
    first = open_store(store, version=1)
    assert_reads(first)
    assert first.seal_sha256 == sha256
    for number in (1, 2):
        report = verify(f"{store}@{number}", hashes=True)
        assert not report.problems and not report.warnings
    (logged, _) = store_log(store).versions
    assert logged.author == "A. Author" and logged.rows == ()
    assert logged.reason.startswith("upgraded to format 2: 4 arrays gathered")
    assert store_log(store, clip=CLIPS[3]).versions[0].number == 1


def test_it_is_read_in_one_request_an_array(store):
    upgrade(store)
    files = CountedFiles(store)
    opened = open_store(files)
    np.testing.assert_array_equal(opened.matrix("clip").values, VALUES["clip"])
    assert [name for name in files.reads if "clip" in name] == ["gathered/clip"]


def test_a_store_of_the_newest_format_stays_as_it_is(store):
    upgrade(store)
    before = tree(store)
    again = upgrade(store, reason="once more")
    assert (again.number, again.is_new) == (2, False)
    assert str(again).endswith("it is of format 2, the newest; no new version")
    assert tree(store) == before


def test_a_store_that_would_be_of_format_1_today_stays_as_it_is(tmp_path):
    sealed_store(tmp_path / "s")
    before = tree(tmp_path / "s")
    assert not upgrade(tmp_path / "s").is_new
    assert "of format 1, as it would be" in str(upgrade(tmp_path / "s"))
    assert tree(tmp_path / "s") == before


def test_withdrawn_rows_stay_so_and_are_in_no_file_of_the_version(store, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(gathering, "MIN_BLOCKS", 1_000)
        withdraw(store, films=[FILMS[0]], reason="asked for")
    upgrade(store)
    newest = open_store(store)
    assert newest.version == 3
    assert_reads(newest, slice(5, None))
    status = newest.status()
    assert status.counts == {"ok": 30, "withdrawn": 5}
    assert status.status_of_row[0].message == "asked for"
    pattern = VALUES["pooled"][3].tobytes()
    assert not any(pattern in data for data in tree(store / "gathered").values())
    assert_reads(open_store(store, version=1))
    assert_reads(open_store(store, version=2), slice(5, None))
    for number in (1, 2, 3):
        assert not verify(f"{store}@{number}", hashes=True).problems
    # A copy has no version with these features, as before.
    pull(str(store), store.parent / "copy")
    assert not any(pattern in data for data in tree(store.parent / "copy").values())
    assert [v.held for v in store_log(store.parent / "copy").versions] == [1, 1, 0]


@pytest.mark.parametrize("name", ["store-v1/sealed", "store-v2", "store-versions"])
def test_stores_of_released_versions_read_the_same_after_it(name, tmp_path):
    path = tmp_path / "s"
    shutil.copytree(ARCHIVE / name, path)
    newest = open_store(path)
    numbers = range(1, newest.version + 1)
    read = {n: arrays_of(open_store(path, version=n)) for n in numbers}
    seals = {n: open_store(path, version=n).seal_sha256 for n in numbers}
    made = upgrade(path)
    assert made.is_new == (name != "store-v2")
    upgraded = open_store(path)
    assert upgraded.version == made.number == newest.version + made.is_new
    assert upgraded.fingerprint == newest.fingerprint
    assert arrays_of(upgraded) == read[newest.version]
    texts = [upgraded.text(), newest.text()]
    assert [text is None for text in texts] == [name == "store-v2"] * 2
    for number in numbers:
        earlier = open_store(path, version=number)
        assert earlier.seal_sha256 == seals[number]
        assert arrays_of(earlier) == read[number]
    for number in range(1, made.number + 1):
        report = verify(f"{path}@{number}", hashes=True)
        assert not report.problems and not report.warnings
    assert not upgrade(path).is_new


def test_a_released_store_that_was_being_filled_is_finished_and_upgraded(tmp_path):
    """Its blocks are compressed shards, some of which have no checksums of their chunks."""
    path = tmp_path / "s"
    shutil.copytree(ARCHIVE / "store-v1" / "growing", path)
    writer = StoreWriter(path)
    block = np.full((1, 1100, 1024), 7, np.float32)
    writer.commit_block(2, {"tokens": block})
    writer.replace_rows(1, [2], {"tokens": block}, [RowStatus()])
    writer.seal()
    assert "crc32c" not in seal_of(path)
    before = open_store(path)["tokens"].values
    made = upgrade(path)
    assert made.numbers == {"arrays": 1}
    assert made.text == "the checksums of the chunks of 1 array recorded"
    assert seal_of(path)["version"] == 1
    # A clip is read without the rest of its block.
    files = CountedFiles(path)
    clip = open_store(files).matrix("tokens", clips=["tt0120338-001"]).values
    np.testing.assert_array_equal(clip[0], before[3])
    np.testing.assert_array_equal(open_store(path)["tokens"].values, before)
    for number in (1, 2):
        assert not verify(f"{path}@{number}", hashes=True).problems
    assert not upgrade(path).is_new


def test_later_versions_and_copies_of_it_have_it_too(store, tmp_path):
    pull(str(store), tmp_path / "copy")
    upgrade(store)
    brought = pull(str(store), tmp_path / "copy")
    assert any("version 2, upgraded: 4 arrays" in note for note in brought.notes)
    assert_reads(open_store(tmp_path / "copy"))
    assert_reads(open_store(tmp_path / "copy", version=1))
    pack(store, tmp_path / "s.zip")
    assert_reads(open_store(tmp_path / "s.zip"))
    withdraw(store, films=[FILMS[0]], reason="asked for")
    assert_reads(open_store(store), slice(5, None))
    for path in (store, tmp_path / "copy", tmp_path / "s.zip"):
        assert not verify(path, hashes=True).problems
        assert not (path.is_dir() and upgrade(path).is_new)


def test_of_a_damaged_block_no_version_is_made(store):
    flip(store / "data.zarr/pooled/c.7.0", 101)
    before = tree(store)
    with pytest.raises(Corrupt, match=r"pooled/c\.7\.0"):
        upgrade(store)
    # Its seal may have been kept already, which the next version needs too.
    after = tree(store)
    assert {name: after[name] for name in before} == before
    assert all(name.startswith("versions/files/") for name in after.keys() - before)
    assert open_store(store).version == 1


def test_what_cannot_be_upgraded_is_an_error(store, tmp_path):
    plan_store(tmp_path / "open", arrays=(ArraySpec("clip", (2,)),))
    with pytest.raises(FixInput, match="not sealed"):
        upgrade(tmp_path / "open")
    partial_copy(store, tmp_path / "partial", ["clip"])
    with pytest.raises(FixInput, match="partial"):
        upgrade(tmp_path / "partial")
    pack(store, tmp_path / "s.zip")
    for location in (tmp_path / "s.zip", f"{store}@1", "https://example.org/s"):
        with pytest.raises(FixUsage):
            upgrade(location)
    with pytest.raises(FixUsage, match="one line of printable text"):
        upgrade(store, reason="two\nlines")
    assert open_store(store).version == 1


def test_the_command_says_what_was_added(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sealed_store(tmp_path / "stores/films", N_CLIPS)
    as_before(tmp_path / "stores/films", checksums=False)
    said = call_obygaze("store", "upgrade", "films").ok().stdout
    assert said.startswith(
        "stores/films@2: upgraded to format 2: 4 arrays gathered, the checksums of the chunks of "
        "4 arrays recorded\nseal_sha256: "
    )
    again = call_obygaze("store", "upgrade", "films", "--json").ok()
    facts = json.loads(again.stdout)
    assert (facts["number"], facts["change"], facts["is_new"]) == (2, "format", False)
    log = call_obygaze("store", "log", "films").ok().stdout
    assert "upgraded: 4 arrays" in log
    with pytest.raises(ObygazeError):
        upgrade("nothing-of-this-name")
