"""Read a Parquet file as a sheet: each cell with the text that a CSV file would have."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from obygaze_features.core.console import human
from obygaze_features.core.errors import Corrupt, FixInput, first_line
from obygaze_features.core.files import import_of_features, require_file
from obygaze_features.core.lazy import import_optional
from obygaze_features.core.workbooks import (
    MAX_ARCHIVE,
    MAX_CELLS,
    MAX_FILE,
    Sheet,
    cell_text,
)

EXTRA = "parquet"
ENDING = ".parquet"
# The most letters of all cells together: a text that the file stores once may be in millions of
# rows.
MAX_LETTERS = 1 << 26
ROWS_AT_ONCE = 1000


def is_parquet(path: Path) -> bool:
    """Return whether a file has the extension of Parquet."""
    return path.suffix.lower() == ENDING


def read_parquet(path: Path) -> Sheet:
    """Return the table in a Parquet file with one value per cell."""
    require_file(path)
    arrow = import_optional("pyarrow", EXTRA, "reading Parquet")
    parquet = import_optional("pyarrow.parquet", EXTRA, "reading Parquet")
    try:
        schema = parquet.read_schema(path)
        _refuse_features(schema, arrow.types, path)
        # Equal texts are kept in memory once.
        with parquet.ParquetFile(path, read_dictionary=schema.names) as file:
            _refuse_large(file.metadata, path)
            rows = [schema.names, *_rows(file, path)]
    except (arrow.ArrowException, OSError, OverflowError, ValueError) as error:
        raise Corrupt(
            f"the Parquet file cannot be read: {first_line(error)}", where=str(path)
        ) from error
    # Commas in texts are not decimal commas.
    return Sheet(path.name, rows, dict.fromkeys(range(len(schema.names)), len(rows)))


def _refuse_features(schema: Any, types: Any, path: Path) -> None:
    """Raise an error for a column of lists."""
    nested = [field.name for field in schema if types.is_nested(field.type)]
    if nested:
        raise FixInput(
            f"expected one value per cell, got lists in the column {nested[0]!r}: join concepts"
            " with |, and import features as a store",
            where=str(path),
            hint=import_of_features(path),
        )


def _refuse_large(metadata: Any, path: Path) -> None:
    """Raise an error for a table that would need too much memory."""
    # The metadata of columns are not read, because damaged metadata crash the process.
    n_cells = metadata.num_rows * metadata.num_columns
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    n_bytes = sum(group.total_byte_size for group in groups)
    if path.stat().st_size > MAX_FILE or n_bytes > MAX_ARCHIVE or n_cells > MAX_CELLS:
        raise Corrupt(
            f"the table has {n_cells:,} cells and {human(n_bytes)}, expected at most {MAX_CELLS:,}"
            f" cells and {human(MAX_ARCHIVE)}",
            where=str(path),
        )


def _rows(file: Any, path: Path) -> Iterator[list[str]]:
    """Yield the texts of each row."""
    n_letters = 0
    for batch in file.iter_batches(ROWS_AT_ONCE):
        for cells in zip(*batch.columns, strict=True):
            texts = [text_of_value(cell.as_py()) for cell in cells]
            n_letters += sum(map(len, texts))
            if n_letters > MAX_LETTERS:
                limit = human(MAX_LETTERS)
                raise Corrupt(
                    f"the table has more than {limit} of text", where=str(path)
                )
            yield texts


def text_of_value(value: Any) -> str:
    """Return the text that a value has in a CSV file; "" for a missing value."""
    if isinstance(value, bytes):
        # Some programs write texts without marking them as texts.
        value = value.decode("utf-8")
    # pandas writes missing numbers as NaN.
    if value is None or value != value:
        return ""
    # The file states how long a duration is, so it is not shown as h:mm, which may be m:ss.
    return cell_text(value, has_seconds=True)
