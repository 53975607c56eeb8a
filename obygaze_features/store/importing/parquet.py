"""Features in Parquet: a row for each clip, ids, and columns of lists of numbers.

Lists of any size are read, if they have the same size in all rows; so are lists of lists.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.console import few, human
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.lazy import need
from obygaze_features.store.files import check_memory
from obygaze_features.store.importing.reader import (
    FILM_KEY,
    FOREIGN_DAMAGE,
    ID_KEY,
    MOST_COMPRESSED,
    TIME_KEYS,
    BadRow,
    ClipArrays,
    Reader,
    Values,
    array_reader,
    plain_files,
    refuse_long_ids,
)
from obygaze_features.store.layout import MASK, N_WORDS

EXTRA = "parquet"
SUFFIX = ".parquet"
# Of an id as text of Python, about.
ID_BYTES = 100
# Equal numbers take no place in a file. As many bytes of them are read all the same.
MOST_REPEATED = 100_000_000


def open_parquet(
    path: Path, arrays: Mapping[str, str], *, id_key: str = ID_KEY
) -> Reader:
    """Open a file with a row for each clip, or a folder of such files.

    Without `arrays`, each column of lists of numbers is an array.
    """
    files = plain_files(path, [SUFFIX]) if path.is_dir() else None
    table = _Table(path, files or [path])
    wanted = {id_key, FILM_KEY, *TIME_KEYS, MASK, N_WORDS}
    names: list[str] = []
    others: list[str] = []
    for field in table.schema:
        is_read = _is_vector(field.type) or field.name in wanted
        (names if is_read else others).append(field.name)
    if id_key not in table.schema.names:
        # The error names what is there.
        names = table.schema.names
    reader = array_reader(
        str(path),
        names,
        partial(table.column, (id_key, FILM_KEY)),
        arrays,
        id_key=id_key,
    )
    reader.files = files
    if others and not arrays:
        left_out = f"columns without lists of numbers were left out: {few(others, 5)}"
        reader.notes = [*reader.notes, left_out]
    return reader


def _arrow(module: str) -> Any:
    """Return a module of pyarrow."""
    return need(f"pyarrow.{module}", EXTRA, "reading Parquet")


class _Table:
    """The files of a folder as one table, whose groups of rows are read when they are used."""

    def __init__(self, path: Path, files: Sequence[Path]) -> None:
        self.parquet = _arrow("parquet")
        self.path = path
        # Of each group of rows: its file, and its number there.
        self.groups: list[tuple[Path, int]] = []
        first_rows = [0]
        schemas = []
        for file in files:
            with _damage(file), self.opened(file) as opened:
                schemas.append(opened.schema_arrow)
                metadata = opened.metadata
                for number in range(metadata.num_row_groups):
                    self.groups.append((file, number))
                    n_rows = metadata.row_group(number).num_rows
                    first_rows.append(first_rows[-1] + n_rows)
            if not schemas[-1].equals(schemas[0]):
                raise FixInput(
                    f"{file.name} has other columns than {files[0].name}, or of other types",
                    where=str(file),
                )
        self.first_rows = np.array(first_rows)
        if not self.n_rows:
            raise FixInput("the table has no rows", where=str(path))
        self.schema = schemas[0]
        names = self.schema.names
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise FixInput(
                f"several columns have the name {repeated[0]!r}", where=str(path)
            )

    def opened(self, file: Path, texts: Sequence[str] = ()) -> Any:
        """Return an open file, whose checksums are compared where it has some.

        Equal texts in the columns `texts` are in memory once.
        """
        return self.parquet.ParquetFile(
            file, page_checksum_verification=True, read_dictionary=list(texts)
        )

    @property
    def n_rows(self) -> int:
        """The rows of all files."""
        return int(self.first_rows[-1])

    def column(self, id_keys: Sequence[str], name: str) -> Any:
        """Return the ids in a column, or a column of vectors."""
        if name not in self.schema.names:
            raise KeyError(name)
        return self._ids(name) if name in id_keys else _Vectors(self, name)

    def _ids(self, name: str) -> Values:
        """Return a column of ids; an id that is missing is an error."""
        n_bytes = ID_BYTES * self.n_rows
        check_memory(n_bytes, f"the column {name!r}", str(self.path))
        ids: list[Any] = []
        for number in range(len(self.groups)):
            column = self.group(number, name)
            if _arrow("types").is_dictionary(column.type):
                lengths = _arrow("compute").binary_length(column.dictionary)
                longest = _arrow("compute").max(lengths).as_py() or 0
                refuse_long_ids(longest, name, str(self.path))
            ids += column.to_pylist()
        if None in ids:
            where = f"{self.path}, row {ids.index(None)}"
            raise FixInput(f"the column {name!r} has no value", where=where)
        is_text = any(isinstance(value, str) for value in ids)
        return np.array(ids, dtype=object if is_text or not ids else None)

    def group(self, number: int, name: str) -> Any:
        """Return a column of a group of rows."""
        file, number_in_file = self.groups[number]
        texts = [] if _is_list(self.schema.field(name).type) else [name]
        with _damage(file), self.opened(file, texts) as opened:
            # Where what is said of a column is damaged, only reading it is an error: what asks for
            # its facts would end the process.
            next(opened.iter_batches(1, [number_in_file], [name]), None)
            metadata = opened.metadata.row_group(number_in_file)
            n_bytes = _unpacked_bytes(metadata, opened.schema, name)
            size = file.stat().st_size
            if n_bytes > max(MOST_REPEATED, MOST_COMPRESSED * size):
                raise Corrupt(
                    f"{name!r} has {human(n_bytes)} in a file of {human(size)}, which repeats a few"
                    " numbers and is not read",
                    where=str(file),
                )
            check_memory(n_bytes, f"a group of rows of {name}", str(file))
            table = opened.read_row_group(number_in_file, columns=[name])
            column = table.column(name).combine_chunks()
            if len(column) != metadata.num_rows:
                raise ValueError(
                    f"{name} has {len(column)} rows, expected {metadata.num_rows}"
                )
            column.validate(full=True)
            return column


class _Vectors:
    """A column of vectors, as an array of which ranges of rows are read."""

    def __init__(self, table: _Table, name: str) -> None:
        self.table = table
        self.name = name
        column_type = table.schema.field(name).type
        self.dtype = _dtype_of(column_type)
        # The group of rows that was read last, and its number.
        self._last: tuple[int, Any] | None = None
        # Unless the type says it: the shape of each row, None of one that has none.
        self._sizes_of_rows: list[tuple[int, ...] | None] = []
        self.shape = (table.n_rows, *self._sizes(column_type))

    def __getitem__(self, rows: slice) -> ClipArrays:
        """Return a range of rows; one by one where they do not all have the same size."""
        first, after, _ = rows.indices(self.shape[0])
        pieces = list(self._pieces(first, after))
        arrays = []
        for piece in pieces:
            array = _as_array(piece)
            if array is None or array.shape[1:] != self.shape[1:]:
                return self._one_by_one(pieces)
            arrays.append(array)
        whole: Values = np.concatenate(arrays)
        return whole

    def _pieces(self, first: int, after: int) -> Iterator[Any]:
        """Yield the parts of groups that have the rows of a range."""
        first_rows = self.table.first_rows
        row = first
        while row < after:
            number = int(np.searchsorted(first_rows, row, side="right")) - 1
            if self._last is None or self._last[0] != number:
                self._last = (number, self.table.group(number, self.name))
            start = row - int(first_rows[number])
            end = min(after, int(first_rows[number + 1])) - int(first_rows[number])
            yield self._last[1].slice(start, end - start)
            row += end - start

    def _one_by_one(self, pieces: Sequence[Any]) -> list[Values | BadRow]:
        rows: list[Values | BadRow] = []
        for piece in pieces:
            for cell in piece:
                try:
                    rows.append(_cell(cell, self.name, self.dtype))
                except BadRow as error:
                    rows.append(BadRow(*error.args))
        return rows

    def _sizes(self, column_type: Any) -> tuple[int, ...]:
        """Return the shape of a row: that of the type, or the largest of a row."""
        sizes = _fixed_sizes(column_type)
        if sizes is not None:
            return sizes
        for piece in self._pieces(0, self.table.n_rows):
            self._sizes_of_rows += self._sizes_in(piece)
        known = {sizes for sizes in self._sizes_of_rows if sizes is not None}
        return max(known, key=math.prod, default=(0,))

    def _sizes_in(self, piece: Any) -> list[tuple[int, ...] | None]:
        """Return the shape of each of some rows; None of those that have none."""
        array = _as_array(piece)
        if array is not None:
            return [array.shape[1:]] * len(piece)
        # One by one, which takes time.
        return [getattr(cell, "shape", None) for cell in self._one_by_one([piece])]

    def sizes_of_rows(self, rows: Sequence[int]) -> list[tuple[int, ...] | None]:
        """Return the shape of each row; None of one that has none."""
        if not self._sizes_of_rows:
            return [self.shape[1:]] * len(rows)
        return [self._sizes_of_rows[row] for row in rows]


@contextmanager
def _damage(file: Path) -> Iterator[None]:
    """Raise an error for a file that is not complete, or is no Parquet."""
    try:
        yield
    except (*FOREIGN_DAMAGE, _arrow("lib").ArrowException) as error:
        raise Corrupt(
            f"not a complete Parquet file: {error}",
            where=str(file),
        ) from error


def _unpacked_bytes(group: Any, schema: Any, name: str) -> int:
    """Return the most that the numbers of a column take in memory.

    Equal numbers are written once with how often they come, so that the bytes in the file say
    nothing of it.
    """
    n_values = 0
    for index in range(len(schema)):
        path = schema.column(index).path
        if path == name or path.startswith(f"{name}."):
            n_values += group.column(index).num_values
    return max(int(group.total_byte_size), 8 * n_values)


def _is_list(column_type: Any) -> bool:
    types = _arrow("types")
    return bool(
        types.is_fixed_size_list(column_type)
        or types.is_list(column_type)
        or types.is_large_list(column_type)
    )


def _is_vector(column_type: Any) -> bool:
    """Return whether a column has lists of numbers, or lists of such lists."""
    return _is_list(column_type) and _dtype_of(column_type).kind in "fiub"


def _dtype_of(column_type: Any) -> np.dtype[Any]:
    """Return the type of the numbers in a column; that of objects if they are no numbers."""
    while _is_list(column_type):
        column_type = column_type.value_type
    try:
        dtype: np.dtype[Any] = np.dtype(column_type.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        return np.dtype(object)
    return dtype


def _fixed_sizes(column_type: Any) -> tuple[int, ...] | None:
    """Return the sizes of lists within lists; None unless the type fixes all of them."""
    types = _arrow("types")
    sizes = []
    while types.is_fixed_size_list(column_type):
        sizes.append(column_type.list_size)
        column_type = column_type.value_type
    return None if _is_list(column_type) else tuple(sizes)


def _as_array(piece: Any) -> Values | None:
    """Return some rows as one array; None if they have several shapes, or a value is missing."""
    sizes = []
    values = piece
    while _is_list(values.type):
        lengths = _arrow("compute").list_value_length(values).unique().to_pylist()
        if len(lengths) != 1 or values.null_count:
            return None
        sizes += lengths
        values = values.flatten()
    if values.null_count:
        return None
    numbers: Values = values.to_numpy(zero_copy_only=False)
    return numbers.reshape(len(piece), *sizes)


def _cell(cell: Any, name: str, dtype: np.dtype[Any]) -> Values:
    """Return the array of one row; raise BadRow if it has none."""
    value = cell.as_py()
    if value is None:
        raise BadRow(f"{name} has no value")
    try:
        return np.array(value, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise BadRow(f"{name} has lists of several sizes") from error
