"""Plain zarr and xarray open a store as it stands, without a warning."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr
from support.stores import fill_store, plan_store, sealed_store, some_ids, some_values

from obygaze_features.store import ArraySpec, RowStatus

TOKENS = ArraySpec("tokens", (64, 1024), dtype="float16")


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_xarray_opens_a_store_and_selects_by_clip(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    values = sealed_store(tmp_path / "s")
    clips, films = some_ids(23)
    opened = xarray.open_zarr(tmp_path / "s/data.zarr", consolidated=False)
    assert set(opened.coords) == {"clip_id", "movie_id"}
    assert set(opened.data_vars) == {"clip", "pooled", "frames", "time_s"}
    assert dict(opened.sizes) == {"row": 23, "d4": 4, "d6": 6, "t3": 3, "d3": 3}
    assert opened.movie_id.values.tolist() == films
    by_clip = opened.set_xindex("clip_id")
    one = by_clip.frames.sel(clip_id=clips[7]).values
    np.testing.assert_array_equal(one, values["frames"][7])
    of_film = opened["clip"].isel(row=opened.movie_id.values == films[12])
    np.testing.assert_array_equal(of_film.values, values["clip"][10:15])


def test_xarray_opens_a_store_that_is_still_being_filled(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    plan_store(tmp_path / "s")
    values = some_values(23)
    fill_store(tmp_path / "s", values, {9: RowStatus.no_video()}, blocks=[2])
    opened = xarray.open_zarr(tmp_path / "s/data.zarr", consolidated=False)
    clip = opened["clip"].values
    np.testing.assert_array_equal(clip[[8, 10, 11]], values["clip"][[8, 10, 11]])
    assert (
        np.isnan(clip[9]).all()
        and np.isnan(clip[:8]).all()
        and np.isnan(clip[12:]).all()
    )


@pytest.mark.parametrize("compressor", [None, "zstd", "blosc"])
def test_plain_zarr_reads_what_was_written(
    tmp_path: Path, compressor: str | None
) -> None:
    arrays = (ArraySpec("clip", (4,)), TOKENS)
    values = sealed_store(tmp_path / "s", 70, 64, arrays=arrays, compressor=compressor)
    group = zarr.open_group(tmp_path / "s/data.zarr", mode="r")
    assert sorted(name for name, _ in group.arrays()) == [
        "clip",
        "clip_id",
        "movie_id",
        "tokens",
    ]
    for name, array in values.items():
        np.testing.assert_array_equal(group[name][:], array)
    assert group["clip_id"][:].tolist() == some_ids(70)[0]
    assert group["tokens"].shards == (64, 64, 1024) and group["tokens"].chunks == (
        1,
        64,
        1024,
    )


@pytest.mark.parametrize("compressor", [None, "zstd", "blosc"])
def test_zarr_writes_the_same_bytes(tmp_path: Path, compressor: str | None) -> None:
    arrays = (ArraySpec("clip", (4,)), ArraySpec("mask", (3,), dtype="bool"), TOKENS)
    values = sealed_store(tmp_path / "s", 70, 64, arrays=arrays, compressor=compressor)
    for spec in arrays:
        ours, theirs = (
            tmp_path / "s/data.zarr" / spec.name,
            tmp_path / "zarr" / spec.name,
        )
        theirs.mkdir(parents=True)
        shutil.copy(ours / "zarr.json", theirs)
        array = zarr.open_array(theirs, mode="r+").with_config(
            {"write_empty_chunks": True}
        )
        for start in (0, 64):
            array[start : start + 64] = values[spec.name][start : start + 64]
        files = sorted(path.name for path in ours.iterdir())
        assert (
            files == sorted(path.name for path in theirs.iterdir()) and len(files) == 3
        )
        for name in files:
            assert (ours / name).read_bytes() == (theirs / name).read_bytes(), (
                spec.name,
                name,
            )
