"""Versions and withdrawals go with a store: to folders, zips, servers, and copies of before."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from support.stores import (
    ARRAYS,
    copy_of_sealed,
    fill_store,
    plan_store,
    sealed_store,
    some_ids,
    some_values,
    tree,
)

from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
)
from obygaze_features.store import (
    merge,
    open_store,
    pack,
    pull,
    purge,
    push,
    state_licence,
    store_log,
    subset,
    unpack,
    verify,
    withdraw,
)
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.remote.files import FolderFiles, Target
from obygaze_features.store.write.growth import add_rows

VALUES = some_values(23)
NEW_VALUES = some_values(3, ARRAYS, seed=5)
CLIPS, FILMS = some_ids(23)
GROWN = [f"tt0000900-{n}" for n in range(3)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_of_sealed(tmp_path / "s")


@pytest.fixture
def new_rows(tmp_path: Path) -> Path:
    path = tmp_path / "new"
    plan_store(path, 3, 2, clip_ids=GROWN, movie_ids=["tt0000900"] * 3)
    fill_store(path, NEW_VALUES).seal()
    return path


def grow(store: Path, new_rows: Path) -> None:
    add_rows(store, new_rows, reason="grown")


def assert_version(path: Path | str, number: int) -> None:
    """A copy of the store whose 2nd version is grown and whose 3rd withdraws the first film."""
    store = open_store(path)
    assert store.version == number
    values = VALUES["clip"]
    clips = list(CLIPS)
    if number > 1:
        values = np.concatenate([values, NEW_VALUES["clip"]])
        clips += GROWN
    first = 5 if number > 2 else 0
    assert store.clip_ids.tolist() == clips
    assert np.array_equal(store.matrix("clip", missing="drop").values, values[first:])
    report = verify(path, hashes=True)
    assert not report.problems and not report.warnings


def test_a_copy_has_the_versions(store, new_rows, tmp_path):
    grow(store, new_rows)
    pull(store, tmp_path / "pulled")
    push(store, tmp_path / "pushed")
    packed = pack(store, tmp_path / "s.zip")
    assert pack(store, tmp_path / "again.zip").sha256 == packed.sha256
    unpack(tmp_path / "s.zip", tmp_path / "unpacked")
    for copy in ("pulled", "pushed", "unpacked", "s.zip"):
        path = tmp_path / copy
        assert_version(path, 2)
        assert_version(f"{path}@1", 1)
        assert [v.held for v in store_log(path).versions] == [True, True]
        assert open_store(path).seal_sha256 == open_store(store).seal_sha256
    pull(f"{store}@1", tmp_path / "first")
    assert_version(tmp_path / "first", 1)
    assert not (tmp_path / "first" / "versions").exists()


def test_versions_with_withdrawn_features_are_not_sent(store, new_rows, tmp_path):
    grow(store, new_rows)
    withdraw(store, films=[FILMS[0]], reason="asked for")
    pull(store, tmp_path / "pulled")
    pack(store, tmp_path / "s.zip")
    row = VALUES["clip"][2].tobytes()
    assert any(row in data for data in tree(store).values())
    assert not any(row in data for data in tree(tmp_path / "pulled").values())
    assert row not in (tmp_path / "s.zip").read_bytes()
    for path in (tmp_path / "pulled", tmp_path / "s.zip"):
        assert_version(path, 3)
        log = store_log(path)
        assert [v.held for v in log.versions] == [True, False, False]
        assert log.versions[0].reason == "asked for" and "2, 1" in log.notes[0]
        with pytest.raises(NotFound, match="version 2 is not in this copy"):
            open_store(f"{path}@2")


def test_a_version_with_withdrawn_features_is_not_sent_by_its_name(store, tmp_path):
    withdraw(store, films=[FILMS[0]], reason="asked for")
    for send in (pull, push):
        with pytest.raises(FixInput, match="withdrawn in version 2, so it is not sent"):
            send(f"{store}@1", tmp_path / "copy")
    with pytest.raises(FixInput, match="withdrawn in version 2"):
        pack(f"{store}@1", tmp_path / "s.zip")
    assert not (tmp_path / "copy").exists() and not (tmp_path / "s.zip").exists()


def test_a_copy_of_an_earlier_version_is_brought_up_to_date(store, new_rows, tmp_path):
    state_licence(store, licence="CC-BY-4.0", replace=True)
    pull(store, tmp_path / "pulled")
    push(store, tmp_path / "pushed")
    pack(store, tmp_path / "s.zip")
    unpack(tmp_path / "s.zip", tmp_path / "unpacked")
    grow(store, new_rows)
    withdraw(store, films=[FILMS[0]], reason="asked for")
    state_licence(store, licence="CC0-1.0", replace=True)
    pulled = pull(store, tmp_path / "pulled")
    # What changed is said, with the clips that are no longer there.
    withdrawn = ", ".join(CLIPS[:5])
    assert pulled.notes == [
        "pulled was version 1, and is version 3",
        "version 2, added: 3 clips, 1 film: grown",
        f"version 3, withdrawn: 5 clips, 1 film ({withdrawn}): asked for",
    ]
    push(store, tmp_path / "pushed")
    pack(store, tmp_path / "s.zip", force=True)
    unpacked = unpack(tmp_path / "s.zip", tmp_path / "unpacked")
    assert unpacked.notes[0] == "unpacked was version 1, and is version 3"
    for copy in ("pulled", "pushed", "unpacked"):
        path = tmp_path / copy
        assert_version(path, 3)
        # What was withdrawn is nowhere, and the log still says what there was.
        row = VALUES["clip"][2].tobytes()
        assert not any(row in data for data in tree(path).values())
        with pytest.raises(NotFound, match="version 1 is not in this copy"):
            open_store(f"{path}@1")
        assert [v.number for v in store_log(path).versions] == [3, 2, 1]
        assert not verify(path, hashes=True).problems
        assert open_store(path).licence == "CC0-1.0"
        assert open_store(path).seal_sha256 == open_store(store).seal_sha256
    # The same command again changes nothing.
    before = tree(tmp_path / "pulled")
    assert pull(store, tmp_path / "pulled").notes == []
    assert tree(tmp_path / "pulled") == before


def test_a_copy_that_is_ahead_or_of_another_chain_is_left_alone(
    store, new_rows, tmp_path
):
    pull(store, tmp_path / "ahead")
    pull(store, tmp_path / "other")
    withdraw(tmp_path / "ahead", films=[FILMS[0]], reason="here")
    with pytest.raises(AlreadyThere, match="the copy here is ahead: it is version 2"):
        pull(store, tmp_path / "ahead")
    withdraw(tmp_path / "other", films=[FILMS[1]], reason="another")
    grow(store, new_rows)
    before = tree(tmp_path / "other")
    for copy in ("ahead", "other"):
        with pytest.raises(AlreadyThere):
            pull(store, tmp_path / copy)
    assert tree(tmp_path / "other") == before


class FolderTarget(Target):
    """A folder as a bucket: whole files, one after another, until it is full."""

    def __init__(self, root: Path, n_puts: int = 10**6) -> None:
        self.root = root
        self.location = f"s3://bucket/{root.name}"
        self.files = FolderFiles(root)
        self.n_puts = n_puts

    def has(self, name: str, mark: FileMark) -> bool:
        path = self.root / name
        return path.is_file() and FileMark.of(path.read_bytes()) == mark

    def put(self, name: str, data: bytes | Path, mark: FileMark) -> None:
        self.n_puts -= 1
        if self.n_puts < 0:
            raise KeyboardInterrupt
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_bytes(
            data if isinstance(data, bytes) else data.read_bytes()
        )

    def create(self, name: str, data: bytes) -> bytes | None:
        if not (self.root / name).exists():
            self.put(name, data, FileMark.of(data))
        return (self.root / name).read_bytes()

    def remove(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)


def test_a_push_to_a_bucket_that_stops_anywhere_is_readable(store, new_rows, tmp_path):
    """The bucket has the first version; the push of the second stops after each file."""
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    state_licence(store, licence="CC-BY-4.0", replace=True)
    push(store, FolderTarget(bucket))
    assert_version(bucket, 1)
    reader = open_store(bucket)
    _ = reader.sealed
    grow(store, new_rows)
    for n_puts in range(1, 200):
        try:
            push(store, FolderTarget(bucket, n_puts))
            break
        except KeyboardInterrupt:
            pass
        opened = open_store(bucket)
        assert opened.version in (1, 2) and opened.licence == "CC-BY-4.0"
        copy = tmp_path / f"copy-{n_puts}"
        pull(bucket, copy)
        assert open_store(copy).version == opened.version
        assert not verify(copy, hashes=True).problems
        values = opened.matrix("clip").values
        assert np.array_equal(values[:23], VALUES["clip"])
        assert len(values) == (23 if opened.version == 1 else 26)
        # Who opened it before keeps the first version.
        assert np.array_equal(reader.matrix("pooled").values, VALUES["pooled"])
    else:
        raise AssertionError("the push has no end")
    assert n_puts > 5
    assert_version(f"{bucket}@1", 1)
    report = verify(bucket, hashes=True)
    assert open_store(bucket).version == 2 and not report.problems


def test_a_film_is_read_wherever_a_push_to_a_bucket_stops(
    new_rows, tmp_path, monkeypatch
):
    """The second version has another store.json, and other pages of the index by film."""
    for module in ("read.commits", "write.seal", "write.version"):
        monkeypatch.setattr(f"obygaze_features.store.{module}.INDEX_ROWS", 20)
    monkeypatch.setattr("obygaze_features.store.read.index_pages.PAGE_ROWS", 8)
    store = tmp_path / "indexed"
    sealed_store(store, 23)
    first = tmp_path / "first"
    first.mkdir()
    push(store, FolderTarget(first))
    grow(store, new_rows)
    is_stopped = True
    n_puts = 0
    while is_stopped:
        n_puts += 1
        bucket = tmp_path / f"bucket-{n_puts}"
        shutil.copytree(first, bucket)
        try:
            push(store, FolderTarget(bucket, n_puts))
            is_stopped = False
        except KeyboardInterrupt:
            pass
        values = open_store(bucket).matrix("pooled", films=[FILMS[-1]]).values
        assert np.array_equal(values, VALUES["pooled"][20:])
    assert n_puts > 5 and (bucket / "index/movies.json").exists()
    assert open_store(bucket).version == 2
    assert not verify(bucket, hashes=True).problems


def test_parts_and_copies_are_stores_without_versions(store, new_rows, tmp_path):
    grow(store, new_rows)
    withdraw(store, films=[FILMS[0]], reason="asked for")
    pull(store, tmp_path / "array", arrays=["clip"])
    pull(store, tmp_path / "film", films=[FILMS[0], FILMS[7]])
    subset(store, tmp_path / "subset", films=[FILMS[0]])
    merge([store], tmp_path / "merged")
    for copy in ("array", "film", "subset", "merged"):
        opened = open_store(tmp_path / copy)
        assert opened.version == 1 and not (tmp_path / copy / "versions").exists()
        # A withdrawn clip stays withdrawn.
        assert opened.status().counts["withdrawn"] == 5
        assert not verify(tmp_path / copy, hashes=True).problems


def test_a_bucket_has_no_kept_file_of_what_is_withdrawn(store, new_rows, tmp_path):
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    push(store, FolderTarget(bucket), no_licence=True)
    grow(store, new_rows)
    push(store, FolderTarget(bucket), no_licence=True)
    pattern = VALUES["clip"][-1].tobytes()
    kept = tree(bucket / "versions/files").values()
    assert any(pattern in data for data in kept)
    withdraw(store, clips=CLIPS[-1:], reason="asked for")
    for n_puts in range(1, 100):
        try:
            push(store, FolderTarget(bucket, n_puts), no_licence=True)
            break
        except KeyboardInterrupt:
            assert open_store(bucket).version in (2, 3)
    assert not any(pattern in data for data in tree(bucket).values())
    assert open_store(bucket).version == 3
    assert not verify(bucket, hashes=True).problems


def test_a_file_of_an_earlier_version_that_comes_again_is_copied(store, tmp_path):
    subset(store, tmp_path / "before", clips=CLIPS[:1])
    plan_store(tmp_path / "other", 1, 1, clip_ids=CLIPS[:1], movie_ids=FILMS[:1])
    fill_store(tmp_path / "other", some_values(1, ARRAYS, seed=3))
    add_rows(store, tmp_path / "other", reason="corrected")
    add_rows(store, tmp_path / "before", reason="it was right before")
    copy = tmp_path / "copy"
    pull(store, copy)
    for number in (1, 2, 3):
        of_version = tmp_path / f"copy-{number}"
        pull(f"{copy}@{number}", of_version)
        for each in range(1, number + 1):
            values = open_store(of_version, version=each)["clip"].values
            expected = open_store(store, version=each)["clip"].values
            assert np.array_equal(values, expected)
        pull(copy, of_version)
        assert open_store(of_version).version == 3
        assert not verify(of_version, hashes=True).problems


def test_a_copy_of_an_early_version_knows_the_store_in_its_place(store, tmp_path):
    pull(store, tmp_path / "copy")
    withdraw(store, films=[FILMS[0]], reason="asked for")
    purge(store, tmp_path / "purged")
    report = verify(tmp_path / "copy", source=tmp_path / "purged")
    assert set(report.withdrawn_since) == set(CLIPS[:5])


def test_a_purged_store_is_not_sent_over_what_it_replaces_and_says_so(store, tmp_path):
    pull(store, tmp_path / "copy")
    withdraw(store, clips=CLIPS[:1], reason="asked")
    purge(store, tmp_path / "purged")
    for target in (tmp_path / "copy", store):
        with pytest.raises(AlreadyThere, match="replaces the one here") as caught:
            pull(tmp_path / "purged", target)
        assert caught.value.hint.startswith("remove the store that is here")
    shutil.rmtree(tmp_path / "copy")
    pull(tmp_path / "purged", tmp_path / "copy")
    assert open_store(tmp_path / "copy").status().counts["withdrawn"] == 1


def test_an_address_that_would_be_read_as_a_version_is_refused(store):
    with pytest.raises(FixUsage, match="stands for a version"):
        push(store, "s3://bucket/films@2", no_licence=True)


def test_a_copy_that_is_behind_says_so_when_it_is_compared(store, new_rows, tmp_path):
    copy = tmp_path / "copy"
    pull(store, copy)
    report = verify(copy, source=store)
    assert report.versions_behind == 0 and "the same version as its source" in str(
        report
    )
    grow(store, new_rows)
    withdraw(store, films=[FILMS[0]], reason="asked for")
    report = verify(copy, source=store)
    assert report.versions_behind == 2
    assert report.withdrawn_since == dict.fromkeys(CLIPS[:5], "asked for")
    assert report.warnings == [
        "behind its source: this is version 1, the source has version 3 (obygaze store pull)",
        f"5 clips withdrawn since, the first is {CLIPS[0]}: asked for",
    ]
    assert verify(store, source=copy).warnings[0].startswith("ahead of its source")
    purge(store, tmp_path / "purged")
    replaced = verify(store, source=tmp_path / "purged")
    assert "without withdrawn features, in its place" in replaced.warnings[0]
    sealed_store(tmp_path / "other")
    with pytest.raises(Mismatch, match="not a copy of that store"):
        verify(copy, source=tmp_path / "other")
