"""What a chunk with a right checksum must not have, and the runs of some rows."""

from __future__ import annotations

import struct

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


FILM_IDS = st.sampled_from(["tt0000001", "a", 'of "x", y', "film, the long one", "é"])


@given(st.lists(st.tuples(FILM_IDS, st.integers(1, 300)), min_size=1), st.data())
def test_runs_of_some_rows_are_those_of_the_whole_table(runs, data) -> None:
    rows = []
    for film, n_rows in runs:
        for _ in range(n_rows):
            rows.append(Row(f"clip-{len(rows)}", film))
    rows_csv, films_csv = rows_and_films(RowColumns.of(rows))
    sizes = (len(rows), len(rows_csv))
    whole = Films.of(np.frombuffer(films_csv, np.uint8), *sizes)
    number = st.integers(0, len(rows) - 1)
    wanted = np.array(data.draw(st.lists(number, min_size=1, max_size=8)))
    some = Films.around(wanted, films_csv, *sizes)
    for row in wanted:
        known, found = (films.runs_of(row) for films in (whole, some))
        assert some.movie_ids[found] == whole.movie_ids[known] == rows[row].movie_id
        assert some.crc32c[found] == whole.crc32c[known]
        for column in ("first_rows", "first_bytes"):
            here, there = getattr(some, column), getattr(whole, column)
            assert here[found : found + 2].tolist() == there[known : known + 2].tolist()


@pytest.mark.parametrize(
    "lines",
    [["a,0,10,-50,0", "b,10,10,60,0"], ["a,0,10,5000,0", "b,10,10,6000,0"]],
)
def test_runs_outside_rows_csv_are_damage(lines: list[str]) -> None:
    """A stranger's table decides what is read of a file."""
    header = "movie_id,first_row,rows,byte,crc32c"
    films_csv = "\n".join([header, *lines, ""]).encode()
    with pytest.raises(ValueError, match="do not follow each other"):
        Films.around(np.array([0]), films_csv, 20, 100)
