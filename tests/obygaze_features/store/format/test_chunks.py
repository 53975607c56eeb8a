"""Chunks: headers are checked before a decoder reads them, and each chunk is tied to its rows."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import zarr
from numcodecs import Blosc, Zstd
from support.store_damage import changed
from support.stores import fill_store, plan_store, sealed_store, some_ids

from obygaze_features.core.errors import Corrupt
from obygaze_features.store import ArraySpec, RowStatus, StoreWriter, open_store
from obygaze_features.store.format.chunks import (
    ChunkLayout,
    _check_blosc,
    _compressor,
    _zstd_size,
)
from obygaze_features.store.read.verify import verify

ROWS = np.arange(4 * 4096, dtype="<f4").reshape(4, 4096)
# Two bytes of version, flags, item, and three whole numbers: bytes, bytes of a block, all bytes.
HEADER = struct.Struct("<BBBBIII")


def with_crc(data: bytes) -> np.ndarray:
    crc = struct.pack("<I", google_crc32c.value(data))
    return np.frombuffer(data + crc, np.uint8)


def layout_of(codec: Blosc) -> ChunkLayout:
    return ChunkLayout((4, 4096), (4, 4096), np.dtype("<f4"), codec)


@pytest.mark.parametrize("shuffle", [Blosc.NOSHUFFLE, Blosc.SHUFFLE, Blosc.BITSHUFFLE])
@pytest.mark.parametrize("cname", ["zstd", "lz4", "lz4hc", "blosclz", "zlib"])
@pytest.mark.parametrize("level", [0, 5])
def test_real_chunks_of_blosc_pass(cname: str, shuffle: int, level: int) -> None:
    codec = Blosc(cname=cname, shuffle=shuffle, clevel=level)
    random = np.random.default_rng(0).standard_normal((4, 4096)).astype("<f4")
    for rows in (ROWS, random):
        chunk = with_crc(codec.encode(rows))
        np.testing.assert_array_equal(layout_of(codec).decode(chunk), rows)


class Decoder:
    """A codec that must not be reached."""

    codec_id, cname = "blosc", "zstd"

    def decode(self, data: object, out: object) -> None:
        raise AssertionError("the decoder was given a chunk with a wrong header")


CHUNK = bytes(Blosc(cname="zstd", shuffle=Blosc.SHUFFLE).encode(ROWS))
FIELDS = HEADER.unpack(CHUNK[:16])
WRONG = {
    "version": (0, 1),
    "version of the codec": (1, 2),
    "codec": (2, FIELDS[2] ^ 0x20),
    "reserved flag": (2, FIELDS[2] | 0x08),
    "copied bytes": (2, FIELDS[2] | 0x02),
    "item of no bytes": (3, 0),
    "item of 8 bytes": (3, 8),
    "fewer bytes": (4, FIELDS[4] - 1),
    "more bytes": (4, 2**32 - 1),
    "no block": (5, 0),
    "block of one byte": (5, 1),
    "block of more than all": (5, FIELDS[4] + 1),
    "one compressed byte more": (6, FIELDS[6] + 1),
    "one compressed byte less": (6, FIELDS[6] - 1),
    "a gigabyte of compressed bytes": (6, 2**30),
    "a negative length": (6, 2**32 - 1),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_field_of_a_header_of_blosc_is_found_before_the_decoder(
    case: str,
) -> None:
    place, value = WRONG[case]
    fields = list(FIELDS)
    assert fields[place] != value
    fields[place] = value
    chunk = with_crc(HEADER.pack(*fields) + CHUNK[16:])
    with pytest.raises(ValueError, match=r"Blosc|bytes of its rows"):
        layout_of(Decoder()).decode(chunk)


# The formats of c-blosc's blosc.h; lz4hc has that of lz4, and few builds have Snappy.
@pytest.mark.parametrize(
    ("cname", "number"),
    [
        ("blosclz", 0),
        ("lz4", 1),
        ("lz4hc", 1),
        ("snappy", 2),
        ("zlib", 3),
        ("zstd", 4),
    ],
)
def test_the_number_of_a_codec_in_the_flags_of_blosc(cname: str, number: int) -> None:
    fields = list(FIELDS)
    for flag in range(8):
        fields[2] = FIELDS[2] & 0x1F | flag << 5
        data = np.frombuffer(HEADER.pack(*fields) + CHUNK[16:], np.uint8)
        if flag == number:
            _check_blosc(data, FIELDS[4], FIELDS[3], cname)
            continue
        with pytest.raises(ValueError, match=f"which are not those of {cname}"):
            _check_blosc(data, FIELDS[4], FIELDS[3], cname)


def test_a_chunk_of_one_byte_is_a_block_of_one_byte() -> None:
    codec = Blosc(cname="zstd")
    chunk = codec.encode(np.array([7], np.uint8))
    assert HEADER.unpack(chunk[:16])[5] == 1
    layout = ChunkLayout((1,), (1,), np.dtype(np.uint8), codec)
    assert layout.decode(with_crc(chunk)).tolist() == [7]


@pytest.mark.parametrize("start", [-1, 0, 16, 19, len(CHUNK) - 3, 2**30, -(2**31)])
def test_a_block_outside_a_chunk_of_blosc_is_found_before_the_decoder(
    start: int,
) -> None:
    chunk = with_crc(CHUNK[:16] + struct.pack("<i", start) + CHUNK[20:])
    with pytest.raises(ValueError, match="a block outside its bytes"):
        layout_of(Decoder()).decode(chunk)


def test_no_other_byte_of_a_chunk_of_blosc_ends_the_process() -> None:
    program = """
import numpy as np, test_chunks as t
from numcodecs import Blosc, Zstd
layout, random = t.layout_of(Blosc(cname="zstd")), np.random.default_rng(3)
for _ in range(4000):
    data = bytearray(t.CHUNK)
    for at in random.integers(16, len(data), 4):
        data[at] = random.choice([0, 1, 127, 128, 255, random.integers(256)])
    try:
        layout.decode(t.with_crc(bytes(data)))
    except (ValueError, RuntimeError):
        pass
print("lived")
"""
    folder = Path(__file__).parent
    paths = f"{folder}:{folder.parents[2]}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "lived\n"), done.stderr


def test_a_store_with_a_wrong_header_is_an_error_to_verify_and_to_read(
    tmp_path: Path,
) -> None:
    path, name = tmp_path / "s", "data.zarr/clip/c.0.0"
    plan_store(path, 8, 4, arrays=(ArraySpec("clip", (4096,)),), compressor="blosc")
    fill_store(path, {"clip": np.arange(8 * 4096, dtype="f4").reshape(8, 4096)}).seal()
    data = bytearray((path / name).read_bytes()[:-4])
    # On the program as it was: exit status -11.
    data[12:16], data[16:20] = struct.pack("<I", 2**30), struct.pack("<I", 2**29)
    forged(path, name, with_crc(bytes(data)).tobytes(), {0: -4})
    [problem] = verify(path, hashes=True).problems
    assert problem.name == name
    assert "1073741824 compressed bytes" in problem.message
    with pytest.raises(Corrupt, match="1073741824 compressed bytes"):
        open_store(path).matrix("clip")


def forged(path: Path, name: str, data: bytes, crcs: dict[int, int]) -> None:
    """Replace a file and all that a seal says of it; `crcs` has where each block's checksum is."""
    (path / name).write_bytes(data)
    seal = json.loads((path / "seal.json").read_bytes())
    seal["files"][name] = [len(data), hashlib.sha256(data).hexdigest()]
    array = name.split("/")[1]
    words = seal["crc32c"][array].split()
    for block, at in crcs.items():
        words[block] = data[at:][:4].hex()
    seal["crc32c"][array] = " ".join(words)
    changed(path / "seal.json", files=seal["files"], crc32c=seal["crc32c"])


# 328 kB a clip, four clips: shards of four chunks, one a clip; of the second block, one chunk.
TOKENS = ArraySpec("tokens", (160, 1024), dtype="float16")
N_CLIPS, SHARD = 5, "data.zarr/tokens/c.0.0.0"
Entries = list[tuple[int, int]]
ABSENT = (2**64 - 1, 2**64 - 1)


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    path = tmp_path_factory.mktemp("sharded") / "s"
    return path, sealed_store(path, N_CLIPS, 4, arrays=(TOKENS,))["tokens"]


@pytest.fixture(scope="module")
def compressed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compressed") / "s"
    sealed_store(path, N_CLIPS, 4, arrays=(TOKENS,), compressor="zstd")
    return path


def linked(whole: Path, path: Path) -> Path:
    """A copy whose large files are links to those of the whole store, until they are replaced."""
    for file in whole.rglob("*"):
        if file.is_file():
            target = path / file.relative_to(whole)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.hardlink_to(file)
    return path


def entries_of(path: Path) -> Entries:
    data = (path / SHARD).read_bytes()
    return list(struct.iter_unpack("<2Q", data[-68:-4]))


def with_entries(path: Path, entries: Entries) -> None:
    """Give the shard another index, with the right checksum."""
    data = (path / SHARD).read_bytes()[:-68]
    index = b"".join(struct.pack("<2Q", *entry) for entry in entries)
    (path / SHARD).unlink()
    (path / SHARD).write_bytes(data + with_crc(index).tobytes())


def exchange(entries: Entries) -> Entries:
    first, second, *others = entries
    return [second, first, *others]


CHANGED = {
    "two entries exchanged": exchange,
    "the last two exchanged": lambda e: [*e[:2], e[3], e[2]],
    "one chunk twice": lambda e: [e[0], e[0], *e[2:]],
    "one chunk for all": lambda e: [e[0]] * 4,
    "a chunk absent": lambda e: [e[0], ABSENT, *e[1:3]],
    "the last chunk absent": lambda e: [*e[:3], ABSENT],
    "all absent": lambda e: [ABSENT] * 4,
    "a chunk that begins earlier": lambda e: [e[0], (e[1][0] - 1, e[1][1] + 1), *e[2:]],
    "a chunk beyond the file": lambda e: [*e[:3], (2**40, e[3][1])],
    "a chunk of no bytes": lambda e: [(0, 0), *e[1:]],
}


@pytest.mark.parametrize("case", CHANGED)
def test_an_index_that_gives_a_row_the_numbers_of_another_is_found(
    sharded, tmp_path: Path, case: str
) -> None:
    path = linked(sharded[0], tmp_path / "s")
    with_entries(path, CHANGED[case](entries_of(path)))
    assert [problem.name for problem in verify(path).problems] == [SHARD]
    ids = some_ids(N_CLIPS)[0]
    # Where chunks without compression are is known, so that their index is not used.
    for row in (0, 1, 2, 3):
        found = open_store(path).matrix("tokens", clips=[ids[row]]).values
        np.testing.assert_array_equal(found[0], sharded[1][row])
    with pytest.raises(Corrupt, match="tokens"):
        open_store(path).matrix("tokens")


@pytest.mark.parametrize("case", CHANGED)
def test_an_index_of_compressed_chunks_that_exchanges_rows_is_found(
    compressed, tmp_path: Path, case: str
) -> None:
    path = linked(compressed, tmp_path / "s")
    with_entries(path, CHANGED[case](entries_of(path)))
    assert [problem.name for problem in verify(path).problems] == [SHARD]
    ids = some_ids(N_CLIPS)[0]
    for row in (0, 1, 2, 3):
        with pytest.raises(Corrupt, match="tokens"):
            open_store(path).matrix("tokens", clips=[ids[row]])


def test_a_shard_is_quickly_verified_and_read_in_part(sharded) -> None:
    path, values = sharded
    assert verify(path).problems == []  # also the last block, of one chunk
    ids = some_ids(N_CLIPS)[0]
    for row in (0, 1, 2, 3, 4):
        found = open_store(path).matrix("tokens", clips=[ids[row]]).values
        np.testing.assert_array_equal(found[0], values[row])


def test_chunks_of_a_shard_that_are_moved_with_their_entries_are_found(
    sharded, tmp_path: Path
) -> None:
    path = linked(sharded[0], tmp_path / "s")
    data, entries = (path / SHARD).read_bytes(), entries_of(path)
    n_bytes = entries[0][1]
    moved = data[n_bytes : 2 * n_bytes] + data[:n_bytes] + data[2 * n_bytes :]
    (path / SHARD).unlink()
    (path / SHARD).write_bytes(moved)  # the entries are in order, the checksums are not
    for row in (0, 1):
        with pytest.raises(Corrupt, match="checksum"):
            open_store(path).matrix("tokens", clips=[some_ids(N_CLIPS)[0][row]])


def test_a_row_that_is_ok_has_a_chunk(sharded, tmp_path: Path) -> None:
    """A seal without the checksums of chunks, as older versions wrote it."""
    path = linked(sharded[0], tmp_path / "s")
    data, entries = (path / SHARD).read_bytes(), entries_of(path)
    n_bytes = entries[0][1]
    index = b"".join(
        struct.pack("<2Q", *entry) for entry in [entries[0], ABSENT, *entries[1:3]]
    )
    shorter = data[: 3 * n_bytes] + with_crc(index).tobytes()
    for file in (path / SHARD, path / "seal.json"):
        copy = file.read_bytes()
        file.unlink()
        file.write_bytes(copy)
    forged(path, SHARD, shorter, {})
    value = json.loads((path / "seal.json").read_bytes())["files"]
    changed(path / "seal.json", files=value, crc32c={})
    with pytest.raises(Corrupt, match="row 1 is ok, and the file has no chunk for it"):
        open_store(path).matrix("tokens", clips=[some_ids(N_CLIPS)[0][1]])


def test_a_shard_of_zarr_is_in_the_order_that_is_asked_for(tmp_path: Path) -> None:
    """Older versions wrote blocks by way of zarr, without chunks whose rows all failed."""
    path = tmp_path / "s"
    plan = plan_store(path, N_CLIPS, 4, arrays=(TOKENS,))
    values = (
        np.random.default_rng(1)
        .standard_normal((N_CLIPS, 160, 1024))
        .astype(np.float16)
    )
    failed = RowStatus.failed("decode", "E", "m")
    statuses = [failed if row == 1 else RowStatus() for row in range(4)]
    StoreWriter(path).commit_block(0, {"tokens": values[:4]}, statuses)
    group = zarr.open_group(path / "data.zarr", mode="r+")
    rows = values[:4].copy()
    rows[1] = np.nan
    group["tokens"][:4] = rows
    data = (path / SHARD).read_bytes()
    layout = open_store(path).arrays.layout("tokens")
    spans = layout.spans(np.frombuffer(data, np.uint8), len(data))
    n_bytes = 160 * 1024 * 2 + 4
    expected = [(0, n_bytes), None, (n_bytes, 2 * n_bytes), (2 * n_bytes, 3 * n_bytes)]
    assert spans == expected
    marker = path / "commits/block-00000.json"
    mark = {SHARD: [len(data), hashlib.sha256(data).hexdigest()]}
    changed(marker, files=mark, crc32c={})
    assert plan.n_blocks == 2
    assert verify(path, hashes=True).problems == []
    found = open_store(path).matrix("tokens", missing="drop")
    np.testing.assert_array_equal(found.values, values[[0, 2, 3]])


def test_a_shard_of_fewer_rows_by_hand() -> None:
    """Three rows in chunks of two: the second is filled, the third chunk is left out."""
    layout = ChunkLayout((9, 2), (2, 2), np.dtype("<f4"), None, 3, True)
    pieces, crcs = layout.encode(np.array([[1, 2], [3, 4], [5, 6]]), fill_value=7)
    chunks = [struct.pack("<4f", 1, 2, 3, 4), struct.pack("<4f", 5, 6, 7, 7)]
    # A chunk has 16 bytes and 4 of its checksum.
    absent = 2**64 - 1
    index = struct.pack("<6Q", 0, 20, 20, 20, absent, absent)
    expected = b"".join(bytes(with_crc(data)) for data in (*chunks, index))
    assert b"".join(bytes(piece) for piece in pieces) == expected
    written = [struct.pack("<I", google_crc32c.value(data)) for data in chunks]
    assert crcs == b"".join(written).hex()
    assert layout.crc32c(np.frombuffer(expected, np.uint8)) == crcs


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
    head = b"\x28\xb5\x2f\xfd" + bytes([flags]) + after
    assert _zstd_size(head) == size


def test_the_settings_of_blosc_are_those_of_the_document() -> None:
    settings = {"cname": "lz4", "clevel": 3, "shuffle": "bitshuffle", "blocksize": 64}
    document = {"name": "blosc", "configuration": {"typesize": 4, **settings}}
    codec = _compressor(document)
    found = (codec.cname, codec.clevel, codec.shuffle, codec.blocksize)
    assert found == ("lz4", 3, Blosc.BITSHUFFLE, 64)


def test_a_block_may_begin_four_bytes_before_the_end_of_a_chunk_of_blosc() -> None:
    start = len(CHUNK) - 4
    chunk = with_crc(CHUNK[:16] + struct.pack("<i", start) + CHUNK[20:])
    layout_of(Blosc(cname="zstd", shuffle=Blosc.SHUFFLE)).check_header(chunk)


@pytest.mark.parametrize(
    ("data_type", "shape", "chunk_shape"),
    [
        ("float32", [2, 3], [2, 3]),
        ("float32", [2, 3], [1, 3]),
        ("float64", [2, 3], [2, 3]),
        ("float32", [6], [6]),
    ],
)
def test_vectors_of_texts_are_one_chunk_in_two_dimensions(
    data_type: str, shape: list[int], chunk_shape: list[int]
) -> None:
    document = {
        "shape": shape,
        "chunk_grid": {"configuration": {"chunk_shape": chunk_shape}},
        "data_type": data_type,
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "big"}},
            {"name": "crc32c"},
        ],
    }
    plan: Any = types.SimpleNamespace(n_clips=5)
    if (data_type, shape, chunk_shape) == ("float32", [2, 3], [2, 3]):
        layout = ChunkLayout.of(plan, "text/embeddings", document, "here")
        assert layout.shape == layout.chunk_shape == (2, 3)
        assert layout.dtype == np.dtype(">f4")
        return
    with pytest.raises(Corrupt, match="does not have the layout"):
        ChunkLayout.of(plan, "text/embeddings", document, "here")


@pytest.mark.parametrize(
    ("chunk_rows", "n_chunks"),
    [(1, 4), (2, 2), (4, 1), (3, None), (0, None), (-4, None)],
)
def test_a_shard_has_a_whole_number_of_chunks(
    chunk_rows: int, n_chunks: int | None
) -> None:
    """Blocks of four rows; chunks of -4 would be -1 of them, and their product 4 rows."""
    tail = [
        {"name": "bytes", "configuration": {"endian": "little"}},
        {"name": "crc32c"},
    ]
    shard = {"chunk_shape": [chunk_rows, 2], "codecs": tail, "index_codecs": tail}
    document = {
        "shape": [9, 2],
        "chunk_grid": {"configuration": {"chunk_shape": [4, 2]}},
        "data_type": "float32",
        "codecs": [{"name": "sharding_indexed", "configuration": shard}],
    }
    spec = types.SimpleNamespace(dtype="float32", tail_shape=(2,))
    plan: Any = types.SimpleNamespace(
        n_clips=9, block_rows=4, compressor="", array=lambda name: spec
    )
    if n_chunks is not None:
        layout = ChunkLayout.of(plan, "x", document, "here")
        assert (layout.n_chunks, layout.is_shard) == (n_chunks, True)
        assert layout.chunk_shape == (chunk_rows, 2)
        return
    with pytest.raises(Corrupt, match="does not have the layout"):
        ChunkLayout.of(plan, "x", document, "here")


@pytest.mark.parametrize(
    ("data_type", "shape"), [("string", [2, 2]), ("int32", [2]), ("string", [2])]
)
def test_words_are_texts_in_one_dimension(data_type: str, shape: list[int]) -> None:
    document = {
        "shape": shape,
        "chunk_grid": {"configuration": {"chunk_shape": shape}},
        "data_type": data_type,
        "codecs": [{"name": "vlen-utf8"}, {"name": "crc32c"}],
    }
    plan: Any = types.SimpleNamespace(n_clips=2)
    if (data_type, shape) == ("string", [2]):
        layout = ChunkLayout.of(plan, "text/word", document, "here")
        assert layout.shape == layout.chunk_shape == (2,)
        return
    with pytest.raises(Corrupt, match="does not have the layout"):
        ChunkLayout.of(plan, "text/word", document, "here")
