"""Compressed chunks: those of numcodecs are read; a wrong header never reaches its decoder."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys

import google_crc32c
import numpy as np
import pytest
from numcodecs import Blosc, Zstd, blosc
from support.cli import ROOT, environment

from obygaze_features.store.decoding import DAMAGE, _zstd_size, decode_chunk
from obygaze_features.store.layout import Array

ARRAY = Array("clip", "float32", (4096,), ("d",), 4, 8, "blosc")
ROWS = np.arange(4 * 4096, dtype="<f4").reshape(4, 4096)
# Two bytes of version, flags, item, and three whole numbers: bytes, bytes of a block, all bytes.
HEADER = struct.Struct("<BBBBIII")
CHUNK = bytes(Blosc(cname="zstd", shuffle=Blosc.SHUFFLE).encode(ROWS))
FIELDS = HEADER.unpack(CHUNK[:16])


def decode(content: bytes, array: Array = ARRAY) -> np.ndarray:
    """The rows of a chunk whose checksum is right."""
    crc = google_crc32c.value(content)
    chunk = np.frombuffer(content + struct.pack("<I", crc), np.uint8)
    return decode_chunk(array, chunk, crc)


@pytest.mark.parametrize("shuffle", [Blosc.NOSHUFFLE, Blosc.SHUFFLE, Blosc.BITSHUFFLE])
@pytest.mark.parametrize("cname", ["zstd", "lz4", "lz4hc", "blosclz", "zlib"])
@pytest.mark.parametrize("level", [0, 5])
def test_real_chunks_of_blosc_pass(cname: str, shuffle: int, level: int) -> None:
    codec = Blosc(cname=cname, shuffle=shuffle, clevel=level)
    random = np.random.default_rng(0).standard_normal((4, 4096)).astype("<f4")
    for rows in (ROWS, random):
        np.testing.assert_array_equal(decode(codec.encode(rows)), rows)


def test_a_chunk_of_one_byte_is_a_block_of_one_byte() -> None:
    chunk = Blosc(cname="zstd").encode(np.array([7], np.uint8))
    assert HEADER.unpack(chunk[:16])[5] == 1
    array = Array("n", "uint8", (), (), 1, 1, "blosc")
    assert decode(chunk, array).tolist() == [7]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, 1),  # the version
        (1, 2),  # the version of the codec
        (2, 5 << 5),  # a codec that does not exist
        (2, FIELDS[2] | 0x08),  # a reserved flag
        (2, FIELDS[2] | 0x02),  # copied bytes
        (3, 0),  # an item of no bytes
        (3, 8),
        (4, FIELDS[4] - 1),  # fewer bytes, and more
        (4, 2**32 - 1),
        (5, 0),  # no block, one of a byte, one of more than all
        (5, 1),
        (5, FIELDS[4] + 1),
        (6, FIELDS[6] + 1),  # compressed bytes
        (6, FIELDS[6] - 1),
        (6, 2**30),
        (6, 2**32 - 1),
    ],
)
def test_a_wrong_field_of_a_header_is_found_before_the_decoder(
    monkeypatch: pytest.MonkeyPatch, place: int, value: int
) -> None:
    def reached(*_: object) -> None:
        raise AssertionError("the decoder was given a chunk with a wrong header")

    monkeypatch.setattr(blosc, "decompress", reached)
    fields = list(FIELDS)
    assert fields[place] != value
    fields[place] = value
    with pytest.raises(ValueError, match="Blosc"):
        decode(HEADER.pack(*fields) + CHUNK[16:])


@pytest.mark.parametrize("start", [-1, 0, 16, 19, len(CHUNK) - 3, 2**30, -(2**31)])
def test_a_block_outside_a_chunk_is_found(start: int) -> None:
    with pytest.raises(ValueError, match="a block outside its bytes"):
        decode(CHUNK[:16] + struct.pack("<i", start) + CHUNK[20:])


def test_no_other_byte_of_a_chunk_ends_the_process() -> None:
    done = subprocess.run(
        [sys.executable, __file__],
        env=environment(
            {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "4000 chunks\n"), done.stderr


def change_bytes() -> None:
    """Decode 4,000 chunks with right headers and other bytes."""
    random = np.random.default_rng(3)
    n_chunks = 0
    for _ in range(4000):
        data = bytearray(CHUNK)
        for at in random.integers(16, len(data), 4):
            data[at] = random.choice([0, 1, 127, 128, 255, random.integers(256)])
        with contextlib.suppress(*DAMAGE):
            decode(bytes(data))
        n_chunks += 1
    print(n_chunks, "chunks")


def test_a_bool_is_0_or_1() -> None:
    array = Array("mask", "bool", (2,), ("t",), 2, 2)
    assert decode(b"\0\1\1\0", array).tolist() == [[False, True], [True, False]]
    with pytest.raises(ValueError, match="neither true nor false"):
        decode(b"\0\1\2\0", array)


@pytest.mark.parametrize("size", [1, 255, 256, 65_791, 65_792, 100_000])
def test_the_size_in_a_frame_of_zstd(size: int) -> None:
    assert _zstd_size(Zstd().encode(bytes(size))[:18]) == size


@pytest.mark.parametrize(
    ("flags", "after", "size"),
    [
        (0x00, b"\x58", -1),  # a window, no size
        (0x20, b"\x09", 9),  # one segment, one byte
        (0x40, b"\x58\x02\x01", 256 + 0x0102),  # a window, two bytes
        (0x42, b"\x58ab\x02\x01", 256 + 0x0102),  # a dictionary of two bytes
        (0x43, b"\x58abcd\x02\x01", 256 + 0x0102),  # a dictionary of four bytes
        (0x81, b"\x58a\x01\x00\x02\x00", 0x20001),  # one of one byte, four of size
        (0xC0, b"\x58" + bytes(7) + b"\x01", 2**56),
    ],
)
def test_the_header_of_a_frame_of_zstd_by_hand(
    flags: int, after: bytes, size: int
) -> None:
    """RFC 8878, 3.1.1.1: magic number, flags, window, dictionary, size of the content."""
    assert _zstd_size(b"\x28\xb5\x2f\xfd" + bytes([flags]) + after) == size


if __name__ == "__main__":
    change_bytes()
