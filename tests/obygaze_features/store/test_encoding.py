"""What zarr and plain arithmetic read in the bytes of a store."""

from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stores import made_store
from support.written_stores import some_rows, some_values

from obygaze_features.core.errors import FixInput
from obygaze_features.store.layout import DTYPES, Array
from obygaze_features.store.rows import FAILED, NO_VIDEO, OK, Row, RowColumns
from obygaze_features.store.table import check_rows, new_table


def small(
    name: str, dtype: str, shape: tuple[int, ...], sizes: tuple[int, int]
) -> Array:
    """An array with small chunks and files."""
    dims = tuple(f"{name}_{number}" for number in range(len(shape)))
    return Array(name, dtype, shape, dims, sizes[0], sizes[0] * sizes[1])


ARRAYS = st.builds(
    small,
    name=st.just("a"),
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(1, 4), max_size=3).map(tuple),
    sizes=st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 8])),
)


@settings(max_examples=20, deadline=None)
@given(array=ARRAYS, n_rows=st.integers(1, 40), seed=st.integers(0, 99))
def test_zarr_reads_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, array: Array, n_rows: int, seed: int
) -> None:
    values = some_values(array, n_rows, seed)
    folder = tmp_path_factory.mktemp("store") / "s"
    made_store(folder, some_rows(n_rows), {"a": values}, arrays=[array])
    read = zarr.open_group(folder / "data.zarr", mode="r", zarr_format=3)["a"]
    assert read.dtype == values.dtype and read.shape == values.shape
    np.testing.assert_array_equal(read[:], values)


def test_zarr_reads_the_table_of_rows(tmp_path: Path) -> None:
    rows = [
        Row("a", "one", 1, 2.5, OK, "", 25, 50, 25.0, 10, "0" * 16, 3),
        Row('b, "b"', "one", status=FAILED, reason="no\npicture, at all"),
        Row("c", 'x,"y"日', status=NO_VIDEO, reason="\x1b[31mred"),
    ]
    made_store(tmp_path / "s", rows, {"clip": np.ones((3, 2), "f4")})
    group = zarr.open_consolidated(tmp_path / "s" / "data.zarr", zarr_format=3)
    read = {name: array[:].tolist() for name, array in group.arrays()}
    assert read["clip_id"] == ["a", 'b, "b"', "c"]
    assert read["movie_id"] == ["one", "one", 'x,"y"日']
    assert read["reason"] == ["", "no picture, at all", "\\x1b[31mred"]
    assert read["status"] == [0, 1, 2]
    assert read["video_bytes"] == [10, -1, -1] and read["n_pictures"] == [3, -1, -1]
    assert read["start_frame"] == [25, -1, -1] and read["end_frame"] == [50, -1, -1]
    assert read["video_hash"] == ["0" * 16, "", ""]
    known = {"start_s": 1, "end_s": 2.5, "framerate": 25}
    for name, value in known.items():
        np.testing.assert_array_equal(read[name], [value, np.nan, np.nan])
    meanings = group["status"].attrs["flag_meanings"].split()
    codes = group["status"].attrs["flag_values"]
    assert dict(zip(codes, meanings, strict=True))[2] == "no-video"
    columns = {name: array for name, array in group.arrays() if name != "clip"}
    assert all(array.attrs["long_name"] for array in columns.values())


def test_a_column_is_there_only_if_a_row_knows_a_value() -> None:
    table = new_table(RowColumns.of(some_rows(3)))
    assert [*table] == ["clip_id", "movie_id", "start_s", "end_s", "status", "reason"]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "at least one row"),
        ([Row("a\nb", "m")], "cannot be printed"),
        ([Row("a", "m\x00")], "cannot be printed"),
        ([Row("a", "\ud800")], "cannot be printed"),
        ([Row(" ", "m")], "a clip has an empty id"),
        ([Row("a", " ")], "1 of 1 clip without a film"),
        ([Row("a", ""), Row("b", "m")], "1 of 2 clips without a film"),
        ([Row("a", "m"), Row("b", "m"), Row("a", "n")], "'a' occurs twice"),
        ([Row("a", "m", status="done")], "status must be one of"),
        ([Row("a", "m", float("nan"))], "expected a finite time of a clip, got nan"),
    ],
)
def test_rows_that_no_store_may_have(rows: list[Row], sentence: str) -> None:
    with pytest.raises(FixInput, match=sentence):
        check_rows(RowColumns.of(rows), "here")
