import io
import tracemalloc
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.store import import_features
from obygaze_features.store.importing import files, write_features


def test_ids_of_nothing_take_no_memory(tmp_path: Path) -> None:
    """A small file may have a million texts of a thousand characters that are not there."""
    path = tmp_path / "f.npz"
    ids = np.zeros(5_000, "U1000")
    np.savez_compressed(path, clip_id=ids, x=np.ones((len(ids), 1), np.float32))
    n_bytes = ids.nbytes
    assert path.stat().st_size < n_bytes / 500
    del ids
    tracemalloc.start()
    try:
        with pytest.raises(FixInput, match="empty id"):
            import_features(path, tmp_path / "store")
        assert tracemalloc.get_traced_memory()[1] < n_bytes / 2
    finally:
        tracemalloc.stop()


def test_a_long_id_that_is_repeated_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(files, "MOST_LETTERS", 10_000)
    ids = ["x" * 300] * 50
    x = np.ones((50, 2), np.float32)
    np.savez_compressed(tmp_path / "f.npz", clip_id=ids, x=x)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("clip_id", data=ids, dtype=h5py.string_dtype())
        file["x"] = x
    too_long = "'clip_id': the texts are too long"
    for ending in ("npz", "h5"):
        with pytest.raises(Corrupt, match=too_long):
            import_features(tmp_path / f"f.{ending}", tmp_path / "store")
    with pytest.raises(Corrupt, match=too_long):
        write_features(tmp_path / "store", ids, {"clip": x})


def test_a_compressed_tensor_is_not_unpacked(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    saved = io.BytesIO()
    torch.save(torch.zeros(1, 4), saved)
    folder = tmp_path / "lake"
    folder.mkdir()
    path = folder / "lake-1.pth"
    with (
        zipfile.ZipFile(saved) as plain,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in plain.namelist():
            is_data = name.endswith("/data/0")
            packed.writestr(name, bytes(10**7) if is_data else plain.read(name))
    with pytest.raises(FixInput, match=r"100\d+ bytes unpacked"):
        import_features(tmp_path, tmp_path / "store")
