"""What a chunk with a right checksum must not have, and the runs of some rows."""

from __future__ import annotations

import struct

import google_crc32c
import numpy as np
import pytest

from obygaze_features.store.decoding import Films, checked_content
from obygaze_features.store.encoding import rows_and_films
from obygaze_features.store.layout import Array
from obygaze_features.store.rows import Row, RowColumns


def checked(content: bytes, array: Array) -> list[int]:
    """The content of a chunk whose checksum is right."""
    crc = google_crc32c.value(content)
    chunk = np.frombuffer(content + struct.pack("<I", crc), np.uint8)
    return checked_content(array, chunk, crc).tolist()


def test_a_bool_is_0_or_1() -> None:
    array = Array("mask", "bool", (2,), ("t",), 2, 2)
    assert checked(b"\0\1\1\0", array) == [0, 1, 1, 0]
    with pytest.raises(ValueError, match="neither true nor false"):
        checked(b"\0\1\2\0", array)


@pytest.mark.parametrize(
    ("movie_ids", "runs_of_film"),
    [
        (["a", "b", "a"], {"a": [0, 2], "b": [1]}),
        (["", "", ""], {}),
        (["a", "", "a"], None),
        ([" ", " ", " "], None),
    ],
)
def test_all_rows_have_a_film_or_none_has(
    movie_ids: list[str], runs_of_film: dict[str, list[int]] | None
) -> None:
    rows = [Row(str(number), film) for number, film in enumerate(movie_ids)]
    rows_csv, films_csv = rows_and_films(RowColumns.of(rows))
    data = np.frombuffer(films_csv, np.uint8)
    if runs_of_film is None:
        with pytest.raises(ValueError, match=r"have none|is empty"):
            Films.of(data, len(rows), len(rows_csv))
        return
    films = Films.of(data, len(rows), len(rows_csv))
    assert films.runs_of_film == runs_of_film
    assert films.are_stated == bool(runs_of_film)
