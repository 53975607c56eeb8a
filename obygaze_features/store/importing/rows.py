"""The rows of the new store, read from imported files."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import Progress
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.outside import safe_text
from obygaze_features.store.importing.arrays import StoredArray, converted
from obygaze_features.store.importing.clips import Clips
from obygaze_features.store.importing.reader import (
    MOST_BYTES,
    BadRow,
    ClipArrays,
    Reader,
    Shape,
    Values,
    checked_shape,
)
from obygaze_features.store.layout import MASK, TIMES, Array
from obygaze_features.store.rows import FAILED, OK, RowColumns

NOT_IN_FILES = "not in the files"
# Shorter rows, such as the length of a clip, may well be equal.
VECTOR_VALUES = 4
# Rows are hashed in parts that fit in the cache of a processor.
HASHED_BYTES = 2**18


@dataclass
class Repeats:
    """Counts rows of zeros or of one other value, and rows that are equal to an earlier row."""

    n_rows: int = 0
    # Of the rows that have several values.
    hashes: list[npt.NDArray[np.uint64]] = field(default_factory=list)

    def add(self, rows: Values) -> None:
        """Count some more rows."""
        self.n_rows += len(rows)
        table = rows.reshape(len(rows), math.prod(rows.shape[1:]))
        is_constant = table[:, 0] == table[:, -1]
        is_constant[is_constant] = (table[is_constant] == table[is_constant, :1]).all(1)
        self.hashes.append(_hashes_of_rows(table)[~is_constant])

    def warnings(self, name: str) -> list[str]:
        """Return a sentence if this is so for most rows."""
        n_repeats = self.n_rows
        if self.hashes:
            hashes = np.sort(np.concatenate(self.hashes))
            n_repeats -= int(np.count_nonzero(hashes[1:] != hashes[:-1]))
            n_repeats -= bool(len(hashes))
        if self.n_rows < 2 or 2 * n_repeats <= self.n_rows:
            return []
        return [
            f"{name}: {n_repeats} of {self.n_rows} rows are zeros, repeat one value, or"
            " equal an earlier row"
        ]


def _hashes_of_rows(table: Values) -> npt.NDArray[np.uint64]:
    """Return a number for each row, by which equal rows are found: a sum of random multiples."""
    n_bytes = table.shape[1] * table.itemsize
    words = np.ascontiguousarray(table).view(f"u{math.gcd(n_bytes, 8)}")
    digest = hashlib.shake_128(b"factors").digest(8 * words.shape[1])
    factors = np.frombuffer(digest, np.uint64) | np.uint64(1)
    hashes = np.empty(len(table), np.uint64)
    n_rows = max(1, HASHED_BYTES // n_bytes)
    for first in range(0, len(table), n_rows):
        some = words[first : first + n_rows].astype(np.uint64, copy=False)
        # Numbers that differ in high bits only then differ in low ones too, as the sums need it.
        mixed = some ^ (some >> np.uint64(32))
        hashes[first : first + n_rows] = mixed @ factors
    return hashes


@dataclass
class ImportedRows:
    """The rows of the new store, read from the files.

    Each row is read twice: when its status is found out, and when it is written.
    """

    reader: Reader
    clips: Clips
    stored: Sequence[StoredArray]
    progress: Progress
    problems: dict[int, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read all rows once, and keep what is wrong with some."""
        self.places = self.clips.places.copy()
        n_rows = len(self.places)
        # A pooled array has the problems of the vectors that it is made of, unless there is a mask.
        names = {stored.name for stored in self.stored}
        checked = []
        for stored in self.stored:
            is_beside = stored.name != stored.source and stored.source in names
            if stored.mask or not is_beside:
                checked.append(stored)
        self.progress.expect((len(checked) + len(self.stored)) * n_rows)
        self._stored_of_name = {stored.name: stored for stored in self.stored}
        for number in np.flatnonzero(self.places < 0).tolist():
            self.problems[number] = NOT_IN_FILES
        first_problem = ""
        for stored in checked:
            repeats = Repeats()
            may_repeat = stored.name in (MASK, *TIMES)
            for rows, values, problems in self._values(stored, 0, n_rows):
                if math.prod(stored.shape.sizes) >= VECTOR_VALUES and not may_repeat:
                    usable = values
                    if problems:
                        usable = np.delete(values, [*problems], axis=0)
                    repeats.add(usable)
                for position, problem in problems.items():
                    first_problem = first_problem or problem
                    self.problems.setdefault(int(rows[position]), problem)
            self.warnings += repeats.warnings(stored.name)
        if len(self.problems) == n_rows:
            first_problem = next(filter(None, [first_problem, *self.problems.values()]))
            raise FixInput(
                f"no clip has usable features; the first: {first_problem}",
                where=self.reader.where,
            )
        # These rows are not read again.
        self.places[list(self.problems)] = -1
        statuses = [OK] * n_rows
        reasons = [""] * n_rows
        for number, problem in self.problems.items():
            statuses[number] = FAILED
            reasons[number] = safe_text(problem, "terminal")
        self._rows = replace(self.clips.rows, statuses=statuses, reasons=reasons)

    def columns(self) -> RowColumns:
        """Return all rows of the new store."""
        return self._rows

    @property
    def arrays(self) -> list[Array]:
        """The arrays of the new store."""
        return [stored.array for stored in self.stored]

    def read(self, array: Array, first: int, after: int) -> npt.NDArray[np.generic]:
        """Return the rows from `first` to before `after` of an array."""
        whole = np.zeros((after - first, *array.shape), dtype=array.dtype)
        stored = self._stored_of_name[array.name]
        for rows, values, problems in self._values(stored, first, after):
            for position, problem in problems.items():
                clip_id = self._rows.clip_ids[rows[position]]
                raise Corrupt(
                    f"the files changed while they were imported: {clip_id}: {problem}",
                    where=self.reader.where,
                    hint="run the same command again",
                )
            if np.array_equal(rows, np.arange(first, after)):
                return values
            whole[rows - first] = values
        return whole

    def _values(
        self, stored: StoredArray, first: int, after: int
    ) -> Iterator[tuple[npt.NDArray[np.int64], Values, dict[int, str]]]:
        """Yield numbers of rows, with these as the store holds them, and what is wrong with some.

        Rows that are not in the files are in no piece.
        """
        columns = self.reader.columns
        n_rows_of_piece = max(1, MOST_BYTES // stored.file_shape.n_bytes)
        for start in range(first, after, n_rows_of_piece):
            end = min(start + n_rows_of_piece, after)
            rows = start + np.flatnonzero(self.places[start:end] >= 0)
            rows = rows[np.argsort(self.places[rows], kind="stable")]
            self.progress.advance(end - start)
            if len(rows):
                places = self.places[rows]
                found = columns[stored.source].read(places)
                is_real = columns[stored.mask].read(places) if stored.mask else None
                yield rows, *_stored_rows(found, stored, is_real)


def _stored_rows(
    found: ClipArrays, stored: StoredArray, is_real: ClipArrays | None
) -> tuple[Values, dict[int, str]]:
    """Return rows of the files as the store holds them, and what is wrong with some."""
    if isinstance(found, np.ndarray) and not isinstance(is_real, list):
        return converted(found, stored, is_real)
    values = np.zeros((len(found), *stored.shape.sizes), stored.shape.dtype)
    problems = {}
    for position, row in enumerate(found):
        try:
            mask = None if is_real is None else is_real[position]
            values[position] = _one_row(row, stored, mask)
        except BadRow as error:
            problems[position] = str(error)
    return values, problems


def _one_row(
    value: Values | BadRow, stored: StoredArray, is_real: Values | BadRow | None
) -> Values:
    """Return one clip's row as the store holds it; raise BadRow where it cannot."""
    if isinstance(value, BadRow):
        raise value
    if isinstance(is_real, BadRow):
        raise is_real
    if is_real is not None and is_real.shape != value.shape[: is_real.ndim]:
        raise BadRow(
            f"{MASK} has the shape {is_real.shape}, {stored.source} {value.shape}"
        )
    shape = checked_shape(Shape.of(value), stored.source)
    sizes = shape.sizes[-1:] if stored.pooling else shape.sizes
    if sizes != stored.shape.sizes:
        raise BadRow(
            f"{stored.source} has the shape {shape.sizes}, expected"
            f" {stored.file_shape.sizes}"
        )
    masks = None if is_real is None else is_real[None]
    rows, problems = converted(value[None], stored, masks)
    for problem in problems.values():
        raise BadRow(problem)
    row: Values = rows[0]
    return row
