"""The arrays of a store through zarr: few large reads, and errors that name the block.

Zarr takes a missing chunk, or a shard of no bytes, for fill values. So each file that a marker or
the seal lists is checked for being there, and for its length, before zarr sees a byte of it.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype, cpu

from obygaze_features.core.errors import Corrupt, ObygazeError
from obygaze_features.core.files import parse_json, sha256_bytes
from obygaze_features.store.format.limits import ChunkLayout, check_memory, crc32c_of
from obygaze_features.store.format.records import MANY_ROWS, Plan
from obygaze_features.store.format.schema import ArraySpec
from obygaze_features.store.format.text import TEXT_FOLDER, WORDS, TextTable
from obygaze_features.store.read.commits import Commits, Expected
from obygaze_features.store.remote.files import Files, Piece, read_or_none

Rows = npt.NDArray[np.int64]
BATCH_BYTES = 2_000_000
# Zarr's settings are the whole process's: one thread at a time may hold another one.
_SETTING = threading.Lock()
# What zarr and its codecs raise over bytes that are not what they should be.
DAMAGE = (ValueError, RuntimeError, TypeError, LookupError, ArithmeticError)
# Below this a read from the page cache costs less than handing it to another thread.
THREAD_FROM_BYTES = 1_000_000
# More than two large blocks at once fall out of the processor's cache, and of memory that is
# there already: ten at once took three times as long.
LARGE_AT_ONCE = 2
RETRIES = 2


class Arrays:
    """Rows in any order from a store's arrays. Callers ask only for rows that are there."""

    def __init__(self, files: Files, plan: Plan, commits: Commits) -> None:
        self.files, self.plan, self.commits = files, plan, commits
        self._specs = {spec.name: spec for spec in plan.arrays}
        self._zarr = _CheckedStore(files, plan, commits)
        self._open: dict[str, zarr.Array[Any]] = {}
        self._lock = threading.Lock()

    def ids(self, name: str) -> npt.NDArray[np.str_]:
        """Return the clip or movie id of each row."""
        # By way of a list: StringDType cannot be cast to a width NumPy has yet to find.
        strings = self._strings(name)
        n_bytes = 4 * len(strings) * max(map(len, strings))
        check_memory(n_bytes, f"the ids in {name}", self.files.location)
        return np.array(strings, dtype=np.str_)

    def _strings(self, name: str) -> list[str]:
        return [str(word) for word in self._whole(name).tolist()]

    def _whole(self, name: str) -> npt.NDArray[Any]:
        try:
            return np.asarray(self._array(name)[:])
        except DAMAGE as error:
            raise self._damaged(f"data.zarr/{name}", error) from error

    def check_rows(self) -> None:
        """Raise an error if a store that lists very many rows does not have their ids."""
        for name, mark in (
            self.plan.id_files("clip_id").items() if self.plan.n_clips > MANY_ROWS else ()
        ):
            piece = self.files.read(name, 0, 1)
            if piece is None or piece.total != mark.n_bytes:
                raise Corrupt(
                    f"{name} does not have {mark.n_bytes} bytes", where=self.files.location
                )

    def text(self) -> TextTable | None:
        """Return the texts that go with the store, if there are any."""
        marks = self.commits.text_files()
        if not marks:
            return None
        words = {name: self._strings(f"text/{name}") for name in WORDS}
        key = f"{TEXT_FOLDER}/zarr.json"
        data = read_or_none(self.files, key)
        if data is None or key not in marks or sha256_bytes(data) != marks[key].sha256:
            raise Corrupt(f"{key} is missing or damaged", where=self.files.location)
        try:
            space_id = str(parse_json(data)["attributes"]["space_id"])
        except (LookupError, TypeError, ValueError) as error:
            raise self._damaged(key, error) from error
        embeddings = self._whole("text/embeddings")
        return TextTable(embeddings=embeddings, space_id=space_id, **words)

    def check_layout(self, name: str) -> None:
        """Raise an error unless an array has the layout of store.json."""
        self._array(name)

    def read(self, spec: ArraySpec, rows: Rows) -> npt.NDArray[Any]:
        """Return the values of some rows, in the order of `rows`."""
        if not len(rows):
            return self.reserve(spec, 0)
        for _ in range(RETRIES):
            if self.commits.is_sealed:
                break
            # The files of a block may be replaced between two requests.
            with suppress(Corrupt):
                return self._read(spec, rows)
        return self._read(spec, rows)

    def _read(self, spec: ArraySpec, rows: Rows) -> npt.NDArray[Any]:
        steps = np.diff(rows)
        if (steps == 1).all():
            out = self.reserve(spec, len(rows))
            return self._range(spec, int(rows[0]), int(rows[-1]) + 1, out)
        if (steps > 0).all():
            return self._ascending(spec, rows, np.flatnonzero(steps > 1) + 1)
        unique, places = np.unique(rows, return_inverse=True)
        return self._read(spec, unique)[places]

    def reserve(self, spec: ArraySpec, n_rows: int) -> npt.NDArray[Any]:
        """Return an empty array for some rows; an error where they can never fit into memory."""
        self._check_room(spec, n_rows)
        return np.empty((n_rows, *spec.tail_shape), dtype=spec.dtype)

    def _check_room(self, spec: ArraySpec, n_rows: int) -> None:
        check_memory(
            n_rows * spec.row_bytes,
            f"{n_rows} clips of {spec.name}",
            self.files.location,
            "store.stream(...), which reads block by block, or fewer clips",
        )

    def _ascending(self, spec: ArraySpec, rows: Rows, cuts: Rows) -> npt.NDArray[Any]:
        # A few holes: straight into place, run by run, even if a block is read twice. Over a
        # network one selection is better, since its requests run side by side.
        if self.files.is_remote or len(cuts) > len(np.unique(rows // self.plan.block_rows)):
            return self._scattered(spec, rows)
        out = self.reserve(spec, len(rows))
        for start, stop in pairwise([0, *cuts.tolist(), len(rows)]):
            self._range(spec, int(rows[start]), int(rows[stop - 1]) + 1, out[start:stop])
        return out

    def _range(
        self, spec: ArraySpec, first: int, after: int, out: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        array, buffer = self._array(spec.name), cpu.NDBuffer.from_numpy_array(out)
        with self._naming_block(spec, first, after):
            array.get_basic_selection(slice(first, after), out=buffer)
        return out

    def _scattered(self, spec: ArraySpec, rows: Rows) -> npt.NDArray[Any]:
        self._check_room(spec, len(rows))
        array = self._array(spec.name)
        with self._naming_block(spec, int(rows[0]), int(rows[-1]) + 1):
            return np.asarray(array.get_orthogonal_selection((rows,)))

    @contextmanager
    def _naming_block(self, spec: ArraySpec, first: int, after: int) -> Iterator[None]:
        try:
            yield
        except DAMAGE as error:
            raise self._damaged(self._damaged_block(spec, first, after), error) from error

    def _damaged_block(self, spec: ArraySpec, first: int, after: int) -> str:
        # A checksum error does not name the block: read each block alone.
        array = self._array(spec.name)
        step = self.plan.block_rows
        for block in range(first // step, -(-after // step)):
            try:
                array[slice(*self.plan.block_range(block))]
            except (ObygazeError, *DAMAGE):
                return self.plan.block_key(spec.name, block)
        return f"data.zarr/{spec.name}"

    def _damaged(self, name: str, error: Exception) -> Corrupt:
        return Corrupt(
            f"damaged bytes in {name}: {str(error).splitlines()[0][:120]}",
            where=self.files.location,
            hint="obygaze store verify --hash, then fetch or extract that block again",
        )

    def _array(self, name: str) -> zarr.Array[Any]:
        with self._lock:
            if name not in self._open:
                self._open[name] = self._opened(name)
            return self._open[name]

    def _opened(self, name: str) -> zarr.Array[Any]:
        key, spec = f"data.zarr/{name}/zarr.json", self._specs.get(name)
        document: Any = self.plan.zarr.get(f"{name}/zarr.json", {})
        is_text = name.startswith("text/")
        try:
            # Over a network the copy in store.json, which carries a checksum, saves the request.
            if is_text or not self.files.is_remote:
                data = read_or_none(self.files, key)
                if data is None:
                    what = f"the array {name!r} is missing: no {key}"
                    raise Corrupt(what, where=self.files.location)
                found = json.loads(data)
                if not is_text and found != document:
                    raise Corrupt(f"{key} is not as in store.json", where=self.files.location)
                document = found
            layout = ChunkLayout.of(self.plan, name, document, self.files.location)
            if spec is None:
                marks = self.commits.text_files() if is_text else self.plan.files
                start = f"data.zarr/{name}/c."
                n_bytes = sum(mark.n_bytes for n, mark in marks.items() if n.startswith(start))
                if 4 * math.prod(document["shape"]) > n_bytes:
                    raise ValueError("the files are too short for the shape in zarr.json")
            self._zarr.layouts[name] = layout
            # How many blocks zarr takes at once: several small ones cost little more than one.
            block_bytes = self.plan.block_rows * (spec.row_bytes if spec else 1)
            batch = int(np.clip(BATCH_BYTES // block_bytes, 1, 16))
            with _SETTING, zarr.config.set({"codec_pipeline.batch_size": batch}):
                return zarr.open_array(self._zarr, path=name, mode="r", zarr_format=3)
        except (FileNotFoundError, *DAMAGE) as error:
            raise self._damaged(key, error) from error


class _CheckedStore(Store):
    """data.zarr for zarr: read only, metadata from store.json, bytes from `Files`."""

    supports_writes = supports_deletes = supports_listing = supports_partial_writes = False

    def __init__(self, files: Files, plan: Plan, commits: Commits) -> None:
        super().__init__(read_only=True)
        self.files, self.documents, self.commits = files, plan.zarr, commits
        # By array; filled before zarr opens it.
        self.layouts: dict[str, ChunkLayout] = {}
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]
        self._turns = WeakKeyDictionary()
        self._is_open = True

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the bytes of one file, or raise an error; None only for missing metadata."""
        document = self.documents.get(key)
        if document is not None:
            return prototype.buffer.from_bytes(json.dumps(document).encode())
        if key.endswith("zarr.json") and not key.startswith("text/"):
            return None
        expected = self.commits.expected(f"data.zarr/{key}")
        if self.files.is_remote:
            piece = await asyncio.to_thread(self._read, key, byte_range, expected)
        elif expected.mark.n_bytes >= THREAD_FROM_BYTES:
            loop = asyncio.get_running_loop()  # another one after a fork
            async with self._turns.setdefault(loop, asyncio.Semaphore(LARGE_AT_ONCE)):
                piece = await asyncio.to_thread(self._read, key, byte_range, expected)
        else:
            piece = self._read(key, byte_range, expected)
        return prototype.buffer.from_array_like(piece.data)

    def _read(self, key: str, byte_range: ByteRequest | None, expected: Expected) -> Piece:
        name, layout = f"data.zarr/{key}", self.layouts.get(key.rpartition("/c.")[0])
        piece = self.files.read(name, *_bounds(byte_range))
        if piece is None or not _is_expected(piece, byte_range, expected, layout):
            now = self.commits.expected_now(name)
            if piece is None or not any(_is_expected(piece, byte_range, e, layout) for e in now):
                self._refuse(key, [expected, *now][-1], piece)
        if layout is not None and not isinstance(byte_range, SuffixByteRequest):
            layout.check_sizes(piece.data, is_whole=byte_range is None)
        return piece

    def _refuse(self, key: str, expected: Expected, piece: Piece | None) -> NoReturn:
        n_bytes, what = expected.mark.n_bytes, "is missing"
        if piece is not None and piece.total == n_bytes:
            what = "does not have the checksum of the one that was committed"
        elif piece is not None:
            what = f"has {piece.total} bytes"
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
        """Return several parts, read one after the other."""
        return [await self.get(key, prototype, part) for key, part in key_ranges]

    async def exists(self, key: str) -> bool:
        """Return whether this metadata exists."""
        return key in self.documents

    def _never(self, *_: Any) -> Any:
        raise NotImplementedError("a reader neither writes nor lists")

    set = delete = list = list_prefix = list_dir = _never  # type: ignore[assignment]


def _is_expected(
    piece: Piece, part: ByteRequest | None, expected: Expected, layout: ChunkLayout | None
) -> bool:
    """Return whether a piece is of the committed file, as far as it can be seen in it."""
    mark, crc32c = expected
    n_bytes = mark.n_bytes
    if part is not None:
        start, stop = _bounds(part)
        n_bytes = len(range(n_bytes)[slice(start or None, stop)])
    if piece.total != mark.n_bytes or len(piece.data) != n_bytes:
        return False
    if crc32c is None:
        return part is not None or sha256_bytes(piece.data.tobytes()) == mark.sha256
    if layout is None or not crc32c or isinstance(part, SuffixByteRequest):
        return True
    if part is None:
        return layout.crc32c(piece.data) == crc32c
    return crc32c_of(piece.data) in {crc32c[i : i + 8] for i in range(0, len(crc32c), 8)}


def _bounds(byte_range: ByteRequest | None) -> tuple[int, int | None]:
    match byte_range:
        case RangeByteRequest(start, end):
            return start, end
        case OffsetByteRequest(offset):
            return offset, None
        case SuffixByteRequest(suffix):
            return -suffix, None
    return 0, None
