"""The root of a store is its Zarr group: other programs open it without this one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support import filled_stores
from support.filled_stores import fill
from support.store_servers import web_server
from support.stores import made_store, some_ids, some_rows, some_values

from obygaze_features.store.changing import merge, subset
from obygaze_features.store.layout import Array
from obygaze_features.store.reading import open_store
from obygaze_features.store.rows import Row
from obygaze_features.store.sealing import seal

# Only zarr, numpy and xarray are imported, and any warning ends the program. Its words
# are places and the files for what is read there, in turn.
READER = """
import json, sys, warnings
warnings.simplefilter("error")
import numpy, zarr

wanted = json.loads(sys.argv[1])
try:
    import xarray
except ImportError:
    xarray = None
for place, out in zip(sys.argv[2::2], sys.argv[3::2], strict=True):
    group = zarr.open_group(place, mode="r")
    arrays = dict(group.members())
    read = {name: arrays[name][:] for name in wanted or arrays}
    if xarray is not None:
        data = xarray.open_zarr(place, chunks=None)
        assert set(data.coords) == set(group.attrs["coordinates"].split())
        assert {*data.coords, *data.data_vars} == {*arrays}
        for name, values in read.items():
            numpy.testing.assert_array_equal(data[name].values, values)
    assert not any(name.startswith("obygaze") for name in sys.modules)
    numbers = {name: values for name, values in read.items() if values.dtype.kind in "fbui"}
    texts = {name: values.tolist() for name, values in read.items() if name not in numbers}
    numpy.savez(out, **numbers)
    print(json.dumps(texts))
"""


def read_elsewhere(
    places: Sequence[object],
    folder: Path,
    *wanted: str,
    python: object = sys.executable,
) -> list[dict[str, np.ndarray | list[str]]]:
    """Return the arrays of each group, as a process without this program reads them."""
    outs = [folder / f"read-{number}.npz" for number in range(len(places))]
    pairs = [str(word) for pair in zip(places, outs, strict=True) for word in pair]
    arguments = [str(python), "-c", READER, json.dumps(wanted), *pairs]
    # In this folder Python finds no package of this project.
    done = subprocess.run(
        arguments, capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr
    read = []
    for out, texts in zip(outs, done.stdout.splitlines(), strict=True):
        with np.load(out) as numbers:
            read.append({**json.loads(texts), **numbers})
    return read


def stores_of_all_kinds(folder: Path) -> list[Path]:
    """Make stores with failed rows, of a part, merged, and grown."""
    ids, films = some_ids(23)
    rows = list(map(Row, ids, films))
    rows[3] = Row(ids[3], films[3], 1.5, 2.25, status="failed", reason="no such stream")
    rows[22] = Row(ids[22], films[22], status="no-video", reason="café, ünïcode 日本")
    made_store(folder / "failed", rows, some_values(23))
    subset(folder / "failed", folder / "part", films=[films[5]])
    subset(folder / "failed", folder / "rest", without=[films[5]])
    merge([folder / "part", folder / "rest"], folder / "merged")
    fill(filled_stores.plan(folder / "grown"), filled_stores.values_of())
    replaced = seal(folder / "grown").seal
    n_before, n_rows = filled_stores.N_ROWS, 110
    again = [filled_stores.fails_at_first(number) for number in range(n_before)]
    computed = again + [True] * (n_rows - n_before)
    filling = filled_stores.plan(
        folder / "grown", n_rows, replaces=replaced, computed=computed
    )
    fill(filling, filled_stores.values_of(0, n_rows))
    seal(folder / "grown")
    return [folder / name for name in ("failed", "part", "merged", "grown")]


def check_read(path: Path, read: dict[str, np.ndarray | list[str]]) -> None:
    """Compare what another program read of a store with what this one reads."""
    store = open_store(path)
    rows = store.rows
    is_ok = np.array([row.is_ok for row in rows])
    assert read["clip_id"] == [row.clip_id for row in rows]
    assert read["movie_id"] == [row.movie_id for row in rows]
    assert read["reason"] == [row.reason for row in rows]
    words = ("ok", "failed", "no-video", "silent", "no-words", "not-extracted")
    assert [words[code] for code in read["status"]] == [row.status for row in rows]
    starts = [np.nan if row.start_s is None else row.start_s for row in rows]
    np.testing.assert_array_equal(read["start_s"], starts)
    for array in store.record.arrays:
        with_features = store.matrix(array.name, missing="drop").values
        np.testing.assert_array_equal(read[array.name][is_ok], with_features)
        fill = np.nan if array.is_float else 0
        others = read[array.name][~is_ok]
        np.testing.assert_array_equal(others, np.full_like(others, fill))


def test_other_programs_read_what_this_one_reads(tmp_path: Path) -> None:
    paths = stores_of_all_kinds(tmp_path)
    for path, read in zip(paths, read_elsewhere(paths, tmp_path), strict=True):
        check_read(path, read)


@pytest.mark.check("installs zarr and xarray in an environment of their own")
def test_a_fresh_environment_reads_every_store(tmp_path: Path) -> None:
    """From a folder and from an address, with the newest versions for this Python."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    packages = ("zarr", "xarray", "fsspec", "aiohttp")
    install = [python, "-m", "pip", "install", "--quiet", *packages]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"pip cannot install zarr: {done.stderr.splitlines()[-1]}")
    (tmp_path / "stores").mkdir()
    paths = stores_of_all_kinds(tmp_path / "stores")
    with web_server(tmp_path / "stores") as server:
        afar = [f"{server.url}/{path.name}" for path in paths]
        found = read_elsewhere([*paths, *afar], tmp_path, python=python)
    for path, read in zip([*paths, *paths], found, strict=True):
        check_read(path, read)


def test_from_afar_only_the_needed_bytes_are_read(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    pytest.importorskip("fsspec")
    # A chunk has 4 rows of 512 numbers: 8,192 bytes of a store of half a megabyte.
    arrays = (Array("pooled", "float32", (512,), ("d512",), 4, 16),)
    values = some_values(240, arrays)
    made_store(tmp_path / "s", some_rows(240), values, arrays=arrays)
    n_bytes = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert n_bytes > 490_000
    one_row = (
        "import sys, warnings; warnings.simplefilter('error'); import zarr\n"
        "group = zarr.open_group(sys.argv[1], mode='r')\n"
        "assert len(dict(group.members())) == 7\n"
        "print(group['pooled'][37].tolist())\n"
    )
    with web_server(tmp_path) as server:
        arguments = [sys.executable, "-c", one_row, f"{server.url}/s"]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == values["pooled"][37].tolist()
        documents = (tmp_path / "s/zarr.json").stat().st_size
        # The documents, an index of 4 entries and a chunk.
        assert server.n_bytes == documents + 4 * 16 + 4 + 4 * 512 * 4 + 4
        # xarray reads the coordinates too.
        (read,) = read_elsewhere([f"{server.url}/s"], tmp_path, "pooled")
        np.testing.assert_array_equal(read["pooled"], values["pooled"])


def test_plain_zarr_does_not_find_what_this_reader_finds(tmp_path: Path) -> None:
    """The reason why this program has a reader (docs/design/0003-store.md)."""
    zarr = pytest.importorskip("zarr")
    values = some_values(9)
    made_store(tmp_path / "s", some_rows(9), values)
    made_store(tmp_path / "other", some_rows(9), some_values(9, seed=1))
    file = tmp_path / "s/clip/c.0.0"
    file.unlink()
    assert np.isnan(zarr.open_group(tmp_path / "s", mode="r")["clip"][:]).all()
    shutil.copy(tmp_path / "other/clip/c.0.0", file)
    exchanged = zarr.open_group(tmp_path / "s", mode="r")["clip"][:]
    np.testing.assert_array_equal(exchanged, some_values(9, seed=1)["clip"])
    with pytest.raises(Exception, match="damaged"):
        open_store(tmp_path / "s").matrix("clip")
    file.unlink()
    with pytest.raises(Exception, match=r"clip/c\.0\.0"):
        open_store(tmp_path / "s").matrix("clip")
