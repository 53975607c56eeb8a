import io
import random
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.cli import environment
from support.stores import made_store, some_values

from obygaze_features.core.errors import Corrupt, FixInput, ObygazeError
from obygaze_features.store import Array, Row, export_features, import_features
from obygaze_features.store.importing import files, open_features
from obygaze_features.store.importing import parquet as parquet_files


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
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(files, "MOST_LETTERS", 10_000)
    ids = ["x" * 300] * 50
    x = np.ones((50, 2), np.float32)
    np.savez_compressed(tmp_path / "f.npz", clip_id=ids, x=x)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("clip_id", data=ids, dtype=h5py.string_dtype())
        file["x"] = x
    table = pyarrow.table({"clip_id": ids, "x": x.tolist()})
    parquet.write_table(table, tmp_path / "f.parquet")
    for ending in ("npz", "h5", "parquet"):
        with pytest.raises(Corrupt, match="'clip_id': the texts are too long"):
            import_features(tmp_path / f"f.{ending}", tmp_path / "store")


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


def test_zeros_that_take_no_place_are_not_read(tmp_path, monkeypatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(parquet_files, "MOST_REPEATED", 2_000_000)
    zeros = pyarrow.array(np.zeros(300_000, np.float32))
    rows = pyarrow.FixedSizeListArray.from_arrays(zeros, 30_000)
    ids = [f"lake-{number}" for number in range(10)]
    table = pyarrow.table({"clip_id": ids, "x": rows})
    parquet.write_table(table, tmp_path / "f.parquet")
    with pytest.raises(Corrupt, match=r"x has 2\.4 MB, more than the file can hold"):
        import_features(tmp_path / "f.parquet", tmp_path / "store")


def test_no_changed_bit_of_what_a_table_says_of_itself_is_silent(tmp_path) -> None:
    """Pages have checksums, the footer of Parquet has none."""
    pytest.importorskip("pyarrow")
    path = tmp_path / "f.parquet"
    rows = [Row(f"lake-{n}", "lake", start_s=n + 0.0, end_s=n + 0.5) for n in range(4)]
    arrays = (Array("clip", "float32", (4,), ("width",), 2, 8),)
    store = made_store(tmp_path / "store", rows, some_values(4, arrays), arrays=arrays)
    export_features(store, path)

    def said() -> tuple[object, ...]:
        reader = open_features(path)
        # A column whose name was changed is named among those that were left out.
        times = [seconds.tolist() for seconds in reader.spans.values()]
        facts = [*reader.names], [*reader.films], times
        return facts, [*reader.notes]

    whole = path.read_bytes()
    before = said()
    n_footer = int.from_bytes(whole[-8:-4], "little") + 8
    rng = random.Random(1)
    silent = []
    n_refused = 0
    for place in rng.sample(range(len(whole) - n_footer, len(whole)), 100):
        data = bytearray(whole)
        data[place] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        try:
            facts, notes = said()
            if facts != before[0] and not notes:
                silent.append(place)
        except ObygazeError:
            n_refused += 1
    assert silent == []
    assert n_refused > 15


def test_no_changed_byte_of_a_footer_ends_the_process(tmp_path: Path) -> None:
    """pyarrow ends it where the facts of a damaged column are asked for."""
    pytest.importorskip("pyarrow")
    path = tmp_path / "f.parquet"
    rows = [Row(f"c{n}", "film") for n in range(5)]
    values = {"clip": np.ones((5, 40), np.float32), "share": np.ones(5, np.float32)}
    store = made_store(tmp_path / "store", rows, values)
    export_features(store, path, arrays=["clip", "share"])
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from obygaze_features.core.errors import ObygazeError\n"
        "from obygaze_features.store.importing import open_features\n"
        "path = Path(sys.argv[1])\n"
        "whole = path.read_bytes()\n"
        "first = len(whole) - int.from_bytes(whole[-8:-4], 'little') - 8\n"
        "for place in range(first, first + 90):\n"
        "    data = bytearray(whole)\n"
        "    data[place] ^= 24\n"
        "    path.write_bytes(data)\n"
        "    try:\n"
        "        for array in open_features(path).arrays.values():\n"
        "            array[0:5]\n"
        "    except ObygazeError:\n"
        "        pass\n"
    )
    words = [sys.executable, "-c", program, path]
    done = subprocess.run(words, env=environment(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
