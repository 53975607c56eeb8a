"""Versions of a sealed store: what each reads as, kills at every step, folders of strangers."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr
from support.cli import call_obygaze
from support.stores import (
    ARRAYS,
    CountedFiles,
    copy_of_sealed,
    fill_store,
    gather_all,
    plan_store,
    some_ids,
    some_values,
    tree,
)

from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
    ObygazeError,
)
from obygaze_features.core.written_tables import write_table
from obygaze_features.store import (
    merge,
    open_store,
    pack,
    purge,
    push,
    store_log,
    store_uses,
    subset,
    withdraw,
)
from obygaze_features.store.format.records import (
    StoreVersion,
    VersionEntry,
    with_checksum,
)
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.interchange.export import export_store
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote.files import FolderFiles
from obygaze_features.store.remote.versions import read_entry
from obygaze_features.store.write import version as version_module
from obygaze_features.store.write.edit import ManifestClips
from obygaze_features.store.write.publication import (
    NEXT,
    clean_versions,
    keep_bytes,
)
from obygaze_features.store.write.version import new_version

VALUES = some_values(23)
CLIPS, FILMS = some_ids(23)
FIRST_FILM = FILMS[0]
SECOND_FILM = FILMS[5]
REASON = "asked for by the owner"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_of_sealed(tmp_path / "s")


def is_withdrawn(*films: str) -> np.ndarray:
    return np.isin(FILMS, films)


def assert_reads(store, withdrawn: np.ndarray) -> None:
    """Every array of a store has the values of the rows that are not withdrawn."""
    for spec in ARRAYS:
        matrix = store.matrix(spec.name, missing="drop")
        assert np.array_equal(matrix.values, VALUES[spec.name][~withdrawn])
        assert matrix.present.tolist() == (~withdrawn).tolist()
    assert store.clip_ids.tolist() == CLIPS


def test_each_version_reads_as_it_was_when_it_was_made(store):
    first_tree = tree(store)
    first = withdraw(store, films=[FIRST_FILM], reason=REASON)
    second = withdraw(store, films=[SECOND_FILM], reason="again", author="A. Author")
    assert (first.number, second.number) == (2, 3)
    assert_reads(open_store(store, version=1), is_withdrawn())
    assert_reads(open_store(f"{store}@1"), is_withdrawn())
    assert_reads(open_store(store, version=2), is_withdrawn(FIRST_FILM))
    assert_reads(open_store(store), is_withdrawn(FIRST_FILM, SECOND_FILM))
    assert_reads(open_store(store, version=3), is_withdrawn(FIRST_FILM, SECOND_FILM))
    assert [open_store(store, version=n).version for n in (1, 2, 3)] == [1, 2, 3]
    for version in (1, 2, 3):
        report = verify(f"{store}@{version}", hashes=True)
        assert not report.problems and not report.warnings
    old = open_store(store, version=1)
    for name, data in first_tree.items():
        assert old.files.read(name).data.tobytes() == data, name
    assert open_store(store, version=2).seal_sha256 == first.seal_sha256


def test_a_withdrawn_clip_has_its_reason_and_is_not_found_in_the_newest_files(store):
    withdraw(store, films=[FIRST_FILM], reason=REASON)
    opened = open_store(store)
    matrix = opened.matrix("clip", clips=CLIPS[:6], missing="nan")
    assert matrix.present.tolist() == [False] * 5 + [True]
    status = matrix.reasons[CLIPS[0]]
    assert status.is_withdrawn and status.message == REASON and len(status.date) == 10
    with pytest.raises(NotFound, match=f"withdrawn on .*: {REASON}"):
        opened.matrix("clip", clips=CLIPS[:1])
    rows = [row for row, film in enumerate(FILMS) if film == FIRST_FILM]
    for path in (store / "data.zarr").rglob("c.*"):
        data = path.read_bytes()
        for spec in ARRAYS:
            for row in rows:
                assert VALUES[spec.name][row].tobytes() not in data


def test_other_readers_see_the_newest_version(store):
    withdraw(store, films=[FIRST_FILM], reason=REASON)
    array = zarr.open_group(store / "data.zarr", mode="r")["clip"][:]
    assert np.isnan(array[:5]).all() and np.array_equal(array[5:], VALUES["clip"][5:])


def test_opening_the_newest_costs_no_more_requests_than_a_store_without_versions(
    store, tmp_path
):
    def requests(path: Path) -> list[str]:
        files = CountedFiles(path)
        opened = open_store(files)
        opened.matrix("pooled", clips=CLIPS[20:])
        opened.status()
        assert not files.listings
        return files.reads

    before = requests(store)
    for film in sorted(set(FILMS[:20])):
        withdraw(store, films=[film], reason=REASON)
        assert requests(store) == before
    assert open_store(store).version == 5


def test_an_open_reader_stays_with_its_version(store):
    lazy = open_store(store)
    eager = open_store(store)
    eager.status()
    withdraw(store, films=[FIRST_FILM], reason=REASON)
    withdraw(store, films=[SECOND_FILM], reason=REASON)
    assert_reads(eager, is_withdrawn())
    # It had read store.json alone, which these versions share.
    assert_reads(lazy, is_withdrawn(FIRST_FILM, SECOND_FILM))
    again = pickle.loads(pickle.dumps(open_store(store, version=2)))  # noqa: S301
    assert again.version == 2 and again.location == f"{store}@2"


def test_log_says_what_why_who_and_when(store):
    withdraw(store, films=[FIRST_FILM], reason=REASON, author="A. Author")
    withdraw(store, films=[SECOND_FILM], reason="again")
    log = store_log(store)
    assert [version.number for version in log.versions] == [3, 2, 1]
    assert log.versions[1].author == "A. Author"
    assert log.versions[1].numbers == {"clips": 5, "films": 1}
    assert log.versions[1].rows == ((0, 5),)
    assert log.versions[2].change_text == "created: 23 clips"
    assert log.versions[2].seal_sha256 == open_store(store, version=1).seal_sha256
    of_clip = store_log(store, clip=CLIPS[7])
    assert [version.number for version in of_clip.versions] == [3, 1]
    assert [v.number for v in store_log(f"{store}@2").versions] == [2, 1]
    with pytest.raises(NotFound, match="no clip 'nobody'"):
        store_log(store, clip="nobody")


def test_the_same_clips_are_withdrawn_once(store):
    first = withdraw(store, films=[FIRST_FILM], reason=REASON)
    again = withdraw(store, clips=CLIPS[:5], reason="another reason")
    assert not again.is_new and again.number == first.number == 2
    assert str(again).endswith("5 clips withdrawn before; no new version")
    third = withdraw(store, clips=CLIPS[3:7], reason="more")
    assert third.numbers == {"clips": 2, "films": 1}
    status = open_store(store).status().status_of_row
    assert status[3].message == REASON and status[6].message == "more"


def test_what_cannot_have_a_version_is_an_error(store, tmp_path):
    plan_store(tmp_path / "open")
    with pytest.raises(FixInput, match="not sealed"):
        withdraw(tmp_path / "open", clips=CLIPS[:1], reason=REASON)
    with pytest.raises(FixInput, match="not sealed"):
        store_log(tmp_path / "open")
    with pytest.raises(FixUsage, match="reason must be one line"):
        withdraw(store, films=[FIRST_FILM], reason=" ")
    with pytest.raises(FixUsage, match="no clip is named"):
        withdraw(store, reason=REASON)
    with pytest.raises(NotFound, match="not in the store"):
        withdraw(store, clips=["nobody"], reason=REASON)
    with pytest.raises(FixUsage, match="got a URL"):
        withdraw("https://example.org/s", films=[FIRST_FILM], reason=REASON)
    with pytest.raises(NotFound, match="no version 2, the newest is 1"):
        open_store(store, version=2)
    withdraw(store, films=[FIRST_FILM], reason=REASON)
    with pytest.raises(FixUsage, match="got version 1"):
        withdraw(f"{store}@1", films=[FIRST_FILM], reason=REASON)
    with pytest.raises(FixUsage, match="two versions"):
        open_store(f"{store}@1", version=2)
    assert not (tmp_path / "open/versions").exists()


def test_a_name_with_a_version_is_a_store_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    copy_of_sealed(tmp_path / "stores/films")
    said = call_obygaze(
        "store", "withdraw", "films", "--film", FIRST_FILM, "--reason", REASON
    )
    assert said.code == 0 and "films@2: 5 clips of 1 film withdrawn" in said.stdout
    assert "23 with features" in call_obygaze("store", "verify", "films@1").stdout
    assert (
        "18 with features, 5 withdrawn"
        in call_obygaze("store", "verify", "films").stdout
    )
    assert '"ok": 23' in call_obygaze("store", "info", "films@1", "--json").stdout
    diff = call_obygaze("store", "diff", "films@1", "films@2")
    assert f"{CLIPS[0]}: ok here, withdrawn there" in diff.stdout
    log = call_obygaze("store", "log", "films")
    assert REASON in log.stdout and "withdrawn: 5 clips, 1 film" in log.stdout
    copied = call_obygaze("store", "subset", "films@1", "-o", "before")
    assert copied.code == 0, copied.stderr
    assert_reads(open_store(tmp_path / "stores/before"), is_withdrawn())
    refused = call_obygaze("store", "subset", "films@1", "-o", "before@1")
    assert refused.code == 2 and "stands for a version" in refused.stderr
    missing = call_obygaze("store", "info", "films@7")
    assert missing.code == 1 and "no version 7, the newest is 2" in missing.stderr


def test_a_sha256_of_an_earlier_version_says_where_it_is(store):
    first = open_store(store).seal_sha256
    withdraw(store, films=[FIRST_FILM], reason=REASON)
    assert_reads(open_store(f"{store}@1", expect=first), is_withdrawn())
    with pytest.raises(Mismatch, match="version 2 of the expected store") as error:
        _ = open_store(store, expect=first).sealed
    assert f"{store}@1" in error.value.hint


def test_a_licence_that_is_stated_later_is_that_of_every_version(store):
    from obygaze_features.store import state_licence

    withdraw(store, films=[FIRST_FILM], reason=REASON)
    state_licence(store, licence="CC-BY-4.0", replace=True)
    assert open_store(store).licence == "CC-BY-4.0"
    assert open_store(store, version=1).licence == "CC-BY-4.0"


# Kills and meetings.


def withdraw_first(store: Path) -> None:
    withdraw(store, films=[FIRST_FILM], reason=REASON)


def assert_one_or_the_other(store: Path) -> int:
    """The newest version is the first or the second, whole; return which."""
    opened = open_store(store)
    number = opened.version
    assert_reads(opened, is_withdrawn(*[FIRST_FILM][: number - 1]))
    report = verify(store, hashes=True)
    assert not report.problems, report.problems
    assert_reads(open_store(store, version=1), is_withdrawn())
    return number


def test_a_publication_that_was_stopped_is_read_as_the_version_before(
    store, monkeypatch
):
    """A block, store.json or the card of the next version is in its place, and the seal is not."""
    from obygaze_features.store.write import publication

    def stop(source: Path, root: Path, name: str) -> None:
        if name == "seal.json":
            raise KeyboardInterrupt
        move(source, root, name)

    move = publication._move
    monkeypatch.setattr(publication, "_move", stop)
    with pytest.raises(KeyboardInterrupt):
        withdraw_first(store)
    monkeypatch.undo()
    assert assert_one_or_the_other(store) == 1
    warnings = "\n".join(verify(store, hashes=True).warnings)
    assert "not the file of this version" in warnings
    assert "the publication of a version is not finished" in warnings
    clean_versions(store)
    assert assert_one_or_the_other(store) == 2
    assert not verify(store, hashes=True).warnings


def test_a_damaged_file_is_not_made_part_of_a_version(store):
    path = store / "data.zarr/clip/c.0.0"
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    path.write_bytes(data)
    before = tree(store)
    with pytest.raises(Corrupt):
        withdraw(store, clips=CLIPS[3:4], reason=REASON)
    assert tree(store) == before and not list(store.glob("versions/new*"))


# Folders of strangers.


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    Path(path).chmod(0o644)
    path.write_bytes(data)


@pytest.fixture
def two(store) -> Path:
    withdraw(store, films=[FIRST_FILM], reason=REASON)
    return store


def test_every_kept_file_that_is_flipped_missing_or_a_link_is_found(two, tmp_path):
    kept = sorted((two / "versions/files").iterdir())
    assert len(kept) > 5
    for number, path in enumerate(kept):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(two, copy)
        place = copy / path.relative_to(two)
        flip(place)
        assert verify(copy, hashes=True).problems
        assert_reads(open_store(copy), is_withdrawn(FIRST_FILM))
        assert_never_believed(copy)
        place.unlink()
        place.symlink_to(path)
        assert verify(copy).problems or verify(copy, hashes=True).problems
        assert_never_believed(copy)
        place.unlink()
        assert_never_believed(copy)


def assert_never_believed(store: Path) -> None:
    """The first version reads as it was, or not at all."""
    try:
        old = open_store(store, version=1)
        report = verify(old, hashes=True)
        if not report.problems:
            assert_reads(old, is_withdrawn())
            return
        assert old.matrix("clip").values.shape == (23, 4)
    except ObygazeError:
        return
    assert np.array_equal(old.matrix("clip").values, VALUES["clip"])


def test_folders_that_are_links_are_refused(two, tmp_path):
    outside = tmp_path / "outside"
    shutil.copytree(two / "versions", outside)
    shutil.rmtree(two / "versions")
    (two / "versions").symlink_to(outside)
    with pytest.raises(FixInput, match="symbolic links"):
        open_store(two, version=1)
    before = tree(outside)
    with pytest.raises(FixInput, match="symbolic links"):
        withdraw(two, films=[SECOND_FILM], reason=REASON)
    assert tree(outside) == before


def test_a_publication_of_a_stranger_writes_no_file_of_another_name(two, tmp_path):
    """versions/next of a folder that somebody sent names a file that other programs run."""
    withdraw_again = {"films": [SECOND_FILM], "reason": REASON}
    honest = tmp_path / "honest"
    shutil.copytree(two, honest)
    with new_version(honest, open_store(honest)) as draft:
        tag = draft.prepared.tag
        shutil.copytree(draft.prepared.attempt, tmp_path / "attempt")
    seal = (two / "seal.json").read_bytes()
    for name in ("../outside", ".git/config", "data.zarr/../../outside", "zarr.py"):
        store = tmp_path / "hostile"
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(two, store)
        folder = store / NEXT
        folder.mkdir()
        content = b"print('run')"
        document = {
            "format": "obygaze-store",
            "version": 1,
            "base": hashlib.sha256(seal).hexdigest(),
            "seal": [len(seal), hashlib.sha256(seal).hexdigest()],
            "names": [name],
            "files": {name: [len(content), hashlib.sha256(content).hexdigest()]},
        }
        (folder / f"publication.{tag}").write_bytes(with_checksum(document))
        (folder / f"seal.{tag}").write_bytes(seal)
        (folder / f"0.{tag}").write_bytes(content)
        assert json.loads((folder / f"publication.{tag}").read_bytes())["names"] == [
            name
        ]
        with pytest.raises(ObygazeError):
            withdraw(store, **withdraw_again)
        assert not (tmp_path / "outside").exists() and not (store / "zarr.py").exists()
        assert not (store / ".git").exists()
        assert_reads(open_store(store), is_withdrawn(FIRST_FILM))


def test_an_entry_with_a_changed_past_is_refused(two):
    """Who writes another reason into the entry of a version cannot give it the listed sha256."""
    for path in (two / "versions/files").iterdir():
        data = path.read_bytes()
        if b'"created"' in data and b"store_version" in data:
            path.write_bytes(data.replace(b'"created"', b'"CREATED"'))
    with pytest.raises(Corrupt, match="is damaged"):
        store_log(two)
    with pytest.raises(Corrupt, match="is damaged"):
        open_store(two, version=1)
    assert_reads(open_store(two), is_withdrawn(FIRST_FILM))


# Purged stores, and what was made with withdrawn clips.


def planted_store(path: Path) -> bytes:
    """A sealed store whose first film has a pattern in every array; return the pattern."""

    pattern = np.array([1.5, -2.25, 3.125, -4.0625], np.float32)
    plan = plan_store(path)
    values = some_values(23, plan.arrays)
    rows = [row for row, film in enumerate(FILMS) if film == FIRST_FILM]
    values["clip"][rows] = pattern
    values["frames"][rows] = pattern.astype(np.float16)
    fill_store(path, values).seal()
    return pattern.tobytes()


def holds(data: bytes, pattern: bytes) -> bool:
    halves = np.frombuffer(pattern, np.float32).astype(np.float16).tobytes()
    return pattern in data or halves in data


@pytest.mark.parametrize("gathers", [False, True])
def test_a_planted_pattern_is_nowhere_in_a_purged_store(tmp_path, monkeypatch, gathers):
    if gathers:
        gather_all(monkeypatch)
    store, purged = tmp_path / "s", tmp_path / "purged"
    pattern = planted_store(store)
    assert (store / "gathered").exists() == gathers
    withdraw(store, films=[FIRST_FILM], reason=REASON)
    assert any(holds(data, pattern) for data in tree(store / "versions").values())
    assert not any(holds(data, pattern) for data in tree(store / "data.zarr").values())
    assert not any(holds(data, pattern) for data in tree(store / "gathered").values())
    made = purge(store, purged)
    assert not any(holds(data, pattern) for data in tree(purged).values())
    assert not (purged / "versions").exists() and made.n_withdrawn == 5
    pack(purged, tmp_path / "purged.zip")
    push(purged, tmp_path / "pushed")
    assert not holds((tmp_path / "purged.zip").read_bytes(), pattern)
    assert not any(holds(data, pattern) for data in tree(tmp_path / "pushed").values())
    opened = open_store(purged)
    first, replaced = opened.plan.replaced_versions
    assert first.seal_sha256 == open_store(store, version=1).seal_sha256
    in_file = json.loads((purged / "store.json").read_bytes())["replaces"][-1]
    assert in_file["seal_sha256"] == replaced.seal_sha256 and in_file["version"] == 2
    assert replaced.seal_sha256 == open_store(store).seal_sha256 != opened.seal_sha256
    assert (replaced.version, replaced.reason) == (2, REASON)
    assert (
        opened.status().status_of_row[0] == open_store(store).status().status_of_row[0]
    )
    assert not verify(purged, hashes=True).problems
    # Whoever purges that version makes the same store.
    again = purge(store, tmp_path / "again")
    assert again.seal_sha256 == made.seal_sha256
    with pytest.raises(FixInput, match="no clip of this store is withdrawn"):
        purge(copy_of_sealed(tmp_path / "whole"), tmp_path / "third")


def test_what_is_made_of_an_earlier_version_says_which_clips_are_withdrawn_now(
    store, tmp_path
):
    withdraw(store, films=[FIRST_FILM], reason=REASON)
    text = "has the features of 2 clips withdrawn in a later version of the store"
    chosen = [*CLIPS[:2], CLIPS[9]]
    part = subset(f"{store}@1", tmp_path / "part", clips=chosen)
    assert part.withdrawn_later == 2 and text in part.warnings[0]
    assert merge([f"{store}@1"], tmp_path / "merged").withdrawn_later == 5
    exported = export_store(f"{store}@1", tmp_path / "e.npz", "npz")
    assert exported.withdrawn_later == 5 and "of 5 clips" in exported.warnings[0]
    assert not subset(store, tmp_path / "newest", clips=chosen).warnings
    # The clips stay withdrawn in what is merged with the newest version.
    both = merge([f"{store}@1", store], tmp_path / "both")
    assert not both.withdrawn_later and not both.warnings
    assert not export_store(store, tmp_path / "f.npz", "npz").warnings


def test_a_purge_of_an_earlier_version_is_refused(store, tmp_path):
    withdraw(store, films=[FIRST_FILM], reason=REASON)
    withdraw(store, films=[SECOND_FILM], reason=REASON)
    with pytest.raises(FixUsage, match="the newest version of a store is purged"):
        purge(f"{store}@2", tmp_path / "purged")


def test_a_merge_never_brings_a_withdrawn_clip_back(store, tmp_path):
    before = copy_of_sealed(tmp_path / "before")
    withdraw(store, films=[FIRST_FILM], reason=REASON)
    for number, sources in enumerate([(before, store), (store, before)]):
        merged = tmp_path / f"merged-{number}"
        merge(sources, merged)
        assert_reads(open_store(merged), is_withdrawn(FIRST_FILM))
        assert open_store(merged).status().status_of_row[0].message == REASON


def test_a_merge_for_a_larger_manifest_leaves_no_withdrawn_clip_to_extract(
    store, tmp_path
):
    withdraw(store, clips=CLIPS[1:2], reason=REASON)
    part = tmp_path / "part"
    subset(store, part, clips=CLIPS[:9])
    # In blocks of four: the last of them has one clip of the part.
    manifest = ManifestClips("larger", "34" * 32, CLIPS, FILMS)
    merged = merge([part], tmp_path / "merged", manifest=manifest)
    assert merged.pending_blocks == 4
    assert open_store(merged.path).status().status_of_row[1].is_withdrawn
    withdraw(part, clips=CLIPS[8:9], reason=REASON)
    with pytest.raises(FixInput, match="1 withdrawn clip would be extracted again"):
        merge([part], tmp_path / "second", manifest=manifest)
    assert not (tmp_path / "second").exists()


def test_a_purged_store_of_many_withdrawals_has_each_reason_twice_at_most(
    store, tmp_path
):
    reasons = [f"letter of somebody, number {number}" for number in range(6)]
    for clip, reason in zip(CLIPS, reasons, strict=False):
        withdraw(store, clips=[clip], reason=reason)
    purged = purge(store, tmp_path / "purged").path
    replaced = open_store(purged).plan.replaced_versions
    assert [version.reason for version in replaced[:-1]] == ["", *reasons[:-1]]
    assert replaced[-1].reason == "; ".join(reasons)
    text = (purged / "store.json").read_text("utf-8")
    assert [text.count(reason) for reason in reasons] == [2, 2, 2, 2, 2, 1]


def test_the_entry_of_a_version_of_very_many_single_rows_is_read(tmp_path):
    rows = tuple((row, row + 1) for row in range(0, 300_000, 2))
    made = StoreVersion(
        2, "withdrawn", REASON, "", "2026-01-01", {}, rows, FileMark(1, "12" * 32)
    )
    entry = VersionEntry(
        seal=FileMark(1, "34" * 32), store=FileMark(1, "56" * 32), store_version=made
    )
    mark = keep_bytes(tmp_path, entry.to_bytes(), tmp_path)
    assert mark.n_bytes > 4_000_000
    read = read_entry(FolderFiles(tmp_path), mark)
    assert read is not None and read.store_version == made


def test_a_reason_or_a_seal_that_no_reader_could_take_makes_no_version(
    store, monkeypatch
):
    with pytest.raises(FixUsage, match="at most 1,000 characters, got 1,001"):
        withdraw(store, clips=CLIPS[:1], reason="x" * 1001)
    with pytest.raises(FixUsage, match="the author must have at most 1,000"):
        withdraw(store, clips=CLIPS[:1], reason=REASON, author="x" * 1001)
    monkeypatch.setattr(version_module, "DOCUMENT_BYTES", 10_000)
    with pytest.raises(FixInput, match="the list of its files and rows would have"):
        withdraw(store, clips=CLIPS[:20], reason="x" * 1000)
    assert open_store(store).version == 1
    assert not verify(store, hashes=True).problems


def test_uses_lists_runs_models_and_tables_with_withdrawn_clips(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = copy_of_sealed(tmp_path / "stores/films")
    fingerprint = open_store(store).fingerprint
    withdraw(store, films=[FIRST_FILM], reason=REASON)

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write(
        "runs/used/run.json",
        f'{{"stores": {{"x": {{"fingerprint": "{fingerprint}"}}}}}}',
    )
    write(
        "runs/used/predictions.csv",
        f"task,clip_id\na,{CLIPS[0]}\nb,{CLIPS[0]}\nb,{CLIPS[9]}\n",
    )
    write("runs/clean/run.json", f'{{"fingerprint": "{fingerprint}"}}')
    write("runs/clean/predictions.csv", f"task,clip_id\na,{CLIPS[9]}\n")
    write("runs/other/run.json", '{"fingerprint": "of another recipe"}')
    write("runs/other/predictions.csv", f"task,clip_id\na,{CLIPS[0]}\n")
    write("models/m/model.json", f'{{"features": {{"fingerprint": "{fingerprint}"}}}}')
    write("models/m/training-clips.csv", f"clip_id,score\n{CLIPS[1]},1\n{CLIPS[2]},0\n")
    write("predicted.csv", f"clip_id,score\n{CLIPS[3]},1\n")
    uses = store_uses("films")
    found = {(use.kind, use.name): use.clips for use in uses.uses}
    assert found == {
        ("run", "used"): (CLIPS[0],),
        ("model", "m"): (CLIPS[1], CLIPS[2]),
        ("table", "predicted.csv"): (CLIPS[3],),
    }
    assert uses.n_withdrawn == 5
    said = call_obygaze("store", "uses", "films")
    assert said.code == 0 and "training-clips.csv" in said.stdout
    first = store_uses("films@1")
    assert first.made_with == ("run clean", "run used", "model m")
    assert str(first).splitlines() == [
        "made with features of this recipe: run clean, run used, model m",
        "no clip of this store is withdrawn",
    ]


def test_uses_finds_copies_and_exports_anywhere_in_the_workspace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = copy_of_sealed(tmp_path / "stores/films")
    pack(store, tmp_path / "films.zip")
    shutil.copytree(store, tmp_path / "lab/given/films")
    for format, name in (
        ("parquet", "features"),
        ("npz", "f.npz"),
        ("npy", "arrays"),
    ):
        export_store(store, tmp_path / name, format)
    columns = {"clip_id": [CLIPS[0], CLIPS[9]], "score": [0.5, 0.25]}
    for suffix in (".xlsx", ".parquet", ".json", ".csv"):
        write_table(tmp_path / f"predicted{suffix}", columns)
        clean = {"clip_id": [CLIPS[9]]}
        write_table(tmp_path / f"clean{suffix}", clean)
    (tmp_path / "broken.parquet").write_bytes(b"no table")
    (tmp_path / "empty.npz").touch()
    (tmp_path / "cut.npz").write_bytes((tmp_path / "f.npz").read_bytes()[:500])
    np.save(tmp_path / "array.npy", np.arange(3))
    (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    packed = bytearray((tmp_path / "f.npz").read_bytes())
    packed[packed.index(b"NUMPY") + 80] ^= 1
    (tmp_path / "damaged.npz").write_bytes(packed)
    withdraw(store, films=[FIRST_FILM], reason=REASON)
    export_store(store, tmp_path / "later.npz", "npz")
    uses = store_uses("films")
    n_clips = {(use.kind, use.name): len(use.clips) for use in uses.uses}
    assert n_clips == {
        ("store", "films.zip"): 5,
        ("store", "lab/given/films"): 5,
        ("export", "features"): 5,
        ("export", "f.npz"): 5,
        ("export", "arrays"): 5,
        ("table", "predicted.xlsx"): 1,
        ("table", "predicted.parquet"): 1,
        ("table", "predicted.json"): 1,
        ("table", "predicted.csv"): 1,
    }
    notes = " ".join(uses.notes)
    assert "not looked into: HDF5" in notes and "not read: broken.parquet" in notes
    for name in ("empty", "cut", "array", "damaged"):
        assert f"not read: {name}.npz: not a complete npz file" in notes


def test_uses_misses_no_copy_or_table_silently(tmp_path, monkeypatch):
    """A zip beside a folder of its name, other separators; what cannot be read is named."""
    monkeypatch.chdir(tmp_path)
    store = copy_of_sealed(tmp_path / "stores/films")
    pack(store, tmp_path / "stores/films.zip")
    for folder in ("stores/backup", "lab/films"):
        shutil.copytree(store, tmp_path / folder)
        seal = tmp_path / folder / "seal.json"
        seal.write_bytes(seal.read_bytes()[:-50])
    withdraw(store, films=[FIRST_FILM], reason=REASON)
    (tmp_path / "french.csv").write_text(f"clip_id ;niveau\n{CLIPS[0]};S\n")
    (tmp_path / "columns.tsv").write_text(f"level\tclip_id\nS\t{CLIPS[1]}\n")
    (tmp_path / "old.csv").write_bytes(
        f"clip_id,caf\xe9\n{CLIPS[0]},1\n".encode("cp1252")
    )
    (tmp_path / "long.csv").write_text(f"clip_id,x\n{CLIPS[0]},{'x' * 200_000}\n")
    with zipfile.ZipFile(tmp_path / "pictures.zip", "w") as packed:
        packed.writestr("a.txt", "no store")
    uses = store_uses("films")
    assert {(use.kind, use.name): len(use.clips) for use in uses.uses} == {
        ("store", "films.zip"): 5,
        ("table", "french.csv"): 1,
        ("table", "columns.tsv"): 1,
    }
    not_read = [note.split(": ")[1] for note in uses.not_read]
    assert sorted(not_read) == ["lab/films", "long.csv", "old.csv", "stores/backup"]


@pytest.mark.parametrize(
    "value",
    [
        "7",
        "[]",
        "{}",
        '{"number": 0, "change": "rows", "reason": "", "author": "", "date": ""}',
        '{"number": 2, "change": 5, "reason": "", "author": "", "date": ""}',
        '{"number": 2, "change": "rows", "reason": "", "author": "", "date": ""}',
        '{"number": 1, "change": "rows", "reason": "", "author": "", "date": "", '
        '"previous": [3, "x"]}',
        '{"number": 2, "change": "rows", "reason": "", "author": "", "date": "", '
        '"previous": [-1, "' + "a" * 64 + '"]}',
    ],
)
def test_a_seal_with_an_invalid_version_is_refused(store, value):
    document = json.loads((store / "seal.json").read_bytes())
    del document["sha256"]
    document["store_version"] = json.loads(value)
    (store / "seal.json").write_bytes(with_checksum(document))
    with pytest.raises(Corrupt):
        _ = open_store(store).sealed


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name")
def test_a_claim_that_is_a_pipe_or_a_link_is_refused(two, tmp_path):
    (two / NEXT).mkdir()
    os.mkfifo(two / NEXT / "publication.k0")
    with pytest.raises(FixInput, match="regular file"):
        withdraw(two, films=[SECOND_FILM], reason=REASON)
    (two / NEXT / "publication.k0").unlink()
    (two / NEXT / "publication.k0").symlink_to(two / "seal.json")
    with pytest.raises(FixInput, match="symbolic links"):
        withdraw(two, films=[SECOND_FILM], reason=REASON)
    (two / NEXT / "publication.k0").unlink()
    # What is no version is named, and readers do not mind.
    (two / NEXT / "junk").write_bytes(b"")
    with pytest.raises(AlreadyThere, match="what is in it is no version"):
        withdraw(two, films=[SECOND_FILM], reason=REASON)
    assert_reads(open_store(two), is_withdrawn(FIRST_FILM))


def test_a_store_that_lacks_a_file_gets_no_version(store):
    (store / "README.md").unlink()
    with pytest.raises(Corrupt, match=r"README\.md does not have the bytes"):
        withdraw(store, films=[FIRST_FILM], reason=REASON)
    assert open_store(store).version == 1


def test_a_purged_store_is_never_taken_for_another_one_that_is_there(store, tmp_path):
    """It has the same clips and arrays, and the features that are withdrawn."""
    withdraw(store, clips=[CLIPS[0]], reason="asked for")
    subset(store, tmp_path / "earlier")
    purge(store, tmp_path / "purged")
    purge(store, tmp_path / "purged")  # as after a stop
    withdraw(store, clips=[CLIPS[1]], reason="asked for")
    for name in ("earlier", "purged", store.name):
        before = tree(tmp_path / name)
        with pytest.raises(AlreadyThere, match="another store is here"):
            purge(store, tmp_path / name)
        assert tree(tmp_path / name) == before
    purge(store, tmp_path / "again")
    assert open_store(tmp_path / "again").status().counts["withdrawn"] == 2
