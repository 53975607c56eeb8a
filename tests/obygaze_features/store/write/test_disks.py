"""Full disks and read-only folders: a clear error, and nothing that was committed is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.stores import block_of, fill_store, plan_store, some_values

from obygaze_features.core.errors import FixInput
from obygaze_features.store import ArraySpec, RowStatus, StoreWriter, open_store
from obygaze_features.store.read.verify import verify

LARGE = (ArraySpec("clip", (4,)), ArraySpec("frames", (16, 64), dtype="float16"))


def mounted(*words: str) -> None:
    done = subprocess.run(
        ["mount", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted("-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk))
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_said_and_what_was_committed_stays(small_disk: Path) -> None:
    path = small_disk / "s"
    plan_store(path, 200, 20, arrays=LARGE)  # a block is 41 kB: about six fit
    values = some_values(200, LARGE)
    writer = StoreWriter(path)
    with pytest.raises(FixInput, match="the disk is full") as caught:
        fill_store(path, values)
    assert "free some space" in str(caught.value)
    pending = writer.pending_blocks()
    assert 0 < len(pending) < 10
    found = open_store(path).matrix("frames", missing="drop")
    np.testing.assert_array_equal(found.values, values["frames"][found.rows])
    assert len(found.rows) == 200 - 20 * len(pending)
    assert not verify(path, hashes=True).problems
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    writer.clean_litter()
    fill_store(path, values, blocks=writer.pending_blocks()).seal()
    np.testing.assert_array_equal(
        open_store(path).matrix("frames").values, values["frames"]
    )


def test_a_disk_too_full_to_plan_on_is_said_and_left_clean(small_disk: Path) -> None:
    (small_disk / "film.mp4").write_bytes(bytes(380_000))
    with pytest.raises(FixInput, match="the disk is full"):
        plan_store(small_disk / "s")
    assert [path.name for path in small_disk.iterdir()] == ["film.mp4"]


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A store with two blocks, bound read-only: permission bits do not bind root."""
    plan_store(tmp_path / "s")
    fill_store(
        tmp_path / "s", some_values(23), {1: RowStatus.no_video()}, blocks=[0, 1]
    )
    view = tmp_path / "view"
    view.mkdir()
    mounted("--bind", str(tmp_path), str(view))
    try:
        mounted("-o", "remount,bind,ro", str(view))
        yield view / "s"
    finally:
        subprocess.run(["umount", str(view)], check=True)


def test_a_read_only_folder_is_read_and_refuses_to_be_written(read_only: Path) -> None:
    values = some_values(23)
    writer = StoreWriter(read_only)
    assert writer.pending_blocks() == [2, 3, 4, 5]
    with pytest.raises(FixInput, match="cannot be written: Read-only file system"):
        writer.commit_block(2, block_of(values, (8, 12)))
    with pytest.raises(FixInput, match="cannot be written"):
        plan_store(read_only.parent / "other")
    arrays = {name: array[1:2] for name, array in values.items()}
    with pytest.raises(FixInput, match="cannot be written"):
        writer.replace_rows(0, [1], arrays, [RowStatus()])
    found = open_store(read_only).matrix("clip", missing="drop")
    np.testing.assert_array_equal(found.values, values["clip"][[0, 2, 3, 4, 5, 6, 7]])
    assert not verify(read_only, hashes=True).problems
