"""Disks that are full or closed, when stores arrive, are packed, imported or exported."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.stores import sealed_store

from obygaze_features.core.errors import FixInput
from obygaze_features.store import ArraySpec, open_store
from obygaze_features.store.format import limits as limits_module
from obygaze_features.store.interchange import open_features
from obygaze_features.store.interchange.export import export_store
from obygaze_features.store.interchange.importing import import_store
from obygaze_features.store.remote.fetch import pull, unpack
from obygaze_features.store.remote.send import pack


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """300 kB, which nobody could know of before."""
    disk = tmp_path / "disk"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
    usage = type("Usage", (), {"free": 10**12})
    monkeypatch.setattr(limits_module.shutil, "disk_usage", lambda path: usage)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    arrays = [ArraySpec("clip", (2000,))]
    sealed_store(tmp_path / "s", 100, 10, arrays=arrays)
    pack(open_store(tmp_path / "s"), tmp_path / "s.zip")
    np.savez(
        tmp_path / "s.npz",
        clip_id=[f"m-{i}" for i in range(100)],
        X=np.ones((100, 2000)),
    )
    return tmp_path / "s"


WAYS: dict[str, Callable[[Path, Path], object]] = {
    "pull": lambda store, to: pull(store, to),
    "pack": lambda store, to: pack(open_store(store), to),
    "unpack": lambda store, to: unpack(store.with_suffix(".zip"), to),
    "import": lambda store, to: import_store(
        open_features("npz", [store.with_suffix(".npz")], {"clip": "X"}), to
    ),
    "npz": lambda store, to: export_store(open_store(store), to, "npz"),
    "npy": lambda store, to: export_store(open_store(store), to, "npy"),
}


@pytest.mark.parametrize("way", list(WAYS))
def test_a_full_disk_is_said_and_the_same_again_goes_on(
    small_disk: Path, store: Path, way: str
) -> None:
    target = small_disk / "result"
    with pytest.raises(FixInput, match="disk is full"):
        WAYS[way](store, target)
    # There the blocks that were committed are a store to go on with.
    if way != "import":
        assert not target.exists()
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    WAYS[way](store, target)
    assert target.exists()
    assert [path.name for path in small_disk.iterdir()] == ["result"]
    if target.is_dir() and (target / "store.json").exists():
        assert open_store(target).sealed


def test_hdf5_tells_of_a_full_disk_like_the_others(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*words: object, **options: object) -> None:
        raise RuntimeError(
            "Unable to write (errno = 28, error message = 'No space left on device')"
        )

    # On a disk that is really full HDF5 keeps the file open, and the disk could not be unmounted.
    monkeypatch.setattr(h5py.Group, "create_dataset", full)
    with pytest.raises(FixInput, match="disk is full"):
        export_store(open_store(store), tmp_path / "f.h5", "hdf5")
    assert not list(tmp_path.glob("*.h5")) + list(tmp_path.glob(".*"))
