"""The rows of a store: by number, by clip, by film; a few of them without reading all."""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from obygaze_features.store.decoding import (
    CLIP_ID,
    MOVIE_ID,
    NUMBER_BYTES,
    STATUS,
    Bytes,
    Films,
    Hashes,
    Rows,
    check_header,
    check_ids,
    check_row_numbers,
    codes_of,
    columns_of,
    find_sorted,
    lines_of,
    rows_of,
)
from obygaze_features.store.files import ListedFiles, Range, check_memory
from obygaze_features.store.layout import (
    CRC_BYTES,
    FILMS_CSV,
    HASH_BYTES,
    IDS,
    ROW_COLUMNS,
    ROWS_CSV,
    ZARR,
)
from obygaze_features.store.records import StoreRecord
from obygaze_features.store.rows import STATUSES, Row
from obygaze_features.store.text_columns import TextColumn

# Tables of so many rows are read whole, and kept.
SMALL_ROWS = 2**16
# What a store of more rows needs in memory is only taken after a look at the table of ids.
MANY_ROWS = 2**22
# Statuses and selections, without the ids.
MEMORY_OF_A_ROW = 16
# Runs of lines that are kept between two requests.
KEPT_RUNS = 4096
# Gaps between wanted lines that are shorter than this are read too: it is less than a request.
GAP_BYTES = 2**14
# Cells are made for so many lines at once.
LINES_AT_ONCE = 2**14
STATUS_FILE = f"{ZARR}/status/c.0"


class RowTable:
    """rows.csv, films.csv and ids of a store. Threads may share it."""

    def __init__(self, listed: ListedFiles, record: StoreRecord) -> None:
        self.listed = listed
        self.n_rows = record.rows.total
        self.all_ok = record.rows.ok == record.rows.total
        self._lines_of_run: dict[int, list[str]] = {}
        self._lines: list[str] | None = None
        self._ids: Bytes | None = None
        self._has_checked_rows = False

    def check_rows(self) -> None:
        """Raise an error if a store that lists very many rows does not have their ids.

        So that a few bytes of a stranger cannot ask for the memory of a billion rows. The ids may
        be a file that takes no place on the disk: then the memory of this machine is the limit.
        """
        if self.n_rows > MANY_ROWS and not self._has_checked_rows:
            self.listed.check_length(IDS)
            n_bytes = MEMORY_OF_A_ROW * self.n_rows
            check_memory(n_bytes, f"{self.n_rows} rows", self.listed.location)
            self._has_checked_rows = True

    @cached_property
    def films(self) -> Films:
        """The runs of rows of films."""
        data = self.listed.whole(FILMS_CSV)
        rows_bytes = self.listed.marks[ROWS_CSV].n_bytes
        with self.listed.decoding(FILMS_CSV):
            return Films.of(data, self.n_rows, rows_bytes)

    @cached_property
    def clip_ids(self) -> npt.NDArray[np.str_]:
        """The clip of each row."""
        clip_ids: list[str] = []
        for columns in self._all_columns():
            clip_ids += columns[CLIP_ID]
        return self._id_array(clip_ids)

    @cached_property
    def movie_ids(self) -> npt.NDArray[np.str_]:
        """The film of each row."""
        films = self._text_array(self.films.movie_ids)
        movie_ids: npt.NDArray[np.str_] = films.repeat(np.diff(self.films.first_rows))
        return movie_ids

    @cached_property
    def codes(self) -> npt.NDArray[np.uint8]:
        """The number of the status of each row."""
        self.check_rows()
        if self.all_ok:
            return np.zeros(self.n_rows, np.uint8)
        if self.n_rows <= SMALL_ROWS:
            statuses: list[str] = []
            for columns in self._all_columns():
                statuses += columns[STATUS]
            return self._codes(statuses)
        # It is a copy for other readers, and is bound to store.json as everything else.
        data = self.listed.whole(STATUS_FILE)[:-CRC_BYTES]
        if len(data) != self.n_rows or data.max() >= len(STATUSES):
            raise self.listed.damaged(STATUS_FILE, "it is not one status for each row")
        return data

    def codes_of(self, rows: Rows) -> npt.NDArray[np.uint8]:
        """Return the number of the status of some rows."""
        if self.all_ok:
            return np.zeros(len(rows), np.uint8)
        is_few = len(rows) * 16 < self.n_rows
        if is_few and "codes" not in vars(self):
            return self._codes(self.columns(rows)[STATUS])
        return self.codes[rows]

    def _codes(self, statuses: Sequence[str]) -> npt.NDArray[np.uint8]:
        with self.listed.decoding(ROWS_CSV):
            return codes_of(statuses)

    def rows(self) -> list[Row]:
        """Return all rows."""
        rows: list[Row] = []
        for columns in self._all_columns():
            rows += self._rows(columns)
        return rows

    def some(self, rows: Rows) -> list[Row]:
        """Return some rows."""
        return self._rows(self.columns(rows))

    def _rows(self, columns: Sequence[list[str]]) -> list[Row]:
        with self.listed.decoding(ROWS_CSV):
            return rows_of(columns)

    def clip_ids_of(self, rows: Rows) -> npt.NDArray[np.str_]:
        """Return the clips of some rows."""
        if "clip_ids" in vars(self) or len(rows) * 2 >= self.n_rows:
            return self.clip_ids[rows]
        return self._id_array(self.columns(rows)[CLIP_ID])

    def movie_ids_of(self, rows: Rows) -> npt.NDArray[np.str_]:
        """Return the films of some rows."""
        runs = self.films.runs_of(rows)
        return self._text_array([self.films.movie_ids[run] for run in runs.tolist()])

    def columns(self, rows: Rows) -> list[list[str]]:
        """Return the columns of the lines of some rows, in any order."""
        is_most = self.n_rows <= SMALL_ROWS and len(rows) * 2 >= self.n_rows
        if self._lines is None and is_most:
            self._whole_lines()
        if self._lines is not None:
            lines = [self._lines[row] for row in rows.tolist()]
            return self._columns(lines, rows.tolist())
        films = self.films
        runs = films.runs_of(rows)
        if len(self._lines_of_run) > KEPT_RUNS:
            self._lines_of_run = {}
        lines_of_run = self._lines_of_run
        missing = sorted(set(runs.tolist()) - lines_of_run.keys())
        self._read_runs(missing, lines_of_run)
        places = rows - films.first_rows[runs]
        pairs = zip(runs.tolist(), places.tolist(), strict=True)
        lines = [lines_of_run[run][place] for run, place in pairs]
        columns = self._columns(lines, rows.tolist())
        if columns[MOVIE_ID] != [films.movie_ids[run] for run in runs.tolist()]:
            raise self.listed.damaged(ROWS_CSV, "it has another film than films.csv")
        return columns

    def _read_runs(
        self, runs: Sequence[int], lines_of_run: dict[int, list[str]]
    ) -> None:
        """Read the lines of some runs, ascending; neighbours at once."""
        films = self.films
        groups: list[list[int]] = []
        for run in runs:
            if groups:
                gap = films.first_bytes[run] - films.first_bytes[groups[-1][-1] + 1]
                length = films.first_bytes[run + 1] - films.first_bytes[groups[-1][0]]
                if gap <= GAP_BYTES and length <= self.listed.files.piece_bytes:
                    groups[-1].append(run)
                    continue
            groups.append([run])
        ranges = [
            Range(
                ROWS_CSV,
                int(films.first_bytes[group[0]]),
                int(films.first_bytes[group[-1] + 1]),
            )
            for group in groups
        ]
        for group, (_, begin, _), data in zip(
            groups, ranges, self.listed.parts(ranges), strict=True
        ):
            for run in group:
                start = int(films.first_bytes[run]) - begin
                stop = int(films.first_bytes[run + 1]) - begin
                with self.listed.decoding(ROWS_CSV):
                    lines_of_run[run] = films.lines_of_run(run, data[start:stop])

    def _whole_lines(self) -> list[str]:
        """Return the lines of all rows."""
        if self._lines is not None:
            return self._lines
        data = self.listed.whole(ROWS_CSV)
        with self.listed.decoding(ROWS_CSV):
            header, *lines = lines_of(data)
            check_header(header, ROW_COLUMNS)
            if len(lines) != self.n_rows:
                raise ValueError(f"{len(lines)} rows, expected {self.n_rows}")
        if self.n_rows <= SMALL_ROWS:
            self._lines = lines
        return lines

    def _all_columns(self) -> Iterator[list[list[str]]]:
        """Yield the columns of all rows, in parts."""
        lines = self._whole_lines()
        # The cells of a million lines take ten times the memory of the lines.
        for first in range(0, len(lines), LINES_AT_ONCE):
            some_lines = lines[first : first + LINES_AT_ONCE]
            yield self._columns(some_lines, range(first, first + len(some_lines)))

    def _columns(self, lines: Sequence[str], numbers: Iterable[int]) -> list[list[str]]:
        """Return the cells of each column of the lines of these rows."""
        with self.listed.decoding(ROWS_CSV):
            columns = columns_of(lines, len(ROW_COLUMNS))
            check_row_numbers(columns[0], numbers)
        return columns

    def _id_array(self, ids: Sequence[str]) -> npt.NDArray[np.str_]:
        with self.listed.decoding(ROWS_CSV):
            check_ids(ids)
        return self._text_array(ids)

    def _text_array(self, texts: Sequence[str]) -> npt.NDArray[np.str_]:
        n_bytes = 4 * len(texts) * max(map(len, texts), default=0)
        check_memory(n_bytes, "the ids of the rows", self.listed.location)
        return np.array(texts, dtype=np.str_)

    def find(self, clip_ids: Sequence[str]) -> Rows:
        """Return the row of each clip; -1 for one that the store does not have."""
        rows = self._find_hashes(TextColumn(clip_ids).hashes)
        known = np.flatnonzero(rows >= 0)
        if rows.max(initial=-1) >= self.n_rows:
            raise self.listed.damaged(IDS, "it has a row that is not in the store")
        found_ids = self.columns(rows[known])[CLIP_ID]
        for place, clip_id in zip(known.tolist(), found_ids, strict=True):
            wanted = clip_ids[place]
            if clip_id == wanted:
                continue
            if not TextColumn([clip_id, wanted]).have_one_hash():
                raise self.listed.damaged(IDS, "it has another clip than rows.csv")
            # Another clip has the hash of this one, which is not in the store.
            rows[place] = -1
        if (rows < 0).any():
            # Only the whole table proves that a clip is absent.
            self._whole_ids()
        return rows

    def _whole_ids(self) -> Bytes:
        if self._ids is not None:
            return self._ids
        data = self.listed.whole(IDS)
        hashes = data[: self.n_rows * HASH_BYTES].view("<u8")
        if (hashes[1:] <= hashes[:-1]).any():
            raise self.listed.damaged(IDS, "its hashes are not sorted")
        self._ids = data
        return data

    def _find_hashes(self, wanted: Hashes) -> Rows:
        """Return the row of each hash; -1 where the table does not have it."""
        is_few = len(wanted) * 64 < self.n_rows
        if self.n_rows > SMALL_ROWS and is_few and self._ids is None:
            return self._find_few(wanted)
        end = self.n_rows * HASH_BYTES
        table = self._whole_ids()
        hashes = table[:end].view("<u8")
        numbers = table[end:].view("<u4")
        places = find_sorted(hashes, wanted)
        return np.where(places < 0, -1, numbers[places].astype(np.int64))

    def _find_few(self, wanted: Hashes) -> Rows:
        """Find hashes by reading the part of the table where each should be.

        Hashes are uniform, so that the share of smaller ones tells the place up to a few times the
        square root of their number. Where that is wrong, the part becomes larger.
        """
        places = np.full(len(wanted), -1, np.int64)
        open_places = list(range(len(wanted)))
        half = math.isqrt(self.n_rows)
        while open_places:
            windows = []
            for place in open_places:
                centre = (int(wanted[place]) * self.n_rows) >> 64
                first = max(0, centre - half)
                windows.append((first, min(self.n_rows, centre + half)))
            ranges = [
                Range(IDS, first * HASH_BYTES, after * HASH_BYTES)
                for first, after in windows
            ]
            still_open = []
            parts = self.listed.parts(ranges)
            for place, (first, after), data in zip(
                open_places, windows, parts, strict=True
            ):
                hashes = data.view("<u8")
                value = wanted[place]
                is_below = first > 0 and value < hashes[0]
                is_above = after < self.n_rows and value > hashes[-1]
                if is_below or is_above:
                    still_open.append(place)
                    continue
                found = int(find_sorted(hashes, wanted[place : place + 1])[0])
                if found >= 0:
                    places[place] = first + found
            open_places = still_open
            half *= 8
        return self._numbers_at(places)

    def _numbers_at(self, places: Rows) -> Rows:
        """Return the row at places of the table; -1 for places below zero."""
        rows = np.full(len(places), -1, np.int64)
        known = np.flatnonzero(places >= 0)
        begin = self.n_rows * HASH_BYTES
        ranges = []
        for place in places[known].tolist():
            start = begin + place * NUMBER_BYTES
            ranges.append(Range(IDS, start, start + NUMBER_BYTES))
        for index, data in zip(known.tolist(), self.listed.parts(ranges), strict=True):
            rows[index] = int(data.view("<u4")[0])
        return rows
