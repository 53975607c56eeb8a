"""The chunks in a file of an array: which codecs they may have, their checksums, their sizes.

Decoders believe the sizes in compressed bytes and in zarr.json. A few bytes could ask them for
gigabytes, so both are compared with store.json before a decoder gets them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

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
    """How the rows of a file are stored: `n_chunks` of `chunk_bytes` each, before compression.

    Strings have no fixed size; their `chunk_bytes` is 0.
    """

    n_chunks: int
    chunk_bytes: int
    compressor: str | None = None
    is_shard: bool = False

    @classmethod
    def of(cls, plan: Plan, name: str, document: Mapping[str, Any], where: str) -> ChunkLayout:
        """Return the layout in the zarr.json of an array; refuse all but those of the format."""
        own = cls._of_strings if name in ID_ARRAYS or name.startswith("text/") else cls._of_blocks
        try:
            layout = own(plan, name, document)
        except (LookupError, TypeError, ValueError, ArithmeticError):
            layout = None
        if layout is None:
            raise Corrupt(
                f"the array {name!r} does not have the layout and codecs of the format",
                where=where,
                hint="obygaze store verify, of the store it was copied from",
            )
        return layout

    @classmethod
    def _of_strings(cls, plan: Plan, name: str, document: Mapping[str, Any]) -> ChunkLayout | None:
        """Return the layout of the ids, in chunks of any length, or of texts, in one chunk."""
        shape, rows = document["shape"], document["chunk_grid"]["configuration"]["chunk_shape"]
        if name == "text/embeddings":
            expected = shape == rows and document["data_type"] == "float32" and len(shape) == 2
            kinds = ["bytes", "crc32c"]
        else:
            expected = shape == ([plan.n_clips] if name in ID_ARRAYS else rows)
            expected &= document["data_type"] == "string" and len(shape) == len(rows) == 1
            kinds = ["vlen-utf8", "crc32c"]
        row_bytes = 4 * math.prod(rows) if len(shape) == 2 else 0
        return cls(1, row_bytes) if expected and _names(document["codecs"]) == kinds else None

    @classmethod
    def _of_blocks(cls, plan: Plan, name: str, document: Mapping[str, Any]) -> ChunkLayout | None:
        spec, codecs, n_chunks = plan.array(name), document["codecs"], 1
        rows, *tail = document["chunk_grid"]["configuration"]["chunk_shape"]
        expected = document["data_type"] == spec.dtype and rows == plan.block_rows
        is_shard = _names(codecs) == ["sharding_indexed"]
        if is_shard:
            shard = codecs[0]["configuration"]
            codecs, (rows, *tail) = shard["codecs"], shard["chunk_shape"]
            n_chunks = plan.block_rows // rows
            expected &= n_chunks * rows == plan.block_rows
            expected &= _names(shard["index_codecs"]) == ["bytes", "crc32c"]
            expected &= shard.get("index_location", "end") == "end"
        kinds = ["bytes", *([plan.compressor] if plan.compressor else []), "crc32c"]
        expected &= document["shape"] == [plan.n_clips, *spec.tail_shape]
        expected &= tuple(tail) == spec.tail_shape and _names(codecs) == kinds
        layout = cls(n_chunks, rows * spec.row_bytes, plan.compressor, is_shard)
        return layout if expected else None

    def chunks(self, data: Bytes) -> Iterator[Bytes]:
        """Yield the chunks of a whole file, in their order in it."""
        if not self.is_shard:
            yield data
            return
        index = data[-self.n_chunks * _ENTRY_BYTES - CRC_BYTES : -CRC_BYTES].tobytes()
        for offset, n_bytes in sorted(np.frombuffer(index, "<u8").reshape(-1, 2).tolist()):
            if offset != _ABSENT:
                yield data[offset : offset + n_bytes]

    def crc32c(self, data: Bytes) -> str:
        """Return the CRC32C values in a whole file, one for each chunk."""
        return "".join(map(crc32c_of, self.chunks(data))) if self.is_shard else crc32c_of(data)

    def check_sizes(self, data: Bytes, *, is_whole: bool) -> None:
        """Raise ValueError where a decoder would make more of a file, or one chunk, than it is."""
        if self.chunk_bytes and not self.compressor:
            return
        for chunk in self.chunks(data) if is_whole else (data,):
            head = chunk[:18].tobytes()
            if not self.chunk_bytes:
                n_strings = int.from_bytes(head[:4], "little")
                wrong = n_strings * 4 > len(chunk)
            elif self.compressor == "blosc":
                wrong = int.from_bytes(head[4:8], "little") != self.chunk_bytes
            else:
                wrong = self.compressor == "zstd" and _zstd_size(head) != self.chunk_bytes
            if wrong:
                raise ValueError("a chunk that does not decode to the bytes of its rows")


def _names(codecs: Any) -> list[str]:
    return [codec["name"] for codec in codecs]


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
