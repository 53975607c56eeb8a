import hashlib
import struct
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs import VLenUTF8
from support.stores import made_store
from support.written_stores import some_rows, some_values

from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import canonical_json
from obygaze_features.store.decoding import check_content, decode_texts
from obygaze_features.store.encoding import (
    encode_file,
    encode_texts,
    zarr_documents,
)
from obygaze_features.store.importing.staging import StagedFiles
from obygaze_features.store.layout import DTYPES, Array, column_of
from obygaze_features.store.rows import FAILED, NO_VIDEO, OK, Row, RowColumns
from obygaze_features.store.table import check_rows, new_table


def small(
    name: str, dtype: str, shape: tuple[int, ...], sizes: tuple[int, int]
) -> Array:
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
    read = zarr.open_group(folder, mode="r", zarr_format=3)["a"]
    assert read.dtype == values.dtype and read.shape == values.shape
    np.testing.assert_array_equal(read[:], values)


def file_by_hand(array: Array, values: np.ndarray) -> tuple[bytes, bytes]:
    """Return a file and its checksums as docs/store.md, section 4, describes them."""
    data, checks, index = b"", b"", b""
    for first in range(0, array.file_rows, array.chunk_rows):
        chunk = np.full((array.chunk_rows, *array.shape), array.fill, array.dtype)
        rows = values[first : first + array.chunk_rows]
        if not len(rows):
            index += struct.pack("<2Q", 2**64 - 1, 2**64 - 1)
            continue
        chunk[: len(rows)] = rows
        content = chunk.astype(chunk.dtype.newbyteorder("<")).tobytes()
        checks += struct.pack("<I", google_crc32c.value(content))
        index += struct.pack("<2Q", len(data), len(content) + 4)
        data += content + checks[-4:]
    return data + index + struct.pack("<I", google_crc32c.value(index)), checks


@settings(max_examples=60, deadline=None)
@given(
    array=ARRAYS,
    n_rows=st.integers(1, 32),
    seed=st.integers(0, 99),
    is_fill=st.booleans(),
)
def test_a_file_is_as_the_format_says(
    array: Array, n_rows: int, seed: int, is_fill: bool
) -> None:
    n_rows = min(n_rows, array.file_rows)
    values = some_values(array, n_rows, seed)
    if is_fill:
        # zarr leaves out such a chunk, unless it is told to write it.
        values[...] = array.fill
    data, checks = encode_file(array, values)
    assert (data.tobytes(), checks) == file_by_hand(array, values)


@settings(max_examples=60, deadline=None)
@given(array=ARRAYS, n_rows=st.integers(1, 40), seed=st.integers(0, 99), data=st.data())
def test_staged_files_are_those_of_the_format(
    tmp_path_factory: pytest.TempPathFactory,
    array: Array,
    n_rows: int,
    seed: int,
    data: st.DataObject,
) -> None:
    values = some_values(array, n_rows, seed)
    staged = StagedFiles(array, tmp_path_factory.mktemp("staged") / "a", n_rows)
    first = 0
    while first < n_rows:
        after = data.draw(st.integers(first + 1, n_rows))
        staged.put(first, values[first:after])
        first = after
    staged.close()
    for number in range(array.n_files(n_rows)):
        rows = values[number * array.file_rows :][: array.file_rows]
        expected, checks = encode_file(array, rows)
        file = staged.file(number)
        assert file.path.read_bytes() == expected.tobytes()
        assert (file.mark.n_bytes, file.checks) == (len(expected), checks)
    some = np.array(data.draw(st.lists(st.integers(0, n_rows - 1), min_size=1)))
    np.testing.assert_array_equal(staged.read(some), values[some])


@settings(max_examples=30, deadline=None)
@given(texts=st.lists(st.text(max_size=4), min_size=1, max_size=20))
def test_files_of_texts_are_those_that_zarr_writes(texts: list[str]) -> None:
    column = column_of("reason", len(texts))
    files: dict[str, Any] = {}
    written = zarr.create_array(
        zarr.storage.MemoryStore(files),
        shape=(len(texts),),
        chunks=(column.chunk_rows,),
        dtype=str,
        compressors=[zarr.codecs.Crc32cCodec()],
        config={"write_empty_chunks": True},
    )
    written[:] = np.array(texts, np.dtypes.StringDType())
    data, checks = encode_texts(column, texts)
    assert data.tobytes() == files["c/0"].to_bytes()
    assert checks == struct.pack("<I", google_crc32c.value(data[:-4].tobytes()))


@settings(max_examples=30, deadline=None)
@given(array=ARRAYS, n_rows=st.integers(1, 32), seed=st.integers(0, 99))
def test_a_file_is_as_zarr_writes_it(array: Array, n_rows: int, seed: int) -> None:
    n_rows = min(n_rows, array.file_rows)
    values = some_values(array, n_rows, seed)
    files: dict[str, Any] = {}
    written = zarr.create_array(
        zarr.storage.MemoryStore(files),
        shape=values.shape,
        dtype=array.dtype,
        chunks=(array.chunk_rows, *array.shape),
        shards=(array.file_rows, *array.shape),
        compressors=[zarr.codecs.Crc32cCodec()],
        chunk_key_encoding={"name": "default", "separator": "."},
        fill_value=array.fill,
        config={"write_empty_chunks": True},
    )
    written[:] = values
    (name,) = files.keys() - {"zarr.json"}
    assert encode_file(array, values)[0].tobytes() == files[name].to_bytes()


def test_settings_of_zarr_change_no_document() -> None:
    arrays = [Array.of("clip", "float32", (4,)), column_of("reason", 9)]
    expected = zarr_documents(arrays, 9)
    settings = {"array.write_empty_chunks": False, "default_zarr_format": 2}
    with zarr.config.set({**settings, "array.order": "F"}):
        assert zarr_documents(arrays, 9) == expected


def test_zarr_reads_the_table_of_rows(tmp_path: Path) -> None:
    rows = [
        Row("a", "one", 1, 2.5, OK, "", 25, 50, 25.0, 10, "0" * 16, 3),
        Row('b, "b"', "one", status=FAILED, reason="no\npicture, at all"),
        Row("c", 'x,"y"日', status=NO_VIDEO, reason="\x1b[31mred"),
    ]
    made_store(tmp_path / "s", rows, {"clip": np.ones((3, 2), "f4")})
    group = zarr.open_consolidated(tmp_path / "s", zarr_format=3)
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


def checked(content: bytes, array: Array) -> list[int]:
    """The content of a chunk whose checksum is right."""
    crc = google_crc32c.value(content)
    chunk = np.frombuffer(content + struct.pack("<I", crc), np.uint8)
    return check_content(array, chunk, crc).tolist()


def test_a_bool_is_0_or_1() -> None:
    array = Array("mask", "bool", (2,), ("t",), 2, 2)
    assert checked(b"\0\1\1\0", array) == [0, 1, 1, 0]
    with pytest.raises(ValueError, match="expected only the bytes 0 and 1"):
        checked(b"\0\1\2\0", array)


TEXTS = st.one_of(
    st.lists(st.text(max_size=4), min_size=1, max_size=20),
    st.lists(st.text(st.sampled_from("ab\0"), min_size=3, max_size=3), min_size=1),
)


@settings(max_examples=60, deadline=None)
@given(texts=TEXTS, n_more=st.integers(0, 5))
def test_texts_are_those_that_numcodecs_writes(texts: list[str], n_more: int) -> None:
    array = np.array([*texts, *[""] * n_more], dtype=object)
    content = np.frombuffer(VLenUTF8().encode(array), np.uint8)
    read = decode_texts(content, len(texts))
    assert list(read) == texts


@pytest.mark.parametrize(
    ("lengths", "letters"),
    [((1, 2, 3), b"abbcc"), ((2, 2, 2**32 - 1), b"aabbcc"), ((2, 2, 2), b"aabbc")],
)
def test_a_text_ends_in_its_file(lengths: tuple[int, ...], letters: bytes) -> None:
    content = struct.pack("<I", len(lengths))
    for length in lengths:
        content += struct.pack("<I", length) + letters[:length]
        letters = letters[length:]
    with pytest.raises(ValueError, match="longer than the file"):
        decode_texts(np.frombuffer(content, np.uint8), len(lengths))


def test_a_chunk_has_a_text_for_each_row() -> None:
    content = np.frombuffer(struct.pack("<II", 1, 0), np.uint8)
    assert list(decode_texts(content, 1)) == [""]
    with pytest.raises(ValueError, match="one text for each row"):
        decode_texts(content, 2)


# Of one length or of several, with what CSV and JSON quote, and beyond ASCII.
CHARACTERS = st.sampled_from('aZ09-_.:,"\\ é日')
PLAIN = st.text(st.sampled_from("ab0-"), min_size=6, max_size=6)
ODD = st.text(CHARACTERS, min_size=1, max_size=6)
IDS = st.one_of(
    st.lists(PLAIN, min_size=1, max_size=30, unique=True),
    st.lists(ODD, min_size=1, max_size=30, unique=True),
    st.lists(st.sampled_from("abcde"), min_size=1, unique=True),
)
FILMS = st.lists(st.sampled_from(["m", "m-1", "m-2", "film", 'a,"b"']), min_size=1)


def columns_of(ids: list[str], films: list[str]) -> RowColumns:
    movie_ids = [films[number % len(films)] for number in range(len(ids))]
    return RowColumns.of_clips(ids, movie_ids)


@settings(max_examples=50, deadline=None)
@given(ids=IDS, films=FILMS)
def test_tables_of_ids_are_those_of_single_texts(ids, films) -> None:
    columns = columns_of(ids, films)
    pairs = [[clip, film] for clip, film in zip(ids, columns.movie_ids, strict=True)]
    expected = hashlib.sha256(canonical_json(pairs)).hexdigest()
    assert columns.clips_sha256 == expected
    for name, texts in (("clip_id", columns.clip_ids), ("movie_id", columns.movie_ids)):
        column = column_of(name, len(ids))
        data, checks = encode_texts(column, texts)
        assert checks == data[-4:].tobytes()
        read = decode_texts(np.frombuffer(data[:-4], np.uint8), column.chunk_rows)
        expected_texts = [*texts, *[""] * (column.chunk_rows - len(ids))]
        assert list(read) == expected_texts
