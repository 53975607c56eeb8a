"""The table of rows, both ways: a column for each fact of a clip, as an array of the store.

`new_table` makes the columns of a new store. `RowTable` reads those of a store that may come from a
stranger; threads may share it.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, ObygazeError
from obygaze_features.core.outside import one_line, visible
from obygaze_features.store.arrays import Arrays
from obygaze_features.store.decoding import Rows
from obygaze_features.store.files import check_memory
from obygaze_features.store.layout import (
    COLUMNS,
    Array,
    column_of,
    most_whole_bytes,
)
from obygaze_features.store.records import StoreRecord
from obygaze_features.store.rows import (
    OK,
    OK_CODE,
    STATUSES,
    Reason,
    Row,
    RowColumns,
)
from obygaze_features.store.text_columns import TextColumn

Values: TypeAlias = npt.NDArray[Any]
Column: TypeAlias = Values | TextColumn
# In a column of whole numbers, one that is not known.
UNKNOWN = -1
# Fewer clips than one in so many are found without a table of all clips.
FEW = 1000
# What the columns need in memory.
_MEMORY_OF_A_ROW = 64


# --- Rows become columns ---


@dataclass(frozen=True)
class NewTable:
    """The table of a new store: its columns, and the values of each."""

    columns: tuple[Array, ...]
    values: dict[str, Column]

    @property
    def codes(self) -> Values:
        """The number of the status of each row."""
        return np.asarray(self.values["status"])

    @property
    def counts(self) -> list[int]:
        """How many rows have each status."""
        counts: list[int] = np.bincount(self.codes, minlength=len(STATUSES)).tolist()
        return counts


def new_table(rows: RowColumns) -> NewTable:
    """Return the table of the rows of a new store, without columns of which no row knows a value.

    It has the columns in the order of the format.
    """
    columns: dict[str, Column | None] = {
        "clip_id": rows.clip_ids,
        "movie_id": rows.movie_ids,
        "start_s": np.array(rows.start_s, np.float64),
        "end_s": np.array(rows.end_s, np.float64),
        "status": _codes(rows.statuses),
        "reason": TextColumn(_printable(rows.reasons)),
        "start_frame": _numbers(rows.start_frames),
        "end_frame": _numbers(rows.end_frames),
        "framerate": _known_times(rows.framerates),
        "video_bytes": _numbers(rows.video_bytes),
        "video_hash": TextColumn(rows.video_hashes) if any(rows.video_hashes) else None,
        "n_pictures": _numbers(rows.pictures),
    }
    values = {}
    for name in COLUMNS:
        column = columns[name]
        if column is not None:
            values[name] = column
    return NewTable(tuple(column_of(name, len(rows)) for name in values), values)


def _codes(statuses: Sequence[str]) -> Values:
    if statuses.count(OK) == len(statuses):
        return np.full(len(statuses), OK_CODE, np.uint8)
    code_of = {str(status): code for code, status in enumerate(STATUSES)}
    return np.array([code_of[status] for status in statuses], np.uint8)


def _printable(reasons: Sequence[str]) -> Sequence[str]:
    if "".join(reasons).isprintable():
        return reasons
    return [visible(one_line(reason)) for reason in reasons]


def _numbers(numbers: Sequence[int | None]) -> Values | None:
    if numbers.count(None) == len(numbers):
        return None
    return np.array([UNKNOWN if n is None else n for n in numbers], np.int64)


def _known_times(times: Sequence[float | None]) -> Values | None:
    if times.count(None) == len(times):
        return None
    return np.array(times, np.float64)


def check_rows(rows: RowColumns, where: str) -> None:
    """Raise an error unless a store may have these rows."""
    if not len(rows):
        raise FixInput("a store needs at least one row", where=where)
    for ids in (rows.clip_ids, rows.movie_ids):
        # Whole columns first: a million rows are checked in a moment.
        if not "".join(ids.characters).isprintable():
            wrong = next(text for text in ids if not text.isprintable())
            raise FixInput(
                f"{wrong!r} cannot be an id: it has characters that are not printed",
                where=where,
            )
    if _n_empty(rows.clip_ids):
        raise FixInput("a clip has an empty id", where=where)
    n_without_film = _n_empty(rows.movie_ids)
    if n_without_film and rows.movie_ids.characters:
        named = zip(rows.clip_ids, rows.movie_ids, strict=True)
        first = next(clip for clip, film in named if not film.strip())
        raise FixInput(
            f"{n_without_film} of {count(len(rows), 'clip')} would have no film, such as"
            f" {first!r}: a store states the film of each clip, or of none",
            where=where,
            hint="a manifest states the film of each clip: obygaze store import with --manifest",
        )
    for status in set(rows.statuses):
        if status not in STATUSES:
            raise FixInput(
                f"status must be one of {', '.join(STATUSES)}, got {status!r}",
                where=where,
            )
    for time_s in {*rows.start_s, *rows.end_s}:
        if time_s is not None and not math.isfinite(time_s):
            raise FixInput(f"a time of a clip is {time_s}", where=where)
    check_different(rows.clip_ids, where)


def _n_empty(ids: TextColumn) -> int:
    """Return how many ids are empty or blank."""
    if ids.table is not None and " " not in ids.characters:
        return 0
    return sum(not text.strip() for text in ids)


def check_different(clip_ids: Sequence[str], where: str) -> None:
    """Raise an error for clips of one id."""
    if len(set(clip_ids)) == len(clip_ids):
        return
    seen: set[str] = set()
    for clip_id in clip_ids:
        if clip_id in seen:
            raise FixInput(f"the clip {clip_id!r} is there twice", where=where)
        seen.add(clip_id)


def check_text_file(column: Array, data: bytes, n_rows: int) -> None:
    """Raise an error for a file of texts of so many rows that no reader takes."""
    most_bytes = most_whole_bytes(n_rows)
    if len(data) > most_bytes:
        raise FixInput(
            f"the ids and reasons of the rows are too long: a file of {column.name} would have"
            f" {len(data)} bytes, at most {most_bytes} are allowed for {n_rows} rows"
        )


# --- Columns become rows ---


class RowTable:
    """The table of rows of a store."""

    def __init__(self, arrays: Arrays, record: StoreRecord) -> None:
        self.n_rows = record.rows.total
        self._arrays = arrays
        self._listed = arrays.listed
        self._counts = record.rows
        self._columns = {column.name: column for column in record.columns}
        # How many clips were looked for.
        self._n_asked = 0
        # The texts of each file that was read.
        self._texts: dict[tuple[str, int], list[bytes]] = {}

    # Columns.

    def has(self, name: str) -> bool:
        """Return whether a column is there."""
        return name in self._columns

    def numbers(self, name: str, rows: Rows) -> Values:
        """Return the numbers of some rows in a column; NaN or -1 where a row does not know one."""
        column = self._columns.get(name)
        if column is None:
            is_whole = COLUMNS[name] == "int64"
            return np.full(len(rows), UNKNOWN if is_whole else np.nan)
        values = self._arrays.read(column, rows)
        if column.is_float and np.isinf(values).any():
            raise self._damaged(name, "a time is not finite")
        return values

    def texts(self, name: str, rows: Rows) -> list[str]:
        """Return the texts of some rows in a column; "" where a row does not know one."""
        column = self._columns.get(name)
        if column is None:
            return [""] * len(rows)
        files = (rows // column.file_rows).tolist()
        self._read_texts(name, sorted(set(files)))
        places = (rows % column.file_rows).tolist()
        pairs = zip(files, places, strict=True)
        return self._decoded(name, [self._texts[name, f][p] for f, p in pairs])

    def _all_texts(self, name: str) -> Iterator[bytes]:
        """Return the texts of all rows, as they are stored."""
        return chain.from_iterable(self._text_files(name))

    def _text_files(self, name: str) -> list[list[bytes]]:
        """Return the texts of all rows, as they are stored, by their files."""
        numbers = range(self._columns[name].n_files(self.n_rows))
        self._check_memory()
        self._read_texts(name, numbers)
        return [self._texts[name, number] for number in numbers]

    def _read_texts(self, name: str, numbers: Sequence[int]) -> None:
        """Read some files of a column of texts, and keep them."""
        missing = [number for number in numbers if (name, number) not in self._texts]
        parts = self._arrays.texts(self._columns[name], missing)
        for number, texts in zip(missing, parts, strict=True):
            self._texts[name, number] = texts

    def _decoded(self, name: str, encoded: Sequence[bytes]) -> list[str]:
        """Return texts of a column; an error for those that it cannot have."""
        with self._listed.decoding(self._columns[name].file_name(0)):
            texts = [text.decode() for text in encoded]
            if not "".join(texts).isprintable():
                raise ValueError("a text cannot be printed")
            if name == "clip_id" and not all(map(str.strip, texts)):
                raise ValueError("an id is empty")
            if name == "movie_id" and any(texts) and not all(map(str.strip, texts)):
                raise ValueError("some rows have a film, and others have none")
        return texts

    def _check_memory(self) -> None:
        """Raise an error for more rows than fit into memory."""
        n_bytes = _MEMORY_OF_A_ROW * self.n_rows
        check_memory(n_bytes, f"{self.n_rows} rows", self._listed.location)

    def _text_array(self, texts: Sequence[str]) -> npt.NDArray[np.str_]:
        n_bytes = 4 * len(texts) * max(map(len, texts), default=0)
        check_memory(n_bytes, "the ids of the rows", self._listed.location)
        return np.array(texts, dtype=np.str_)

    def _damaged(self, name: str, problem: str) -> ObygazeError:
        return self._listed.damaged(self._columns[name].file_name(0), problem)

    # Clips.

    @cached_property
    def clip_ids(self) -> npt.NDArray[np.str_]:
        """The clip of each row."""
        encoded = list(self._all_texts("clip_id"))
        return self._text_array(self._decoded("clip_id", encoded))

    def clip_ids_of(self, rows: Rows) -> npt.NDArray[np.str_]:
        """Return the clips of some rows."""
        return self._text_array(self.texts("clip_id", rows))

    @cached_property
    def _row_of_clip(self) -> dict[bytes, int]:
        row_of_clip = {clip: row for row, clip in enumerate(self._all_texts("clip_id"))}
        if len(row_of_clip) < self.n_rows:
            raise self._damaged("clip_id", "a clip is there twice")
        return row_of_clip

    def find(self, clip_ids: Sequence[str]) -> Rows:
        """Return the row of each clip; -1 for one that the store does not have."""
        # What UTF-8 cannot encode is no id, and is found in no store.
        wanted = [clip_id.encode(errors="replace") for clip_id in clip_ids]
        self._n_asked += len(wanted)
        if self._n_asked * FEW < self.n_rows:
            row_of_clip = self._rows_of_few(frozenset(wanted))
        else:
            row_of_clip = self._row_of_clip
        return np.array([row_of_clip.get(clip, -1) for clip in wanted], np.int64)

    def _rows_of_few(self, wanted: frozenset[bytes]) -> dict[bytes, int]:
        """Return the rows of clips that are there; this is faster than a table of all clips."""
        found: list[tuple[bytes, int]] = []
        first = 0
        for texts in self._text_files("clip_id"):
            rows = enumerate(texts, first)
            found += [(clip, row) for row, clip in rows if clip in wanted]
            first += len(texts)
        row_of_clip = dict(found)
        if len(row_of_clip) < len(found):
            raise self._damaged("clip_id", "a clip is there twice")
        return row_of_clip

    # Films.

    @cached_property
    def _runs_of_film(self) -> dict[str, list[Rows]]:
        """The rows of each film that is stated, by runs of neighbours."""
        first = 0
        films = []
        runs = []
        for film, neighbours in groupby(self._all_texts("movie_id")):
            after = first + len(list(neighbours))
            films.append(film)
            runs.append(np.arange(first, after))
            first = after
        runs_of_film: dict[str, list[Rows]] = {}
        for name, rows in zip(self._decoded("movie_id", films), runs, strict=True):
            if name:
                runs_of_film.setdefault(name, []).append(rows)
        return runs_of_film

    @property
    def films(self) -> list[str]:
        """The films that the rows state, in their order; all rows have one, or none has."""
        return list(self._runs_of_film)

    def rows_of(self, films: Iterable[str]) -> Rows:
        """Return the rows of films, ascending; an unknown film has none."""
        runs = [np.empty(0, np.int64)]
        for film in set(films):
            runs += self._runs_of_film.get(film, [])
        return np.sort(np.concatenate(runs))

    @cached_property
    def movie_ids(self) -> npt.NDArray[np.str_]:
        """The film of each row; "" in all rows where no film is stated."""
        encoded = list(self._all_texts("movie_id"))
        return self._text_array(self._decoded("movie_id", encoded))

    def movie_ids_of(self, rows: Rows) -> npt.NDArray[np.str_]:
        """Return the films of some rows."""
        return self._text_array(self.texts("movie_id", rows))

    # Statuses.

    @cached_property
    def codes(self) -> npt.NDArray[np.uint8]:
        """The number of the status of each row."""
        self._check_memory()
        codes = self._arrays.read_all(self._columns["status"])
        counts = np.bincount(codes, minlength=len(STATUSES)).tolist()
        stated = [getattr(self._counts, status.key) for status in STATUSES]
        if counts != stated:
            raise self._damaged("status", "it does not have the counts of store.json")
        return codes

    @cached_property
    def is_ok(self) -> npt.NDArray[np.bool_]:
        """Which rows have features."""
        return np.asarray(self.codes == OK_CODE)

    def reasons(self, rows: Rows) -> list[Reason]:
        """Return the status and the reason of some rows."""
        codes = self.codes[rows].tolist()
        sentences = self.texts("reason", rows)
        return [Reason(STATUSES[c], s) for c, s in zip(codes, sentences, strict=True)]

    # Rows.

    def all_rows(self) -> Rows:
        """Return the numbers of all rows, which are there: their statuses are read first."""
        return np.arange(len(self.codes))

    def rows(self) -> list[Row]:
        """Return all rows."""
        return self.some(self.all_rows())

    def some(self, rows: Rows) -> list[Row]:
        """Return some rows."""
        return list(
            map(
                Row,
                self.texts("clip_id", rows),
                self.texts("movie_id", rows),
                self._known("start_s", rows),
                self._known("end_s", rows),
                [STATUSES[code] for code in self.codes[rows].tolist()],
                self.texts("reason", rows),
                self._known("video_bytes", rows),
                self.texts("video_hash", rows),
                self._known("n_pictures", rows),
                self._known("start_frame", rows),
                self._known("end_frame", rows),
                self._known("framerate", rows),
            )
        )

    def _known(self, name: str, rows: Rows) -> list[Any]:
        """Return the numbers of some rows; None for one that a row does not know."""
        if not self.has(name):
            return [None] * len(rows)
        values = self.numbers(name, rows)
        is_known = ~np.isnan(values) if COLUMNS[name] == "float64" else values >= 0
        known = zip(values.tolist(), is_known.tolist(), strict=True)
        return [value if is_there else None for value, is_there in known]
