"""Encode rows as bytes: chunks, files of arrays, and the documents of Zarr.

docs/store.md describes each of them in sections 4 and 5. Nothing here opens a file.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

import google_crc32c
import msgspec
import numpy as np
import numpy.typing as npt

from obygaze_features.store.decoding import Bytes, shard_index
from obygaze_features.store.layout import (
    ALWAYS_THERE,
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


# --- Chunks and files of an array ---


def fill_rows(array: Array, n_rows: int) -> Values:
    """Return `n_rows` rows of an array that contain the fill value."""
    return np.full((n_rows, *array.shape), array.fill, dtype=stored_dtype(array))


def stored_dtype(array: Array) -> np.dtype[Any]:
    """Return the data type in which an array is stored: little-endian."""
    return np.dtype(array.dtype).newbyteorder("<")


def crc_bytes(data: bytes | Bytes) -> bytes:
    """Return the CRC32C of bytes as the 4 bytes that follow them in a file."""
    return _U32.pack(google_crc32c.value(data))


def write_shard(
    stream: BinaryIO, array: Array, parts: Iterable[Values]
) -> tuple[FileMark, bytes]:
    """Write one file of an array: its chunks, then the index.

    Return the length and the hash of the file, and the CRC32C of each chunk (4 bytes) for `checks`.

    Args:
        stream: The file.
        array: The array to which the file belongs.
        parts: The rows of the file, in parts of whole chunks; only the last may be shorter.
    """
    hashed = HashedStream(stream)
    checks = []
    for rows in parts:
        for first in range(0, len(rows), array.chunk_rows):
            chunk = rows[first : first + array.chunk_rows]
            if len(chunk) < array.chunk_rows:
                missing = fill_rows(array, array.chunk_rows - len(chunk))
                chunk = np.concatenate([chunk, missing])
            stored = np.ascontiguousarray(chunk, dtype=stored_dtype(array))
            data = stored.reshape(-1).view(np.uint8)
            checks.append(crc_bytes(data))
            hashed.write(data.data)
            hashed.write(checks[-1])
    hashed.write(shard_index(array, len(checks)))
    return hashed.mark(), b"".join(checks)


class HashedStream:
    """A stream for writing, with the length and SHA-256 of the bytes written so far."""

    def __init__(self, stream: BinaryIO) -> None:
        self.n_bytes = 0
        self._stream = stream
        self._sha256 = hashlib.sha256()

    def write(self, data: bytes | memoryview) -> None:
        """Write bytes."""
        self._stream.write(data)
        self._sha256.update(data)
        self.n_bytes += len(data)

    def mark(self) -> FileMark:
        """Return the length and the hash of the written bytes."""
        return FileMark(self.n_bytes, self._sha256.hexdigest())


# --- Texts ---


def text_file(column: Array, texts: TextColumn, first: int, after: int) -> bytes:
    """Return a file of a column of texts: one chunk, padded with empty texts.

    The chunk begins with the number of its texts; then follow the length and bytes of each text.
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


# --- Documents for other readers of Zarr ---

# A description of each array, for readers who do not know docs/store.md.
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
    """Return zarr.json of the group of all arrays, which repeats zarr.json of each array.

    `documents` has the name and the zarr.json of each array.
    """
    metadata = {name: msgspec.json.decode(data) for name, data in documents}
    return _document(
        {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": {
                "coordinates": " ".join(ALWAYS_THERE),
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
    """Return the attributes of an array, with the names of the CF metadata conventions."""
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
