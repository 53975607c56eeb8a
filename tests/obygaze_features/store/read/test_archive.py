"""Stores written by released versions are read for ever: by us, by zarr, and gone on with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import zarr
from support.archive import ARCHIVE, write_all
from support.stores import RemoteFiles

from obygaze_features.store import (
    RowStatus,
    StoreWriter,
    derive,
    open_store,
    store_log,
    withdraw,
)
from obygaze_features.store.read import commits
from obygaze_features.store.read.verify import verify

VERSIONS = ["store-v1"]
CLIPS = [
    "tt0108160-001",
    "tt0108160-002",
    "tt0108160-011",
    "tt0120338-001",
    "tt0120338-Ünïcode",
]
# Optional keys of later versions.
ADDED_KEYS = {"plan", "plan_id", "crc32c"}
FINGERPRINT = "07d48a1e4379108355fde217cb4d68d4bb0a4731ddcfc27e16c98c7ca9580976"


@pytest.fixture(params=VERSIONS)
def archive(request, tmp_path: Path) -> Path:
    """A copy, so that nothing can change the original."""
    shutil.copytree(ARCHIVE / request.param, tmp_path / "a")
    return tmp_path / "a"


def test_a_sealed_store_is_read(archive: Path) -> None:
    store = open_store(archive / "sealed")
    assert store.sealed and store.feature_arrays == ("clip", "frames")
    assert store.fingerprint == FINGERPRINT
    assert store.clip_ids.tolist() == CLIPS
    assert store.movie_ids.tolist() == ["tt0108160"] * 3 + ["tt0120338"] * 2
    clip = store.matrix("clip", missing="nan")
    nan = np.nan
    np.testing.assert_array_equal(
        clip.values,
        np.array(
            [[0, 0.25, 0.5], [1, 1.25, 1.5], [nan] * 3, [3, 3.25, 3.5], [4, 4.25, 4.5]],
            np.float32,
        ),
    )
    reason = clip.reasons["tt0108160-011"]
    assert reason == RowStatus.failed(
        "decode", "InvalidDataError", "moov atom not found"
    )
    frames = store.matrix("frames", clips=["tt0120338-001"])
    assert frames.values.tolist() == [[[3.0] * 3, [3.25] * 3]]
    assert store.matrix("time_s", clips=["tt0108160-002"]).values.tolist() == [
        [1.0, 1.25]
    ]
    texts = store.text()
    assert texts is not None and list(texts.attribute) == ["Body", "Look"]
    assert texts.embeddings.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert not verify(archive / "sealed", hashes=True).problems


def test_a_store_that_was_being_filled_is_read_and_finished(archive: Path) -> None:
    path = archive / "growing"
    found = open_store(path).matrix("tokens", missing="drop")
    assert found.rows.tolist() == [0, 1, 3]
    formula = np.array([0, 1, 3])[:, None, None] + np.arange(1100)[:, None] / 4
    np.testing.assert_array_equal(
        found.values, np.broadcast_to(formula, (3, 1100, 1024))
    )
    writer = StoreWriter(path)
    writer.clean_litter()
    assert writer.pending_blocks() == [2] and writer.rows_to_retry() == {1: [2]}
    block = np.full((1, 1100, 1024), 7, np.float32)
    writer.commit_block(2, {"tokens": block})
    writer.replace_rows(1, [2], {"tokens": block}, [RowStatus()])
    writer.seal()
    assert open_store(path).status().counts == {"ok": 5}
    assert not verify(path, hashes=True).problems


def test_plain_zarr_reads_it(archive: Path) -> None:
    group = zarr.open_group(archive / "sealed/data.zarr", mode="r")
    assert group["clip"][4].tolist() == [4.0, 4.25, 4.5]
    assert group["clip_id"][:].tolist() == CLIPS


def test_this_version_still_writes_the_same(tmp_path: Path) -> None:
    """Arrays byte for byte; the JSON files but for who wrote them and when."""
    write_all(tmp_path)
    original = ARCHIVE / VERSIONS[-1]
    names = {str(f.relative_to(original)) for f in original.rglob("*") if f.is_file()}
    written = {str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*") if f.is_file()}
    # The decisions of later versions, which only writers use.
    assert names == {name for name in written if not name.endswith(".taken")}
    for name in sorted(names):
        old, new = (original / name).read_bytes(), (tmp_path / name).read_bytes()
        if name.endswith(("store.json", "seal.json")) or "/commits/" in name:
            added = json.loads(new).keys() - json.loads(old).keys()
            assert (
                added <= ADDED_KEYS and json.loads(old).keys() <= json.loads(new).keys()
            ), name
        elif not name.endswith("README.md") and "tokens/c." not in name:
            # Compressed bytes may change with the compressor's version.
            assert old == new, name


def test_a_store_of_format_2_is_read_by_each_of_its_files(tmp_path: Path) -> None:
    """Its array is gathered, and its index has short runs."""
    path = tmp_path / "two"
    shutil.copytree(ARCHIVE / "store-v2", path)
    rows, places = np.ogrid[:17, :3]
    formula = (rows + places / 4).astype(np.float32)
    index = json.loads((path / "index/movies.json").read_bytes())
    films = {"tt0000000": 5, "tt0000001": 5, "tt0000002": 5, "tt0000003": 2}
    assert index["version"] == 2 and index["movies"] == films
    remote = open_store(RemoteFiles(path))
    with mock.patch.object(commits, "INDEX_ROWS", 1):
        film = remote.matrix("clip", films=["tt0000003"]).values
    assert remote.commits.index is not None
    np.testing.assert_array_equal(film, formula[15:])
    for folder in ("gathered", "data.zarr/clip"):
        np.testing.assert_array_equal(open_store(path).matrix("clip").values, formula)
        assert not verify(path, hashes=True).problems
        whole = tmp_path / "whole"
        shutil.copytree(path, whole)
        for file in (path / folder).glob("*"):
            if not file.name.endswith("zarr.json"):
                file.write_bytes(b"")
        np.testing.assert_array_equal(open_store(path).matrix("clip").values, formula)
        shutil.rmtree(path)
        whole.rename(path)
    group = zarr.open_group(path / "data.zarr", mode="r")
    np.testing.assert_array_equal(group["clip"][:], formula)


def test_a_store_with_versions_is_read(tmp_path: Path) -> None:
    """Its first version is the sealed store of an earlier program, byte for byte."""
    path = tmp_path / "v"
    shutil.copytree(ARCHIVE / "store-versions", path)
    newest = open_store(path)
    assert newest.version == 3 and newest.fingerprint == FINGERPRINT
    log = [(v.number, v.change, v.author) for v in store_log(path).versions]
    assert log == [(3, "levels", ""), (2, "withdrawn", "A. Author"), (1, "created", "")]
    frames = newest.matrix("frames_mean", clips=[CLIPS[4]]).values
    assert frames.tolist() == [[4.125] * 3]
    withdrawn = newest.matrix("clip", missing="nan").reasons[CLIPS[3]]
    assert withdrawn == RowStatus.withdrawn("asked for by the owner", "2026-11-23")
    second = open_store(path, version=2)
    assert second.feature_arrays == ("clip", "frames")
    assert second.matrix("clip", missing="drop").values[:, 0].tolist() == [0, 1, 4]
    first = open_store(path, version=1)
    assert first.matrix("clip", missing="drop").values[:, 0].tolist() == [0, 1, 3, 4]
    original = ARCHIVE / "store-v1" / "sealed"
    for file in original.rglob("*"):
        name = file.relative_to(original).as_posix()
        if file.is_file():
            assert first.files.read(name).data.tobytes() == file.read_bytes(), name
    for number in (1, 2, 3):
        assert not verify(f"{path}@{number}", hashes=True).problems


def test_a_version_is_made_of_a_store_of_an_earlier_program(archive: Path) -> None:
    """It has no plan_id, and no checksums of chunks."""
    path = archive / "sealed"
    before = open_store(path).matrix("clip", missing="nan").values
    withdraw(path, clips=[CLIPS[0]], reason="asked for")
    derive(path, array="frames", by="max")
    newest = open_store(path)
    assert newest.status().counts == {"failed": 1, "ok": 3, "withdrawn": 1}
    np.testing.assert_array_equal(
        newest.matrix("clip", missing="nan").values[1:], before[1:]
    )
    texts = newest.text()
    assert texts is not None and list(texts.attribute) == ["Body", "Look"]
    np.testing.assert_array_equal(
        open_store(path, version=1).matrix("clip", missing="nan").values, before
    )
    for number in (1, 2, 3):
        assert not verify(f"{path}@{number}", hashes=True).problems
