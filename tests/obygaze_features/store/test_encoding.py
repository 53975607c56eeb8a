"""What zarr, csv and plain arithmetic read in the bytes of a store."""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from obygaze_features.core.errors import FixInput
from obygaze_features.store.decoding import codes_of
from obygaze_features.store.encoding import (
    ShardWriter,
    array_document,
    check_rows,
    group_document,
    ids_table,
    rows_and_films,
    status_column,
    text_column,
)
from obygaze_features.store.layout import DTYPES, Array
from obygaze_features.store.rows import FAILED, NO_VIDEO, Row, RowColumns
from obygaze_features.store.text_columns import TextColumn


def some_rows(n_rows: int) -> list[Row]:
    return [Row(f"clip {n}", f"film-{n // 3}") for n in range(n_rows)]


def some_values(array: Array, n_rows: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    if array.dtype.startswith("float"):
        return random.standard_normal((n_rows, *array.shape)).astype(array.dtype)
    most = 2 if array.dtype == "bool" else 200
    return random.integers(0, most, (n_rows, *array.shape)).astype(array.dtype)


def write_group(folder: Path, rows: list[Row], values: dict[Array, np.ndarray]) -> None:
    """A group of Zarr from the parts that this module makes; appended a few rows a time."""
    folder.mkdir()
    (folder / "zarr.json").write_bytes(group_document())
    columns = {
        "clip_id": text_column(TextColumn([row.clip_id for row in rows])),
        "movie_id": text_column(TextColumn([row.movie_id for row in rows])),
        "status": status_column(codes_of([row.status for row in rows])),
    }
    for name, (document, chunk) in columns.items():
        (folder / name).mkdir()
        (folder / name / "zarr.json").write_bytes(document)
        (folder / name / "c.0").write_bytes(chunk)
    for array, rows_of_array in values.items():
        (folder / array.name).mkdir()
        (folder / array.name / "zarr.json").write_bytes(
            array_document(array, len(rows))
        )
        for number in range(array.n_files(len(rows))):
            part = rows_of_array[number * array.file_rows :][: array.file_rows]
            path = folder.parent / array.file_name(number)
            with path.open("wb") as stream:
                writer = ShardWriter(array, stream)
                for first in range(0, len(part), 3):
                    writer.append(part[first : first + 3])
                mark = writer.finish()
            data = path.read_bytes()
            assert mark.n_bytes == len(data)
            assert mark.sha256 == hashlib.sha256(data).hexdigest()


def small(
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    sizes: tuple[int, int],
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
    folder = tmp_path_factory.mktemp("group") / "data.zarr"
    write_group(folder, some_rows(n_rows), {array: values})
    read = zarr.open_group(folder, mode="r", zarr_format=3)["a"]
    assert read.dtype == values.dtype and read.shape == values.shape
    np.testing.assert_array_equal(read[:], values)


def test_rows_and_films() -> None:
    rows = [
        Row(
            "a", "one", 1, 2.5, video_bytes=10, video_hash="0" * 16, pictures=3, maker=0
        ),
        Row('b, "b"', "one", status=FAILED, reason="no\npicture, at all"),
        Row("c", 'x,"y"', status=NO_VIDEO, reason="\x1b[31mred"),
    ]
    rows_csv, films_csv = rows_and_films(RowColumns.of(rows))
    assert rows_csv.count(b"\n") == 4 and b"\r" not in rows_csv
    read = list(csv.DictReader(io.StringIO(rows_csv.decode(), newline="")))
    assert read[0] == {
        "row": "0", "clip_id": "a", "movie_id": "one", "start_s": "1.0", "end_s": "2.5",
        "status": "ok", "reason": "", "video_bytes": "10", "video_hash": "0" * 16,
        "pictures": "3", "maker": "0",
    }  # fmt: skip
    assert [line["clip_id"] for line in read] == ["a", 'b, "b"', "c"]
    assert read[1]["reason"] == "no picture, at all" and read[1]["start_s"] == ""
    assert read[2]["movie_id"] == 'x,"y"' and read[2]["reason"] == "\\x1b[31mred"
    films = list(csv.DictReader(io.StringIO(films_csv.decode(), newline="")))
    assert [line["movie_id"] for line in films] == ["one", 'x,"y"']
    lines = rows_csv.splitlines(keepends=True)
    for film, own_lines in zip(films, [lines[1:3], lines[3:]], strict=True):
        own = b"".join(own_lines)
        assert rows_csv[int(film["byte"]) :].startswith(own)
        assert film["crc32c"] == f"{google_crc32c.value(own):08x}"
        assert int(film["rows"]) == len(own_lines)


def test_a_run_of_a_film_is_at_most_256_rows() -> None:
    films = ["a"] * 300 + ["b"] * 256 + ["c"] + ["a"] * 2
    rows = [Row(str(n), film) for n, film in enumerate(films)]
    lines = rows_and_films(RowColumns.of(rows))[1].decode().splitlines()[1:]
    runs = [tuple(line.split(",")[:3]) for line in lines]
    assert runs == [
        ("a", "0", "256"), ("a", "256", "44"), ("b", "300", "256"), ("c", "556", "1"),
        ("a", "557", "2"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "at least one row"),
        ([Row("a\nb", "m")], "not printed"),
        ([Row("a", "m\x00")], "not printed"),
        ([Row("a", "\ud800")], "not printed"),
        ([Row(" ", "m")], "a clip has an empty id"),
        ([Row("a", " ")], "1 of 1 clip would have no film"),
        ([Row("a", ""), Row("b", "m")], "1 of 2 clips would have no film"),
        ([Row("a", "m"), Row("b", "m"), Row("a", "n")], "'a' is there twice"),
        ([Row("a", "m", status="done")], "status must be one of"),
        ([Row("a", "m", float("nan"))], "a time of a clip is nan"),
    ],
)
def test_rows_that_no_store_may_have(rows: list[Row], sentence: str) -> None:
    with pytest.raises(FixInput, match=sentence):
        check_rows(RowColumns.of(rows), "here")
        ids_table(TextColumn([row.clip_id for row in rows]), "here")
