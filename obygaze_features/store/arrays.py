"""Read rows of arrays, in any order: each chunk is compared with its checksum, then decoded."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import FixInput
from obygaze_features.store.decoding import (
    Bytes,
    Rows,
    checked_content,
    chunk_with_crc_bytes,
    decode_texts,
    index_bytes,
    index_of,
    split_checks,
)
from obygaze_features.store.files import ListedFiles, Range, check_memory
from obygaze_features.store.layout import CHECKS, Array
from obygaze_features.store.records import StoreRecord


class _Wanted(NamedTuple):
    """Rows in the order of the store, by the chunks that they are in.

    Args:
        order: For each of these rows, its place in the result; None where that is the same.
        chunks: The numbers of the chunks, ascending.
        places: The rows of chunk i are those from `places[i]` to before `places[i + 1]`.
        rows_in_chunk: The place of each row in its chunk.
        is_run: Whether the rows of a chunk follow each other.
    """

    order: Rows | None
    chunks: list[int]
    places: list[int]
    rows_in_chunk: Rows
    is_run: list[bool]

    @classmethod
    def of(cls, rows: Rows, chunk_rows: int) -> "_Wanted":
        """Return rows by their chunks."""
        order = None
        if (rows[1:] < rows[:-1]).any():
            order = np.argsort(rows, kind="stable")
            rows = rows[order]
        chunk_of_row = rows // chunk_rows
        is_first = np.ones(len(rows), bool)
        is_first[1:] = chunk_of_row[1:] != chunk_of_row[:-1]
        first_places = np.flatnonzero(is_first)
        # Where a row does not follow the one before it, in its chunk; it may be the same row.
        is_break = np.zeros(len(rows), np.int64)
        is_break[1:] = (rows[1:] != rows[:-1] + 1) & ~is_first[1:]
        is_run = np.add.reduceat(is_break, first_places) == 0
        return cls(
            order=order,
            chunks=chunk_of_row[first_places].tolist(),
            places=[*first_places.tolist(), len(rows)],
            rows_in_chunk=rows - chunk_of_row * chunk_rows,
            is_run=is_run.tolist(),
        )

    def copy(self, place: int, values: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
        """Copy the wanted rows of a chunk to their places in the result."""
        first = self.places[place]
        after = self.places[place + 1]
        target = slice(first, after) if self.order is None else self.order[first:after]
        if self.is_run[place]:  # a slice is copied faster
            row = self.rows_in_chunk[first]
            out[target] = values[row : row + after - first]
        else:
            out[target] = values[self.rows_in_chunk[first:after]]


class _Piece(NamedTuple):
    """Chunks that are read at once: neighbours in one file."""

    range: Range
    # Places in the list of wanted chunks.
    first: int
    after: int


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
        """Return the values of rows, in their order; a row may be there twice."""
        out = self.reserve(array, len(rows))
        if not len(rows):
            return out
        if rows.min() < 0 or rows.max() >= self.record.rows.total:
            raise FixInput(
                f"rows must be from 0 to {self.record.rows.total - 1}",
                where=self.listed.location,
            )
        # Chunks are read in the order of their file, whatever the order of the result.
        wanted = _Wanted.of(rows, array.chunk_rows)
        checks = self.checks[array.name][wanted.chunks].tolist()
        chunk_bytes = chunk_with_crc_bytes(array)
        pieces = self._pieces(array, wanted.chunks)
        memories = _places_in_result(array, wanted, pieces, out)
        parts = self.listed.parts([piece.range for piece in pieces], memories)
        for piece, memory, data in zip(pieces, memories, parts, strict=True):
            for place in range(piece.first, piece.after):
                start = (place - piece.first) * chunk_bytes
                chunk = data[start : start + chunk_bytes]
                with self.listed.decoding(piece.range.name):
                    content = checked_content(array, chunk, checks[place])
                if data is not memory:
                    values = content.view(array.dtype)
                    wanted.copy(place, values.reshape(-1, *array.shape), out)
        return out

    def read_all(self, array: Array) -> npt.NDArray[Any]:
        """Return the values of all rows, file by file.

        A stranger's number of rows takes no memory: the first file that is not there is an error.
        """
        n_rows = self.record.rows.total
        parts = []
        _ = self.checks
        for first in range(0, n_rows, array.file_rows):
            after = min(first + array.file_rows, n_rows)
            parts.append(self.read(array, np.arange(first, after)))
        return np.concatenate(parts)

    def texts(self, column: Array, numbers: Sequence[int]) -> Iterator[list[bytes]]:
        """Yield the texts in each of some files of a column of texts."""
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
                content = checked_content(column, data, int(checks[number]))
                texts = decode_texts(content, n_texts)
            yield texts

    def reserve(self, array: Array, n_rows: int) -> npt.NDArray[Any]:
        """Return an empty array for some rows; an error where they can never fit into memory."""
        check_memory(
            n_rows * array.row_bytes,
            f"{n_rows} clips of {array.name}",
            self.listed.location,
            "store.stream(...), which reads file by file, or fewer clips",
        )
        return np.empty((n_rows, *array.shape), dtype=array.dtype)

    def _pieces(self, array: Array, numbers: list[int]) -> list[_Piece]:
        """Group ascending chunks into neighbours of one file that are read at once."""
        chunk_bytes = chunk_with_crc_bytes(array)
        chunks_of_a_file = array.chunks_of_a_file
        most_chunks = max(1, self.listed.files.piece_bytes // chunk_bytes)
        pieces = []
        first = 0
        end_of_file = 0
        while first < len(numbers):
            if numbers[first] >= end_of_file:
                file = numbers[first] // chunks_of_a_file
                name = array.file_name(file)
                self._check_length(array, file)
                end_of_file = (file + 1) * chunks_of_a_file
            after = first + 1
            while after < len(numbers) and after - first < most_chunks:
                is_next = numbers[after] == numbers[after - 1] + 1
                if not is_next or numbers[after] == end_of_file:
                    break
                after += 1
            start = (numbers[first] - file * chunks_of_a_file) * chunk_bytes
            stop = start + (after - first) * chunk_bytes
            pieces.append(_Piece(Range(name, start, stop), first, after))
            first = after
        return pieces

    def check_index(self, array: Array, file: int) -> None:
        """Raise an error unless the index of a file is right; this program needs none."""
        index_start = self._check_length(array, file)
        name = array.file_name(file)
        wanted = Range(name, index_start, index_start + index_bytes(array))
        (index,) = self.listed.parts([wanted])
        if index.tobytes() != index_of(array, self._n_chunks(array, file)):
            raise self.listed.damaged(name, "its index is not that of its chunks")

    def _check_length(self, array: Array, file: int) -> int:
        """Return where the index of a file begins; an error for a file of another length."""
        name = array.file_name(file)
        index_start = self._n_chunks(array, file) * chunk_with_crc_bytes(array)
        n_bytes = index_start + index_bytes(array)
        if self.listed.marks[name].n_bytes != n_bytes:
            raise self.listed.damaged(name, f"expected {n_bytes} bytes for its rows")
        return index_start

    def _n_chunks(self, array: Array, file: int) -> int:
        """Return how many chunks a file has."""
        first_chunk = file * array.chunks_of_a_file
        all_chunks = array.n_chunks(self.record.rows.total)
        return min(array.chunks_of_a_file, all_chunks - first_chunk)


def _places_in_result(
    array: Array, wanted: _Wanted, pieces: Sequence[_Piece], out: npt.NDArray[Any]
) -> list[Bytes | None]:
    """Return for each piece the place in the result to which it can be read; None if it cannot.

    One whole chunk can. Its checksum comes to the place of the next chunk, which is read later.
    """
    result: Bytes = out.reshape(-1).view(np.uint8)
    row_bytes = array.row_bytes
    places: list[Bytes | None] = []
    for piece in pieces:
        first = wanted.places[piece.first]
        n_rows = wanted.places[piece.first + 1] - first
        n_bytes = piece.range.stop - piece.range.start
        start = first * row_bytes
        is_whole = n_rows == array.chunk_rows and wanted.is_run[piece.first]
        is_one = piece.after - piece.first == 1 and wanted.order is None
        has_room = start + n_bytes <= len(result)
        fits = is_whole and is_one and has_room
        places.append(result[start : start + n_bytes] if fits else None)
    return places


def pieces_of(rows: Rows, size: int) -> Sequence[slice]:
    """Return the slices of ascending rows that are in the same group of `size` rows."""
    if not len(rows):
        return []
    ends = np.flatnonzero(np.diff(rows // size, append=-2)) + 1
    starts = [0, *ends[:-1].tolist()]
    return [
        slice(start, stop) for start, stop in zip(starts, ends.tolist(), strict=True)
    ]
