"""Pulls: of whole stores and of parts, and what is refused."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cli import call_obygaze
from support.store_servers import web_server
from support.stores import (
    ARRAYS,
    a_recipe,
    copy_of_sealed,
    fill_store,
    partial_copy,
    plan_store,
    sealed_store,
    some_values,
    tree,
)

from obygaze_features.core import holds
from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixInput,
    Mismatch,
    NotFound,
    ObygazeError,
    Stopped,
)
from obygaze_features.store import RowStatus, StoreWriter, open_store, push
from obygaze_features.store.format.schema import TextTable
from obygaze_features.store.interchange.export import export_store
from obygaze_features.store.read.describe import summary
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote import fetch as fetch_module
from obygaze_features.store.remote.fetch import pull
from obygaze_features.store.remote.object_store import Unreachable, explained
from obygaze_features.store.remote.selection import select_files
from obygaze_features.store.remote.send import pack
from obygaze_features.store.write.edit import merge, subset

FAR = f"k{'0' * 15}.{'0' * 12}"
DATA = Path(__file__).parents[3] / "data"
# A part of the store beside it, pulled by a version that made partial copies.
PARTIAL_COPY = DATA / "partial-copy"
SEALED_ARCHIVE = DATA / "store-v1/sealed"
# The polynomial of CRC32C, lowest bits first: bytes that differ by it have the same CRC32C.
SAME_CRC32C = (1 | 0x82F63B78 << 1).to_bytes(5, "little")


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_module, "PAUSE_S", 0.0)


class Bytes:
    def __init__(self) -> None:
        self.total = self.expected = 0

    def expect(self, total: int, unit: str = "clips") -> None:
        self.expected, self.unit = total, unit

    def advance(self, amount: int = 1) -> None:
        self.total += amount

    def remark(self, text: str) -> None:
        pass


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    return copy_of_sealed(tmp_path / "from" / "s")


def test_a_pulled_store_is_the_same_byte_for_byte(tmp_path: Path, sealed: Path) -> None:
    counter = Bytes()
    with web_server(sealed) as server:
        done = pull(server.url, tmp_path / "got", progress=counter)
        assert done.n_bytes_transferred == server.n_bytes
        assert done.n_requests == len(server.requests)
    everything = tree(sealed)
    assert tree(tmp_path / "got") == everything
    documents = sum(len(everything[name]) for name in ("store.json", "seal.json"))
    assert counter.total == sum(map(len, everything.values())) - documents
    assert (counter.expected, counter.unit) == (counter.total, "B")
    assert (
        done.n_bytes_needed
        == done.n_bytes_transferred
        == sum(map(len, everything.values()))
    )
    assert done.n_bytes_rows == 23 * (4 * 4 + 6 * 4 + 12 * 2 + 3 * 8)
    assert not done.part


def test_a_folder_is_a_place_to_pull_from_too(tmp_path: Path, sealed: Path) -> None:
    pull(sealed, tmp_path / "got")
    assert tree(tmp_path / "got") == tree(sealed)


def test_one_film_and_one_array_are_a_store_of_its_own(
    tmp_path: Path, sealed: Path
) -> None:
    # Film tt0000101 is rows 5 to 9: blocks 1 and 2 of four rows each.
    with web_server(sealed) as server:
        done = pull(
            server.url, tmp_path / "got", arrays=["pooled"], films=["tt0000101"]
        )
        blocks = sorted(
            path for path in server.requests if "/c." in path and "_id" not in path
        )
    assert blocks == [
        "/data.zarr/pooled/c.1.0",
        "/data.zarr/pooled/c.2.0",
        "/data.zarr/time_s/c.1.0",
        "/data.zarr/time_s/c.2.0",
    ]
    assert done.part
    assert done.n_bytes_rows == 5 * (6 * 4 + 3 * 8)
    store = open_store(tmp_path / "got")
    whole = open_store(sealed)
    # The neighbours in the same blocks are not in it.
    assert store.clip_ids.tolist() == [f"tt0000101-00{n}" for n in range(1, 6)]
    assert store.feature_arrays == ("pooled",)
    np.testing.assert_array_equal(
        store.matrix("pooled").values,
        whole.matrix("pooled", films=["tt0000101"]).values,
    )
    np.testing.assert_array_equal(
        store.matrix("time_s").values,
        whole.matrix("time_s", films=["tt0000101"]).values,
    )
    assert store.sealed and store.terms == whole.terms
    assert store.fingerprint == whole.fingerprint
    assert not (tmp_path / "got/partial.json").exists()
    verify(tmp_path / "got", hashes=True).require_whole()


def test_some_arrays_are_the_same_files_with_a_seal_of_their_own(
    tmp_path: Path, sealed: Path
) -> None:
    with web_server(sealed) as server:
        done = pull(server.url, tmp_path / "got", arrays=["clip"])
        assert not any("pooled" in path or "frames" in path for path in server.requests)
    assert done.part and done.n_bytes_rows == 23 * (4 * 4 + 3 * 8)
    there, whole = tree(tmp_path / "got"), tree(sealed)
    own = {"store.json", "seal.json", "README.md"}
    assert there.keys() == {
        name for name in whole if "/pooled/" not in name and "/frames/" not in name
    }
    assert {name for name in there if there[name] != whole[name]} == own
    store = open_store(tmp_path / "got")
    assert store.feature_arrays == ("clip",) and store.n_clips == 23
    np.testing.assert_array_equal(
        store.matrix("clip").values, open_store(sealed).matrix("clip").values
    )
    assert "`clip`" in there["README.md"].decode()
    assert "`pooled`" not in there["README.md"].decode()
    verify(tmp_path / "got", hashes=True).require_whole()


def test_a_part_says_where_it_is_from(tmp_path: Path, sealed: Path) -> None:
    whole = open_store(sealed)
    pull(sealed, tmp_path / "levels", arrays=["pooled", "clip"])
    pull(sealed, tmp_path / "films", films=["tt0000101", "tt0000100"])
    pull(tmp_path / "levels", tmp_path / "both", films=["tt0000100"])
    (of_arrays,) = open_store(tmp_path / "levels").plan.origins
    (of_films,) = open_store(tmp_path / "films").plan.origins
    # The sha256 of the files, as any program computes it.
    for origin in (of_arrays, of_films):
        assert origin.seal_sha256 == sha256_of(sealed / "seal.json")
        assert origin.store_sha256 == sha256_of(sealed / "store.json")
    assert (of_arrays.levels, of_arrays.films) == (("pooled", "clip"), None)
    assert (of_films.levels, of_films.films) == (None, ("tt0000100", "tt0000101"))
    # A part of a part names both, the first publisher first.
    first, second = open_store(tmp_path / "both").plan.origins
    assert first == of_arrays
    assert second.seal_sha256 == sha256_of(tmp_path / "levels/seal.json")
    assert whole.plan.origins == ()
    described = summary(open_store(tmp_path / "both"))["origins"]
    assert described == [asdict(first), asdict(second)]


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "chosen", [{"arrays": ["clip"]}, {"films": ["tt0000102"], "arrays": ["frames"]}]
)
def test_the_same_part_has_the_same_bytes_wherever_it_is_from(
    tmp_path: Path, sealed: Path, chosen: dict[str, list[str]]
) -> None:
    pack(open_store(sealed), tmp_path / "s.zip")
    pull(sealed, tmp_path / "one", **chosen)
    pull(tmp_path / "s.zip", tmp_path / "two", **chosen)
    with web_server(sealed) as server:
        pull(server.url, tmp_path / "three", **chosen)
    push(open_store(sealed), tmp_path / "four", **chosen)
    expected = tree(tmp_path / "one")
    for name in ("two", "three", "four"):
        assert tree(tmp_path / name) == expected
    # The same again changes nothing, and fetches none of its files.
    again = pull(sealed, tmp_path / "one", **chosen)
    assert tree(tmp_path / "one") == expected
    assert again.n_files_kept > 0 and again.part


def test_a_part_does_not_grow(tmp_path: Path, sealed: Path) -> None:
    pull(sealed, tmp_path / "levels", arrays=["clip"])
    pull(sealed, tmp_path / "films", films=["tt0000100"])
    before = tree(tmp_path)
    for name in ("levels", "films"):
        for chosen in (
            {"arrays": ["clip", "pooled"]},
            {"films": ["tt0000101"]},
            {},
        ):
            with pytest.raises(AlreadyThere, match="another part of this one") as error:
                pull(sealed, tmp_path / name, **chosen)
            assert "another name" in error.value.hint
    # Nor does a whole store become a part.
    for chosen in ({"arrays": ["clip"]}, {"films": ["tt0000101"]}):
        with pytest.raises(AlreadyThere, match="another part"):
            pull(tmp_path / "from/s", sealed, **chosen)
    assert tree(tmp_path) == before


def test_stores_of_films_are_merged(tmp_path: Path, sealed: Path) -> None:
    pull(sealed, tmp_path / "one", films=["tt0000100"])
    pull(sealed, tmp_path / "two", films=["tt0000101", "tt0000102"])
    parts = [open_store(tmp_path / name) for name in ("one", "two")]
    assert merge(parts, tmp_path / "both").sealed
    np.testing.assert_array_equal(
        open_store(tmp_path / "both").matrix("frames").values,
        open_store(sealed).matrix("frames").values[:15],
    )


def test_all_arrays_or_all_films_are_the_whole_store(
    tmp_path: Path, sealed: Path
) -> None:
    store = open_store(sealed)
    films = sorted(set(store.movie_ids.tolist()))
    pull(sealed, tmp_path / "got", arrays=store.feature_arrays, films=films)
    assert tree(tmp_path / "got") == tree(sealed)


def test_a_part_has_an_array(tmp_path: Path, sealed: Path) -> None:
    for films in (None, ["tt0000100"]):
        with pytest.raises(
            FixInput, match="no array of features is selected, got time_s"
        ):
            pull(sealed, tmp_path / "got", arrays=["time_s"], films=films)
    with pytest.raises(FixInput, match="no clip of the store is selected"):
        pull(sealed, tmp_path / "got", films=[])
    assert not (tmp_path / "got").exists()


def test_rows_that_failed_and_texts_are_in_a_part(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    failed = RowStatus.failed("decode", "Error", "why")
    writer = fill_store(tmp_path / "s", some_values(23), {6: failed, 20: failed})
    vectors = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    words = ["a woman", "a man"]
    writer.add_text(TextTable(vectors, words, ["{}"] * 2, ["Body"] * 2, "toy@main"))
    writer.seal()
    pull(tmp_path / "s", tmp_path / "film", films=["tt0000101"])
    pull(tmp_path / "s", tmp_path / "level", arrays=["clip"])
    for name, counts in (
        ("film", {"ok": 4, "failed": 1}),
        ("level", {"ok": 21, "failed": 2}),
    ):
        store = open_store(tmp_path / name)
        assert store.status().counts == counts
        assert str(store.status().status_of_row[1 if name == "film" else 6]) == str(
            failed
        )
        text = store.text()
        assert text is not None and list(text.prompt) == words
        np.testing.assert_array_equal(text.embeddings, vectors)
        verify(tmp_path / name, hashes=True).require_whole()


@pytest.mark.parametrize("name", ["data.zarr/frames/c.2.0.0", "data.zarr/clip/c.1.0"])
def test_a_forged_file_does_not_become_part_of_a_store(
    tmp_path: Path, sealed: Path, name: str
) -> None:
    """Its length and CRC32C are right, as whoever changes a file can make them."""
    array = name.split("/")[1]
    before = open_store(sealed).matrix(array).values
    path = sealed / name
    data = bytearray(path.read_bytes())
    for place, bits in enumerate(SAME_CRC32C):
        data[place] ^= bits
    path.write_bytes(data)
    # A reader of some rows does not see it.
    assert not np.array_equal(open_store(sealed).matrix(array).values, before)
    for chosen in ({"arrays": [array]}, {"films": ["tt0000101"]}):
        with pytest.raises(Corrupt, match="does not have the checksum"):
            pull(sealed, tmp_path / "got", **chosen)
        assert not (tmp_path / "got").exists()


def test_a_partial_copy_of_an_earlier_version_is_read_but_not_sent(
    tmp_path: Path, sealed: Path
) -> None:
    part = partial_copy(sealed, tmp_path / "part", arrays=["pooled"])
    for work in (
        lambda: pull(part, tmp_path / "new"),
        lambda: pull(part, tmp_path / "new", arrays=["pooled"]),
        lambda: push(open_store(part), tmp_path / "new"),
        lambda: pack(open_store(part), tmp_path / "new.zip"),
    ):
        with pytest.raises(FixInput, match="this copy is partial") as error:
            work()
        assert "store subset" in error.value.hint
    assert not list(tmp_path.glob("new*"))
    with pytest.raises(AlreadyThere, match="another part"):
        pull(sealed, part, arrays=["clip"])
    # All of the store makes it whole.
    pull(sealed, part)
    assert tree(part) == tree(sealed)


def test_a_partial_copy_that_an_earlier_version_made_is_still_read(
    tmp_path: Path,
) -> None:
    shutil.copytree(PARTIAL_COPY, tmp_path / "part")
    store = open_store(tmp_path / "part")
    assert store.feature_arrays == ("clip",)
    found = store.matrix("clip", missing="drop")
    # Of the blocks of two rows that the film is in; row 2 failed.
    assert found.rows.tolist() == [0, 1, 3]
    np.testing.assert_array_equal(
        found.values,
        open_store(SEALED_ARCHIVE).matrix("clip", missing="nan").values[[0, 1, 3]],
    )
    last = str(store.clip_ids[4])
    assert "partial" in found.reasons[last].message
    assert not verify(tmp_path / "part", hashes=True).problems


def test_a_push_again_adds_what_the_store_has_meanwhile_then_its_seal(
    tmp_path: Path,
) -> None:
    values = some_values(23)
    plan_store(tmp_path / "s")
    for n_blocks in (2, 2, 3, 6):  # 2 again: nothing to add
        done = StoreWriter(tmp_path / "s").pending_blocks()
        fill_store(
            tmp_path / "s", values, blocks=[b for b in range(n_blocks) if b in done]
        )
        push(open_store(tmp_path / "s"), tmp_path / "copy")
        copy = open_store(tmp_path / "copy")
        np.testing.assert_array_equal(
            copy.matrix("frames", missing="drop").values,
            values["frames"][: 4 * n_blocks],
        )
        assert not verify(tmp_path / "copy", hashes=True).problems
        assert StoreWriter(tmp_path / "copy").pending_blocks() == [*range(n_blocks, 6)]
    StoreWriter(tmp_path / "s").seal()
    for _ in range(2):
        push(open_store(tmp_path / "s"), tmp_path / "copy")
        assert tree(tmp_path / "copy") == tree(tmp_path / "s")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_push_again_brings_rows_that_were_retried(tmp_path: Path) -> None:
    values = some_values(23)
    plan_store(tmp_path / "s")
    fill_store(tmp_path / "s", values, {5: RowStatus.failed("decode", "Error", "why")})
    push(open_store(tmp_path / "s"), tmp_path / "copy")
    row = {name: array[5:6] for name, array in values.items()}
    assert StoreWriter(tmp_path / "s").replace_rows(1, [5], row, [RowStatus()])
    push(open_store(tmp_path / "s"), tmp_path / "copy")
    assert open_store(tmp_path / "copy").status().counts == {"ok": 23}
    assert not verify(tmp_path / "copy", hashes=True).problems


def test_a_copy_that_went_its_own_way_is_not_written_to(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    fill_store(tmp_path / "s", some_values(23), blocks=[0])
    push(open_store(tmp_path / "s"), tmp_path / "copy")
    fill_store(tmp_path / "copy", some_values(23, seed=1), blocks=[1])
    before = tree(tmp_path / "copy")
    # Nothing to add, nothing in the way.
    push(open_store(tmp_path / "s"), tmp_path / "copy")
    for seal in (False, True):
        writer = StoreWriter(tmp_path / "s")
        fill_store(tmp_path / "s", some_values(23), blocks=writer.pending_blocks())
        if seal:
            writer.seal()
        with pytest.raises(
            AlreadyThere, match="block 1 of this copy has other contents"
        ):
            push(open_store(tmp_path / "s"), tmp_path / "copy")
        assert tree(tmp_path / "copy") == before


def test_the_same_pull_again_fetches_nothing_but_the_documents(
    tmp_path: Path, sealed: Path
) -> None:
    with web_server(sealed) as server:
        pull(server.url, tmp_path / "got")
        server.requests.clear()
        again = pull(server.url, tmp_path / "got")
        documents = ["/licence.json", "/partial.json", "/seal.json", "/store.json"]
        assert sorted(server.requests) == documents
    assert again.n_files_kept == again.n_files - 2


@pytest.mark.parametrize(
    "name",
    [
        "data.zarr/pooled/c.2.0",
        "data.zarr/clip_id/c.0",
        "data.zarr/zarr.json",
        "clips.csv",
        "README.md",
        "seal.json",
        "store.json",
    ],
)
def test_a_wrong_byte_anywhere_is_found_and_named(
    tmp_path: Path, sealed: Path, name: str
) -> None:
    data = bytearray((sealed / name).read_bytes())
    data[len(data) // 2] ^= 1
    (sealed / name).write_bytes(data)
    with web_server(sealed) as server, pytest.raises((Corrupt, Mismatch)) as found:
        pull(server.url, tmp_path / "got")
    assert name in str(found.value)
    assert not (tmp_path / "got").exists()


@pytest.mark.parametrize("change", [b"", b"short"])
def test_a_file_that_is_short_or_missing_is_named(
    tmp_path: Path, sealed: Path, change: bytes
) -> None:
    victim = sealed / "data.zarr/frames/c.1.0.0"
    victim.write_bytes(change) if change else victim.unlink()
    with (
        web_server(sealed) as server,
        pytest.raises(Corrupt, match=r"frames/c\.1\.0\.0"),
    ):
        pull(server.url, tmp_path / "got")


def test_a_store_that_grows_is_pulled_as_far_as_it_is(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    fill_store(
        tmp_path / "s", some_values(23), {4: RowStatus.no_video()}, blocks=[1, 3]
    )
    with web_server(tmp_path / "s") as server:
        pull(server.url, tmp_path / "got")
        with pytest.raises(FixInput, match="sealed"):
            pull(server.url, tmp_path / "other", arrays=["pooled"])
    found = open_store(tmp_path / "got")
    assert found.status().counts == {"ok": 7, "missing": 15, "no-video": 1}


@pytest.mark.parametrize("sealed_first", [True, False])
def test_texts_come_along(tmp_path: Path, sealed_first: bool) -> None:
    plan_store(tmp_path / "s")
    writer = fill_store(tmp_path / "s", some_values(23))
    words = ["a woman", "a man"]
    vectors = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    writer.add_text(TextTable(vectors, words, ["{}"] * 2, ["Body"] * 2, "toy@main"))
    if sealed_first:
        writer.seal()
    arrays = ["clip"] if sealed_first else None
    with web_server(tmp_path / "s") as server:
        pull(server.url, tmp_path / "got", arrays=arrays)
    text = open_store(tmp_path / "got").text()
    assert text is not None
    assert list(text.prompt) == words
    np.testing.assert_array_equal(text.embeddings, vectors)
    verify(tmp_path / "got", hashes=True).require_whole()


def test_other_stores_are_never_mixed(tmp_path: Path, sealed: Path) -> None:
    pull(sealed, tmp_path / "got")
    before = tree(tmp_path / "got")
    sealed_store(tmp_path / "other", recipe=a_recipe(sampling={"frames": 4}))
    with pytest.raises(Mismatch, match=r"sampling\.frames"):
        pull(tmp_path / "other", tmp_path / "got")
    sealed_store(tmp_path / "third", manifest_name="another")
    with pytest.raises(AlreadyThere, match="another store of this recipe"):
        pull(tmp_path / "third", tmp_path / "got")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(AlreadyThere):
        pull(sealed, tmp_path / "file")
    assert tree(tmp_path / "got") == before


def test_two_pulls_of_one_store_do_not_meet(tmp_path: Path, sealed: Path) -> None:
    with web_server(sealed, latency_s=0.2) as server:
        errors: list[ObygazeError] = []

        def work() -> None:
            try:
                pull(server.url, tmp_path / "got")
            except ObygazeError as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {type(error) for error in errors} <= {AlreadyThere}
    assert len(errors) < 3
    assert tree(tmp_path / "got") == tree(sealed)


PARTS: dict[str, dict[str, list[str]]] = {
    "array": {"arrays": ["clip"]},
    "film": {"films": ["tt0000102"]},
}


def no_lock(*_: object) -> None:
    raise OSError(errno.ENOLCK, "no locks here")


def test_two_machines_without_locks_pull_one_store(
    tmp_path: Path, sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has its own draft; the first to finish publishes it, the other finds it."""
    monkeypatch.setattr(fcntl, "flock", no_lock)
    publish, other = fetch_module._publish, []

    def late(draft: Path, target: Path) -> bool:
        if not other:  # another machine is as far as this one, and faster
            other.append("it")
            pull(sealed, target, arrays=arrays, films=films)
        return publish(draft, target)

    monkeypatch.setattr(fetch_module, "_publish", late)
    arrays = films = None
    assert not pull(sealed, tmp_path / "got").part
    assert tree(tmp_path / "got") == tree(sealed)
    # Both make the same part; of two parts, the later one is refused.
    for name, chosen in PARTS.items():
        other.clear()
        arrays, films = chosen.get("arrays"), chosen.get("films")
        assert pull(sealed, tmp_path / name, **chosen).part
        expected = tree(tmp_path / name)
        other.clear()
        arrays, films = ["pooled"], None
        with pytest.raises(AlreadyThere, match="another part"):
            pull(sealed, tmp_path / f"{name}-2", **chosen)
        pull(sealed, tmp_path / f"{name}-3", **chosen)
        assert tree(tmp_path / f"{name}-3") == expected
        assert open_store(tmp_path / f"{name}-2").feature_arrays == ("pooled",)


def a_draft(parent: Path, tag: str, sealed: Path) -> Path:
    """A draft of a pull to `got` in which one file has arrived."""
    draft = parent / f".got~{tag}.pull"
    (draft / "store").mkdir(parents=True)
    draft.chmod(0o700)
    (draft / "store/clips.csv").write_bytes((sealed / "clips.csv").read_bytes())
    return draft


def test_a_pull_of_an_ended_process_is_resumed_once(
    tmp_path: Path, sealed: Path
) -> None:
    ended = a_draft(tmp_path, holds.new_tag(tmp_path), sealed)
    less = tmp_path / f".got~{holds.new_tag(tmp_path)}.pull"
    less.mkdir(mode=0o700)
    far = a_draft(tmp_path, FAR, sealed)
    running = holds.hold_new(tmp_path, ".other~", ".pull", mode=0o700)
    with web_server(sealed) as server:
        done = pull(server.url, tmp_path / "got")
        assert "/clips.csv" not in server.requests and done.n_files_kept == 1
    assert tree(tmp_path / "got") == tree(sealed)
    assert not ended.exists() and not less.exists() and far.exists()
    with pytest.raises(AlreadyThere, match="another process is fetching"):
        pull(sealed, tmp_path / "other")
    running.release()
    pull(sealed, tmp_path / "other")
    assert {path.name for path in tmp_path.iterdir()} == {
        "from",
        "got",
        "other",
        far.name,
    }


def test_a_pull_of_another_machine_is_resumed_after_its_lease(
    tmp_path: Path, sealed: Path
) -> None:
    far = a_draft(tmp_path, FAR, sealed)
    for age_s, is_running in ((60, True), (180, False)):
        then = time.time() - age_s
        os.utime(far, (then, then))
        with web_server(sealed) as server:
            pull(server.url, tmp_path / "got")
            assert ("/clips.csv" in server.requests) == far.exists() == is_running
        shutil.rmtree(tmp_path / "got")


def test_a_pull_that_another_machine_took_over_stops_and_changes_nothing(
    tmp_path: Path, sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped for so long that its lease ended, and goes on when the other has finished."""
    fetch, done = fetch_module._Download._fetch, list[str]()

    def stopped_at_the_third_file(self: Any, name: str) -> None:
        done.append(name)
        if len(done) == 3:
            (draft,) = tmp_path.glob(".got~*.pull")
            far = draft.with_name(f".got~{FAR}.pull")
            draft.rename(far)
            os.utime(far, (0, 0))
            monkeypatch.setattr(fetch_module._Download, "_fetch", fetch)
            pull(sealed, tmp_path / "got")
        fetch(self, name)

    monkeypatch.setattr(fetch_module, "THREADS", 1)
    monkeypatch.setattr(fetch_module._Download, "_fetch", stopped_at_the_third_file)
    # Those of another machine are not seen.
    monkeypatch.setattr(fcntl, "flock", no_lock)
    with pytest.raises(Stopped, match="another machine took this work over"):
        pull(sealed, tmp_path / "got")
    assert tree(tmp_path / "got") == tree(sealed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["from", "got"]


def test_links_that_others_made_in_a_shared_folder_are_not_followed(
    tmp_path: Path, sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, tag = tmp_path / "home", holds.new_tag(tmp_path)
    (victim / "store/data.zarr").mkdir(parents=True)
    name, before = "data.zarr/clip/c.0.0", b"a letter of the user"
    (victim / "letter").write_bytes(before)
    shared = tmp_path / "shared"
    # Hidden folders that an attacker made before, and names that were used formerly.
    for number, draft in enumerate(
        (".got.pull", f".got~{tag}.pull", f".got~{FAR}.pull")
    ):
        folder = shared / draft
        if number == 2:
            folder.symlink_to(victim)
            continue
        place = folder / ("store" if number else ".") / name
        place.parent.mkdir(parents=True)
        (folder / "parts").mkdir()
        place.symlink_to(victim / "letter")
        folder.chmod(0o755)
    pull(sealed, shared / "got")
    assert tree(shared / "got") == tree(sealed)
    assert not [path for path in (shared / "got").rglob("*") if path.is_symlink()]
    assert (shared / "got").stat().st_mode & 0o777 == 0o777 & ~umask()
    # A link in a copy that is extended or repaired.
    (shared / "got" / name).unlink()
    (victim / "copy").write_bytes((sealed / name).read_bytes())
    (shared / "got" / name).symlink_to(victim / "copy")
    pull(sealed, shared / "got")
    assert not (shared / "got" / name).is_symlink() and (victim / "copy").exists()
    for path in (shared / "got/data.zarr/clip").iterdir():
        path.unlink()
    (shared / "got/data.zarr/clip").rmdir()
    (shared / "got/data.zarr/clip").symlink_to(victim)
    with pytest.raises(FixInput, match="leads out of its folder by a link"):
        pull(sealed, shared / "got")
    assert (victim / "letter").read_bytes() == before
    assert sorted(path.name for path in victim.iterdir()) == ["copy", "letter", "store"]


def umask() -> int:
    """The umask of this process."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("Umask:")[2].split()[0], 8)


def test_a_seal_that_promises_too_much_is_refused(
    tmp_path: Path, sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from obygaze_features.store.format.records import Seal
    from obygaze_features.store.format.schema import FileMark

    seal = Seal.from_bytes((sealed / "seal.json").read_bytes(), "")
    name = "data.zarr/pooled/c.0.0"
    huge = {**seal.files, name: FileMark(10**15, seal.files[name].sha256)}
    (sealed / "seal.json").write_bytes(replace(seal, files=huge).to_bytes())
    with (
        web_server(sealed) as server,
        pytest.raises(FixInput, match="its rows have 96"),
    ):
        pull(server.url, tmp_path / "got")
    for bad in ("../evil", "/etc/evil", "data.zarr\\evil"):
        files = {**seal.files, bad: FileMark(1, "00")}
        (sealed / "seal.json").write_bytes(replace(seal, files=files).to_bytes())
        with (
            web_server(sealed) as server,
            pytest.raises(Corrupt, match="invalid file name"),
        ):
            pull(server.url, tmp_path / "got")


@pytest.mark.parametrize("url", ["ftp://films/x", "gopher://x", "file:///etc"])
def test_addresses_that_nothing_is_read_from(tmp_path: Path, url: str) -> None:
    for words in (("info", url), ("pull", url), ("verify", url)):
        done = call_obygaze("store", *words, cwd=tmp_path)
        assert (done.code, done.stdout) == (2, "")
        assert "unsupported URL" in done.stderr


def test_a_full_disk_is_said_before_anything_is_fetched(
    tmp_path: Path, sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obygaze_features.store.format import limits

    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(limits.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(
        FixInput,
        match=r"needed and 1\.0 kB are free on this disk, of which 64\.0 MB must",
    ):
        pull(sealed, tmp_path / "got")


def test_what_cannot_be_reached_is_said_in_words(tmp_path: Path, sealed: Path) -> None:
    with web_server(sealed) as server:
        pass
    with pytest.raises(Unreachable, match="connection failed") as error:
        pull(server.url, tmp_path / "got")
    assert error.value.exit_code == 1  # not 75: nothing was begun that could go on
    assert "address" in str(error.value.hint)
    with pytest.raises(Unreachable, match="connection failed"):
        open_store(server.url)
    with (
        web_server(tmp_path) as server,
        pytest.raises(NotFound, match=r"no store\.json"),
    ):
        pull(f"{server.url}/nothing", tmp_path / "got")


def test_a_link_in_a_folder_is_never_followed(tmp_path: Path, sealed: Path) -> None:
    (tmp_path / "secret").write_bytes((sealed / "data.zarr/clip/c.0.0").read_bytes())
    (sealed / "data.zarr/clip/c.0.0").unlink()
    (sealed / "data.zarr/clip/c.0.0").symlink_to(tmp_path / "secret")
    with pytest.raises(FixInput, match="symbolic link"):
        pull(sealed, tmp_path / "got")
    assert not (tmp_path / "got").exists()


def test_a_bucket_without_keys_is_said_to_want_them() -> None:

    line = "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 2 ms"
    error = explained(RuntimeError(line), "s3://films/x")
    assert isinstance(error, FixInput)
    assert "AWS_ACCESS_KEY_ID" in str(error.hint)
    line = "Generic HTTP error: Error performing GET http://x, after 3 retries - HTTP error: gone"
    assert (
        explained(RuntimeError(line), "http://x").message
        == "the connection failed: gone"
    )


def test_a_damaged_copy_is_mended_by_the_same_pull(
    tmp_path: Path, sealed: Path
) -> None:
    pull(sealed, tmp_path / "got")
    (tmp_path / "got" / "data.zarr/pooled/c.2.0").write_bytes(b"?" * 100)
    (tmp_path / "got" / "data.zarr/clip/c.1.0").unlink()
    (tmp_path / "got" / "clips.csv").write_bytes(b"edited")
    again = pull(sealed, tmp_path / "got")
    assert again.n_files - again.n_files_kept == 3 + 2
    assert tree(tmp_path / "got") == tree(sealed)


@settings(max_examples=15)
@given(
    arrays=st.sets(st.sampled_from(["clip", "pooled", "frames"]), min_size=1),
    films=st.none() | st.sets(st.integers(0, 4), min_size=1),
)
def test_any_part_is_what_was_asked_for(
    tmp_path_factory: pytest.TempPathFactory,
    arrays: set[str],
    films: set[int] | None,
) -> None:
    """What was asked for is there and right, and nothing else."""
    root = tmp_path_factory.mktemp("parts")
    sealed = copy_of_sealed(root / "s")
    whole = open_store(sealed)
    names = films and [f"tt{100 + film:07d}" for film in sorted(films)]
    pull(sealed, root / "got", arrays=sorted(arrays), films=names)
    rows = [row for row in range(23) if films is None or row // 5 in films]
    part = open_store(root / "got")
    assert set(part.feature_arrays) == arrays
    assert part.clip_ids.tolist() == whole.clip_ids[rows].tolist()
    for array in arrays:
        np.testing.assert_array_equal(
            part.matrix(array).values, whole.matrix(array).values[rows]
        )
    verify(root / "got", hashes=True).require_whole()


def test_the_size_is_known_before(tmp_path: Path, sealed: Path) -> None:
    selection = select_files(sealed, arrays=["clip"], films=["tt0000100"])
    files = [name for name in selection.marks if name.startswith("data.zarr/clip/c.")]
    assert files == ["data.zarr/clip/c.0.0", "data.zarr/clip/c.1.0"]
    with pytest.raises(FixInput, match="no array 'nothing'"):
        select_files(sealed, arrays=["nothing"])
    with pytest.raises(NotFound, match="no film"):
        select_files(sealed, films=["tt999"])
    assert [spec.name for spec in ARRAYS] == ["clip", "pooled", "frames", "time_s"]


def test_rows_that_were_not_fetched_do_not_count_as_ok(
    tmp_path: Path, sealed: Path
) -> None:
    whole = open_store(sealed)
    film = str(whole.movie_ids[0])
    partial_copy(sealed, tmp_path / "part", films=[film])
    part = open_store(tmp_path / "part")
    fetched = set(np.flatnonzero(whole.movie_ids == film) // whole.plan.block_rows)
    here = [
        row for row in range(whole.n_clips) if row // whole.plan.block_rows in fetched
    ]
    ok = int(whole.status().is_ok[here].sum())
    assert part.status().counts["ok"] == ok < whole.status().counts["ok"]
    assert part.status().counts["missing"] > 0


@pytest.fixture
def partial_copies(tmp_path: Path) -> Path:
    """A whole store and partial copies of it: by array, and by film (rows 0-7, two blocks)."""
    sealed_store(tmp_path / "whole")
    whole = tmp_path / "whole"
    partial_copy(whole, tmp_path / "by_level", arrays=["clip"])
    partial_copy(whole, tmp_path / "by_film", films=["tt0000100"])
    return tmp_path


def test_a_partial_copy_has_the_arrays_that_it_holds(partial_copies: Path) -> None:
    copy = open_store(partial_copies / "by_level")
    values = some_values(23)
    assert copy.feature_arrays == ("clip",)
    assert open_store(partial_copies / "by_film").feature_arrays == (
        "clip",
        "pooled",
        "frames",
    )
    np.testing.assert_array_equal(copy["clip"].values, values["clip"])
    for ask in (lambda: copy["pooled"], lambda: copy.matrix("pooled")):
        with pytest.raises(NotFound) as caught:
            ask()
        assert "partial" in caught.value.message and "store pull" in caught.value.hint
        assert "extract" not in caught.value.hint


def test_a_subset_or_merge_of_a_partial_copy_has_what_the_copy_holds(
    partial_copies: Path,
) -> None:
    values = some_values(23)
    copy = open_store(partial_copies / "by_level")
    for made in (
        subset(copy, partial_copies / "subset"),
        merge([copy], partial_copies / "merged"),
        subset(copy, partial_copies / "chosen", arrays=["clip"]),
    ):
        assert made.sealed and made.n_clips == 23
        new = open_store(made.path)
        assert [spec.name for spec in new.plan.arrays] == ["clip"]
        np.testing.assert_array_equal(new.matrix("clip").values, values["clip"])
        assert not verify(made.path, hashes=True).problems
    by_film = open_store(partial_copies / "by_film")
    made = subset(by_film, partial_copies / "rows")
    assert made.sealed and made.n_clips == 8
    np.testing.assert_array_equal(
        open_store(made.path).matrix("frames").values, values["frames"][:8]
    )


def test_what_a_partial_copy_does_not_hold_is_an_error_that_names_pull(
    partial_copies: Path,
) -> None:
    by_array, by_film = (
        open_store(partial_copies / n) for n in ("by_level", "by_film")
    )
    refused = [
        lambda: subset(by_array, partial_copies / "new", arrays=["clip", "pooled"]),
        lambda: subset(by_film, partial_copies / "new", films=["tt0000102"]),
        lambda: export_store(
            by_array, partial_copies / "new.npz", format="npz", arrays=["frames"]
        ),
    ]
    for ask in refused:
        with pytest.raises(NotFound, match="partial and does not hold") as caught:
            ask()
        assert "store pull" in caught.value.hint
    with pytest.raises(Mismatch, match="the arrays of these stores are not the same"):
        merge([by_array, by_film], partial_copies / "new")
    assert not list(partial_copies.glob("new*"))


def test_an_export_of_a_partial_copy_has_its_arrays(partial_copies: Path) -> None:
    copy = open_store(partial_copies / "by_level")
    done = export_store(copy, partial_copies / "x.npz", format="npz")
    assert (done.n_clips, done.arrays) == (23, ["clip"])
    with np.load(partial_copies / "x.npz") as found:
        np.testing.assert_array_equal(found["clip"], some_values(23)["clip"])
