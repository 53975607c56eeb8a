"""Arrays that are made of others of a store, as a version of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr
from support.cli import call_obygaze
from support.stores import (
    ARRAYS,
    copy_of_sealed,
    fill_store,
    plan_store,
    sealed_store,
    some_ids,
    some_values,
)

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.store import (
    ArraySpec,
    RowStatus,
    derive,
    diff_stores,
    open_store,
    pull,
    verify,
    withdraw,
)
from obygaze_features.store.write.growth import add_rows

VALUES = some_values(23)
CLIPS, FILMS = some_ids(23)
MEANS = VALUES["frames"].astype(np.float64).mean(axis=1).astype(np.float32)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_of_sealed(tmp_path / "s")


def test_a_mean_and_a_maximum_are_added(store):
    first = open_store(store)
    made = derive(store, array="frames")
    again = derive(store, array="frames")
    assert not again.is_new and again.number == 2
    assert (made.number, made.change) == (2, "levels")
    derive(store, array="frames", by="max", name="most", reason="asked for")
    newest = open_store(store)
    assert newest.version == 3
    assert newest.feature_arrays == ("clip", "pooled", "frames", "frames_mean", "most")
    assert np.array_equal(newest["frames_mean"].values, MEANS)
    assert np.array_equal(newest["most"].values, VALUES["frames"].max(axis=1))
    assert newest["most"].values.dtype == np.float16
    spec = newest.plan.array("frames_mean")
    assert (spec.derived_from, spec.derived_by, spec.tail_shape) == (
        "frames",
        "mean",
        (4,),
    )
    # The recipe is the same: models that were trained on it take the newest version.
    assert newest.fingerprint == first.fingerprint
    assert open_store(store, version=1).feature_arrays == first.feature_arrays
    assert open_store(store, version=2).feature_arrays[-1] == "frames_mean"
    assert np.array_equal(first["clip"].values, VALUES["clip"])
    by_zarr = zarr.open_group(store / "data.zarr", mode="r")["frames_mean"][:]
    assert np.array_equal(by_zarr, MEANS)
    for number in (1, 2, 3):
        assert not verify(f"{store}@{number}", hashes=True).problems
    assert diff_stores(f"{store}@1", store).arrays == ["frames_mean", "most"]


def test_padding_and_failed_rows_do_not_count(tmp_path):
    arrays = (
        ArraySpec("frames", (3, 4), ("frame", "d"), "float16"),
        ArraySpec("mask", (3,), ("frame",), "bool"),
    )
    store = tmp_path / "s"
    plan = plan_store(store, 6, 4, arrays=arrays)
    values = some_values(6, plan.arrays)
    values["mask"] = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0]] * 2, dtype=bool)
    failed = {5: RowStatus.failed("decode", "BadVideo", "broken")}
    fill_store(store, values, failed).seal()
    derive(store, array="frames")
    derive(store, array="frames", by="max")
    opened = open_store(store)
    for row in range(5):
        real = values["frames"][row][values["mask"][row]].astype(np.float64)
        clips = [CLIPS[row]]
        mean = opened.matrix("frames_mean", clips=clips).values[0]
        assert np.array_equal(mean, real.mean(axis=0).astype(np.float32))
        most = opened.matrix("frames_max", clips=clips).values[0]
        assert np.array_equal(most, real.max(axis=0).astype(np.float16))
    assert opened.matrix("frames_mean", missing="nan").present.tolist() == [
        True
    ] * 5 + [False]
    assert not verify(store, hashes=True).problems


def test_later_versions_keep_a_derived_array_true(store, tmp_path):
    """Clips that are added or made again get it too, and withdrawn ones lose it."""
    derive(store, array="frames")
    new = tmp_path / "new"
    plan_store(
        new, 3, 2, clip_ids=[CLIPS[2], "n-1", "n-2"], movie_ids=[FILMS[2], "n", "n"]
    )
    values = some_values(3, ARRAYS, seed=5)
    fill_store(new, values).seal()
    add_rows(store, new, reason="grown")
    withdraw(store, clips=[CLIPS[0]], reason="asked for")
    added = values["frames"].astype(np.float64).mean(axis=1).astype(np.float32)
    expected = np.concatenate([MEANS, added[1:]])
    expected[2] = added[0]
    matrix = open_store(store).matrix("frames_mean", missing="drop")
    assert np.array_equal(matrix.values, expected[1:])
    assert np.array_equal(open_store(store, version=2)["frames_mean"].values, MEANS)
    pull(store, tmp_path / "part", arrays=["frames_mean"])
    part = open_store(tmp_path / "part")
    assert np.array_equal(
        part.matrix("frames_mean", missing="drop").values, expected[1:]
    )
    assert part.plan.array("frames_mean").derived_from == "frames"


def test_what_cannot_be_derived_is_an_error(store, tmp_path):
    with pytest.raises(FixInput, match="does not have several vectors a clip") as error:
        derive(store, array="clip")
    assert error.value.hint == "one of frames"
    with pytest.raises(FixInput, match="has another array 'pooled'"):
        derive(store, array="frames", name="pooled")
    with pytest.raises(FixUsage, match="--by must be mean or max"):
        derive(store, array="frames", by="median")
    with pytest.raises(FixInput, match="no array 'tokens'"):
        derive(store, array="tokens")
    with pytest.raises(FixInput, match="cannot be the name of an array"):
        derive(store, array="frames", name="Frames Mean")
    sealed_store(tmp_path / "flat", 3, 2, arrays=ARRAYS[:2])
    with pytest.raises(FixInput) as error:
        derive(tmp_path / "flat", array="clip")
    assert error.value.hint == "no array of it does"
    assert open_store(store).version == 1


def test_info_says_of_what_an_array_was_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    copy_of_sealed(tmp_path / "stores/films")
    said = call_obygaze("store", "derive", "films", "--array", "frames", "--by", "max")
    assert (
        "films@2: the array frames_max, the maximum of frames, added"
        in said.ok().stdout
    )
    assert (
        "frames_max is the max of frames"
        in call_obygaze("store", "info", "films").stdout
    )
    assert "added: 1 level" in call_obygaze("store", "log", "films").stdout
