"""Read Parquet: a row for each clip, and columns of lists of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.console import few, human
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.lazy import import_optional
from obygaze_features.store.files import check_memory
from obygaze_features.store.importing.files import (
    EXPORT_KEY,
    MOST_COMPRESSED,
    BadRow,
    FeatureFiles,
    Keys,
    Values,
    check_letters,
    damaged,
    features_of_rows,
)

PARQUET_EXTRA = "parquet"
# Equal numbers take almost no space in Parquet, so a column of at most this many bytes is read
# however small its file is.
MOST_REPEATED = 100_000_000
# The approximate bytes of a Python text without its letters.
ID_BYTES = 50


def _arrow(module: str) -> Any:
    """Return a module of pyarrow."""
    return import_optional(f"pyarrow.{module}", PARQUET_EXTRA, "reading Parquet")


def open_parquet(
    path: Path, files: Sequence[Path], arrays: Keys, id_key: str | None
) -> FeatureFiles:
    """Open files with a row for each clip as one table."""
    with damaged("not a complete Parquet file", path, _arrow("lib").ArrowException):
        metadata = [_arrow("parquet").read_metadata(file) for file in files]
        schemas = [one.schema.to_arrow_schema() for one in metadata]
        n_rows = sum(one.num_rows for one in metadata)
        schema = schemas[0]
        origins = {(one.metadata or {}).get(EXPORT_KEY.encode()) for one in schemas}
        if len(origins) > 1 or any(not one.equals(schema) for one in schemas):
            problem = "expected the files of one table or store; import other files separately"
            raise FixInput(problem, where=str(path))
        if len(set(schema.names)) < len(schema.names) or not n_rows:
            problem = f"expected rows, and columns with different names, got {few(schema.names)}"
            raise FixInput(problem, where=str(path))
        columns = {field.name: _Column(files, field, n_rows) for field in schema}
        is_export = origins != {None}
        return features_of_rows(path, columns, arrays, id_key, is_export=is_export)


class _Column:
    """A column, which is read completely on first use.

    In `shape`, a size that differs between rows is 0.
    """

    def __init__(self, files: Sequence[Path], field: Any, n_rows: int) -> None:
        self.files = files
        self.name = field.name
        self.shape: tuple[int, ...] = (n_rows,)
        column_type = field.type
        while hasattr(column_type, "value_field"):
            self.shape += (getattr(column_type, "list_size", 0),)
            column_type = column_type.value_type
        is_number = _arrow("types").is_primitive(column_type)
        self.dtype = np.dtype(column_type.to_pandas_dtype() if is_number else object)

    def __getitem__(self, rows: slice) -> Values:
        """Return the values of rows as one array; missing numbers are NaN.

        Raise BadRow if lists of these rows are missing or differ in size.
        """
        values = self.whole[rows].combine_chunks()
        sizes = [len(values)]
        while hasattr(values.type, "value_field"):
            lengths = _arrow("compute").list_value_length(values).unique().to_pylist()
            if len(lengths) != 1 or values.null_count:
                raise BadRow("a value is missing, or lists differ in size")
            sizes += lengths
            values = values.flatten()
        numbers: Values = values.to_numpy(zero_copy_only=False)
        return numbers.reshape(sizes)

    @cached_property
    def whole(self) -> Any:
        """All rows of the column, as a chunked array of pyarrow."""
        # Equal texts are stored once in memory.
        texts = [self.name] if len(self.shape) == 1 else []
        lib = _arrow("lib")
        with damaged(
            f"{self.name!r} cannot be read", self.files[0], lib.ArrowException
        ):
            tables = [_read_column(file, self.name, texts) for file in self.files]
            return lib.concat_tables(tables).column(0)


def _read_column(path: Path, name: str, texts: list[str]) -> Any:
    """Return a table with one column of a file."""
    compute = _arrow("compute")
    with _arrow("parquet").ParquetFile(
        path, read_dictionary=texts, page_checksum_verification=True
    ) as opened:
        schema = opened.metadata.schema
        paths = [schema.column(place).path for place in range(len(schema))]
        n_values = 0
        for number in range(opened.metadata.num_row_groups):
            # If the metadata of a column are damaged, reading the column raises an error, but a
            # query of its metadata would end the process. So one row of only this column is read
            # first.
            next(opened.iter_batches(1, [number], [name]), None)
            group = opened.metadata.row_group(number)
            for place, path_in_schema in enumerate(paths):
                if path_in_schema.partition(".")[0] == name:
                    n_values += group.column(place).num_values
        # Equal numbers are written once with their count: the length of the file is no bound.
        n_bytes = 8 * n_values
        n_file = path.stat().st_size
        if n_bytes > max(MOST_REPEATED, MOST_COMPRESSED * n_file):
            problem = f"{name} has {human(n_bytes)}, more than the file can hold"
            raise Corrupt(problem, where=str(path))
        check_memory(n_bytes, f"the column {name}", str(path))
        table = opened.read([name])
    table.validate(full=True)
    for chunk in table.column(0).chunks:
        if _arrow("types").is_dictionary(chunk.type):
            longest = compute.max(compute.binary_length(chunk.dictionary)).as_py() or 0
            check_letters(longest, (longest + ID_BYTES) * len(table), name, str(path))
    return table
