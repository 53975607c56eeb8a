import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from support.cli import Result, call_obygaze
from support.filled_stores import fill, plan
from support.killed_fillers import CHECKS, FIRST_VALUES, LIVES, first_life
from support.kills import DONE, cut_at_sync
from support.planted_stores import FILM, rows_of, values_of, write
from support.seeds import SEED, amount
from support.stores import made_store, sealed_store, some_values
from support.written_stores import check_all

from obygaze_features.core.errors import ObygazeError
from obygaze_features.store import Array, Row
from obygaze_features.store.reading import open_store
from obygaze_features.store.sealing import seal
from obygaze_features.store.verifying import verify

SMALL = "500k"


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
    mounted("-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(disk))
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def enlarge(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=40m", str(disk)], check=True)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 800 kB, and its features in a file."""
    lab = tmp_path_factory.mktemp("lab")
    arrays = (Array.of("clip", "float32", (2000,)),)
    sealed_store(lab / "s", 100, arrays=arrays)
    made_store(lab / "t", [Row("one-more", "film")], some_values(1, arrays))
    vectors = np.ones((100, 2000)) * np.arange(1, 101)[:, None]
    np.savez(lab / "f.npz", clip_id=[f"m-{i}" for i in range(100)], X=vectors)
    return lab


WAYS = {
    "pull": ("pull", "{lab}/s", "-o", "{to}"),
    "push": ("push", "{lab}/s", "{to}"),
    "subset": ("subset", "{lab}/s", "--array", "clip", "-o", "{to}"),
    "merge": ("merge", "{lab}/s", "{lab}/t", "-o", "{to}"),
    "import": ("import", "{lab}/f.npz", "--array", "clip=X", "-o", "{to}"),
    "npz": ("export", "{lab}/s", "{to}.npz"),
    "parquet": ("export", "{lab}/s", "{to}", "--as", "parquet"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_full_disk_is_said_and_the_same_again_goes_on(small_disk, lab, way) -> None:
    if way == "parquet":
        pytest.importorskip("pyarrow")
    words = [word.format(lab=lab, to=small_disk / "result") for word in WAYS[way]]

    def call() -> Result:
        return call_obygaze("store", *words, cwd=small_disk.parent)

    full = call()
    assert full.code == 1
    assert "No space left on device" in full.stderr
    assert "free space on the disk" in full.stderr
    result = small_disk / ("result.npz" if way == "npz" else "result")
    # What was pushed to a folder waits there for the rest; nobody takes it for a store.
    assert not (result / "store.json").exists()
    assert result.exists() == (way == "push")
    enlarge(small_disk)
    call().ok()
    assert [path.name for path in small_disk.iterdir()] == [result.name]
    if (result / "store.json").exists():
        assert verify(result, hashes=True).problems == []


def test_an_export_to_hdf5_asks_for_the_space_first(small_disk, lab) -> None:
    """The HDF5 library ends the process where the disk becomes full."""
    words = ("store", "export", lab / "s", small_disk / "f.h5")
    full = call_obygaze(*words)
    assert full.code == 1
    assert "the file needs up to 1.0 MB, and 512.0 kB are free" in full.stderr
    assert list(small_disk.iterdir()) == []
    enlarge(small_disk)
    call_obygaze(*words).ok()
    assert (small_disk / "f.h5").stat().st_size < 1_000_000


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A store, and one that is being filled, bound read-only: permission bits do not bind root."""
    write(tmp_path / "films")
    fill(plan(tmp_path / "s"), FIRST_VALUES)
    view = tmp_path / "view"
    view.mkdir()
    mounted("--bind", str(tmp_path), str(view))
    try:
        mounted("-o", "remount,bind,ro", str(view))
        yield view
    finally:
        subprocess.run(["umount", str(view)], check=True)


def test_a_read_only_folder_is_read_and_refuses_to_be_written(read_only: Path) -> None:
    store = open_store(read_only / "films")
    ok = [number for number, row in enumerate(rows_of()) if row.is_ok]
    for name, array in values_of().items():
        found = store.matrix(name, missing="drop")
        np.testing.assert_array_equal(found.values, array[ok])
    assert verify(store, hashes=True).problems == []
    for way in (lambda: seal(read_only / "s"), lambda: plan(read_only / "other")):
        with pytest.raises(OSError, match="Read-only file system"):
            way()
    rest = str(read_only / "rest")
    words = ("subset", str(read_only / "films"), "--without", FILM, "-o", rest)
    done = call_obygaze("-C", read_only, "store", *words)
    assert (done.code, "this disk is read-only" in done.stderr) == (1, True)
    assert verify(read_only / "films", hashes=True).problems == []


@pytest.mark.check("cuts the power at many syncs")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("life", ["first", "change"])
def test_a_power_cut_at_any_sync(tmp_path: Path, life: str) -> None:
    """Files that were not synced before the power was cut are empty afterwards.

    `make torture` cuts it at the other syncs.
    """
    live, check = LIVES[life], CHECKS[life]
    if life == "change":
        (tmp_path / "before").mkdir()
        first_life(tmp_path / "before" / "s")
    every = amount(18, 3)
    at = SEED % every
    code = -1
    while code != DONE:
        target = tmp_path / f"cut{at}" / "s"
        target.parent.mkdir()
        if life == "change":
            shutil.copytree(tmp_path / "before" / "s", target)
        before = {path.stat().st_ino for path in files_in(target.parent)}
        code, synced = cut_at_sync(
            lambda target=target: live(target), at, tmp_path / "log"
        )
        for path in files_in(target.parent):
            if path.stat().st_ino not in synced | before:
                path.chmod(0o644)
                path.write_bytes(b"")
        # What has the name is whole; the same command again ends the work.
        if (target / "store.json").exists():
            check_all(target)
        with suppress(ObygazeError):
            live(target)
        check(target)
        shutil.rmtree(target.parent)
        at += every
    assert at > 20


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
