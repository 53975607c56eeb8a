"""What the bytes of a store's files mean: chunks, indexes, tables of rows, films and ids.

Everything here is pure, and trusts nothing: the bytes may come from a stranger. What is wrong
raises ValueError; the callers know the file and make an error of it.
"""

import csv
import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import google_crc32c
import numpy as np
import numpy.typing as npt

from obygaze_features.store.layout import (
    CRC_BYTES,
    ROW_COLUMNS,
    RUN_COLUMNS,
    RUN_ROWS,
    Array,
)
from obygaze_features.store.rows import OK, STATUS_OF_WORD, STATUSES, Row

Bytes: TypeAlias = npt.NDArray[np.uint8]
Rows: TypeAlias = npt.NDArray[np.int64]
Hashes: TypeAlias = npt.NDArray[np.uint64]

# Offset and length of a chunk, in the index of a file.
ENTRY_BYTES = 16
ABSENT = 2**64 - 1
# The row of a clip, in the table of ids.
NUMBER_BYTES = 4
# Reasons and ids are short. A run of lines that is longer than this is not read.
MOST_RUN_BYTES = 2**24
CLIP_ID = ROW_COLUMNS.index("clip_id")
MOVIE_ID = ROW_COLUMNS.index("movie_id")
START_S = ROW_COLUMNS.index("start_s")
END_S = ROW_COLUMNS.index("end_s")
STATUS = ROW_COLUMNS.index("status")
VIDEO_HASH = ROW_COLUMNS.index("video_hash")
# What decoders raise over bytes that are not what they should be.
DAMAGE = (
    ValueError,
    RuntimeError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    csv.Error,
    struct.error,
)


def crc32c(data: Bytes) -> int:
    """Return the CRC32C of bytes."""
    return int(google_crc32c.value(data))


# Chunks.


def checked_content(array: Array, chunk: Bytes, expected_crc32c: int) -> Bytes:
    """Return the content of a chunk of an array, without its checksum.

    Args:
        array: The array.
        chunk: The bytes of the chunk, with its CRC32C at their end.
        expected_crc32c: The CRC32C that `checks` has at the place of this chunk.
    """
    content = chunk[:-CRC_BYTES]
    stored_crc32c = int(chunk[-CRC_BYTES:].view("<u4")[0])
    if not crc32c(content) == stored_crc32c == expected_crc32c:
        raise ValueError("it does not have its checksum")
    if array.dtype == "bool" and content.max() > 1:
        raise ValueError("it has a byte that is neither true nor false")
    return content


# Files of an array.


def index_bytes(array: Array) -> int:
    """Return the bytes of the index at the end of each file of an array."""
    return array.chunks_of_a_file * ENTRY_BYTES + CRC_BYTES


def chunk_with_crc_bytes(array: Array) -> int:
    """Return the bytes of a chunk of an array in its file, with its CRC32C."""
    return array.chunk_bytes + CRC_BYTES


def check_index(array: Array, n_chunks: int, index: Bytes) -> None:
    """Raise ValueError unless the index of a file has its chunks one behind the other.

    Args:
        array: The array.
        n_chunks: How many chunks the file has.
        index: The last `index_bytes` of the file.
    """
    content = index[:-CRC_BYTES]
    if crc32c(content) != int(index[-CRC_BYTES:].view("<u4")[0]):
        raise ValueError("the index does not have its checksum")
    entries = content.view("<u8").reshape(array.chunks_of_a_file, 2)
    if (entries[n_chunks:] != ABSENT).any():
        raise ValueError("the index has more chunks than there are rows")
    offsets, lengths = entries[:n_chunks].T
    step = chunk_with_crc_bytes(array)
    if (lengths != step).any():
        raise ValueError("the index has a chunk of another length than its rows")
    if (offsets != np.arange(n_chunks) * step).any():
        raise ValueError("the chunks are not in the order of their rows")


def split_checks(
    data: Bytes, arrays: Sequence[Array], n_rows: int
) -> dict[str, npt.NDArray[np.uint32]]:
    """Return the CRC32C of each chunk of each array, from the bytes of `checks`."""
    n_chunks = [array.n_chunks(n_rows) for array in arrays]
    if len(data) != CRC_BYTES * sum(n_chunks):
        raise ValueError(f"{len(data)} bytes, not one checksum for each chunk")
    values = data.view("<u4")
    parts: dict[str, npt.NDArray[np.uint32]] = {}
    start = 0
    for array, count in zip(arrays, n_chunks, strict=True):
        parts[array.name] = values[start : start + count]
        start += count
    return parts


# rows.csv and films.csv.


def lines_of(data: Bytes) -> list[str]:
    """Return the lines of a table, each without its line feed."""
    text = data.tobytes().decode("utf-8")
    if not text.endswith("\n"):
        raise ValueError("the last line does not end")
    lines = text.split("\n")
    lines.pop()
    return lines


def columns_of(lines: Sequence[str], n_columns: int) -> list[list[str]]:
    """Return the cells of each column of lines of CSV."""
    if not lines:
        return [[] for _ in range(n_columns)]
    text = ",".join(lines)
    if '"' in text:
        rows = list(csv.reader(lines, strict=True))
        if len(rows) != len(lines) or {*map(len, rows)} != {n_columns}:
            raise ValueError(f"a line does not have {n_columns} cells")
        return [list(column) for column in zip(*rows, strict=True)]
    # Most tables have no quoted cell. Splitting is ten times faster than reading CSV.
    if {line.count(",") for line in lines} != {n_columns - 1}:
        raise ValueError(f"a line does not have {n_columns} cells")
    cells = text.split(",")
    return [cells[place::n_columns] for place in range(n_columns)]


def check_header(line: str, columns: Sequence[str]) -> None:
    """Raise ValueError unless the first line of a table names its columns."""
    if line != ",".join(columns):
        raise ValueError("the first line does not name the columns of the format")


def check_row_numbers(cells: Sequence[str], rows: Iterable[int]) -> None:
    """Raise ValueError unless the first cells of some lines of rows.csv are these rows."""
    if list(cells) != list(map(str, rows)):
        raise ValueError("a row does not have its number")


def rows_of(columns: Sequence[Sequence[str]]) -> list[Row]:
    """Return the rows in the columns of rows.csv."""
    _, clip_ids, movie_ids, starts, ends, statuses, reasons, *video, makers = columns
    sizes, hashes, pictures = video
    check_ids(clip_ids)
    check_films(movie_ids)
    if not set(statuses) <= STATUS_OF_WORD.keys():
        raise ValueError("a row has an unknown status")
    digits = "".join((*sizes, *pictures, *makers))
    if digits and not digits.isdecimal():
        raise ValueError("a number does not consist of digits")
    start_times = times_of(starts)
    end_times = times_of(ends)
    n_bytes = [int(cell) if cell else None for cell in sizes]
    n_pictures = [int(cell) if cell else None for cell in pictures]
    places = [int(cell) if cell else None for cell in makers]
    return list(
        map(
            Row,
            clip_ids,
            movie_ids,
            start_times,
            end_times,
            map(STATUS_OF_WORD.__getitem__, statuses),
            reasons,
            n_bytes,
            hashes,
            n_pictures,
            places,
        )
    )


def times_of(cells: Sequence[str]) -> list[float | None]:
    """Return a column of times; an empty cell is None."""
    times = [float(cell) if cell else None for cell in cells]
    if not all(map(math.isfinite, filter(None, times))):
        raise ValueError("a time is not finite")
    return times


def check_ids(names: Sequence[str]) -> None:
    """Raise ValueError for an id of a clip or film that is empty or cannot be printed."""
    if not "".join(names).isprintable() or not all(map(str.strip, names)):
        raise ValueError("an id is empty or cannot be printed")


def check_films(movie_ids: Sequence[str]) -> None:
    """Raise ValueError for ids of films as `check_ids` does; "" is a film that is not stated."""
    check_ids([*filter(None, movie_ids)])


@dataclass(frozen=True)
class Films:
    """films.csv: runs of consecutive rows of one film, and where their lines are in rows.csv.

    Args:
        movie_ids: The film of each run; "" in all runs where no films are stated.
        first_rows: The first row of each run, and the number of all rows.
        first_bytes: Where the lines of each run begin in rows.csv, and where the last ones end.
        crc32c: The CRC32C of the lines of each run, 8 hexadecimal digits.
    """

    movie_ids: list[str]
    first_rows: Rows
    first_bytes: Rows
    crc32c: list[str]

    @classmethod
    def of(cls, data: Bytes, n_rows: int, n_bytes: int) -> "Films":
        """Return the table in the bytes of films.csv.

        Args:
            data: The bytes of films.csv.
            n_rows: The rows of the store.
            n_bytes: The length of rows.csv.
        """
        header, *lines = lines_of(data)
        check_header(header, RUN_COLUMNS)
        columns = columns_of(lines, len(RUN_COLUMNS))
        movie_ids, first_rows, counts, first_bytes, crc32c_of_runs = columns
        check_films(movie_ids)
        if "" in movie_ids and any(movie_ids):
            raise ValueError("some rows have a film, and others have none")
        rows = np.array([*map(int, first_rows), n_rows], np.int64)
        bytes_ = np.array([*map(int, first_bytes), n_bytes], np.int64)
        rows_of_runs = np.diff(rows)
        bytes_of_runs = np.diff(bytes_)
        if rows[0] != 0 or rows_of_runs.tolist() != list(map(int, counts)):
            raise ValueError("the runs of rows do not follow each other")
        if rows_of_runs.min() < 1 or rows_of_runs.max() > RUN_ROWS:
            raise ValueError(f"a run must have 1 to {RUN_ROWS} rows")
        if bytes_[0] != len(",".join(ROW_COLUMNS)) + 1:
            raise ValueError("the first run does not begin after the line of columns")
        if bytes_of_runs.min() < 1 or bytes_of_runs.max() > MOST_RUN_BYTES:
            raise ValueError("a run of lines has an impossible length")
        return cls(movie_ids, rows, bytes_, crc32c_of_runs)

    def __len__(self) -> int:
        return len(self.movie_ids)

    @property
    def are_stated(self) -> bool:
        """Whether the rows have films; all have one, or none has."""
        return "" not in self.movie_ids

    @cached_property
    def runs_of_film(self) -> dict[str, list[int]]:
        """The numbers of the runs of each film that is stated, in the order of the rows."""
        runs: dict[str, list[int]] = {}
        if not self.are_stated:
            return runs
        for run, movie_id in enumerate(self.movie_ids):
            runs.setdefault(movie_id, []).append(run)
        return runs

    def rows_of(self, movie_ids: Iterable[str]) -> Rows:
        """Return the rows of films, ascending."""
        runs: set[int] = set()
        for film in movie_ids:
            runs.update(self.runs_of_film[film])
        parts = [
            np.arange(self.first_rows[run], self.first_rows[run + 1])
            for run in sorted(runs)
        ]
        return np.concatenate([*parts, np.empty(0, np.int64)]).astype(np.int64)

    def runs_of(self, rows: Rows) -> Rows:
        """Return the run that each row is in."""
        return np.searchsorted(self.first_rows, rows, side="right") - 1

    def lines_of_run(self, run: int, data: Bytes) -> list[str]:
        """Return the lines of a run, from their bytes in rows.csv."""
        if f"{crc32c(data):08x}" != self.crc32c[run]:
            raise ValueError("the lines of a film do not have their checksum")
        lines = lines_of(data)
        if len(lines) != self.first_rows[run + 1] - self.first_rows[run]:
            raise ValueError("a film does not have one line for each row")
        return lines


# The table of ids.


def find_sorted(hashes: Hashes, wanted: Hashes) -> Rows:
    """Return the place of each wanted hash in sorted hashes; -1 for one that is absent."""
    places = np.searchsorted(hashes, wanted).astype(np.int64)
    inside = np.minimum(places, len(hashes) - 1)
    return np.where(hashes[inside] == wanted, inside, -1)


# The columns of data.zarr.


def decode_texts(chunk: Bytes, n_rows: int) -> list[str]:
    """Return the texts of a column of data.zarr."""
    content = chunk[:-CRC_BYTES].tobytes()
    if struct.unpack_from("<I", content)[0] != n_rows:
        raise ValueError("it does not have one text for each row")
    texts = []
    place = 4
    for _ in range(n_rows):
        (n_bytes,) = struct.unpack_from("<I", content, place)
        place += 4
        if place + n_bytes > len(content):
            raise ValueError("a text is longer than its file")
        texts.append(content[place : place + n_bytes].decode("utf-8"))
        place += n_bytes
    return texts


def codes_of(statuses: Iterable[str]) -> npt.NDArray[np.uint8]:
    """Return the number of each status."""
    return np.fromiter(map(_CODE_OF_STATUS.__getitem__, statuses), np.uint8)


_CODE_OF_STATUS: dict[str, int] = {status: code for code, status in enumerate(STATUSES)}
OK_CODE = STATUSES.index(OK)
