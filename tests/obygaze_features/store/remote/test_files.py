"""The seam: the same store through a folder, a zip and an object store."""

from __future__ import annotations

import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.stores import sealed_store

from obygaze_features.core.errors import Corrupt, FixInput, NotFound
from obygaze_features.store import ArraySpec, open_store
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote import open_files
from obygaze_features.store.remote.files import FolderFiles
from obygaze_features.store.remote.object_store import ObjectFiles

TOKENS = ArraySpec("tokens", (64, 1024), dtype="float16")


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dict[str, np.ndarray]]:
    path = tmp_path_factory.mktemp("seam") / "s"
    return path, sealed_store(path, 70, 64, arrays=(ArraySpec("clip", (4,)), TOKENS))


def zipped(folder: Path, target: Path, method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(target, "w", method) as packed:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                packed.write(file, str(file.relative_to(folder)))
    return target


@pytest.fixture(params=["folder", "zip", "memory"])
def files(request, folder, tmp_path: Path):
    path = folder[0]
    if request.param == "folder":
        return FolderFiles(path)
    if request.param == "zip":
        return open_files(zipped(path, tmp_path / "s.zip"))
    obstore = pytest.importorskip("obstore")
    memory = obstore.store.MemoryStore()
    for file in path.rglob("*"):
        if file.is_file():
            obstore.put(memory, str(file.relative_to(path)), file.read_bytes())
    return ObjectFiles(memory, "memory://s")


def test_parts_of_files(files, folder) -> None:
    whole = (folder[0] / "clips.csv").read_bytes()
    n = len(whole)
    for start, stop, expected in [
        (0, None, whole),
        (0, 1, whole[:1]),
        (5, 20, whole[5:20]),
        (5, None, whole[5:]),
        (-7, None, whole[-7:]),
        (n - 3, n + 100, whole[-3:]),
    ]:
        piece = files.read("clips.csv", start, stop)
        assert piece is not None
        assert (piece.data.tobytes(), piece.total) == (expected, n)
    assert files.read("nothing") is None
    assert files.read("data.zarr/nothing/c.0") is None


def test_names_in_folders(files) -> None:
    assert files.names("") == [
        "README.md",
        "clips.csv",
        "data.zarr",
        "seal.json",
        "store.json",
    ]
    assert files.names("data.zarr/tokens") == ["c.0.0.0", "c.1.0.0", "zarr.json"]
    assert files.names("commits") == []


def test_the_same_store_through_each(files, folder) -> None:
    store = open_store(files)
    for name, array in folder[1].items():
        np.testing.assert_array_equal(store.matrix(name).values, array)
    some = store.matrix("tokens", clips=store.clip_ids[[69, 3, 40]].tolist())
    np.testing.assert_array_equal(some.values, folder[1]["tokens"][[69, 3, 40]])
    assert not verify(files, hashes=True).problems


def test_many_threads_share_a_store(files, folder) -> None:
    store, start = open_store(files), threading.Barrier(8)

    def read(seed: int) -> bool:
        start.wait()
        rows = np.random.default_rng(seed).permutation(70)[:20]
        clips = store.clip_ids[rows].tolist()
        return all(
            (store.matrix(name, clips=clips).values == array[rows]).all()
            for name, array in folder[1].items()
            for _ in range(3)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(8)))


def test_a_zip_on_disk_is_opened_by_its_name(folder, tmp_path: Path) -> None:
    path = zipped(folder[0], tmp_path / "s.zip")
    np.testing.assert_array_equal(
        open_store(path).matrix("clip").values, folder[1]["clip"]
    )


def test_zips_that_cannot_be_read_in_place_are_refused(folder, tmp_path: Path) -> None:
    with pytest.raises(FixInput, match="compressed"):
        open_files(zipped(folder[0], tmp_path / "c.zip", zipfile.ZIP_DEFLATED))
    (tmp_path / "n.zip").write_bytes(b"nothing of the kind")
    with pytest.raises(Corrupt, match="not a complete zip") as caught:
        open_files(tmp_path / "n.zip")
    assert "obygaze store pack" in (caught.value.hint or "")
    path = zipped(folder[0], tmp_path / "s.zip")
    (tmp_path / "cut.zip").write_bytes(path.read_bytes()[:-100])
    with pytest.raises(Corrupt, match="not a complete zip"):
        open_files(tmp_path / "cut.zip")
    data = bytearray(path.read_bytes())
    entry = data.index(b"PK\x01\x02")  # the first entry of the directory at the end
    data[entry + 20 : entry + 28] = (10**9).to_bytes(4, "little") * 2
    (tmp_path / "long.zip").write_bytes(data)
    with pytest.raises(Corrupt, match="is longer than the zip file"):
        open_files(tmp_path / "long.zip")
    data = bytearray(path.read_bytes())
    data[entry + 6] = 84  # the version of zip it takes to read the entry: 8.4
    (tmp_path / "later.zip").write_bytes(data)
    with pytest.raises(Corrupt, match=r"not a complete zip file: .*8\.4"):
        open_files(tmp_path / "later.zip")
    with (
        pytest.warns(UserWarning),
        zipfile.ZipFile(tmp_path / "two.zip", "w") as packed,
    ):
        packed.writestr("store.json", "a")
        packed.writestr("store.json", "b")
    with pytest.raises(FixInput, match="same name"):
        open_files(tmp_path / "two.zip")


def test_a_zip_whose_bytes_changed_is_found(folder, tmp_path: Path) -> None:
    path = zipped(folder[0], tmp_path / "s.zip")
    data = bytearray(path.read_bytes())
    chunk = (folder[0] / "data.zarr/clip/c.0.0").read_bytes()
    data[data.index(chunk) + 9] ^= 4
    path.write_bytes(data)
    with pytest.raises(Corrupt, match=r"clip/c\.0\.0"):
        open_store(path).matrix("clip")
    assert [p.name for p in verify(path, hashes=True).problems] == [
        "data.zarr/clip/c.0.0"
    ]


@pytest.mark.parametrize(
    "name", ["../x", "/etc/hostname", "a/../../x", "data.zarr/../../x"]
)
def test_a_name_never_leads_out_of_the_folder(folder, name: str) -> None:
    with pytest.raises(FixInput, match="leads out of its folder"):
        FolderFiles(folder[0]).read(name)


def test_nothing_is_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such file or folder"):
        open_files(tmp_path / "nothing")
