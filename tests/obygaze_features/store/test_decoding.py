"""What a chunk with a right checksum must not have, and the runs of some rows."""

from __future__ import annotations

import struct

import google_crc32c
import numpy as np
import pytest

from obygaze_features.store.decoding import checked_content
from obygaze_features.store.layout import Array


def checked(content: bytes, array: Array) -> list[int]:
    """The content of a chunk whose checksum is right."""
    crc = google_crc32c.value(content)
    chunk = np.frombuffer(content + struct.pack("<I", crc), np.uint8)
    return checked_content(array, chunk, crc).tolist()


def test_a_bool_is_0_or_1() -> None:
    array = Array("mask", "bool", (2,), ("t",), 2, 2)
    assert checked(b"\0\1\1\0", array) == [0, 1, 1, 0]
    with pytest.raises(ValueError, match="neither true nor false"):
        checked(b"\0\1\2\0", array)
