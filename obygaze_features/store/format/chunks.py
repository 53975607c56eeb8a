"""How rows are stored in files: blocks are encoded, chunks decoded.

Decoders believe the sizes in compressed bytes and in zarr.json. A few bytes could ask them for
gigabytes, so both are compared with store.json before a decoder gets them.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import google_crc32c
import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import Corrupt
from obygaze_features.store.format.records import Plan
from obygaze_features.store.format.schema import ID_ARRAYS, Bytes

CRC_BYTES = 4
# Of a checksum, as hex.
CRC_DIGITS = 2 * CRC_BYTES
# Offset and length of each chunk of a shard.
_ENTRY_BYTES = 16
_ABSENT = 2**64 - 1
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# Versions of the format and of the codec, flags, bytes of an item, bytes before compression, bytes
# of a block, bytes with this header.
_BLOSC_HEADER = struct.Struct("<BBBBIII")
_BLOSC_VERSIONS = (2, 1)
_BLOSC_COPIED = 0x02
_BLOSC_RESERVED = 0x08
# The upper three bits of the flags, by the name of the codec.
_BLOSC_CODECS = {"blosclz": 0, "lz4": 1, "lz4hc": 1, "snappy": 2, "zlib": 3, "zstd": 4}


@dataclass(frozen=True)
class ChunkLayout:
    """How an array of `shape` is stored: files of `n_chunks` chunks, of `chunk_shape` each.

    `dtype` is that of the bytes before compression, None for strings; `codec` compresses them.
    """

    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    dtype: np.dtype[Any] | None = None
    codec: Any = None
    n_chunks: int = 1
    is_shard: bool = False

    @classmethod
    def of(cls, plan: Plan, name: str, document: Mapping[str, Any], where: str) -> Self:
        """Return the layout in the zarr.json of an array; refuse all but those of the format."""
        is_column = name in ID_ARRAYS or name.startswith("text/")
        try:
            if is_column:
                layout = cls._of_columns(plan, name, document)
            else:
                layout = cls._of_blocks(plan, name, document)
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
            layout = None
        if layout is None:
            raise Corrupt(
                f"the array {name!r} does not have the layout and codecs of the format",
                where=where,
                hint="obygaze store verify, of the store it was copied from",
            )
        return layout

    @classmethod
    def _of_columns(
        cls, plan: Plan, name: str, document: Mapping[str, Any]
    ) -> Self | None:
        """Return the layout of the ids, in chunks of any length, or of texts, in one chunk."""
        shape = document["shape"]
        chunk = document["chunk_grid"]["configuration"]["chunk_shape"]
        kinds, dtype = _codecs(document["codecs"])
        if name == "text/embeddings":
            expected = (
                shape == chunk
                and document["data_type"] == "float32"
                and len(shape) == 2
            )
            expected &= kinds == ["bytes", "crc32c"]
        else:
            expected = shape == ([plan.n_clips] if name in ID_ARRAYS else chunk)
            expected &= (
                document["data_type"] == "string" and len(shape) == len(chunk) == 1
            )
            expected &= kinds == ["vlen-utf8", "crc32c"] and chunk[0] > 0
        layout = cls(
            tuple(shape), tuple(chunk), np.dtype(f"{dtype}f4") if shape[1:] else None
        )
        return layout if expected else None

    @classmethod
    def _of_blocks(
        cls, plan: Plan, name: str, document: Mapping[str, Any]
    ) -> Self | None:
        spec = plan.array(name)
        codecs = document["codecs"]
        n_chunks = 1
        rows, *tail = document["chunk_grid"]["configuration"]["chunk_shape"]
        expected = document["data_type"] == spec.dtype and rows == plan.block_rows
        is_shard = _codecs(codecs)[0] == ["sharding_indexed"]
        if is_shard:
            shard = codecs[0]["configuration"]
            codecs = shard["codecs"]
            (rows, *tail) = shard["chunk_shape"]
            n_chunks = plan.block_rows // rows
            expected &= n_chunks * rows == plan.block_rows and rows > 0
            expected &= _codecs(shard["index_codecs"]) == (["bytes", "crc32c"], "<")
            expected &= shard.get("index_location", "end") == "end"
        kinds, order = _codecs(codecs)
        expected &= kinds == [
            "bytes",
            *([plan.compressor] if plan.compressor else []),
            "crc32c",
        ]
        expected &= document["shape"] == [plan.n_clips, *spec.tail_shape]
        expected &= tuple(tail) == spec.tail_shape
        shape = (plan.n_clips, *spec.tail_shape)
        dtype = np.dtype(spec.dtype).newbyteorder(order)
        codec = _compressor(codecs[1]) if expected and plan.compressor else None
        return (
            cls(shape, (rows, *tail), dtype, codec, n_chunks, is_shard)
            if expected
            else None
        )

    @property
    def index_bytes(self) -> int:
        """The bytes of the index at the end of a shard."""
        return self.n_chunks * _ENTRY_BYTES + CRC_BYTES

    def spans(self, data: Bytes, n_bytes: int) -> list[tuple[int, int] | None]:
        """Return the first byte of each chunk, and the one after it, from a file or its index.

        None for a chunk that a shard does not have, whose rows are all fill values. The chunks of a
        shard must be in the order of their rows without gaps, so that no entry of the index can
        give a row the numbers of another.

        Args:
            data: The whole file, or its last `index_bytes` bytes.
            n_bytes: The length of the whole file.
        """
        if not self.is_shard:
            return [(0, n_bytes)]
        index = _without_crc32c(data[-self.index_bytes :]).tobytes()
        entries = np.frombuffer(index, "<u8").reshape(self.n_chunks, 2).tolist()
        spans: list[tuple[int, int] | None] = []
        end = 0
        for start, length in entries:
            if start == length == _ABSENT:
                spans.append(None)
                continue
            if start != end or length < CRC_BYTES:
                raise ValueError(
                    "the chunks of a shard are not in the order of their rows"
                )
            end = start + length
            spans.append((start, end))
        if end != n_bytes - self.index_bytes:
            raise ValueError("the chunks of a shard do not end at its index")
        return spans

    def known_spans(
        self, n_present: int, n_bytes: int
    ) -> list[tuple[int, int] | None] | None:
        """Return what `spans` does without the index: chunks have one length without compression.

        None if they are compressed, or the file has not the length of this number of chunks.

        Args:
            n_present: The chunks that the file has, which are the first ones.
            n_bytes: The length of the file.
        """
        if self.codec is not None or self.dtype is None or n_present > self.n_chunks:
            return None
        chunk_bytes = math.prod(self.chunk_shape) * self.dtype.itemsize + CRC_BYTES
        if n_bytes != n_present * chunk_bytes + self.index_bytes:
            return None
        spans: list[tuple[int, int] | None] = []
        for number in range(self.n_chunks):
            if number < n_present:
                spans.append((number * chunk_bytes, (number + 1) * chunk_bytes))
            else:
                spans.append(None)
        return spans

    def n_present(self, data: Bytes, n_bytes: int) -> int:
        """Return how many chunks a file has; raise ValueError unless these are the first ones.

        The arguments are those of `spans`.
        """
        spans = self.spans(data, n_bytes)
        n_present = len(spans) - spans.count(None)
        if None in spans[:n_present]:
            raise ValueError("a chunk of a shard is absent before another one")
        return n_present

    def crc32c(self, data: Bytes) -> str:
        """Return the CRC32C values in a whole file, one for each chunk, in their order in it."""
        n_present = self.n_present(data, len(data))
        spans = self.spans(data, len(data))[:n_present]
        return "".join(crc32c_of(data[span[0] : span[1]]) for span in spans if span)

    def encode(
        self, rows: npt.NDArray[Any], fill_value: float
    ) -> tuple[list[Any], str]:
        """Return the file of the rows of a block, in pieces, and the CRC32C of its chunks as hex.

        The last chunk is filled; a shard leaves out those after it. The pieces are not joined:
        that is a copy.
        """
        n_chunks = -(-len(rows) // self.chunk_shape[0])
        n_rows = n_chunks * self.chunk_shape[0]
        rows = np.ascontiguousarray(rows, dtype=self.dtype)
        if len(rows) < n_rows:
            fill_shape = (n_rows - len(rows), *rows.shape[1:])
            fill = np.full(fill_shape, fill_value, self.dtype)
            rows = np.concatenate([rows, fill])
        pieces: list[Any] = []
        spans: list[int] = []
        start = 0
        for chunk in np.split(rows, n_chunks):
            data = (
                self.codec.encode(chunk)
                if self.codec
                else chunk.reshape(-1).view(np.uint8)
            )
            pieces += [data, _crc32c(data)]
            spans += [start, len(data) + CRC_BYTES]
            start += spans[-1]
        crc32c = "".join(piece.hex() for piece in pieces[1::2])
        if self.is_shard:
            spans += [_ABSENT] * 2 * (self.n_chunks - n_chunks)
            index = np.array(spans, "<u8").tobytes()
            pieces += [index, _crc32c(index)]
        return pieces, crc32c

    def decode(self, chunk: Bytes) -> npt.NDArray[Any]:
        """Return the rows of a chunk; raise ValueError or RuntimeError where it is damaged."""
        data = _without_crc32c(chunk)
        head = data[:18].tobytes()
        if self.dtype is None:
            from numcodecs.vlen import VLenUTF8

            if int.from_bytes(head[:4], "little") != self.chunk_shape[0] or (
                self.chunk_shape[0] * 4 > len(data)
            ):
                raise ValueError(
                    "a chunk that does not decode to the strings of its rows"
                )
            strings: npt.NDArray[Any] = VLenUTF8().decode(data)
            return strings
        if self.codec is not None:
            self._check_header(data, self.dtype.itemsize)
            n_bytes = math.prod(self.chunk_shape) * self.dtype.itemsize
            compressed = data
            data = np.empty(n_bytes, np.uint8)
            self.codec.decode(compressed, data)
        return data.view(self.dtype).reshape(self.chunk_shape)

    def check_header(self, chunk: Bytes) -> None:
        """Raise ValueError unless the header of a chunk agrees with its bytes and its rows."""
        if self.codec is not None and self.dtype is not None:
            self._check_header(chunk[:-CRC_BYTES], self.dtype.itemsize)

    def _check_header(self, data: Bytes, item_bytes: int) -> None:
        """Check the header of a compressed chunk, given without its CRC32C."""
        head = data[:18].tobytes()
        n_bytes = math.prod(self.chunk_shape) * item_bytes
        is_zstd = self.codec.codec_id == "zstd"
        stated = _zstd_size(head) if is_zstd else int.from_bytes(head[4:8], "little")
        if stated != n_bytes:
            raise ValueError("a chunk that does not decode to the bytes of its rows")
        if not is_zstd:
            _check_blosc(data, n_bytes, item_bytes, self.codec.cname)


def _codecs(codecs: Any) -> tuple[list[str], Literal["<", ">"]]:
    """Return the names of codecs, and the order of bytes that the first one gives."""
    is_big = codecs[0].get("configuration", {}).get("endian") == "big"
    return [codec["name"] for codec in codecs], ">" if is_big else "<"


def _compressor(codec: Mapping[str, Any]) -> Any:
    """Return the codec of NumCodecs with the settings in a zarr.json."""
    from numcodecs import get_codec

    settings = {
        key: value for key, value in codec["configuration"].items() if key != "typesize"
    }
    if "shuffle" in settings:
        settings["shuffle"] = ("noshuffle", "shuffle", "bitshuffle").index(
            settings["shuffle"]
        )
    return get_codec({**settings, "id": codec["name"]})


def _crc32c(data: Any) -> bytes:
    return int(google_crc32c.value(data)).to_bytes(CRC_BYTES, "little")


def _without_crc32c(data: Bytes) -> Bytes:
    """Return bytes without the CRC32C at their end, which must be theirs."""
    content = data[:-CRC_BYTES]
    if _crc32c(content) != data[-CRC_BYTES:].tobytes():
        raise ValueError("the stored and the computed checksum differ")
    return content


def crc32c_of(chunk: Bytes) -> str:
    """Return the CRC32C at the end of a chunk, as hex."""
    return chunk[-CRC_BYTES:].tobytes().hex()


def _check_blosc(data: Bytes, n_bytes: int, item_bytes: int, cname: str) -> None:
    """Raise ValueError unless the header of a Blosc chunk agrees with the chunk and its array.

    The decoder believes the header: one that gives another length makes it read memory beyond the
    chunk, which can end the process.

    Args:
        data: The chunk.
        n_bytes: The bytes of its rows.
        item_bytes: The bytes of a number.
        cname: The codec in zarr.json.
    """
    if len(data) < _BLOSC_HEADER.size:
        raise ValueError("a chunk without a whole Blosc header")
    header = _BLOSC_HEADER.unpack(data[: _BLOSC_HEADER.size].tobytes())
    (
        version,
        codec_version,
        flags,
        stated_item_bytes,
        stated_n_bytes,
        block_bytes,
        length,
    ) = header
    if (version, codec_version) != _BLOSC_VERSIONS:
        raise ValueError(
            f"a Blosc header of the versions {version} and {codec_version}"
        )
    if flags >> 5 != _BLOSC_CODECS[cname] or flags & _BLOSC_RESERVED:
        raise ValueError(
            f"a Blosc header with the flags {flags:#x}, which are not those of {cname}"
        )
    if stated_item_bytes != item_bytes:
        raise ValueError(
            f"a Blosc header of items of {stated_item_bytes} bytes, not {item_bytes}"
        )
    if stated_n_bytes != n_bytes or not 1 <= block_bytes <= n_bytes:
        raise ValueError(
            f"a Blosc header of blocks of {block_bytes} bytes in {stated_n_bytes}"
        )
    if length != len(data):
        raise ValueError(
            f"a Blosc header of {length} compressed bytes, not {len(data)}"
        )
    if flags & _BLOSC_COPIED:
        if length != _BLOSC_HEADER.size + n_bytes:
            raise ValueError(
                "a Blosc chunk of copied bytes that does not have the length of its rows"
            )
        return
    # Otherwise the header is followed by the first byte of each block.
    n_blocks = -(-n_bytes // block_bytes)
    first_byte = _BLOSC_HEADER.size + 4 * n_blocks
    if first_byte > length:
        raise ValueError("a Blosc chunk that is too short for its blocks")
    starts = data[_BLOSC_HEADER.size : first_byte].view("<i4")
    if starts.min() < first_byte or starts.max() > length - 4:
        raise ValueError("a Blosc chunk with a block outside its bytes")


def _zstd_size(head: bytes) -> int:
    """Return the size of the content that a zstd frame declares; -1 if it declares none."""
    if head[:4] != _ZSTD_MAGIC or len(head) < 6:
        return -1
    flags = head[4]
    is_single = flags >> 5 & 1
    kind = flags >> 6
    if not kind and not is_single:
        return -1
    start = 5 + (not is_single) + (0, 1, 2, 4)[flags & 3]
    size = int.from_bytes(head[start : start + (1, 2, 4, 8)[kind]], "little")
    return size + 256 if kind == 1 else size
