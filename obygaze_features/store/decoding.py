"""Decode the bytes of arrays: chunks with their checksums, in files with an index.

All functions are pure. The bytes are untrusted: damaged bytes raise one of the exceptions in
`DAMAGE`, which the callers convert to an error that names the file.
"""

import struct
from collections.abc import Sequence
from typing import TypeAlias

import google_crc32c
import numpy as np
import numpy.typing as npt

from obygaze_features.store.layout import CRC_BYTES, Array
from obygaze_features.store.text_columns import TextColumn

Bytes: TypeAlias = npt.NDArray[np.uint8]
Rows: TypeAlias = npt.NDArray[np.int64]

# The bytes of the offset and the length of a chunk, in the index of a file.
ENTRY_BYTES = 16
# The bytes of the length of a text. The length stands before the text.
LENGTH_BYTES = 4
# The exceptions of decoders for damaged bytes.
DAMAGE = (
    ValueError,
    RuntimeError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    struct.error,
)


def crc32c(data: Bytes) -> int:
    """Return the CRC32C of bytes."""
    return int(google_crc32c.value(data))


def check_content(array: Array, chunk: Bytes, expected_crc32c: int) -> Bytes:
    """Return the content of a chunk of an array, without its checksum.

    Args:
        array: The array.
        chunk: The bytes of the chunk, with its CRC32C at their end.
        expected_crc32c: The CRC32C of this chunk in the file `chunks.crc32c` of the store.
    """
    content = chunk[:-CRC_BYTES]
    (stored_crc32c,) = struct.unpack("<I", chunk[-CRC_BYTES:].data)
    if not crc32c(content) == stored_crc32c == expected_crc32c:
        raise ValueError("checksum mismatch")
    if array.dtype == "bool" and content.max() > 1:
        raise ValueError("expected only the bytes 0 and 1 for booleans")
    return content


def decode_texts(content: Bytes, n_rows: int) -> TextColumn:
    """Return the first `n_rows` texts of a chunk of texts.

    The chunk begins with the number of its texts; then follow the length and bytes of each text.
    """
    if n_rows > int.from_bytes(content[:LENGTH_BYTES].tobytes(), "little"):
        raise ValueError("expected one text for each row")
    first = content[LENGTH_BYTES : 2 * LENGTH_BYTES]
    width = int.from_bytes(first.tobytes(), "little")
    row_bytes = LENGTH_BYTES + width
    table = content[LENGTH_BYTES:][: n_rows * row_bytes]
    if width and n_rows and len(table) == n_rows * row_bytes:
        # Texts of one length, such as most ids, are split at once.
        rows = table.view([("length", "<u4"), ("text", f"V{width}")])
        if (rows["length"] == width).all():
            texts = np.ascontiguousarray(rows["text"]).view(np.uint8)
            if texts.min() >= ord(" ") and texts.max() <= ord("~"):
                return TextColumn.of_table(texts.reshape(n_rows, width))
    data = content.tobytes()
    listed = []
    place = LENGTH_BYTES
    for _ in range(n_rows):
        start = place + LENGTH_BYTES
        place = start + int.from_bytes(data[place:start], "little")
        listed.append(data[start:place].decode())
    if place > len(data):
        raise ValueError("a text is longer than the file")
    return TextColumn(listed)


def index_bytes(array: Array) -> int:
    """Return the length of the index at the end of each file of an array, in bytes."""
    return array.chunks_of_a_file * ENTRY_BYTES + CRC_BYTES


def stored_chunk_bytes(array: Array) -> int:
    """Return the length of a chunk in its file, with its CRC32C, in bytes."""
    return array.chunk_bytes + CRC_BYTES


def shard_index(array: Array, n_chunks: int) -> bytes:
    """Return the index of a file with `n_chunks` chunks that follow one another without gaps."""
    step = stored_chunk_bytes(array)
    entries = np.full((array.chunks_of_a_file, 2), 2**64 - 1, "<u8")
    entries[:n_chunks, 0] = np.arange(n_chunks) * step
    entries[:n_chunks, 1] = step
    content = entries.tobytes()
    return content + struct.pack("<I", google_crc32c.value(content))


def split_checks(
    data: Bytes, arrays: Sequence[Array], n_rows: int
) -> dict[str, npt.NDArray[np.uint32]]:
    """Return the CRC32C of each chunk of each array, from the bytes of the file `chunks.crc32c`."""
    n_chunks = [array.n_chunks(n_rows) for array in arrays]
    n_bytes = CRC_BYTES * sum(n_chunks)
    if len(data) != n_bytes:
        raise ValueError(f"expected {n_bytes} bytes of checksums, got {len(data)}")
    parts = np.split(data.view("<u4"), np.cumsum(n_chunks)[:-1])
    return {array.name: part for array, part in zip(arrays, parts, strict=True)}
