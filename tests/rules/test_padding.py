"""Rule: what a mask says is padding is in no pooled vector, in every format that has masks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obygaze_features.store.importing.features import import_features
from obygaze_features.store.reading import open_store

WIDTH = 3


def of_vectors(pool: str, vectors: np.ndarray) -> np.ndarray:
    """One vector of several, worked out by hand."""
    if pool == "last":
        return vectors[-1]
    reduce = np.max if pool == "max" else np.mean
    return np.asarray(reduce(vectors, axis=0))


def saved(
    format: str, folder: Path, ids: list[str], columns: dict[str, list[np.ndarray]]
) -> tuple[Path, dict[str, Any]]:
    """Write an array of each name for each id; return the options that read them."""
    path = folder / f"frames.{format}"
    if format == "npz":
        np.savez(path, clip_id=ids, **{k: np.stack(v) for k, v in columns.items()})
    elif format == "parquet":
        lists = {name: [row.tolist() for row in rows] for name, rows in columns.items()}
        pq.write_table(pa.table({"clip_id": ids, **lists}), path)
    else:
        with h5py.File(path, "w") as file:
            for name, rows in columns.items():
                for clip_id, row in zip(ids, rows, strict=True):
                    file[f"{clip_id}/{name}"] = row
        return path, {"arrays": {name: f"{{id}}/{name}" for name in columns}}
    return path, {}


@pytest.mark.parametrize("format", ["npz", "parquet", "hdf5"])
@given(
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    pool=st.sampled_from(["max", "mean", "last"]),
    has_times=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=8, deadline=None)
def test_padding_is_in_no_vector_however_long_the_clips_are(
    tmp_path_factory: pytest.TempPathFactory,
    format: Any,
    lengths: list[int],
    pool: Any,
    has_times: bool,
    seed: int,
) -> None:
    folder = tmp_path_factory.mktemp("padding")
    random = np.random.default_rng(seed)
    if format == "npz":
        # All clips of an array have one length.
        lengths = [max(lengths)] * len(lengths)
    columns: dict[str, list[np.ndarray]] = {"frames": [], "mask": []}
    expected = []
    for length in lengths:
        is_real = random.random(length) < 0.6
        is_real[0] = True
        frames = random.integers(-9, 9, (length, WIDTH)).astype(np.float32)
        expected.append(of_vectors(pool, frames[is_real]))
        frames[~is_real] = 99
        columns["frames"].append(frames)
        columns["mask"].append(is_real)
    if has_times:
        columns["time_s"] = [np.arange(len(row)) / 2 for row in columns["mask"]]
    ids = [f"clip-{number}" for number in range(len(lengths))]
    path, options = saved(format, folder, ids, columns)
    done = import_features(path, folder / "store", pool=pool, **options)
    assert not done.failed
    store = open_store(folder / "store")
    (array,) = store.record.arrays
    found = np.asarray(store.matrix(array.name))
    np.testing.assert_allclose(found, np.array(expected), rtol=1e-6)
    assert "over the real frames" in store.recipe.facts["pooling"]
