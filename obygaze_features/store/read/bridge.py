"""Lets zarr read through the seam, and makes it fail where it would return fill values instead.

Zarr reads a chunk that is absent, or a shard of no bytes, as fill values. Here each file a marker
or the seal promises is checked for being there and for its length before zarr sees a byte of it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype

from obygaze_features.core.errors import Corrupt
from obygaze_features.store.remote.files import Files, Piece

# Below this a read from the page cache costs less than handing it to another thread.
THREAD_FROM_BYTES = 1_000_000
# More than two large blocks at once fall out of the processor's cache, and of memory that is
# there already: ten at once took three times as long.
LARGE_AT_ONCE = 2


class Bridge(Store):
    """data.zarr as zarr sees it: read only, metadata from store.json, bytes from `Files`."""

    supports_writes = False
    supports_deletes = False
    supports_listing = False
    supports_partial_writes = False

    def __init__(
        self,
        files: Files,
        documents: Mapping[str, Any],
        promised: Callable[[str, int | None], int],
    ) -> None:
        super().__init__(read_only=True)
        self.files, self.promised = files, promised
        self.documents = {key: json.dumps(value).encode() for key, value in documents.items()}
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]
        self._turns = WeakKeyDictionary()
        self._is_open = True

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Bytes of one file, or an error; None only for metadata that is not there."""
        document = self.documents.get(key)
        if document is not None:
            return prototype.buffer.from_bytes(document)
        if key.endswith("zarr.json") and not key.startswith("text/"):
            return None
        n_bytes = self.promised(key, None)
        if self.files.is_remote:
            piece = await asyncio.to_thread(self._read, key, byte_range, n_bytes)
        elif n_bytes >= THREAD_FROM_BYTES:
            async with self._turn():
                piece = await asyncio.to_thread(self._read, key, byte_range, n_bytes)
        else:
            piece = self._read(key, byte_range, n_bytes)
        return prototype.buffer.from_array_like(piece.data)

    def _turn(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()  # another one after a fork
        return self._turns.setdefault(loop, asyncio.Semaphore(LARGE_AT_ONCE))

    def _read(self, key: str, byte_range: ByteRequest | None, n_bytes: int) -> Piece:
        start, stop = _bounds(byte_range)
        piece = self.files.read(f"data.zarr/{key}", start, stop)
        found = -1 if piece is None else piece.total
        if found != n_bytes and found != (n_bytes := self.promised(key, found)):
            self._refuse(key, n_bytes, found)
        wanted = len(range(n_bytes)[slice(start or None, stop)])
        if piece is None or len(piece.data) != wanted:
            self._refuse(key, n_bytes, found)
        return piece

    def _refuse(self, key: str, n_bytes: int, found: int) -> NoReturn:
        what = "is missing" if found < 0 else f"has {found} bytes"
        raise Corrupt(
            f"a file of this store {what}; {n_bytes} bytes were committed",
            where=f"{self.files.location}/data.zarr/{key}",
            hint="obygaze store verify, then fetch or extract that block again",
        )

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Several parts, one after the other."""
        return [await self.get(key, prototype, part) for key, part in key_ranges]

    async def exists(self, key: str) -> bool:
        """Whether zarr would find this metadata."""
        return key in self.documents

    async def set(self, key: str, value: Buffer) -> None:
        """Stores are never written through a reader."""
        raise NotImplementedError

    async def delete(self, key: str) -> None:
        """Stores are never written through a reader."""
        raise NotImplementedError

    def list(self) -> AsyncIterator[str]:
        """Readers never list."""
        raise NotImplementedError

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Readers never list."""
        raise NotImplementedError

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Readers never list."""
        raise NotImplementedError


def _bounds(byte_range: ByteRequest | None) -> tuple[int, int | None]:
    match byte_range:
        case RangeByteRequest(start, end):
            return start, end
        case OffsetByteRequest(offset):
            return offset, None
        case SuffixByteRequest(suffix):
            return -suffix, None
    return 0, None
