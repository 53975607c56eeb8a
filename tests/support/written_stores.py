"""Rows for new stores, and a plain look at every byte of a store that was written."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import zarr

from obygaze_features.store.layout import Array
from obygaze_features.store.reading import open_store
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import ManifestMark
from obygaze_features.store.rows import STATUSES, Row, RowColumns
from obygaze_features.store.verifying import verify
from support.plain_store import checks_of, file_name

MANIFEST = ManifestMark("films", "0" * 64)


def a_recipe(name: str = "clip-b16") -> Recipe:
    sections = ("weights", "sampling", "decoder", "preprocessing", "compute")
    return Recipe.from_json(
        {"backbone": {"name": name}} | {key: {} for key in sections}
    )


def some_rows(n_rows: int, of_a_film: int = 3) -> list[Row]:
    return [Row(f"clip {n}", f"film-{n // of_a_film}") for n in range(n_rows)]


def some_values(array: Array, n_rows: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    if array.dtype.startswith("float"):
        return random.standard_normal((n_rows, *array.shape)).astype(array.dtype)
    most = 2 if array.dtype == "bool" else 200
    return random.integers(0, most, (n_rows, *array.shape)).astype(array.dtype)


class ArraySource:
    def __init__(self, rows: Sequence[Row], values: Mapping[str, np.ndarray]) -> None:
        self.rows = rows
        self.values = values

    def columns(self) -> RowColumns:
        return RowColumns.of(self.rows)

    def read(self, array: Array, first: int, after: int) -> np.ndarray:
        return self.values[array.name][first:after]


def files_of(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def lasting_bytes(folder: Path) -> dict[str, object]:
    """The files of a store, without the time that store.json has and the SHA-256 over it.

    README.md is without the seal.
    """
    files: dict[str, object] = dict(files_of(folder))
    store_json = (folder / "store.json").read_bytes()
    seal = hashlib.sha256(store_json).hexdigest()
    files["README.md"] = (folder / "README.md").read_text("utf-8").replace(seal, "")
    document = json.loads(store_json)
    document["created"] = document["sha256"] = ""
    files["store.json"] = document
    return files


def check_store(folder, rows, values: Mapping[str, np.ndarray]) -> dict[str, object]:
    """Compare a store with what it should hold, by other programs; return its store.json."""
    document = json.loads((folder / "store.json").read_bytes())
    files = files_of(folder)
    listed = set(document["files"])
    assert set(files) - listed <= {"store.json", "README.md"}
    for name, (n_bytes, sha256) in document["files"].items():
        assert len(files[name]) == n_bytes, name
        assert hashlib.sha256(files[name]).hexdigest() == sha256, name
        assert not (folder / name).stat().st_mode & 0o222, name
    statuses = [row.status for row in rows]
    assert document["rows"] == {
        "total": len(rows),
        **{
            status.replace("-", "_"): statuses.count(status)
            for status in STATUSES
            if status in statuses
        },
    }
    group = zarr.open_group(folder, mode="r", zarr_format=3)
    assert group["clip_id"][:].tolist() == [row.clip_id for row in rows]
    assert group["movie_id"][:].tolist() == [row.movie_id for row in rows]
    assert group["reason"][:].tolist() == [row.reason for row in rows]
    assert group["status"][:].tolist() == list(map(STATUSES.index, statuses))
    is_ok = np.array(statuses) == "ok"
    checks = b""
    for column in document["columns"]:
        checks += _checks(files, column, len(rows))
    for array in document["arrays"]:
        name = array["name"]
        read = group[name][:]
        fill = np.nan if array["dtype"].startswith("float") else 0
        np.testing.assert_array_equal(read[is_ok], values[name][is_ok])
        np.testing.assert_array_equal(read[~is_ok], np.full_like(read[~is_ok], fill))
        checks += _checks(files, array, len(rows))
    assert files["chunks.crc32c"] == checks
    return document


def check_all(place: Path) -> None:
    """Check every byte of a store: hashes, checksums of chunks, no number in a failed row."""
    assert verify(place, hashes=True).problems == []
    store = open_store(place)
    is_ok = store.status().is_ok
    for array in store.record.arrays:
        values = store.read(array, np.arange(len(store)))[~is_ok]
        assert np.isnan(values).all() if array.is_float else not values.any()


def _checks(files: Mapping[str, bytes], array: Mapping, n_rows: int) -> bytes:
    """The checksums of the chunks of an array, worked out from its files and their indexes."""
    checks = b""
    for number in range(-(-n_rows // array["file_rows"])):
        data = files[file_name(array, number)]
        if array["dtype"] == "string":
            checks += data[-4:]
            continue
        checks += checks_of(data, array["file_rows"] // array["chunk_rows"])
    return checks
