"""Check what is needed before it is used: memory, disk, the sizes of documents and of chunks.

Decoders believe the sizes in compressed bytes and in zarr.json. A few bytes could ask them for
gigabytes, so both are compared with store.json before a decoder gets them.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.console import human
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.store.format.records import Plan
from obygaze_features.store.format.schema import ID_ARRAYS, Bytes

# A completely full disk harms other users of it.
SPARE_BYTES = 64_000_000
# A seal of a million clips has 20 MB; store.json and zarr.json do not grow with their number.
DOCUMENT_BYTES = 256_000_000
SMALL_DOCUMENT_BYTES = 16_000_000
# By the end of a name; the first that fits. Models are read by the same code as stores.
_MOST_BYTES = {
    "store.json": SMALL_DOCUMENT_BYTES,
    "zarr.json": SMALL_DOCUMENT_BYTES,
    ".json": DOCUMENT_BYTES,
    ".safetensors": 2_000_000_000,
}
_FULL = (errno.ENOSPC, errno.EDQUOT)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
CRC_BYTES = 4
# Offset and length of each chunk of a shard.
_ENTRY_BYTES = 16
_ABSENT = 2**64 - 1
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def memory_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(n_bytes: int, what: str, where: str, hint: str | None = None) -> None:
    """Raise an error if `n_bytes` are more than this machine's memory."""
    total = memory_bytes()
    if n_bytes > total:
        raise FixInput(
            f"{what}: {human(n_bytes)} do not fit into this machine's {human(total)}",
            where=where,
            hint=hint,
        )


def check_document(name: str, n_bytes: int, where: str) -> None:
    """Raise an error for a file that is longer than any of its kind; ask before reading it."""
    if n_bytes <= SMALL_DOCUMENT_BYTES:
        return
    most = next((most for end, most in _MOST_BYTES.items() if name.endswith(end)), n_bytes)
    if n_bytes > most:
        raise Corrupt(
            f"{name} has {human(n_bytes)}, expected at most {human(most)}",
            where=where,
            hint="fetch it again from a source that you trust",
        )


def check_disk(n_bytes: int, folder: Path) -> None:
    """Raise an error if `n_bytes` do not fit on the disk of `folder`."""
    existing = folder
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if n_bytes + SPARE_BYTES > free:
        raise FixInput(
            f"{human(n_bytes)} are needed and {human(free)} are free on this disk",
            where=str(folder),
            hint="choose another disk, or fewer levels or movies",
        )


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Explain a full or read-only disk while a store is written."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise FixInput(
                "the disk is full; what was committed before is safe",
                where=str(path),
                hint="free some space, then run the same command again",
            ) from error
        if error.errno in _READ_ONLY:
            raise FixInput(
                f"this folder cannot be written: {error.strerror}",
                where=str(path),
                hint="choose another folder with -o, or copy with obygaze store subset",
            ) from error
        raise


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
