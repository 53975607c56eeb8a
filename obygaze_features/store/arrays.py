"""Read rows of arrays, in any order. Each chunk is compared with its checksum, then decoded."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import FixInput
from obygaze_features.store.decoding import (
    Bytes,
    Rows,
    check_content,
    decode_texts,
    index_bytes,
    shard_index,
    split_checks,
    stored_chunk_bytes,
)
from obygaze_features.store.files import ListedFiles, Range, check_memory
from obygaze_features.store.layout import CHECKS, Array
from obygaze_features.store.records import StoreRecord
from obygaze_features.store.text_columns import TextColumn


class Arrays:
    """The arrays of a store, and the columns of its table of rows."""

    def __init__(self, listed: ListedFiles, record: StoreRecord) -> None:
        self.listed = listed
        self.record = record

    @cached_property
    def checks(self) -> dict[str, npt.NDArray[np.uint32]]:
        """The CRC32C of each chunk of each array."""
        data = self.listed.whole(CHECKS)
        with self.listed.decoding(CHECKS):
            arrays = (*self.record.columns, *self.record.arrays)
            return split_checks(data, arrays, self.record.rows.total)

    def read(self, array: Array, rows: Rows) -> npt.NDArray[Any]:
        """Return the values of rows, in the order of `rows`; a row may occur twice."""
        out = self.reserve(array, len(rows))
        if not len(rows):
            return out
        if rows.min() < 0 or rows.max() >= self.record.rows.total:
            raise FixInput(
                f"expected rows from 0 to {self.record.rows.total - 1}",
                where=self.listed.location,
            )
        # Chunks are read in the order of the file, for any order of `rows`.
        order = np.argsort(rows, kind="stable")
        in_order = rows[order]
        is_ascending = bool((rows[1:] > rows[:-1]).all())
        chunk_of_row = in_order // array.chunk_rows
        firsts = np.flatnonzero(np.append(True, np.diff(chunk_of_row)))
        numbers = chunk_of_row[firsts]
        checks = self.checks[array.name][numbers].tolist()
        ends = [*firsts[1:].tolist(), len(rows)]
        chunks = zip(numbers.tolist(), checks, firsts.tolist(), ends, strict=True)
        chunk_bytes = stored_chunk_bytes(array)
        result = out.reshape(-1).view(np.uint8)
        memories: list[Bytes | None] = []
        for first, after in zip(firsts.tolist(), ends, strict=True):
            # A whole chunk is read to its place in the result. Its checksum is then in the place of
            # the next chunk, which is read later.
            memory = result[first * array.row_bytes :][:chunk_bytes]
            is_whole = is_ascending and after - first == array.chunk_rows
            has_place = is_whole and len(memory) == chunk_bytes
            memories.append(memory if has_place else None)
        ranges = self._ranges(array, numbers.tolist(), memories)
        for wanted, data in zip(ranges, self.listed.parts(ranges), strict=True):
            for start in range(0, wanted.stop - wanted.start, chunk_bytes):
                number, check, first, after = next(chunks)
                with self.listed.decoding(wanted.name):
                    chunk = data[start : start + chunk_bytes]
                    content = check_content(array, chunk, check)
                if data is wanted.memory:
                    continue
                values = content.view(array.dtype).reshape(-1, *array.shape)
                places = in_order[first:after] - number * array.chunk_rows
                out[order[first:after]] = values[places]
        return out

    def read_all(self, array: Array) -> npt.NDArray[Any]:
        """Return the values of all rows, file by file.

        Memory is taken for one file at a time. If store.json states too many rows, the first
        missing file raises an error before the memory is full.
        """
        n_rows = self.record.rows.total
        parts = []
        _ = self.checks
        for first in range(0, n_rows, array.file_rows):
            after = min(first + array.file_rows, n_rows)
            parts.append(self.read(array, np.arange(first, after)))
        return np.concatenate(parts)

    def texts(self, column: Array, numbers: Sequence[int]) -> Iterator[TextColumn]:
        """Yield the texts of files of a column, one file at a time.

        `numbers` are the numbers of the files.
        """
        n_rows = self.record.rows.total
        checks = self.checks[column.name]
        ranges = []
        for number in numbers:
            name = column.file_name(number)
            ranges.append(Range(name, 0, self.listed.marks[name].n_bytes))
        parts = self.listed.parts(ranges)
        for number, data in zip(numbers, parts, strict=True):
            n_texts = min(column.file_rows, n_rows - number * column.file_rows)
            with self.listed.decoding(column.file_name(number)):
                content = check_content(column, data, int(checks[number]))
                texts = decode_texts(content, n_texts)
            yield texts

    def reserve(self, array: Array, n_rows: int) -> npt.NDArray[Any]:
        """Return an uninitialised array for `n_rows` rows of an array of the store.

        Raise an error if the rows need more than the memory of this machine.
        """
        check_memory(
            n_rows * array.row_bytes,
            f"{n_rows} clips of {array.name}",
            self.listed.location,
            "use store.stream(...) to read file by file, or read fewer clips",
        )
        return np.empty((n_rows, *array.shape), dtype=array.dtype)

    def _ranges(
        self, array: Array, numbers: list[int], memories: list[Bytes | None]
    ) -> list[Range]:
        """Return the byte ranges of chunks whose numbers ascend.

        Chunks that follow one another in a file share a range, up to the bytes of one read.
        """
        chunk_bytes = stored_chunk_bytes(array)
        most_bytes = max(self.listed.files.piece_bytes, chunk_bytes)
        ranges: list[Range] = []
        for number, memory in zip(numbers, memories, strict=True):
            file, place = divmod(number, array.chunks_of_a_file)
            name = array.file_name(file)
            start = place * chunk_bytes
            stop = start + chunk_bytes
            last = ranges[-1] if ranges else Range("", 0, 0)
            if (last.name, last.stop) != (name, start):
                self._check_length(array, file)
            elif stop - last.start <= most_bytes:
                ranges.pop()
                start = last.start
                # Several chunks are decoded from the bytes of one range.
                memory = None
            ranges.append(Range(name, start, stop, memory))
        return ranges

    def check_index(self, array: Array, file: int) -> None:
        """Raise an error unless the index of a file has the offset and length of each chunk.

        Only readers of Zarr use the index.
        """
        index_start = self._check_length(array, file)
        name = array.file_name(file)
        wanted = Range(name, index_start, index_start + index_bytes(array))
        (index,) = self.listed.parts([wanted])
        if index.tobytes() != shard_index(array, self._n_chunks(array, file)):
            raise self.listed.damaged(name, "the index does not match the chunks")

    def _check_length(self, array: Array, file: int) -> int:
        """Return the offset at which the index of a file begins.

        Raise an error if store.json lists another length for the file than its chunks and its
        index have together.
        """
        name = array.file_name(file)
        index_start = self._n_chunks(array, file) * stored_chunk_bytes(array)
        n_bytes = index_start + index_bytes(array)
        if self.listed.marks[name].n_bytes != n_bytes:
            raise self.listed.damaged(name, f"expected {n_bytes} bytes for the rows")
        return index_start

    def _n_chunks(self, array: Array, file: int) -> int:
        """Return the number of chunks of a file."""
        first_chunk = file * array.chunks_of_a_file
        all_chunks = array.n_chunks(self.record.rows.total)
        return min(array.chunks_of_a_file, all_chunks - first_chunk)
