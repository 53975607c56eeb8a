"""Stores in which a film has a pattern that is looked for in stores without the film."""

from pathlib import Path

import numpy as np

from obygaze_features.store.making import write_store
from obygaze_features.store.records import Maker
from obygaze_features.store.rows import FAILED, Row
from support.filled_stores import ARRAYS
from support.written_stores import (
    MANIFEST,
    ArraySource,
    a_recipe,
    files_of,
    some_rows,
    some_values,
)

N_ROWS = 94
MAKER = Maker("p 1", "cpu", "a cpu", "float32")
PLANTED = 1234.5
FILM = "film-3"
PLANTED_ROWS = [9, 10, 11]


def rows_of() -> list[Row]:
    """Rows of films of three clips; one clip has failed."""
    rows = some_rows(N_ROWS)
    rows[4] = rows[4]._replace(status=FAILED, reason="no picture, at all")
    return rows


def values_of(seed: int = 0) -> dict[str, np.ndarray]:
    values = {array.name: some_values(array, N_ROWS, seed) for array in ARRAYS}
    for rows in values.values():
        rows[PLANTED_ROWS] = PLANTED
    return values


def write(
    target, rows=None, values: dict[str, np.ndarray] | None = None, **more
) -> Path:
    rows = rows_of() if rows is None else rows
    values = values_of() if values is None else values
    given = {
        "arrays": ARRAYS,
        "recipe": a_recipe(),
        "manifest": MANIFEST,
        "makers": [MAKER],
    }
    write_store(target, ArraySource(rows, values), **(given | more))
    return target


def holds_planted(folder: Path) -> bool:
    raw = [np.full(16, PLANTED, dtype).tobytes() for dtype in ("float32", "float16")]
    return any(pattern in data for data in files_of(folder).values() for pattern in raw)
