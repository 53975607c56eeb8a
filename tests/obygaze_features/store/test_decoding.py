"""What a chunk with a right checksum must not have."""

from __future__ import annotations

import struct

import google_crc32c
import numpy as np
import pytest

from obygaze_features.store.decoding import decode_chunk
from obygaze_features.store.layout import Array


def decode(content: bytes, array: Array) -> np.ndarray:
    """The rows of a chunk whose checksum is right."""
    crc = google_crc32c.value(content)
    chunk = np.frombuffer(content + struct.pack("<I", crc), np.uint8)
    return decode_chunk(array, chunk, crc)


def test_a_bool_is_0_or_1() -> None:
    array = Array("mask", "bool", (2,), ("t",), 2, 2)
    assert decode(b"\0\1\1\0", array).tolist() == [[False, True], [True, False]]
    with pytest.raises(ValueError, match="neither true nor false"):
        decode(b"\0\1\2\0", array)
