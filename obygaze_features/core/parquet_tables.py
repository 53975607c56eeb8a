"""Read the table in a Parquet file as a sheet of texts: each cell as a CSV file would have it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from obygaze_features.core.console import human
from obygaze_features.core.errors import Corrupt, FixInput, first_line
from obygaze_features.core.files import import_of_features, require_file
from obygaze_features.core.lazy import need
from obygaze_features.core.workbooks import (
    MAX_ARCHIVE,
    MAX_CELLS,
    MAX_FILE,
    Sheet,
    cell_text,
)

EXTRA = "parquet"
ENDING = ".parquet"
# A text may be once in the file, and in millions of rows.
MAX_LETTERS = 1 << 26
ROWS_AT_ONCE = 1000


def is_parquet(path: Path) -> bool:
    """Return whether a file is named as a Parquet file."""
    return path.suffix.lower() == ENDING


def read_parquet(path: Path) -> Sheet:
    """Return the table in a Parquet file; one with lists of numbers has features."""
    require_file(path)
    arrow = need("pyarrow", EXTRA, "reading Parquet")
    parquet = need("pyarrow.parquet", EXTRA, "reading Parquet")
    try:
        metadata = parquet.read_metadata(path)
        _refuse_large(metadata, path)
        # Texts that are equal are held once.
        columns = [metadata.schema.column(n).path for n in range(metadata.num_columns)]
        with parquet.ParquetFile(path, read_dictionary=columns) as file:
            for field in file.schema_arrow:
                _refuse_features(field, arrow.types, path)
            names = file.schema_arrow.names
            rows = [names, *_rows(file, path)]
    except (arrow.ArrowException, OSError) as error:
        problem = f"not a Parquet file that can be read: {first_line(error)}"
        raise Corrupt(problem, where=str(path)) from error
    # A comma in a text is no decimal one.
    return Sheet(path.name, rows, dict.fromkeys(range(len(names)), len(rows)))


def _refuse_large(metadata: Any, path: Path) -> None:
    """Raise an error for a table that would need too much memory."""
    n_bytes = 0
    n_cells = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        n_bytes += group.total_byte_size
        for column in range(group.num_columns):
            n_cells += group.column(column).num_values
    if path.stat().st_size > MAX_FILE or n_bytes > MAX_ARCHIVE or n_cells > MAX_CELLS:
        raise Corrupt(
            f"the table has {n_cells:,} cells of {human(n_bytes)}, expected at most {MAX_CELLS:,}"
            f" of {human(MAX_ARCHIVE)}",
            where=str(path),
        )


def _refuse_features(field: Any, types: Any, path: Path) -> None:
    """Raise an error for a column of lists of numbers."""
    is_list = types.is_list(field.type) or types.is_large_list(field.type)
    is_vector = types.is_fixed_size_list(field.type)
    if is_vector or (is_list and types.is_floating(field.type.value_type)):
        raise FixInput(
            f"the column {field.name!r} has lists of numbers, as features are",
            where=str(path),
            hint=import_of_features(path),
        )


def _rows(file: Any, path: Path) -> Iterator[list[str]]:
    """Yield the texts of each row."""
    n_letters = 0
    for batch in file.iter_batches(ROWS_AT_ONCE):
        for cells in zip(*batch.columns, strict=True):
            texts = [_text(cell.as_py()) for cell in cells]
            n_letters += sum(map(len, texts))
            if n_letters > MAX_LETTERS:
                limit = human(MAX_LETTERS)
                raise Corrupt(
                    f"the table has more than {limit} of text", where=str(path)
                )
            yield texts


def _text(value: Any) -> str:
    """Return a value as a cell; the items of a list are joined as concepts are."""
    if isinstance(value, list):
        return "|".join(map(_text, value))
    # pandas writes what is missing in a column of numbers as NaN.
    if value is None or value != value:
        return ""
    return cell_text(value)
