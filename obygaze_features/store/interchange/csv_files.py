"""Features in CSV files: a column of clip ids, and a column for each number of the vectors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from obygaze_features.core.errors import FixInput
from obygaze_features.core.schema_check import Violations
from obygaze_features.manifest.tables import CsvTable, read_table
from obygaze_features.store.interchange.source import (
    ID_KEY,
    MOVIE_KEY,
    Array,
    FeatureSource,
    column_source,
    file_origin,
)

_NUMBERED = re.compile(r"(.*?)[._ -]?[0-9]+")


def open_csv(
    path: Path, levels: Mapping[str, str], *, id_key: str = ID_KEY, movie_key: str | None = None
) -> FeatureSource:
    """Open a table with a row for each clip; without `levels`, its numbered columns.

    `levels` maps a level to the name of its columns without the number: `clip_0`, `clip_1`, ... are
    the level `clip` by `{"clip": "clip"}`.
    """
    violations = Violations(path)
    required = [id_key, *([movie_key] if movie_key else [])]
    table = read_table(
        path,
        required=required,
        delimiter=None,
        skip_blank=True,
        violations=violations,
        content="clips",
    )
    columns: dict[str, list[str]] = {}
    for column in table.columns:
        if column not in (*required, MOVIE_KEY) and (match := _NUMBERED.fullmatch(column)):
            columns.setdefault(match[1] or "x", []).append(column)
    numbers = {
        name: _numbers(table, group)
        for name, group in columns.items()
        if not levels or name in levels.values()
    }
    violations.raise_if_any("this is not a table of features")

    def read(name: str) -> Array:
        if name in numbers:
            return numbers[name]
        if name not in table.columns:
            there = ", ".join(columns) or "none"
            raise FixInput(f"no columns {name!r}_0, ...; numbered: {there}", where=str(path))
        return np.array([row[name] for row in table.rows], dtype=np.str_)

    if not numbers and not levels:
        raise FixInput(
            "no numbered columns",
            where=str(path),
            hint="name the columns of a vector x_0, x_1, ...",
        )
    ids = (id_key, movie_key or MOVIE_KEY)
    names = [*numbers, *(name for name in ids if name in table.columns)]
    return column_source(
        path,
        names,
        read,
        levels,
        origin=partial(file_origin, "csv", path),
        id_key=id_key,
        movie_key=movie_key,
    )


def _numbers(table: CsvTable, columns: list[str]) -> Array:
    """Return the cells of some columns as numbers; a decimal comma is read where it can be one."""
    values = np.zeros((len(table.rows), len(columns)))
    for index, row in enumerate(table.rows):
        for place, column in enumerate(columns):
            text = row[column] if table.delimiter == "," else row[column].replace(",", ".")
            try:
                values[index, place] = float(text)
            except ValueError:
                row.add(column, f"{row[column]!r} is not a number")
    return values
