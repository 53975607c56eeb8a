"""Rows as bytes: chunks, files of arrays, the documents of Zarr, rows.csv, films.csv and ids.

docs/store.md describes each of them in sections 4 and 5. Nothing here opens a file.
"""

import hashlib
import math
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, repeat
from operator import ne
from typing import Any, BinaryIO, TypeAlias

import google_crc32c
import msgspec
import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import csv_line
from obygaze_features.core.outside import one_line, visible
from obygaze_features.store.decoding import Bytes
from obygaze_features.store.layout import (
    PLANNED_COLUMNS,
    ROW_COLUMNS,
    ROW_DIMENSION,
    RUN_COLUMNS,
    RUN_ROWS,
    Array,
)
from obygaze_features.store.records import FileMark
from obygaze_features.store.rows import STATUSES, RowColumns
from obygaze_features.store.text_columns import ByteTable, TextColumn, side_by_side

Values = npt.NDArray[Any]
# A column of cells of CSV; one text if all rows have the same.
Cells: TypeAlias = str | TextColumn

_U32 = struct.Struct("<I")
_ENTRY = struct.Struct("<QQ")
_ABSENT = _ENTRY.pack(2**64 - 1, 2**64 - 1)
# A hole in a file has whole blocks of the disk.
_LEAST_HOLE = 2**16


# --- Chunks and files of an array ---


def fill_rows(array: Array, n_rows: int) -> Values:
    """Return so many rows of an array that hold the fill value."""
    return np.full((n_rows, *array.shape), array.fill, dtype=stored_dtype(array))


def stored_dtype(array: Array) -> np.dtype[Any]:
    """Return the data type of an array as it is stored: little-endian."""
    return np.dtype(array.dtype).newbyteorder("<")


def crc_bytes(data: bytes | Bytes) -> bytes:
    """Return the CRC32C of bytes as the 4 bytes that follow them in a file."""
    return _U32.pack(google_crc32c.value(data))


def encode_chunk(array: Array, rows: Values) -> tuple[Bytes, bytes]:
    """Return one chunk as it stands in a file, and the 4 bytes of its CRC32C.

    Args:
        array: The array of which the rows are.
        rows: At most `array.chunk_rows` rows; the chunk is filled up.
    """
    n_missing = array.chunk_rows - len(rows)
    if n_missing:
        rows = np.concatenate([rows, fill_rows(array, n_missing)])
    stored = np.ascontiguousarray(rows, dtype=stored_dtype(array))
    data = stored.reshape(-1).view(np.uint8)
    return data, crc_bytes(data)


class ShardWriter:
    """Writes one file of an array: rows are appended, then `finish` writes the index.

    Args:
        array: The array of which the file is a part.
        stream: Where the bytes go.
    """

    def __init__(self, array: Array, stream: BinaryIO) -> None:
        self.array = array
        # The 4 bytes of each chunk, as they stand in `checks`.
        self.checks = b""
        self._stream = HashedStream(stream)
        self._index: list[bytes] = []
        # Rows that do not fill a chunk yet.
        self._rest = fill_rows(array, 0)

    def append(self, rows: Values) -> None:
        """Write the rows that come next, as far as they fill chunks."""
        if len(self._rest):
            rows = np.concatenate([self._rest, rows])
        size = self.array.chunk_rows
        n_whole = len(rows) // size * size
        for first in range(0, n_whole, size):
            self._write_chunk(rows[first : first + size])
        # A copy: the caller may use its memory for the next rows.
        self._rest = rows[n_whole:].copy()

    def finish(self) -> FileMark:
        """Write the last chunk and the index; return the length and the hash of the file."""
        if len(self._rest):
            self._write_chunk(self._rest)
        n_absent = self.array.chunks_of_a_file - len(self._index)
        index = b"".join(self._index) + _ABSENT * n_absent
        self._stream.write(index + crc_bytes(index))
        return self._stream.mark()

    def _write_chunk(self, rows: Values) -> None:
        data, check = encode_chunk(self.array, rows)
        self._index.append(_ENTRY.pack(self._stream.n_bytes, len(data) + len(check)))
        self._stream.write(data.data)
        self._stream.write(check)
        self.checks += check


class HashedStream:
    """A stream that is written, and the length and SHA-256 of what was written so far."""

    def __init__(self, stream: BinaryIO) -> None:
        self.n_bytes = 0
        self._stream = stream
        self._sha256 = hashlib.sha256()

    def write(self, data: bytes | memoryview) -> None:
        """Write bytes; many zeros, as rows of pictures that do not exist, take no space."""
        values = np.frombuffer(data, np.uint8)
        if len(values) >= _LEAST_HOLE and not values[0] and not values.any():
            self._stream.seek(len(values) - 1, os.SEEK_CUR)
            # A file that ends with a hole has its length by its last zero.
            self._stream.write(b"\0")
        else:
            self._stream.write(data)
        self._sha256.update(data)
        self.n_bytes += len(data)

    def mark(self) -> FileMark:
        """Return the length and the hash of what was written."""
        return FileMark(self.n_bytes, self._sha256.hexdigest())


# --- What other readers of Zarr need ---


def group_document() -> bytes:
    """Return zarr.json of the group."""
    attributes = {"coordinates": "clip_id movie_id"}
    return _document({"zarr_format": 3, "node_type": "group", "attributes": attributes})


def array_document(array: Array, n_rows: int) -> bytes:
    """Return zarr.json of an array."""
    dtype = np.dtype(array.dtype)
    fill: Any = {"f": "NaN", "b": False}.get(dtype.kind, 0)
    sharding = {
        "chunk_shape": [array.chunk_rows, *array.shape],
        "codecs": [_BYTES, _CRC32C],
        "index_codecs": [_BYTES, _CRC32C],
        "index_location": "end",
    }
    return _array_document(
        shape=[n_rows, *array.shape],
        data_type=array.dtype,
        chunk_shape=[array.file_rows, *array.shape],
        codecs=[{"name": "sharding_indexed", "configuration": sharding}],
        fill=fill,
        dims=[ROW_DIMENSION, *array.dims],
    )


def text_column(texts: TextColumn) -> tuple[bytes, bytes]:
    """Return zarr.json and the one chunk of a column of texts."""
    if texts.table is None:
        encoded = [text.encode() for text in texts]
        pieces = [b""] * (2 * len(texts))
        pieces[0::2] = [_U32.pack(len(text)) for text in encoded]
        pieces[1::2] = encoded
        with_lengths = b"".join(pieces)
    else:
        length = _U32.pack(texts.table.shape[1])
        with_lengths = side_by_side(length, texts.table).tobytes()
    # The number of texts, then the length and the bytes of each.
    data = _U32.pack(len(texts)) + with_lengths
    return column_document("clip_id", len(texts)), data + crc_bytes(data)


def status_column(codes: Bytes) -> tuple[bytes, bytes]:
    """Return zarr.json and the one chunk of the column of statuses."""
    data = codes.tobytes()
    return column_document("status", len(codes)), data + crc_bytes(data)


def column_document(column: str, n_rows: int) -> bytes:
    """Return zarr.json of a column: statuses, or texts, whichever they are."""
    data_type = "string"
    codec = _TEXTS
    fill: Any = ""
    if column == "status":
        data_type = "uint8"
        codec = _BYTES
        fill = 0
    return _array_document(
        shape=[n_rows],
        data_type=data_type,
        chunk_shape=[n_rows],
        codecs=[codec, _CRC32C],
        fill=fill,
        dims=[ROW_DIMENSION],
    )


_BYTES: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
_TEXTS: dict[str, Any] = {"name": "vlen-utf8"}
_CRC32C: dict[str, Any] = {"name": "crc32c"}


def _array_document(
    *,
    shape: list[int],
    data_type: str,
    chunk_shape: list[int],
    codecs: list[dict[str, Any]],
    fill: Any,
    dims: list[str],
) -> bytes:
    grid = {"name": "regular", "configuration": {"chunk_shape": chunk_shape}}
    keys = {"name": "default", "configuration": {"separator": "."}}
    return _document(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": data_type,
            "chunk_grid": grid,
            "chunk_key_encoding": keys,
            "fill_value": fill,
            "codecs": codecs,
            "attributes": {},
            "dimension_names": dims,
            "storage_transformers": [],
        }
    )


def _document(value: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


# --- Rows ---


def check_rows(rows: RowColumns, where: str) -> None:
    """Raise an error unless a store may have these rows."""
    if not len(rows):
        raise FixInput("a store needs at least one row", where=where)
    for ids in (rows.clip_ids, rows.movie_ids):
        # Whole columns first: a million rows are checked in a moment.
        if not "".join(ids.characters).isprintable():
            wrong = next(text for text in ids if not text.isprintable())
            raise FixInput(
                f"{wrong!r} cannot be an id: it has characters that are not printed",
                where=where,
            )
    if _n_empty(rows.clip_ids):
        raise FixInput("a clip has an empty id", where=where)
    n_without_film = _n_empty(rows.movie_ids)
    if n_without_film and rows.movie_ids.characters:
        named = zip(rows.clip_ids, rows.movie_ids, strict=True)
        first = next(clip for clip, film in named if not film.strip())
        raise FixInput(
            f"{n_without_film} of {count(len(rows), 'clip')} would have no film, such as"
            f" {first!r}: a store states the film of each clip, or of none",
            where=where,
            hint="a manifest states the film of each clip: obygaze store import with --manifest",
        )
    for status in set(rows.statuses):
        if status not in STATUSES:
            raise FixInput(
                f"status must be one of {', '.join(STATUSES)}, got {status!r}",
                where=where,
            )
    for time_s in {*rows.start_s, *rows.end_s}:
        if time_s is not None and not math.isfinite(time_s):
            raise FixInput(f"a time of a clip is {time_s}", where=where)


def _n_empty(ids: TextColumn) -> int:
    """Return how many ids are empty or blank."""
    if ids.table is not None and " " not in ids.characters:
        return 0
    return sum(not text.strip() for text in ids)


def check_different(clip_ids: Sequence[str], where: str) -> None:
    """Raise an error for clips of one id."""
    if len(set(clip_ids)) == len(clip_ids):
        return
    seen: set[str] = set()
    for clip_id in clip_ids:
        if clip_id in seen:
            raise FixInput(f"the clip {clip_id!r} is there twice", where=where)
        seen.add(clip_id)


def rows_and_films(rows: RowColumns) -> tuple[bytes, bytes]:
    """Return rows.csv and films.csv."""
    reasons = rows.reasons
    joined = "".join(reasons)
    if not joined.isprintable():
        reasons = [visible(one_line(reason)) for reason in reasons]
    is_quoted = '"' in joined or "," in joined
    columns = (
        _id_cells(rows.clip_ids),
        _id_cells(rows.movie_ids),
        _cells(rows.start_s, _time_cell),
        _cells(rows.end_s, _time_cell),
        _cells(rows.statuses, str),
        _cells(reasons, _text_cell if is_quoted else str),
        _cells(rows.video_bytes, _number_cell),
        _cells(rows.video_hashes, str),
        _cells(rows.pictures, _number_cell),
        _cells(rows.makers, _number_cell),
    )
    rows_csv, ends = _numbered_lines(ROW_COLUMNS, columns, len(rows))
    films = [csv_line(RUN_COLUMNS)]
    for first, after in _runs(rows.movie_ids):
        start = int(ends[first])
        crc = google_crc32c.value(rows_csv[start : int(ends[after])])
        facts = (first, after - first, start, f"{crc:08x}")
        films.append(csv_line([rows.movie_ids[first], *facts]))
    return rows_csv, "".join(films).encode()


def _runs(movie_ids: TextColumn) -> Iterator[tuple[int, int]]:
    """Yield the first row and the row after the last of each run of rows of one film."""
    table = movie_ids.table
    if table is None:
        texts = movie_ids.texts
        is_other = np.fromiter(map(ne, texts[1:], texts), bool)
    else:
        is_other = (table[1:] != table[:-1]).any(axis=1)
    firsts = (np.flatnonzero(is_other) + 1).tolist()
    for first, after in pairwise([0, *firsts, len(movie_ids)]):
        for row in range(first, after, RUN_ROWS):
            yield row, min(row + RUN_ROWS, after)


def planned_rows(rows: RowColumns, computed: Sequence[bool]) -> bytes:
    """Return clips.csv of a filling."""
    columns = (
        _id_cells(rows.clip_ids),
        _id_cells(rows.movie_ids),
        _cells(rows.start_s, _time_cell),
        _cells(rows.end_s, _time_cell),
        _cells(computed, _flag_cell),
    )
    clips_csv, _ = _numbered_lines(PLANNED_COLUMNS, columns, len(rows))
    return clips_csv


def _numbered_lines(
    names: Sequence[str], columns: Sequence[Cells], n_rows: int
) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Return a table whose first column has the numbers of the rows, and where its lines end."""
    # What stands between two columns of different cells is one text for all rows.
    pieces: list[Cells] = []
    between = ","
    for column in columns:
        if isinstance(column, str):
            between += f"{column},"
        else:
            pieces += [between, column]
            between = ","
    pieces.append(between.removesuffix(",") + "\n")
    lines: Sequence[bytes | ByteTable]
    tables = []
    for piece in pieces:
        table = piece.encode() if isinstance(piece, str) else piece.table
        if table is not None:
            tables.append(table)
    if len(tables) == len(pieces):
        lines, lengths = _lines_of_tables(tables, n_rows)
    else:
        cells = [repeat(one) if isinstance(one, str) else one for one in pieces]
        rows = zip(map(str, range(n_rows)), *cells, strict=False)
        lines = ["".join(row).encode() for row in rows]
        lengths = np.fromiter(map(len, lines), np.int64)
    header = csv_line(names).encode()
    ends = np.concatenate([[0], lengths]).cumsum() + len(header)
    return b"".join([header, *lines]), ends


def _lines_of_tables(
    tables: Sequence[bytes | ByteTable], n_rows: int
) -> tuple[list[ByteTable], npt.NDArray[np.int64]]:
    """Return all lines in which tables stand after the numbers of the rows, and their lengths."""
    blocks = []
    lengths = np.empty(n_rows, np.int64)
    first = 0
    while first < n_rows:
        # Rows whose numbers have as many digits.
        after = min(max(10, 10 * first), n_rows)
        digits = np.empty((after - first, len(str(first))), np.uint8)
        numbers = np.arange(first, after, dtype=np.uint32)
        for place in reversed(range(digits.shape[1])):
            digits[:, place] = numbers % 10
            numbers //= 10
        digits += ord("0")
        parts = [one if isinstance(one, bytes) else one[first:after] for one in tables]
        blocks.append(side_by_side(digits, *parts))
        lengths[first:after] = blocks[-1].shape[1]
        first = after
    return blocks, lengths


def _id_cells(ids: TextColumn) -> TextColumn:
    """Return a column of ids as cells of CSV."""
    if ids.characters.isdisjoint('",'):
        return ids
    return TextColumn(list(map(_text_cell, ids)))


def _cells(values: Sequence[Any], cell_of: Callable[[Any], str]) -> Cells:
    """Return a column of values as cells of CSV."""
    if values[0] == values[-1] and values.count(values[0]) == len(values):
        return cell_of(values[0])
    return TextColumn(list(map(cell_of, values)))


def _text_cell(text: str) -> str:
    return csv_line([text])[:-1]


def _time_cell(time_s: float | None) -> str:
    """Return a time as a cell of CSV; one that is None is empty."""
    return "" if time_s is None else repr(float(time_s))


def _number_cell(number: int | None) -> str:
    return "" if number is None else str(number)


def _flag_cell(is_computed: bool) -> str:
    return "1" if is_computed else "0"


def ids_table(clip_ids: TextColumn, where: str) -> bytes:
    """Return the file `ids`: the sorted hashes of the ids, then the row of each."""
    if clip_ids.have_one_hash():
        check_different(clip_ids, where)
        raise FixInput("two clip ids have one hash", hint="change one of the ids")
    rows = clip_ids.by_hash
    hashes = clip_ids.hashes[rows].astype("<u8")
    return hashes.tobytes() + rows.astype("<u4").tobytes()
