"""Story 18: I received a store: is it whole, how was it made and by what, can others read it?"""

import importlib.metadata
import shutil
from typing import Any

import h5py
import numpy as np
import pandas
import pytest
import xarray
import zarr

from stories.made import begin_with_extracted_films
from stories.workspace import Workspace

CARD = "README.md"


@pytest.fixture
def received(ws: Workspace) -> Workspace:
    """Return a workspace with nothing but a store that was made elsewhere, `films`."""
    maker = Workspace(ws.folder / "maker")
    begin_with_extracted_films(maker)
    receiver = Workspace(ws.folder / "receiver")
    target = receiver.path("stores/films")
    shutil.copytree(maker.path("stores/films.descriptors"), target)
    return receiver


def files_that_are_checked(ws: Workspace) -> list[str]:
    """Return the files of the store, without the card, which is a text for people."""
    return [name for name in ws.bytes_of("stores/films") if name != CARD]


def put(ws: Workspace, name: str, data: bytes) -> None:
    """Write the bytes of a file of the store, also where it may only be read."""
    path = ws.path(f"stores/films/{name}")
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def problems(ws: Workspace) -> str:
    return ws("store verify films --hash", code=4).text


def test_a_whole_store_says_how_it_was_made_and_by_what(received: Workspace) -> None:
    assert "40 ok" in received("store verify films --hash").text
    text = received("store info films").text
    assert "40 of the manifest 'films': 40 with features" in text
    assert "descriptors, 16 frames a clip, float64" in text
    program = received("--version").out.split()[-1]
    assert f"by obygaze {program} on cpu" in text
    more = received("-v store info films").text
    assert "sampling.rule: int(i * total / T)" in more
    for package in ("av", "numpy"):
        assert f"{package} {importlib.metadata.version(package)}" in more
    facts = received("store info films --json").json()
    assert facts["counts"] == {"ok": 40}
    assert f"Recipe {facts['fingerprint'][:12]}, " in text
    assert facts["fingerprint"] in more
    shapes = {one["name"]: one["shape"] for one in facts["arrays"]}
    assert shapes["frames"] == [16, 64]
    card = received.read("stores/films/README.md")
    assert facts["fingerprint"] in card
    assert facts["seal_sha256"] in card


def test_one_number_of_the_publisher_stands_for_the_whole_store(received) -> None:
    published = received("store info films --json").json()["seal_sha256"]
    received(f"store verify films --hash --expect {published}")
    another = published[::-1]
    received(f"store verify films --hash --expect {another}", code=5)
    received("store verify films --hash --expect abc", code=2)
    received(f"store pull films -o copy --expect {another}", code=5)
    assert not received.path("stores/copy").exists()


def test_a_flipped_bit_is_found_in_every_file(received: Workspace) -> None:
    for name in files_that_are_checked(received):
        data = received.bytes_of("stores/films")[name]
        for position in (len(data) // 2, len(data) - 2):
            flipped = bytearray(data)
            flipped[position] ^= 1
            put(received, name, bytes(flipped))
            assert name in problems(received)
        put(received, name, data)
    received("store verify films --hash")


def features_with_a_failed_clip(ws: Workspace) -> tuple[list[str], dict[str, Any]]:
    """Make the store `films` from files; clip 3 has a NaN, so that it has no features."""
    ids = [f"{film}-{scene:03d}" for film in ("lake", "night") for scene in range(1, 7)]
    draws = np.random.default_rng(1)
    values = {
        "clip": draws.normal(size=(12, 16)).astype(np.float32),
        "frames": draws.normal(size=(12, 3, 8)).astype(np.float16),
    }
    values["clip"][3, 5] = np.nan
    films = ["lake"] * 6 + ["night"] * 6
    np.savez(ws.path("films.npz"), clip_id=ids, movie_id=films, **values)
    ws(
        "store import films.npz --array clip=clip --array frames=frames -o films "
        "--licence CC-BY-4.0",
        code=3,
    )
    values["clip"][3] = np.nan
    values["frames"][3] = np.nan
    return ids, values


def test_zarr_and_xarray_read_the_numbers(ws: Workspace) -> None:
    ids, values = features_with_a_failed_clip(ws)
    assert "lake-004 failed" in ws("store info films").text
    folder = ws.path("stores/films")
    group = zarr.open_group(folder, mode="r")
    assert [str(one) for one in np.asarray(group["clip_id"])] == ids
    data = xarray.open_zarr(folder, consolidated=False, chunks=None)
    assert data["movie_id"].values.tolist() == ["lake"] * 6 + ["night"] * 6
    for name, expected in values.items():
        np.testing.assert_array_equal(np.asarray(group[name]), expected)
        np.testing.assert_array_equal(data[name].values, expected)
        assert data[name].dtype == expected.dtype
    by_film = data.set_coords("movie_id")["clip"].groupby("movie_id").max()
    np.testing.assert_array_equal(
        by_film.sel(movie_id="night").values, values["clip"][6:].max(axis=0)
    )


def test_h5py_and_parquet_read_an_export(ws: Workspace) -> None:
    ids, values = features_with_a_failed_clip(ws)
    ws("store export films films.h5", code=3)
    ws("store export films films-parquet --as parquet --array clip", code=3)
    with_features = [row for row in range(12) if row != 3]
    with h5py.File(ws.path("films.h5")) as file:
        found_ids = [clip.decode() for clip in file["clip_id"]]
        assert found_ids == [ids[row] for row in with_features]
        for name, expected in values.items():
            np.testing.assert_array_equal(file[name], expected[with_features])
    table = pandas.read_parquet(ws.path("films-parquet/data"))
    table = table.sort_values("clip_id")
    assert table["clip_id"].tolist() == [ids[row] for row in with_features]
    found = np.stack(table["clip"].to_list())
    np.testing.assert_array_equal(found, values["clip"][with_features])
