"""Tables of text and numbers: how they are written, read, and compared."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
Table = Sequence[Row]
DIGITS = 13  # of a number that is written: a difference of 1e-12 of it is seen


def cell_text(value: Any) -> str:
    """Return how a value is written: a number with 13 digits, nothing for what is missing.

    NaN is written: a program that says it of what is missing says something else.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    number = float(value)
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return f"{number:.{DIGITS}g}"


def number(text: str) -> float | None:
    """Return the number that a cell has, None for an empty one."""
    return float(text) if text else None


def number_of(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def write_table(path: Path, table: Table) -> int:
    """Write rows as CSV, and return how many cells have a value.

    A column is there if any row has it.
    """
    columns: dict[str, None] = {}
    for row in table:
        columns.update(dict.fromkeys(row))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        n_values = 0
        for row in table:
            texts = [cell_text(row.get(column)) for column in columns]
            n_values += sum(text != "" for text in texts)
            writer.writerow(texts)
    return n_values


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def are_equal(recorded: str, found: str, tolerance: float) -> bool:
    """Return whether two cells say the same: texts exactly, numbers within the tolerance.

    The tolerance is of the number itself below 1, and a share of it above. Of counts there is none.
    """
    if recorded == found:
        return True
    if is_whole(recorded) and is_whole(found):
        return False
    first, second = number_of(recorded), number_of(found)
    if first is None or second is None:
        return False
    return abs(first - second) <= tolerance * max(1.0, abs(first), abs(second))


def is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def differences(name, recorded: Table, found: Table, tolerance: float) -> list[str]:
    """Return a line for each cell that differs: the table, the row, the column, both values."""
    columns = list(recorded[0]) if recorded else []
    columns_found = list(found[0]) if found else []
    if columns != columns_found:
        return [f"{name}: the columns were {columns}, are {columns_found}"]
    lines = []
    if len(recorded) != len(found):
        lines.append(f"{name}: {len(recorded)} rows were recorded, found {len(found)}")
    # A line of the file, as an editor counts it: the first has the names of the columns.
    for line_number, (before, after) in enumerate(
        zip(recorded, found, strict=False), start=2
    ):
        for column in columns:
            if not are_equal(before[column], after[column], tolerance):
                lines.append(
                    f"{name}, line {line_number} ({beginning_of(before)}), column {column!r}:"
                    f" recorded {before[column]!r}, found {after[column]!r}"
                    f"{apart(before[column], after[column])}"
                )
    return lines


def apart(recorded: str, found: str) -> str:
    first, second = number_of(recorded), number_of(found)
    if first is None or second is None:
        return ""
    return f" ({abs(first - second):.1g} apart)"


def beginning_of(row: Row) -> str:
    texts = [value for value in row.values() if value]
    return ", ".join(texts[:6])
