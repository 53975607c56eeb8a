"""How rows are stored in files: blocks are encoded, chunks decoded.

Decoders believe the sizes in compressed bytes and in zarr.json. A few bytes could ask them for
gigabytes, so both are compared with store.json before a decoder gets them.
"""

import math
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
# Offset and length of each chunk of a shard.
_ENTRY_BYTES = 16
_ABSENT = 2**64 - 1
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


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
        own = cls._of_columns if name in ID_ARRAYS or name.startswith("text/") else cls._of_blocks
        try:
            layout = own(plan, name, document)
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
    def _of_columns(cls, plan: Plan, name: str, document: Mapping[str, Any]) -> Self | None:
        """Return the layout of the ids, in chunks of any length, or of texts, in one chunk."""
        shape, chunk = document["shape"], document["chunk_grid"]["configuration"]["chunk_shape"]
        kinds, dtype = _codecs(document["codecs"])
        if name == "text/embeddings":
            expected = shape == chunk and document["data_type"] == "float32" and len(shape) == 2
            expected &= kinds == ["bytes", "crc32c"]
        else:
            expected = shape == ([plan.n_clips] if name in ID_ARRAYS else chunk)
            expected &= document["data_type"] == "string" and len(shape) == len(chunk) == 1
            expected &= kinds == ["vlen-utf8", "crc32c"] and chunk[0] > 0
        layout = cls(tuple(shape), tuple(chunk), np.dtype(f"{dtype}f4") if shape[1:] else None)
        return layout if expected else None

    @classmethod
    def _of_blocks(cls, plan: Plan, name: str, document: Mapping[str, Any]) -> Self | None:
        spec, codecs, n_chunks = plan.array(name), document["codecs"], 1
        rows, *tail = document["chunk_grid"]["configuration"]["chunk_shape"]
        expected = document["data_type"] == spec.dtype and rows == plan.block_rows
        is_shard = _codecs(codecs)[0] == ["sharding_indexed"]
        if is_shard:
            shard = codecs[0]["configuration"]
            codecs, (rows, *tail) = shard["codecs"], shard["chunk_shape"]
            n_chunks = plan.block_rows // rows
            expected &= n_chunks * rows == plan.block_rows and rows > 0
            expected &= _codecs(shard["index_codecs"]) == (["bytes", "crc32c"], "<")
            expected &= shard.get("index_location", "end") == "end"
        kinds, order = _codecs(codecs)
        expected &= kinds == ["bytes", *([plan.compressor] if plan.compressor else []), "crc32c"]
        expected &= document["shape"] == [plan.n_clips, *spec.tail_shape]
        expected &= tuple(tail) == spec.tail_shape
        shape, dtype = (plan.n_clips, *spec.tail_shape), np.dtype(spec.dtype).newbyteorder(order)
        codec = _compressor(codecs[1]) if expected and plan.compressor else None
        return cls(shape, (rows, *tail), dtype, codec, n_chunks, is_shard) if expected else None

    @property
    def index_bytes(self) -> int:
        """The bytes of the index at the end of a shard."""
        return self.n_chunks * _ENTRY_BYTES + CRC_BYTES

    def places(self, data: Bytes) -> list[tuple[int, int] | None]:
        """Return the first byte of each chunk, and the one after it, from a file or its index.

        None for a chunk that a shard does not have, whose rows are all fill values.
        """
        if not self.is_shard:
            return [(0, len(data))]
        index = _without_crc32c(data[-self.index_bytes :]).tobytes()
        entries = np.frombuffer(index, "<u8").reshape(self.n_chunks, 2).tolist()
        return [None if start == _ABSENT else (start, start + n) for start, n in entries]

    def crc32c(self, data: Bytes) -> str:
        """Return the CRC32C values in a whole file, one for each chunk, in their order in it."""
        places = sorted(place for place in self.places(data) if place is not None)
        return "".join(crc32c_of(data[start:after]) for start, after in places)

    def encode(self, rows: npt.NDArray[Any], fill_value: float) -> tuple[list[Any], str]:
        """Return the file of the rows of a block, in pieces, and the CRC32C of its chunks as hex.

        The last chunk is filled; a shard leaves out those after it. The pieces are not joined:
        that is a copy.
        """
        n_chunks = -(-len(rows) // self.chunk_shape[0])
        n_rows = n_chunks * self.chunk_shape[0]
        rows = np.ascontiguousarray(rows, dtype=self.dtype)
        if len(rows) < n_rows:
            rest = np.full((n_rows - len(rows), *rows.shape[1:]), fill_value, self.dtype)
            rows = np.concatenate([rows, rest])
        pieces: list[Any] = []
        places: list[int] = []
        start = 0
        for chunk in np.split(rows, n_chunks):
            data = self.codec.encode(chunk) if self.codec else chunk.reshape(-1).view(np.uint8)
            pieces += [data, _crc32c(data)]
            places += [start, len(data) + CRC_BYTES]
            start += places[-1]
        crc32c = "".join(piece.hex() for piece in pieces[1::2])
        if self.is_shard:
            places += [_ABSENT] * 2 * (self.n_chunks - n_chunks)
            index = np.array(places, "<u8").tobytes()
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
                raise ValueError("a chunk that does not decode to the strings of its rows")
            strings: npt.NDArray[Any] = VLenUTF8().decode(data)
            return strings
        if self.codec is not None:
            is_zstd = self.codec.codec_id == "zstd"
            n_bytes = _zstd_size(head) if is_zstd else int.from_bytes(head[4:8], "little")
            if n_bytes != math.prod(self.chunk_shape) * self.dtype.itemsize:
                raise ValueError("a chunk that does not decode to the bytes of its rows")
            compressed, data = data, np.empty(n_bytes, np.uint8)
            self.codec.decode(compressed, data)
        return data.view(self.dtype).reshape(self.chunk_shape)


def _codecs(codecs: Any) -> tuple[list[str], Literal["<", ">"]]:
    """Return the names of codecs, and the order of bytes that the first one gives."""
    is_big = codecs[0].get("configuration", {}).get("endian") == "big"
    return [codec["name"] for codec in codecs], ">" if is_big else "<"


def _compressor(codec: Mapping[str, Any]) -> Any:
    """Return the codec of NumCodecs with the settings in a zarr.json."""
    from numcodecs import get_codec

    settings = {key: value for key, value in codec["configuration"].items() if key != "typesize"}
    if "shuffle" in settings:
        settings["shuffle"] = ("noshuffle", "shuffle", "bitshuffle").index(settings["shuffle"])
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


def _zstd_size(head: bytes) -> int:
    """Return the size of the content that a zstd frame declares; -1 if it declares none."""
    if head[:4] != _ZSTD_MAGIC or len(head) < 6:
        return -1
    flags = head[4]
    is_single, kind = flags >> 5 & 1, flags >> 6
    if not kind and not is_single:
        return -1
    start = 5 + (not is_single) + (0, 1, 2, 4)[flags & 3]
    size = int.from_bytes(head[start : start + (1, 2, 4, 8)[kind]], "little")
    return size + 256 if kind == 1 else size
