"""Rule: rows with the id of one clip, one below the other, become one vector in every format."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.cli import call_obygaze

from obygaze_features.core.errors import FixInput
from obygaze_features.store.importing.features import import_features
from obygaze_features.store.reading import open_store

WIDTH = 3
FORMATS = ("npz", "hdf5", "parquet", "csv")


def of_vectors(pool: str, vectors: np.ndarray) -> np.ndarray:
    """One vector of several, worked out by hand."""
    if pool == "last":
        return vectors[-1]
    reduce = np.max if pool == "max" else np.mean
    return np.asarray(reduce(vectors, axis=0))


def saved(format: str, folder: Path, ids: list[str], rows: np.ndarray) -> Path:
    """Write rows with their ids in a format."""
    path = folder / f"rows.{format}"
    if format == "npz":
        np.savez(path, clip_id=ids, features=rows)
    elif format == "hdf5":
        with h5py.File(path, "w") as file:
            file["clip_id"] = np.array(ids, dtype=h5py.string_dtype())
            file["features"] = rows
    elif format == "parquet":
        values = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), WIDTH)
        pq.write_table(pa.table({"clip_id": ids, "features": values}), path)
    else:
        with path.open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["clip_id", "x", "y", "z"])
            for clip_id, row in zip(ids, rows.tolist(), strict=True):
                table.writerow([clip_id, *row])
    return path


@pytest.mark.parametrize("format", FORMATS)
@given(
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    pool=st.sampled_from(["max", "mean", "last"]),
    seed=st.integers(0, 9),
)
@settings(max_examples=8, deadline=None)
def test_rows_of_clips_are_pooled_in_every_format(
    tmp_path_factory: pytest.TempPathFactory,
    format: Any,
    lengths: list[int],
    pool: Any,
    seed: int,
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    numbers = np.random.default_rng(seed).integers(-9, 9, (sum(lengths), WIDTH))
    rows = numbers.astype(np.float32)
    ids = np.repeat([f"clip-{n}" for n in range(len(lengths))], lengths).tolist()
    path = saved(format, folder, ids, rows)
    import_features(path, folder / "store", pool=pool)
    store = open_store(folder / "store")
    assert store.clip_ids.tolist() == list(dict.fromkeys(ids))
    pieces = np.split(rows, np.cumsum(lengths)[:-1])
    expected = np.array([of_vectors(pool, piece) for piece in pieces])
    found = np.asarray(store.matrix("clip"))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def saved_frames(
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


@pytest.mark.parametrize(
    ("format", "layout"),
    [
        ("npz", "row"),
        ("npz", "rows"),
        ("parquet", "row"),
        ("parquet", "rows"),
        ("parquet", "clip"),
        ("hdf5", "clip"),
    ],
)
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
    layout: str,
    lengths: list[int],
    pool: Any,
    has_times: bool,
    seed: int,
) -> None:
    """A row of the files is a frame, or several frames, or a whole clip; a mask is of them."""
    # Of clips of one row each, a number a row is no mask of frames.
    assume(layout != "row" or max(lengths) > 1)
    folder = tmp_path_factory.mktemp("padding")
    random = np.random.default_rng(seed)
    ids: list[str] = []
    columns: dict[str, list[np.ndarray]] = {"frames": [], "mask": []}
    expected = []
    for number, length in enumerate(lengths):
        shape = (length, 2) if layout == "rows" else (length,)
        is_real = random.random(shape) < 0.6
        is_real.flat[0] = True
        frames = random.integers(-9, 9, (*shape, WIDTH)).astype(np.float32)
        expected.append(of_vectors(pool, frames[is_real]))
        frames[~is_real] = 99
        name = f"clip-{number}"
        if layout == "clip":
            ids.append(name)
            columns["frames"].append(frames)
            columns["mask"].append(is_real)
        else:
            ids += [name] * length
            columns["frames"] += list(frames)
            columns["mask"] += list(is_real)
    if has_times and layout != "row":
        columns["time_s"] = [np.arange(len(row)) / 2 for row in columns["mask"]]
    path, options = saved_frames(format, folder, ids, columns)
    done = import_features(path, folder / "store", pool=pool, **options)
    assert not done.failed
    store = open_store(folder / "store")
    (array,) = store.record.arrays
    found = np.asarray(store.matrix(array.name))
    np.testing.assert_allclose(found, np.array(expected), rtol=1e-6)
    assert "over the real frames" in store.recipe.facts["pooling"]


@pytest.mark.parametrize("format", FORMATS)
def test_frames_that_are_not_one_below_the_other_are_refused(
    tmp_path: Path, format: Any
) -> None:
    rows = np.eye(WIDTH, dtype=np.float32)
    path = saved(format, tmp_path, ["a", "b", "a"], rows)
    with pytest.raises(FixInput, match="rows that are not one below the other: a"):
        import_features(path, tmp_path / "store", pool="max")
    with pytest.raises(FixInput, match="1 clip id in several rows") as error:
        import_features(path, tmp_path / "store")
    assert "--pool max" in str(error.value.hint)


@pytest.mark.parametrize("format", ["npz", "hdf5"])
def test_the_hint_on_ids_under_another_name_reads_the_frames(
    tmp_path: Path, format: Any
) -> None:
    path = tmp_path / f"rows.{format}"
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    ids = ["a", "a", "b", "b"]
    if format == "npz":
        np.savez(path, features=rows, shot=ids)
    else:
        with h5py.File(path, "w") as file:
            file["features"] = rows
            file["shot"] = np.array(ids, dtype=h5py.string_dtype())
    with pytest.raises(FixInput) as error:
        import_features(path, tmp_path / "store")
    assert "--array NAME=KEY --id-key KEY; with --pool max" in str(error.value.hint)
    options = "--array clip=features --id-key shot --pool max"
    command = f"store import {path} {options} -o {tmp_path / 'store'}"
    assert call_obygaze(*command.split()).code == 0
    found = np.asarray(open_store(tmp_path / "store").matrix("clip"))
    np.testing.assert_array_equal(found, rows[1::2])


def test_rows_with_the_id_of_two_films_are_no_frames(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("clip_id,movie_id,x,y\n1,lake,1,2\n1,pier,3,4\n")
    with pytest.raises(FixInput, match="rows of several films or times: 1"):
        import_features(path, tmp_path / "store", pool="max")
