"""Read rows of arrays, in any order: each chunk is compared with its checksum, then decoded."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import FixInput
from obygaze_features.store.decoding import (
    DAMAGE,
    Rows,
    chunk_starts,
    decode_chunk,
    index_bytes,
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


class _Piece(NamedTuple):
    """Chunks that are read at once: neighbours in one file, and where each begins in it."""

    name: str
    starts: list[int]
    # Places in the list of wanted chunks.
    first: int
    after: int

    @property
    def range(self) -> Range:
        return Range(self.name, self.starts[0], self.starts[-1])


class Arrays:
    """The arrays of a store."""

    def __init__(self, listed: ListedFiles, record: StoreRecord) -> None:
        self.listed = listed
        self.record = record
        self._starts_of_file: dict[str, list[int]] = {}

    @cached_property
    def checks(self) -> dict[str, npt.NDArray[np.uint32]]:
        """The CRC32C of each chunk of each array."""
        data = self.listed.whole(CHECKS)
        try:
            return split_checks(data, self.record.arrays, self.record.rows.total)
        except DAMAGE as error:
            raise self.listed.damaged(CHECKS, error) from error

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
        pieces = self._pieces(array, wanted.chunks)
        parts = self.listed.parts([piece.range for piece in pieces])
        for piece, data in zip(pieces, parts, strict=True):
            begin = piece.starts[0]
            for place in range(piece.first, piece.after):
                start = piece.starts[place - piece.first]
                stop = piece.starts[place - piece.first + 1]
                chunk = data[start - begin : stop - begin]
                try:
                    values = decode_chunk(array, chunk, checks[place])
                except DAMAGE as error:
                    raise self.listed.damaged(piece.name, error) from error
                _copy_rows(values, wanted, place, out)
        return out

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
        most_bytes = self.listed.files.piece_bytes
        pieces = []
        first = 0
        while first < len(numbers):
            file = numbers[first] // array.chunks_of_a_file
            first_chunk = file * array.chunks_of_a_file
            starts = self._starts(array, file)
            begin = numbers[first] - first_chunk
            after = first + 1
            while after < len(numbers):
                number = numbers[after]
                end = number - first_chunk + 1
                is_next = number == numbers[after - 1] + 1
                # The starts of a file end with its last chunk.
                is_here = end < len(starts)
                if not (is_next and is_here):
                    break
                if starts[end] - starts[begin] > most_bytes:
                    break
                after += 1
            inside = starts[begin : begin + after - first + 1]
            pieces.append(_Piece(array.file_name(file), inside, first, after))
            first = after
        return pieces

    def _starts(self, array: Array, file: int) -> list[int]:
        """Return where the chunks of a file begin; the index is read if they are compressed."""
        name = array.file_name(file)
        if name not in self._starts_of_file:
            starts = self.find_starts(array, file, read_index=bool(array.compressor))
            self._starts_of_file[name] = starts
        return self._starts_of_file[name]

    def find_starts(self, array: Array, file: int, *, read_index: bool) -> list[int]:
        """Return where the chunks of a file begin: by its index, or by the length of a chunk."""
        name = array.file_name(file)
        n_bytes = self.listed.marks[name].n_bytes
        first_chunk = file * array.chunks_of_a_file
        all_chunks = array.n_chunks(self.record.rows.total)
        n_chunks = min(array.chunks_of_a_file, all_chunks - first_chunk)
        index_start = n_bytes - index_bytes(array)
        if index_start < 0:
            raise self.listed.damaged(name, "it is shorter than its index")
        index = None
        if read_index:
            (index,) = self.listed.parts([Range(name, index_start, n_bytes)])
        try:
            starts: list[int] = chunk_starts(array, n_chunks, n_bytes, index).tolist()
        except DAMAGE as error:
            raise self.listed.damaged(name, error) from error
        return starts


def _copy_rows(
    values: npt.NDArray[Any], wanted: _Wanted, place: int, out: npt.NDArray[Any]
) -> None:
    """Copy the wanted rows of a chunk to their places in the result."""
    first = wanted.places[place]
    after = wanted.places[place + 1]
    target = slice(first, after) if wanted.order is None else wanted.order[first:after]
    if wanted.is_run[place]:  # a slice is copied faster
        row = wanted.rows_in_chunk[first]
        out[target] = values[row : row + after - first]
    else:
        out[target] = values[wanted.rows_in_chunk[first:after]]


def pieces_of(rows: Rows, size: int) -> Sequence[slice]:
    """Return the slices of ascending rows that are in the same group of `size` rows."""
    if not len(rows):
        return []
    ends = np.flatnonzero(np.diff(rows // size, append=-2)) + 1
    starts = [0, *ends[:-1].tolist()]
    return [
        slice(start, stop) for start, stop in zip(starts, ends.tolist(), strict=True)
    ]
