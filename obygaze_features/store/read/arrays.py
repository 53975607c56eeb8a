"""The rows of a store's arrays: each block's file is read, checked and decoded by itself.

So no library takes a missing file for fill values, and each error names the file of its block.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import Corrupt, ObygazeError
from obygaze_features.core.files import parse_json, sha256_bytes
from obygaze_features.store.format.chunks import (
    CRC_BYTES,
    CRC_DIGITS,
    ChunkLayout,
    crc32c_of,
)
from obygaze_features.store.format.limits import check_memory
from obygaze_features.store.format.records import MANY_ROWS, Plan
from obygaze_features.store.format.schema import (
    TEXT_FOLDER,
    WORDS,
    ArraySpec,
    Bytes,
    TextTable,
)
from obygaze_features.store.read.commits import Commits, Expected, GatheredSpan
from obygaze_features.store.remote.files import Files, Piece

Rows = npt.NDArray[np.int64]
# What decoders raise over bytes that are not what they should be.
DAMAGE = (ValueError, RuntimeError, TypeError, LookupError, ArithmeticError)
# Below this a read from the page cache costs less than handing it to another thread.
THREAD_FROM_BYTES = 1_000_000
# More than two large blocks at once fall out of the processor's cache, and of memory that is
# there already: ten at once took three times as long. Requests over a network wait for each other.
LARGE_AT_ONCE = 2
REMOTE_AT_ONCE = 10
# A few blocks are read from their own files. Of more blocks the file with copies of all is read,
# from the first to the last, unless most of what is between them is not wanted.
GATHERED_FROM_BLOCKS = 4
SPARSE = 4
# On this machine it is read in parts: a buffer of this size is used again, and stays in the cache
# of the processor. New memory of the size of the whole array took longer than reading it.
GATHERED_AT_ONCE_BYTES = 1_000_000
RETRIES = 2


class _WantedBlock(NamedTuple):
    """Ascending rows of one block, and where their values are to be."""

    number: int
    rows: Rows
    out: npt.NDArray[Any]


class Arrays:
    """Rows in any order from a store's arrays. Callers ask only for rows that are there."""

    def __init__(self, files: Files, plan: Plan, commits: Commits) -> None:
        self.files = files
        self.plan = plan
        self.commits = commits
        self._layouts: dict[str, ChunkLayout] = {}

    def ids(self, name: str) -> npt.NDArray[np.str_]:
        """Return the clip or film id of each row."""
        strings = self._strings(name, self.layout(name))
        if not "".join(strings).isprintable() or not all(map(str.strip, strings)):
            raise Corrupt(
                f"{name} has ids that are empty or cannot be printed",
                where=self.files.location,
                hint="another copy of this store, from a source that you trust",
            )
        n_bytes = 4 * len(strings) * max(map(len, strings))
        check_memory(n_bytes, f"the ids in {name}", self.files.location)
        return np.array(strings, dtype=np.str_)

    def _strings(self, name: str, layout: ChunkLayout) -> list[str]:
        (n_rows,) = layout.shape
        (chunk_rows,) = layout.chunk_shape
        n_chunks = -(-n_rows // chunk_rows)
        words: list[str] = []
        for number in range(n_chunks):
            words += self._whole(f"data.zarr/{name}/c.{number}", layout).tolist()
        return words[:n_rows]

    def _whole(self, key: str, layout: ChunkLayout) -> npt.NDArray[Any]:
        try:
            return layout.decode(self._part(key))
        except DAMAGE as error:
            raise self._damaged(key, error) from error

    def check_rows(self) -> None:
        """Raise an error if a store that lists very many rows does not have their ids."""
        if self.plan.n_clips <= MANY_ROWS:
            return
        for name, mark in self.plan.id_files("clip_id").items():
            piece = self.files.read(name, 0, 1)
            if piece is None or piece.total != mark.n_bytes:
                raise Corrupt(
                    f"{name} does not have {mark.n_bytes} bytes",
                    where=self.files.location,
                )

    def text(self) -> TextTable | None:
        """Return the texts that go with the store, if there are any."""
        if not self.commits.text_files():
            return None
        key = f"{TEXT_FOLDER}/zarr.json"
        try:
            group = parse_json(self._part(key).tobytes())
            space_id = str(group["attributes"]["space_id"])
            layouts = {}
            for name in ("embeddings", *WORDS):
                key = f"{TEXT_FOLDER}/{name}/zarr.json"
                document = parse_json(self._part(key).tobytes())
                where = self.files.location
                layouts[name] = ChunkLayout.of(
                    self.plan, f"text/{name}", document, where
                )
        except DAMAGE as error:
            raise self._damaged(key, error) from error
        embeddings = self._whole(
            f"{TEXT_FOLDER}/embeddings/c.0.0", layouts["embeddings"]
        )
        words = {name: self._strings(f"text/{name}", layouts[name]) for name in WORDS}
        return TextTable(embeddings=embeddings, space_id=space_id, **words)

    def check_layout(self, name: str) -> None:
        """Raise an error unless the zarr.json of an array is that of store.json."""
        key = f"data.zarr/{name}/zarr.json"
        try:
            document = parse_json(self._part(key).tobytes())
            if document != self.plan.zarr.get(f"{name}/zarr.json"):
                raise Corrupt(
                    f"{key} is not as in store.json", where=self.files.location
                )
        except DAMAGE as error:
            raise self._damaged(key, error) from error
        self.layout(name)

    def layout(self, name: str) -> ChunkLayout:
        """Return how an array is stored."""
        # The copy in store.json, which has a checksum: `verify` compares it with the file.
        if name not in self._layouts:
            document = self.plan.zarr.get(f"{name}/zarr.json")
            if document is None:
                raise Corrupt(
                    f"the array {name!r} is missing: store.json has no {name}/zarr.json",
                    where=self.files.location,
                )
            self._layouts[name] = ChunkLayout.of(
                self.plan, name, document, self.files.location
            )
        return self._layouts[name]

    def block_checksums(self, name: str, block: int) -> str:
        """Return the CRC32C of each chunk of a block, whose file is compared with its sha256."""
        key = self.plan.block_key(name, block)
        try:
            return self.layout(name).crc32c(self._part(key))
        except DAMAGE as error:
            raise self._damaged(key, error) from error

    def read(self, spec: ArraySpec, rows: Rows) -> npt.NDArray[Any]:
        """Return the values of some rows, in the order of `rows`."""
        n_retries = RETRIES
        if self.commits.is_sealed:
            n_retries = 0
        for _ in range(n_retries):
            # The files of a block may be replaced between two requests.
            with suppress(Corrupt):
                return self._read(spec, rows)
        return self._read(spec, rows)

    def _read(self, spec: ArraySpec, rows: Rows) -> npt.NDArray[Any]:
        if (rows[1:] <= rows[:-1]).any():
            unique, inverse = np.unique(rows, return_inverse=True)
            return self._read(spec, unique)[inverse]
        out = self.reserve(spec, len(rows))
        layout = self.layout(spec.name)
        blocks = rows // self.plan.block_rows
        starts = _starts_of_runs(blocks)
        stops = [*starts, len(rows)][1:]
        wanted = [
            _WantedBlock(block, rows[start:stop], out[start:stop])
            for block, start, stop in zip(
                blocks[starts].tolist(), starts, stops, strict=True
            )
        ]
        if self._fill_from_gathered(spec, layout, wanted):
            return out

        def fill(block: _WantedBlock) -> None:
            self._fill(spec, layout, block.number, block.rows, block.out)

        n_bytes = len(rows) * spec.row_bytes // max(len(wanted), 1)
        at_once = self._blocks_at_once(n_bytes)
        if at_once > 1 and len(wanted) > 1:
            with ThreadPoolExecutor(at_once) as pool:
                list(pool.map(fill, wanted))
        else:
            for block in wanted:
                fill(block)
        return out

    def _fill_from_gathered(
        self, spec: ArraySpec, layout: ChunkLayout, wanted: Sequence[_WantedBlock]
    ) -> bool:
        """Read rows of some blocks from the file with copies of all of them.

        Return False where there is no such file, where it is not cheaper than the files of the
        blocks, or where a byte of it is not that of its block: then they are read one by one.
        """
        if len(wanted) < GATHERED_FROM_BLOCKS or not self.commits.is_sealed:
            return False
        first = wanted[0].number
        span = self.commits.gathered_span(spec.name, first, wanted[-1].number)
        if span is None or len(wanted) * SPARSE < wanted[-1].number - first + 1:
            return False
        most_bytes = span.n_bytes
        if not self.files.is_remote:
            most_bytes = GATHERED_AT_ONCE_BYTES
        start = 0
        while start < len(wanted):
            begin = span.starts[wanted[start].number - first]
            stop = start + 1
            while stop < len(wanted):
                end = span.starts[wanted[stop].number - first + 1]
                if end - begin > most_bytes:
                    break
                stop += 1
            if not self._fill_from_span(layout, span, first, wanted[start:stop]):
                return False
            start = stop
        return True

    def _fill_from_span(
        self,
        layout: ChunkLayout,
        span: GatheredSpan,
        first: int,
        wanted: Sequence[_WantedBlock],
    ) -> bool:
        """Read rows of blocks that are near each other; return False if a byte is wrong.

        `first` is the block with which `span` begins.
        """
        begin = span.starts[wanted[0].number - first]
        end = span.starts[wanted[-1].number - first + 1]
        piece = None
        # A server refuses bytes beyond the end of a shorter file.
        with suppress(ObygazeError):
            piece = self.files.read(span.name, begin, end)
        if piece is None or piece.total != span.n_bytes:
            return False
        for block in wanted:
            number = block.number - first
            start = span.starts[number] - begin
            chunk = piece.data[start : span.starts[number + 1] - begin]
            if len(chunk) <= CRC_BYTES or crc32c_of(chunk) != span.crc32c[number]:
                return False
            try:
                values = layout.decode(chunk)
            except DAMAGE:
                return False
            rows_in_block = block.rows - block.number * self.plan.block_rows
            _copy_rows(values, rows_in_block, block.out)
        return True

    def _blocks_at_once(self, n_bytes: int) -> int:
        """Return how many blocks are read at the same time, from each of which some bytes."""
        if self.files.is_remote:
            return REMOTE_AT_ONCE
        if n_bytes >= THREAD_FROM_BYTES:
            return LARGE_AT_ONCE
        return 1

    def reserve(self, spec: ArraySpec, n_rows: int) -> npt.NDArray[Any]:
        """Return an empty array for some rows; an error where they can never fit into memory."""
        check_memory(
            n_rows * spec.row_bytes,
            f"{n_rows} clips of {spec.name}",
            self.files.location,
            "store.stream(...), which reads block by block, or fewer clips",
        )
        return np.empty((n_rows, *spec.tail_shape), dtype=spec.dtype)

    def _fill(
        self,
        spec: ArraySpec,
        layout: ChunkLayout,
        block: int,
        rows: Rows,
        out: npt.NDArray[Any],
    ) -> None:
        """Read ascending rows of one block into `out`."""
        key = self.plan.block_key(spec.name, block)
        chunk_rows = layout.chunk_shape[0]
        rows_in_block = rows - block * self.plan.block_rows
        chunk_of_row = rows_in_block // chunk_rows
        # The rows are ascending, so those of a chunk are next to each other.
        starts = _starts_of_runs(chunk_of_row)
        stops = [*starts[1:], len(rows)]
        numbers = chunk_of_row[starts].tolist()
        chunks = self._chunks(key, layout, numbers)
        try:
            for start, stop, number, chunk in zip(
                starts, stops, numbers, chunks, strict=True
            ):
                if chunk is None:
                    self._require_absent(spec, block, rows_in_block[start:stop])
                    out[start:stop] = np.nan if spec.is_float else 0
                    continue
                rows_in_chunk = rows_in_block[start:stop] - number * chunk_rows
                _copy_rows(layout.decode(chunk), rows_in_chunk, out[start:stop])
        except DAMAGE as error:
            raise self._damaged(key, error) from error

    def _chunks(
        self, key: str, layout: ChunkLayout, wanted: Sequence[int]
    ) -> Iterator[Bytes | None]:
        """Yield some chunks of a file, which is only read in parts if not all are wanted.

        A file whose chunks have no recorded checksums, as in stores of older versions, is read
        whole: only the checksum of the file says then that it is the one that was committed.
        """
        is_wanted_whole = len(wanted) == layout.n_chunks
        expected = self.commits.expected(key)
        if is_wanted_whole or not expected.crc32c:
            data = self._part(key, layout)
            bounds_of = layout.spans(data, len(data))
            for number in wanted:
                bounds = bounds_of[number]
                if bounds is None:
                    yield None
                    continue
                start, stop = bounds
                yield data[start:stop]
            return
        bounds_of = self._spans(key, layout, expected)
        for run in _adjacent(wanted, bounds_of):
            first_bounds = bounds_of[run.start]
            last_bounds = bounds_of[run.stop - 1]
            if first_bounds is None or last_bounds is None:
                yield None
                continue
            begin = first_bounds[0]
            data = self._piece(key, layout, begin, last_bounds[1], run).data
            for number in run:
                bounds = bounds_of[number]
                if bounds is not None:
                    start, stop = bounds
                    yield data[start - begin : stop - begin]

    def _spans(
        self, key: str, layout: ChunkLayout, expected: Expected
    ) -> list[tuple[int, int] | None]:
        """Return where the chunks of a shard are: without compression without reading the index."""
        if self.commits.is_sealed:
            n_present = len(expected.crc32c or "") // CRC_DIGITS
            spans = layout.known_spans(n_present, expected.mark.n_bytes)
            if spans is not None:
                return spans
        index = self._piece(key, layout, -layout.index_bytes)
        return layout.spans(index.data, index.total)

    def _require_absent(self, spec: ArraySpec, block: int, rows: Rows) -> None:
        """Raise ValueError if a row of a block is ok, but the file has no chunk for it."""
        if not (spec.is_feature_array and spec.is_float):
            return  # fill values may be what was measured
        status_of_row = self.commits.block_statuses(block)
        first = block * self.plan.block_rows
        for row in (rows + first).tolist():
            if row not in status_of_row or status_of_row[row].is_ok:
                raise ValueError(f"row {row} is ok, and the file has no chunk for it")

    def _part(self, name: str, layout: ChunkLayout | None = None) -> Bytes:
        """Return the bytes of a file; raise an error unless they are of the committed file."""
        return self._piece(name, layout).data

    def _piece(
        self,
        name: str,
        layout: ChunkLayout | None = None,
        start: int = 0,
        stop: int | None = None,
        numbers: range | None = None,
    ) -> Piece:
        """Return bytes of a file; raise an error unless they are of the committed file.

        This is as far as it can be seen in them: of parts, the length of the file and a checksum.

        Args:
            name: The file.
            layout: How its chunks are stored, where it has the rows of a block.
            start: The first byte; less than 0 for the index of a shard.
            stop: The byte after the last.
            numbers: The chunks of a shard that are between these bytes.
        """
        piece = None
        for expected in self.commits.possible(name):
            if piece is None:
                piece = self.files.read(name, start, stop)
            if piece is None:
                continue
            if _is_expected(piece, expected, layout, start, stop, numbers):
                return piece
        if self.commits.is_sealed:
            # A later version of the store may have another file in its place.
            kept = self.files.read(expected.mark.kept_name, start, stop)
            if kept is not None and _is_expected(
                kept, expected, layout, start, stop, numbers
            ):
                return kept
        n_bytes = expected.mark.n_bytes
        problem = "is missing"
        if piece is not None and piece.total == n_bytes:
            problem = "does not have the checksum of the one that was committed"
        elif piece is not None:
            problem = f"has {piece.total} bytes"
        raise Corrupt(
            f"a file of this store {problem}; {n_bytes} bytes were committed",
            where=f"{self.files.location}/{name}",
            hint="obygaze store verify, then fetch or extract that block again",
        )

    def _damaged(self, name: str, error: Exception) -> Corrupt:
        reason = ""
        lines = str(error).splitlines()
        if lines:
            reason = lines[0][:120]
        return Corrupt(
            f"damaged bytes in {name}: {reason}",
            where=self.files.location,
            hint="obygaze store verify --hash, then fetch or extract that block again",
        )


def _is_expected(
    piece: Piece,
    expected: Expected,
    layout: ChunkLayout | None,
    start: int,
    stop: int | None,
    numbers: range | None,
) -> bool:
    n_bytes, sha256 = expected.mark
    crc32c = expected.crc32c
    n_part = len(range(n_bytes)[start:stop])
    if piece.total != n_bytes or len(piece.data) != n_part:
        return False
    if layout is None or crc32c is None:
        return sha256_bytes(piece.data.tobytes()) == sha256
    if not crc32c:
        # None were recorded. A part is checked by the CRC32C at the end of its chunk alone, which
        # happens only while rows of such a block are replaced: else the file is read whole.
        is_whole = n_part == n_bytes
        return not is_whole or sha256_bytes(piece.data.tobytes()) == sha256
    if numbers is not None:
        # The chunks of a run have one length, or the run is a single one.
        chunk_bytes = len(piece.data) // len(numbers)
        ends = range(chunk_bytes, len(piece.data) + 1, chunk_bytes)
        stored = "".join(crc32c_of(piece.data[:end]) for end in ends)
        return stored == crc32c[CRC_DIGITS * numbers.start : CRC_DIGITS * numbers.stop]
    if start < 0:
        n_present = layout.n_present(piece.data, n_bytes)
        return CRC_DIGITS * n_present == len(crc32c)
    return layout.crc32c(piece.data) == crc32c


def _starts_of_runs(values: Rows) -> list[int]:
    """Return where each run of equal numbers begins."""
    if not len(values):
        return []
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    return [0, *changes.tolist()]


def _adjacent(
    wanted: Sequence[int], bounds_of: Sequence[tuple[int, int] | None]
) -> Iterator[range]:
    """Yield runs of chunks that are read at once: neighbours of one length, or a single chunk."""
    start = 0
    for index in range(1, len(wanted) + 1):
        if index < len(wanted):
            is_next = wanted[index] == wanted[index - 1] + 1
            length = _length(bounds_of[wanted[index]])
            if is_next and length and length == _length(bounds_of[wanted[start]]):
                continue
        yield range(wanted[start], wanted[index - 1] + 1)
        start = index


def _length(bounds: tuple[int, int] | None) -> int:
    """Return the bytes of a chunk; 0 for one that is absent."""
    return 0 if bounds is None else bounds[1] - bounds[0]


def _copy_rows(values: npt.NDArray[Any], rows: Rows, out: npt.NDArray[Any]) -> None:
    """Copy ascending rows of a chunk."""
    first = int(rows[0])
    after = int(rows[-1]) + 1
    if after - first == len(rows):  # a slice is copied faster
        out[:] = values[first:after]
    else:
        out[:] = values[rows]
