"""Rows as bytes: chunks, files of arrays, and the documents of Zarr.

docs/store.md describes each of them in sections 4 and 5. Nothing here opens a file.
"""

import hashlib
import os
import struct
from collections.abc import Sequence
from typing import Any, BinaryIO

import google_crc32c
import msgspec
import numpy as np
import numpy.typing as npt

from obygaze_features.store.decoding import Bytes
from obygaze_features.store.layout import (
    LABELS,
    MASK,
    N_WORDS,
    PICTURES,
    ROW_DIMENSION,
    Array,
)
from obygaze_features.store.records import FileMark
from obygaze_features.store.rows import STATUSES
from obygaze_features.store.text_columns import TextColumn, side_by_side

Values = npt.NDArray[Any]

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


# --- Texts ---


def text_file(column: Array, texts: TextColumn, first: int, after: int) -> bytes:
    """Return a file of a column of texts: one chunk, filled up with empty texts.

    It has their number, then the length and the bytes of each.
    """
    n_rows = after - first
    if texts.table is not None:
        length = _U32.pack(texts.table.shape[1])
        content = side_by_side(length, texts.table[first:after]).tobytes()
    elif any(some := texts.texts[first:after]):
        encoded = [text.encode() for text in some]
        pieces = [b""] * (2 * n_rows)
        pieces[0::2] = [_U32.pack(len(text)) for text in encoded]
        pieces[1::2] = encoded
        content = b"".join(pieces)
    else:
        content = _U32.pack(0) * n_rows
    missing = _U32.pack(0) * (column.chunk_rows - n_rows)
    data = _U32.pack(column.chunk_rows) + content + missing
    return data + crc_bytes(data)


# --- What other readers of Zarr need ---

# What an array is, for readers who have not read the page of the format.
_MEANINGS = {
    "clip_id": "the clip of each row",
    "movie_id": "the film of the clip; empty where no film is stated",
    "start_s": "where the clip begins in its video, in seconds; NaN: at its start",
    "end_s": "where the clip ends in its video, in seconds; NaN: at its end",
    "status": "whether the row has features: 0 if it has, else why it has none",
    "reason": "why the row has no features, or a remark",
    "start_frame": "the first frame of the clip in its film, as its manifest counts; -1: not known",
    "end_frame": "the last frame of the clip in its film, as its manifest counts; -1: not known",
    "framerate": "the frames a second by which the manifest counts",
    "video_bytes": "the length of the video that was read; -1: not known",
    "video_hash": "the quick hash of the video that was read; empty: not known",
    "n_pictures": "how many pictures of the video the clip has; -1: not known",
    MASK: "which frames are real, and not the padding of a short clip",
    "time_s": "when each frame is shown in the video, in seconds",
    "asked_s": "when each frame was asked for, in seconds",
    N_WORDS: "how many words the vectors of the row are made of",
    PICTURES: "pictures of films; they may be nobody's to publish",
}


def group_document(documents: Sequence[tuple[str, bytes]]) -> bytes:
    """Return zarr.json of the group, with the documents of its arrays, by their names."""
    metadata = {name: msgspec.json.decode(data) for name, data in documents}
    return _document(
        {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": {
                "coordinates": " ".join(LABELS),
                "comment": "rows whose status is not 0 have no features: they are NaN, or 0 in"
                " arrays of whole numbers",
            },
            "consolidated_metadata": {
                "kind": "inline",
                "must_understand": False,
                "metadata": metadata,
            },
        }
    )


def array_document(array: Array, n_rows: int) -> bytes:
    """Return zarr.json of an array or of a column of the table of rows."""
    fill: Any = {"f": "NaN", "b": False, "s": ""}.get(array.dtype[0], 0)
    sharding = {
        "chunk_shape": [array.chunk_rows, *array.shape],
        "codecs": [_BYTES, _CRC32C],
        "index_codecs": [_BYTES, _CRC32C],
        "index_location": "end",
    }
    codecs = [{"name": "sharding_indexed", "configuration": sharding}]
    if array.is_text:
        codecs = [_TEXTS, _CRC32C]
    file_shape = [array.file_rows, *array.shape]
    grid = {"name": "regular", "configuration": {"chunk_shape": file_shape}}
    keys = {"name": "default", "configuration": {"separator": "."}}
    return _document(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [n_rows, *array.shape],
            "data_type": array.dtype,
            "chunk_grid": grid,
            "chunk_key_encoding": keys,
            "fill_value": fill,
            "codecs": codecs,
            "attributes": _attributes(array),
            "dimension_names": [ROW_DIMENSION, *array.dims],
            "storage_transformers": [],
        }
    )


def _attributes(array: Array) -> dict[str, Any]:
    """Return what an array is, in the words of the conventions of CF."""
    attributes: dict[str, Any] = {
        "long_name": _MEANINGS.get(array.name, "features of each row")
    }
    if array.name == "status":
        attributes["flag_values"] = list(range(len(STATUSES)))
        attributes["flag_meanings"] = " ".join(STATUSES)
    return attributes


_BYTES: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
_TEXTS: dict[str, Any] = {"name": "vlen-utf8"}
_CRC32C: dict[str, Any] = {"name": "crc32c"}


def _document(value: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"
