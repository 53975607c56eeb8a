"""The sha256 of a seal binds a store to its publisher: any other store is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.store_damage import changed
from support.store_servers import web_server
from support.stores import (
    copy_of_sealed,
    partial_copy,
    plan_store,
    sealed_store,
    tree,
)

import obygaze as og
from obygaze_features.core.errors import Corrupt, FixUsage, Mismatch, NotFound
from obygaze_features.store import open_store, pack, pull, unpack
from obygaze_features.store.read import commits
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote.files import FolderFiles, Piece
from obygaze_features.store.write import seal as seal_module


def number_of(path: Path) -> str:
    """What `sha256sum seal.json` prints."""
    return hashlib.sha256((path / "seal.json").read_bytes()).hexdigest()


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Path, Path]:
    """A store, and another one in its place that is whole too: one number of a row changed."""
    ours = copy_of_sealed(tmp_path / "ours")
    forged = tmp_path / "forged"
    shutil.copytree(ours, forged)
    counts = json.loads((forged / "seal.json").read_bytes())["counts"]
    changed(forged / "seal.json", counts=counts, seconds={"decode": 1.0})
    assert not verify(forged, hashes=True).problems
    return ours, forged


def test_the_number_is_that_of_the_seal_wherever_the_store_is(
    stores, tmp_path: Path
) -> None:
    ours, _ = stores
    number = number_of(ours)
    pack(open_store(ours), tmp_path / "s.zip")
    partial_copy(ours, tmp_path / "part", arrays=["clip"])
    for place in (ours, tmp_path / "s.zip", tmp_path / "part"):
        assert open_store(place).seal_sha256 == number
        assert open_store(f"{place}#sha256={number}").seal_sha256 == number
        report = verify(place, hashes=True, expect=number)
        assert (report.problems, report.seal_sha256, report.expected) == (
            [],
            number,
            True,
        )
    assert verify(ours).expected is None
    assert og.open_store(ours, expect=f"sha256:{number.upper()}").seal_sha256 == number


def test_another_store_is_refused_before_anything_is_written(
    stores, tmp_path: Path
) -> None:
    ours, forged = stores
    number = number_of(ours)
    pack(open_store(forged), tmp_path / "forged.zip")
    before = tree(tmp_path)
    ways = (
        lambda: open_store(forged, expect=number),
        lambda: open_store(f"{forged}#sha256={number}"),
        lambda: og.open_store(forged, expect=number),
        lambda: verify(forged, expect=number),
        lambda: verify(f"{tmp_path}/forged.zip#sha256={number}"),
        lambda: pull(forged, tmp_path / "copy", expect=number),
        lambda: pull(
            f"{forged}#sha256={number}", tmp_path / "copy", films=["tt0000100"]
        ),
        lambda: unpack(tmp_path / "forged.zip", tmp_path / "copy", expect=number),
    )
    for way in ways:
        with pytest.raises(Mismatch, match="not the expected store") as caught:
            way()
        assert caught.value.exit_code == 5
        assert number in str(caught.value)
        assert number_of(forged) in str(caught.value)
    assert tree(tmp_path) == before


def test_a_store_that_is_not_sealed_is_not_an_expected_one(
    stores, tmp_path: Path
) -> None:
    plan_store(tmp_path / "s")
    number = number_of(stores[0])
    for way in (open_store, verify):
        with pytest.raises(Mismatch, match="not sealed"):
            way(tmp_path / "s", expect=number)
    with pytest.raises(Mismatch, match="not sealed"):
        pull(tmp_path / "s", tmp_path / "copy", expect=number)
    assert open_store(tmp_path / "s").seal_sha256 == ""


@pytest.mark.parametrize(
    "bad", ["", " ", "sha256:", "5f0c", "g" * 64, "0" * 63, "0" * 65]
)
def test_a_number_that_is_none_is_an_error_and_not_ignored(stores, bad: str) -> None:
    with pytest.raises(FixUsage, match="64 hex digits"):
        open_store(stores[0], expect=bad)
    with pytest.raises(FixUsage, match="64 hex digits"):
        open_store(f"{stores[0]}#sha256={bad}")
    with pytest.raises(FixUsage, match="64 hex digits"):
        verify(stores[0], expect=bad)
    with pytest.raises(FixUsage, match="64 hex digits"):
        pull(stores[0], stores[0].parent / "copy", expect=bad)
    with pytest.raises(FixUsage, match="two different"):
        open_store(f"{stores[0]}#sha256={'0' * 64}", expect="1" * 64)
    with pytest.raises(FixUsage, match="64 hex digits"):
        open_store(f"{stores[0]}#sha256=")


@pytest.mark.parametrize("ending", ["#", "#sha=", "#SHA256=", "#sha256:", "#md5="])
def test_an_ending_of_a_url_that_would_check_nothing_is_an_error(
    ending: str, tmp_path: Path
) -> None:
    place = f"http://127.0.0.1:9/s{ending}{'0' * 64}"
    for way in (open_store, verify):
        with pytest.raises(FixUsage, match="unknown ending '#"):
            way(place)
    with pytest.raises(FixUsage, match="unknown ending '#"):
        pull(place, tmp_path / "copy")


def test_a_name_of_the_workspace_may_state_the_number_too(
    stores, tmp_path: Path
) -> None:
    ours, _ = stores
    (tmp_path / "stores").mkdir()
    ours.rename(tmp_path / "stores/ours")
    number = number_of(tmp_path / "stores/ours")
    assert (
        og.open_store(f"ours#sha256={number}", workspace=tmp_path).seal_sha256 == number
    )
    with pytest.raises(Mismatch, match="not the expected store"):
        og.open_store(f"ours#sha256={'0' * 64}", workspace=tmp_path)
    with pytest.raises(NotFound, match="no store called 'our'"):
        og.open_store(f"our#sha256={number}", workspace=tmp_path)


def test_over_http_with_an_index_the_seal_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore")
    for module in (commits, seal_module):
        monkeypatch.setattr(module, "INDEX_ROWS", 20)
    values = sealed_store(tmp_path / "www/s")
    assert (tmp_path / "www/s/index/movies.json").is_file()
    number = number_of(tmp_path / "www/s")
    with web_server(tmp_path / "www") as server:
        place = f"{server.url}/s#sha256={number}"
        done = pull(place, tmp_path / "copy", films=["tt0000100"], arrays=["clip"])
        assert done.part
        # The copy is a store of its own, and says which one it is a part of.
        (origin,) = open_store(tmp_path / "copy").plan.origins
        assert origin.seal_sha256 == number != number_of(tmp_path / "copy")
        found = open_store(place).matrix("clip", films=["tt0000100"])
        np.testing.assert_array_equal(found.values, values["clip"][:5])
        other = f"{server.url}/s#sha256={'0' * 64}"
        with pytest.raises(Mismatch, match="not the expected store"):
            open_store(other)
        with pytest.raises(Mismatch, match="not the expected store"):
            pull(other, tmp_path / "other", films=["tt0000100"])
    assert not (tmp_path / "other").exists()


def test_a_seal_that_changes_after_it_was_compared_is_not_copied(
    stores, tmp_path: Path
) -> None:
    ours, forged = stores

    class Changing(FolderFiles):
        """A server that gives the expected seal once."""

        n_seals = 0

        def read(
            self, name: str, start: int = 0, stop: int | None = None
        ) -> Piece | None:
            if name == "seal.json":
                self.n_seals += 1
                if self.n_seals > 1:
                    return FolderFiles(forged).read(name, start, stop)
            return super().read(name, start, stop)

    monkey = Changing(ours)
    pull(monkey, tmp_path / "copy", expect=number_of(ours))  # small ones are read once
    assert number_of(tmp_path / "copy") == number_of(ours)
    from obygaze_features.store.remote import files

    kept = files.CACHED_BYTES
    files.CACHED_BYTES = 0
    try:
        with pytest.raises(Corrupt, match=r"seal\.json changed while it was read"):
            pull(Changing(ours), tmp_path / "again", expect=number_of(ours))
    finally:
        files.CACHED_BYTES = kept
    assert not (tmp_path / "again").exists()


def test_the_commands_show_and_compare_the_number(stores, tmp_path: Path) -> None:
    ours, forged = stores
    number = number_of(ours)

    def call(*words: str):
        return call_obygaze("-C", str(tmp_path), "store", *words)

    assert f"seal_sha256  {number}\n" in call("info", str(ours)).ok().stdout + "\n"
    assert call("info", str(ours), "--json").ok().json()["seal_sha256"] == number
    shown = call("verify", str(ours), "--hash").ok().stdout.splitlines()
    assert shown[0].startswith("whole: 36 files")
    assert shown[1:] == [
        "consistent with what its publisher wrote; who that is was not checked (--expect)",
        f"seal_sha256: {number}",
    ]
    expected = ("--expect", number)
    shown = call("verify", str(ours), "--hash", *expected).ok().stdout.splitlines()
    assert shown[1:] == [f"the expected store: its seal has the sha256 {number}"]
    shown = call("verify", str(ours), *expected).ok().stdout.splitlines()
    assert shown[2:] == [f"the expected seal, with the sha256 {number}"]
    assert call("verify", str(forged), "--expect", number).code == 5
    assert call("pull", f"{forged}#sha256={number}", "-o", "copy").code == 5
    call("pull", f"{ours}#sha256={number}").ok()
    assert number_of(tmp_path / "stores/ours") == number
    call("pack", str(ours), "-o", str(tmp_path / "s.zip")).ok()
    wrong = call(
        "unpack", str(tmp_path / "s.zip"), "-o", "u", "--expect", number_of(forged)
    )
    assert wrong.code == 5
    call("unpack", str(tmp_path / "s.zip"), "-o", "u", "--expect", number).ok()
