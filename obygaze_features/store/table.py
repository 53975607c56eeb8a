"""Write and read the table of rows: its columns are facts of clips, stored as arrays.

`new_table` makes the columns of a new store. `RowTable` reads the columns of an untrusted store;
threads may share it. A column is an array of numbers or a `TextColumn`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, ObygazeError
from obygaze_features.core.untrusted_text import one_line, visible
from obygaze_features.store.arrays import Arrays
from obygaze_features.store.decoding import Rows
from obygaze_features.store.files import check_memory
from obygaze_features.store.layout import ALWAYS_THERE, COLUMNS, STRING
from obygaze_features.store.records import StoreRecord
from obygaze_features.store.rows import OK_CODE, STATUSES, Reason, Row, RowColumns
from obygaze_features.store.text_columns import ByteTable, TextColumn

Values: TypeAlias = npt.NDArray[Any]
Column: TypeAlias = Values | TextColumn
# An unknown value in a column of whole numbers.
UNKNOWN = -1
# If fewer than one in FEW clips are requested, they are found without a dictionary of all clips.
FEW = 1000
# The last bytes of an id from which its hash is computed, and the factor of the hash (Knuth).
HASHED_BYTES = 8
_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
# Memory of the columns, in bytes per row.
_MEMORY_OF_A_ROW = 64


# --- Rows become columns ---


def new_table(rows: RowColumns) -> dict[str, Column]:
    """Return the columns of a new store, in the order of the format.

    Optional columns without any value are omitted.
    """
    table: dict[str, Column] = {}
    for name, of_rows in zip(COLUMNS, vars(rows).values(), strict=True):
        if name in ("clip_id", "movie_id"):
            table[name] = of_rows
        elif name in ALWAYS_THERE or set(of_rows) - {None, ""}:
            table[name] = _column(name, of_rows)
    return table


def _column(name: str, of_rows: Sequence[Any]) -> Column:
    """Return the values of a column as they are stored: as an array or as texts."""
    dtype = COLUMNS[name]
    if name == "status":
        code_of = {status: code for code, status in enumerate(STATUSES)}
        return np.array([code_of[status] for status in of_rows], np.uint8)
    if dtype == STRING:
        if not "".join(of_rows).isprintable():
            of_rows = [visible(one_line(text)) for text in of_rows]
        return TextColumn(of_rows)
    if set(of_rows) == {None}:
        return np.full(len(of_rows), UNKNOWN if dtype == "int64" else np.nan, dtype)
    if dtype == "int64":
        of_rows = [UNKNOWN if number is None else number for number in of_rows]
    return np.array(of_rows, dtype)


def check_rows(rows: RowColumns, where: str) -> None:
    """Raise an error unless these are valid rows of a store."""
    if not len(rows):
        raise FixInput("a store needs at least one row", where=where)
    for ids in (rows.clip_ids, rows.movie_ids):
        # Check the whole column first: this is fast for a million rows.
        if not "".join(ids.characters).isprintable():
            wrong = next(text for text in ids if not text.isprintable())
            raise FixInput(
                f"{wrong!r} cannot be an id: it has characters that cannot be printed",
                where=where,
            )
    if _n_empty(rows.clip_ids):
        raise FixInput("a clip has an empty id", where=where)
    n_without_film = _n_empty(rows.movie_ids)
    if n_without_film and rows.movie_ids.characters:
        named = zip(rows.clip_ids, rows.movie_ids, strict=True)
        first = next(clip for clip, film in named if not film.strip())
        raise FixInput(
            f"expected the film of each clip, or of none, got {n_without_film} of"
            f" {count(len(rows), 'clip')} without a film, such as {first!r}",
            where=where,
            hint="pass --manifest with a manifest that states the film of each clip",
        )
    for status in set(rows.statuses):
        if status not in STATUSES:
            raise FixInput(
                f"status must be one of {', '.join(STATUSES)}, got {status!r}",
                where=where,
            )
    for time_s in {*rows.start_s, *rows.end_s, *rows.film_start_s, *rows.film_end_s}:
        if time_s is not None and not math.isfinite(time_s):
            raise FixInput(
                f"expected a finite time of a clip, got {time_s}", where=where
            )
    if len(set(rows.clip_ids)) < len(rows):
        ((clip_id, _),) = Counter(rows.clip_ids).most_common(1)
        raise FixInput(f"the clip {clip_id!r} occurs twice", where=where)


def _n_empty(ids: TextColumn) -> int:
    """Return the number of empty or blank ids."""
    if ids.table is not None and " " not in ids.characters:
        return 0
    return sum(not text.strip() for text in ids)


# --- Columns become rows ---


class RowTable:
    """The table of rows of a store."""

    def __init__(self, arrays: Arrays, record: StoreRecord) -> None:
        self.n_rows = record.rows.total
        self._arrays = arrays
        self._listed = arrays.listed
        self._record = record
        self._columns = {column.name: column for column in record.columns}
        # The number of clips that were requested so far.
        self._n_asked = 0
        # The texts of files that were read, by column and number of the file.
        self._texts: dict[tuple[str, int], TextColumn] = {}

    # Columns.

    def numbers(self, name: str, rows: Rows) -> Values:
        """Return the values of rows in a column of numbers.

        An unknown float is NaN, and an unknown whole number is -1.
        """
        column = self._columns.get(name)
        if column is None:
            unknown = UNKNOWN if COLUMNS[name] == "int64" else np.nan
            return np.full(len(rows), unknown)
        values = self._arrays.read(column, rows)
        if column.is_float and np.isinf(values).any():
            raise self._damaged(name, "a time is not finite")
        return values

    def texts(self, name: str, rows: Rows) -> list[str]:
        """Return the texts of rows in a column; "" if unknown."""
        column = self._columns.get(name)
        if column is None:
            return [""] * len(rows)
        files = rows // column.file_rows
        numbers = sorted(set(files.tolist()))
        self._read_texts(name, numbers)
        texts = np.empty(len(rows), object)
        for number in numbers:
            is_here = files == number
            places = rows[is_here] % column.file_rows
            texts[is_here] = self._texts[name, number].some(places)
        return self._check_texts(name, texts.tolist())

    def _read_texts(self, name: str, numbers: Sequence[int]) -> None:
        """Read files of a column of texts, and keep their texts in memory."""
        missing = [number for number in numbers if (name, number) not in self._texts]
        parts = self._arrays.texts(self._columns[name], missing)
        for number, texts in zip(missing, parts, strict=True):
            self._texts[name, number] = texts

    def _whole(self, name: str) -> TextColumn:
        """Return all texts of a column, without a check of their characters."""
        numbers = range(self._columns[name].n_files(self.n_rows))
        self._check_memory(_MEMORY_OF_A_ROW * self.n_rows)
        self._read_texts(name, numbers)
        parts = [self._texts[name, number] for number in numbers]
        tables = [part.table for part in parts if part.table is not None]
        widths = {table.shape[1] for table in tables}
        if len(tables) == len(parts) and len(widths) == 1:
            return TextColumn.of_table(np.concatenate(tables))
        texts: list[str] = []
        for part in parts:
            texts += part.texts
        return TextColumn(texts)

    def _check_texts(self, name: str, texts: list[str]) -> list[str]:
        """Return `texts` of a column; raise an error for unprintable texts and for empty ids."""
        is_id = name in ("clip_id", "movie_id")
        n_empty = sum(not text.strip() for text in set(texts)) if is_id else 0
        if not "".join(texts).isprintable():
            raise self._damaged(name, "a text cannot be printed")
        if n_empty and (name == "clip_id" or any(texts)):
            raise self._damaged(name, "an id is empty")
        return texts

    def _check_memory(self, n_bytes: int) -> None:
        """Raise an error if the rows do not fit into memory."""
        check_memory(n_bytes, f"{self.n_rows} rows", self._listed.location)

    def _text_array(self, texts: Sequence[str]) -> npt.NDArray[np.str_]:
        self._check_memory(4 * len(texts) * max(map(len, texts), default=0))
        return np.array(texts, dtype=np.str_)

    def _damaged(self, name: str, problem: str) -> ObygazeError:
        return self._listed.damaged(self._columns[name].file_name(0), problem)

    # Clips.

    @cached_property
    def clip_ids(self) -> npt.NDArray[np.str_]:
        """The clip id of each row."""
        return self._text_array(self._check_texts("clip_id", list(self._clips.texts)))

    def clip_ids_of(self, rows: Rows) -> npt.NDArray[np.str_]:
        """Return the clip ids of rows."""
        return self._text_array(self.texts("clip_id", rows))

    @cached_property
    def _clips(self) -> TextColumn:
        return self._whole("clip_id")

    @cached_property
    def _row_of_clip(self) -> dict[str, int]:
        return self._different(self._clips.texts, range(self.n_rows))

    def _different(self, clips: Sequence[str], rows: Iterable[int]) -> dict[str, int]:
        """Return the row of each clip; raise an error if a clip occurs twice."""
        row_of_clip = dict(zip(clips, rows, strict=True))
        if len(row_of_clip) < len(clips):
            raise self._damaged("clip_id", "a clip occurs twice")
        return row_of_clip

    def find(self, clip_ids: Sequence[str]) -> Rows:
        """Return the row of each clip; -1 if the store does not have it."""
        if not len(clip_ids):
            return np.empty(0, np.int64)
        self._n_asked += len(clip_ids)
        table = self._clips.table
        if table is not None and self._n_asked * FEW < self.n_rows:
            # This is faster than decoding all ids.
            rows = _rows_like(table, clip_ids)
            found = self._different(self._clips.some(rows), rows.tolist())
        else:
            found = self._row_of_clip
        return np.array([found.get(clip, -1) for clip in clip_ids], np.int64)

    # Films.

    @cached_property
    def _runs_of_film(self) -> dict[str, list[Rows]]:
        """The rows of each stated film, as runs of consecutive rows."""
        films = self._whole("movie_id")
        is_first = np.ones(self.n_rows, bool)
        if films.table is not None:
            is_first[1:] = (films.table[1:] != films.table[:-1]).any(axis=1)
        else:
            is_first[1:] = [film != before for before, film in pairwise(films.texts)]
        firsts = np.flatnonzero(is_first)
        names = self._check_texts("movie_id", films.some(firsts))
        ends = [*firsts[1:].tolist(), self.n_rows]
        runs_of_film: dict[str, list[Rows]] = {}
        for name, first, after in zip(names, firsts.tolist(), ends, strict=True):
            if name:
                runs_of_film.setdefault(name, []).append(np.arange(first, after))
        return runs_of_film

    @property
    def films(self) -> list[str]:
        """The film ids, in the order of their first rows; empty if no film is stated."""
        return list(self._runs_of_film)

    def rows_of(self, films: Iterable[str]) -> Rows:
        """Return the rows of films, ascending; an unknown film has no rows."""
        runs = [np.empty(0, np.int64)]
        for film in set(films):
            runs += self._runs_of_film.get(film, [])
        return np.sort(np.concatenate(runs))

    @cached_property
    def movie_ids(self) -> npt.NDArray[np.str_]:
        """The film id of each row; "" in all rows if no film is stated."""
        texts = list(self._whole("movie_id").texts)
        return self._text_array(self._check_texts("movie_id", texts))

    def movie_ids_of(self, rows: Rows) -> npt.NDArray[np.str_]:
        """Return the film ids of rows."""
        return self._text_array(self.texts("movie_id", rows))

    # Statuses.

    @cached_property
    def codes(self) -> npt.NDArray[np.uint8]:
        """The status code of each row."""
        self._check_memory(_MEMORY_OF_A_ROW * self.n_rows)
        codes = self._arrays.read_all(self._columns["status"])
        counts = np.bincount(codes, minlength=len(STATUSES)).tolist()
        if counts != self._record.rows.by_code:
            raise self._damaged("status", "the counts differ from store.json")
        return codes

    @cached_property
    def is_ok(self) -> npt.NDArray[np.bool_]:
        """Which rows have features."""
        return np.asarray(self.codes == OK_CODE)

    def reasons(self, rows: Rows) -> list[Reason]:
        """Return the status and the reason of each of these rows."""
        statuses = [STATUSES[code] for code in self.codes[rows].tolist()]
        return list(map(Reason, statuses, self.texts("reason", rows)))

    # Rows.

    def all_rows(self) -> Rows:
        """Return the numbers of all rows; raise an error if a clip occurs twice.

        The statuses are read first. If store.json states more rows than there are, this raises an
        error before memory is taken for their numbers.
        """
        numbers = np.arange(len(self.codes))
        table = self._clips.table
        if table is not None:
            ids = np.ascontiguousarray(table).view(f"S{table.shape[1]}").ravel()
            if (ids[1:] > ids[:-1]).all():
                return (
                    numbers  # sorted ids differ, which is known without decoding them
                )
        _ = self._row_of_clip
        return numbers

    def rows(self) -> list[Row]:
        """Return all rows."""
        return self.some(self.all_rows())

    def some(self, rows: Rows) -> list[Row]:
        """Return rows by their numbers."""
        return list(map(Row, *(self._values(name, rows) for name in COLUMNS)))

    def _values(self, name: str, rows: Rows) -> list[Any]:
        """Return the values of rows in a column; None for an unknown number."""
        if name == "status":
            return [STATUSES[code] for code in self.codes[rows].tolist()]
        if COLUMNS[name] == STRING:
            return self.texts(name, rows)
        values = self.numbers(name, rows)
        is_known = values >= 0 if COLUMNS[name] == "int64" else ~np.isnan(values)
        known = values.astype(object)
        known[~is_known] = None
        listed: list[Any] = known.tolist()
        return listed


def _rows_like(table: ByteTable, texts: Iterable[str]) -> Rows:
    """Return the rows of a table that may have one of these texts; the caller compares them."""
    width = table.shape[1]
    encoded = {text.encode(errors="replace") for text in texts}
    of_this_width = sorted(text for text in encoded if len(text) == width)
    if not of_this_width:
        return np.empty(0, np.int64)
    wanted = np.array(of_this_width, f"S{width}")
    there = table.view(f"S{width}").ravel()
    rows: Rows = np.arange(len(there))
    if width >= HASHED_BYTES:
        # Most rows have another hash, and a comparison of numbers is faster than one of texts.
        is_wanted = np.zeros(2**16, np.bool_)
        is_wanted[_hashes_of_ends(wanted)] = True
        rows = np.flatnonzero(is_wanted[_hashes_of_ends(there)])
        there = there[rows]
    nearest = np.searchsorted(wanted, there).clip(max=len(wanted) - 1)
    like: Rows = rows[wanted[nearest] == there]
    return like


def _hashes_of_ends(texts: Values) -> Values:
    """Return a hash of 16 bits of the last bytes of each text: ids often begin alike."""
    width = texts.itemsize
    last_bytes = np.dtype(
        {
            "names": ["end"],
            "formats": [f"<u{HASHED_BYTES}"],
            "offsets": [width - HASHED_BYTES],
            "itemsize": width,
        }
    )
    mixed = texts.view(last_bytes)["end"] * _HASH_FACTOR
    hashes: Values = (mixed >> np.uint64(48)).astype(np.uint16)
    return hashes
