"""Encode rows as the bytes of files, and write the documents of Zarr by zarr-python.

docs/store.md describes the files in sections 4 and 5. Nothing here opens a file. zarr and numcodecs
are imported by the functions, because readers do not need them.
"""

import struct
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from obygaze_features.store.decoding import (
    Bytes,
    crc32c,
    index_bytes,
    shard_index,
    stored_chunk_bytes,
)
from obygaze_features.store.layout import (
    ALWAYS_THERE,
    CRC_BYTES,
    GROUP_JSON,
    MASK,
    N_WORDS,
    PICTURES,
    ROW_DIMENSION,
    Array,
)
from obygaze_features.store.rows import STATUSES

Values = npt.NDArray[Any]
_ABOUT_ROWS = (
    "rows whose status is not 0 have no features: they are NaN, or 0 in arrays of whole"
    " numbers"
)


def fill_rows(array: Array, n_rows: int) -> Values:
    """Return `n_rows` rows of an array that contain the fill value."""
    return np.full((n_rows, *array.shape), array.fill, dtype=stored_dtype(array))


def stored_dtype(array: Array) -> np.dtype[Any]:
    """Return the data type in which an array is stored: little-endian."""
    return np.dtype(array.dtype).newbyteorder("<")


# --- Files of arrays ---


def encode_file(array: Array, rows: Values) -> tuple[Bytes, bytes]:
    """Return one file of an array, and the CRC32C of each of its chunks, 4 bytes each.

    zarr writes the same bytes, but it copies each row four times.

    Args:
        array: The array, or a column of numbers of the table of rows.
        rows: All rows of the file.
    """
    n_chunks = array.n_chunks(len(rows))
    n_bytes = n_chunks * stored_chunk_bytes(array)
    data = np.empty(n_bytes + index_bytes(array), np.uint8)
    chunks = data[:n_bytes].reshape(n_chunks, -1)
    stored = rows_of_chunks(array, chunks)
    n_whole, n_rest = divmod(len(rows), array.chunk_rows)
    whole = rows[: len(rows) - n_rest]
    stored[:n_whole] = whole.reshape(n_whole, array.chunk_rows, *array.shape)
    stored[n_whole:, :n_rest] = rows[len(whole) :]
    checks = finish_chunks(array, chunks, len(rows))
    data[n_bytes:] = np.frombuffer(shard_index(array, n_chunks), np.uint8)
    return data, checks


def finish_chunks(array: Array, chunks: Bytes, n_rows: int) -> bytes:
    """Fill up the last chunk, and put a CRC32C behind each; return these, 4 bytes each.

    Args:
        array: The array.
        chunks: A row for each chunk, with the rows of the array and 4 more bytes.
        n_rows: The number of rows in the chunks.
    """
    n_last = (n_rows - 1) % array.chunk_rows + 1
    rows_of_chunks(array, chunks)[-1, n_last:] = array.fill
    crcs = [crc32c(chunk) for chunk in chunks[:, :-CRC_BYTES]]
    checks = np.array(crcs, "<u4").view(np.uint8)
    chunks[:, -CRC_BYTES:] = checks.reshape(-1, CRC_BYTES)
    return checks.tobytes()


def rows_of_chunks(array: Array, chunks: Bytes) -> Values:
    """Return the rows of chunks, which share their memory: a row of `chunks` has one chunk."""
    rows = chunks[:, :-CRC_BYTES].view(stored_dtype(array))
    return rows.reshape(len(chunks), array.chunk_rows, *array.shape)


def encode_texts(array: Array, texts: Sequence[str]) -> tuple[Bytes, bytes]:
    """Return one file of a column of texts, and its CRC32C in 4 bytes.

    An array of zarr writes the same bytes by the same codec, in three times the time, because it
    converts each text twice.

    Args:
        array: The column of the table of rows.
        texts: All texts of the file.
    """
    import numcodecs

    padded = np.full(array.chunk_rows, "", object)
    padded[: len(texts)] = texts
    content = np.frombuffer(numcodecs.VLenUTF8().encode(padded), np.uint8)
    checks = struct.pack("<I", crc32c(content))
    return np.append(content, np.frombuffer(checks, np.uint8)), checks


# --- Documents of Zarr ---


def zarr_documents(arrays: Sequence[Array], n_rows: int) -> dict[str, bytes]:
    """Return zarr.json of the group and of each array, by file name.

    The document of the group repeats all others, so other readers open a store by one request.

    Args:
        arrays: The columns of the table of rows, then the arrays.
        n_rows: The number of rows.
    """
    import zarr

    files: dict[str, Any] = {}
    attributes = {"coordinates": " ".join(ALWAYS_THERE), "comment": _ABOUT_ROWS}
    group = zarr.create_group(
        zarr.storage.MemoryStore(files), zarr_format=3, attributes=attributes
    )
    for array in arrays:
        _describe_array(group, array, n_rows)
    documents = {}
    for name, buffer in files.items():
        documents[name] = _canonical(msgspec.json.decode(buffer.to_bytes()))
    metadata = {array.name: documents[array.zarr_json] for array in arrays}
    documents[GROUP_JSON]["consolidated_metadata"] = {
        "kind": "inline",
        "must_understand": False,
        "metadata": metadata,
    }
    return {name: _document(value) for name, value in documents.items()}


def _describe_array(group: Any, array: Array, n_rows: int) -> None:
    """Add an array without chunks to a group of Zarr."""
    from zarr.codecs import Crc32cCodec

    chunk_shape = (array.chunk_rows, *array.shape)
    file_shape = (array.file_rows, *array.shape)
    fill: Any = {"f": np.nan, "b": False, "s": ""}.get(array.dtype[0], 0)
    group.create_array(
        array.name,
        shape=(n_rows, *array.shape),
        dtype=str if array.is_text else array.dtype,
        chunks=chunk_shape,
        shards=None if array.is_text else file_shape,
        compressors=[Crc32cCodec()],
        chunk_key_encoding={"name": "default", "separator": "."},
        dimension_names=[ROW_DIMENSION, *array.dims],
        fill_value=fill,
        attributes=_attributes(array),
    )


def _canonical(value: Any) -> Any:
    """Return a part of a document without empty settings, which may be omitted.

    Versions of zarr differ in the order of keys and in such settings. The seal of a store must not
    depend on them.
    """
    if isinstance(value, list):
        return list(map(_canonical, value))
    if not isinstance(value, dict):
        return value
    kept = {key: _canonical(item) for key, item in value.items()}
    return {key: item for key, item in kept.items() if item not in ({}, [])}


def _document(value: dict[str, Any]) -> bytes:
    encoded = msgspec.json.encode(value, order="sorted")
    return msgspec.json.format(encoded, indent=1) + b"\n"


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
    "film_start_s": "where the clip begins in its film, in seconds, if its video is another file",
    "film_end_s": "where the clip ends in its film, in seconds, if its video is another file",
    MASK: "which frames are real, and not the padding of a short clip",
    "time_s": "when each frame is shown in the video, in seconds",
    "asked_s": "when each frame was asked for, in seconds",
    N_WORDS: "how many words the vectors of the row are made of",
    PICTURES: "pictures of films; they may be nobody's to publish",
}


def _attributes(array: Array) -> dict[str, Any]:
    """Return the attributes of an array, with the names of the CF metadata conventions."""
    attributes: dict[str, Any] = {
        "long_name": _MEANINGS.get(array.name, "features of each row")
    }
    if array.name == "status":
        attributes["flag_values"] = list(range(len(STATUSES)))
        attributes["flag_meanings"] = " ".join(STATUSES)
    return attributes
