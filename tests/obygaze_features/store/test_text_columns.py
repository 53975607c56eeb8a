"""Columns of texts: tables of texts of one length give the bytes that single texts give."""

from __future__ import annotations

import csv
import hashlib
import io
import struct

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from obygaze_features.core.files import canonical_json
from obygaze_features.store.decoding import decode_texts, lines_of
from obygaze_features.store.encoding import ids_table, rows_and_films, text_column
from obygaze_features.store.rows import Row, RowColumns
from obygaze_features.store.text_columns import TextColumn

# Of one length or of several, with what CSV and JSON quote, and beyond ASCII.
CHARACTERS = st.sampled_from('aZ09-_.:,"\\ é日')
PLAIN = st.text(st.sampled_from("ab0-"), min_size=6, max_size=6)
ODD = st.text(CHARACTERS, min_size=1, max_size=6)
IDS = st.one_of(
    st.lists(PLAIN, min_size=1, max_size=30, unique=True),
    st.lists(ODD, min_size=1, max_size=30, unique=True),
    st.lists(st.sampled_from("abcde"), min_size=1, unique=True),
)
FILMS = st.lists(st.sampled_from(["m", "m-1", "m-2", "film", 'a,"b"']), min_size=1)


def columns_of(ids: list[str], films: list[str]) -> RowColumns:
    movie_ids = [films[number % len(films)] for number in range(len(ids))]
    return RowColumns.of_clips(ids, movie_ids)


@settings(max_examples=50, deadline=None)
@given(ids=IDS, films=FILMS)
def test_tables_of_ids_are_those_of_single_texts(
    ids: list[str], films: list[str]
) -> None:
    columns = columns_of(ids, films)
    pairs = [[clip, film] for clip, film in zip(ids, columns.movie_ids, strict=True)]
    expected = hashlib.sha256(canonical_json(pairs)).hexdigest()
    assert columns.clips_sha256 == expected
    _, chunk = text_column(columns.clip_ids)
    assert decode_texts(np.frombuffer(chunk, np.uint8), len(ids)) == ids
    rows_csv, films_csv = rows_and_films(columns)
    read = list(csv.reader(io.StringIO(rows_csv.decode(), newline="")))[1:]
    expected_rows = [
        [str(number), clip, film, "", "", "ok", "", "", "", "", ""]
        for number, (clip, film) in enumerate(pairs)
    ]
    assert read == expected_rows
    lines = lines_of(np.frombuffer(films_csv, np.uint8))[1:]
    for _, first, _, byte, _ in csv.reader(lines):
        assert rows_csv[int(byte) :].startswith(f"{first},".encode())
    data = ids_table(columns.clip_ids, "here")
    places = struct.unpack(f"<{len(ids)}I", data[8 * len(ids) :])
    hashes = struct.unpack(f"<{len(ids)}Q", data[: 8 * len(ids)])
    for place, number in zip(places, hashes, strict=True):
        digest = hashlib.sha256(ids[place].encode()).digest()
        assert number == int.from_bytes(digest[:8], "little")


@settings(max_examples=40, deadline=None)
@given(ids=st.one_of(IDS, st.lists(st.text(max_size=3), min_size=1)))
def test_an_array_of_texts_is_the_column_of_its_texts(ids: list[str]) -> None:
    array = np.array(ids)
    column = TextColumn.of_array(array)
    if column is None:
        assert TextColumn(array.tolist()).table is None
        return
    assert list(column) == array.tolist()
    assert [column[place] for place in range(len(ids))] == array.tolist()
    assert column.characters == set("".join(array.tolist()))


def test_rows_are_numbered_whatever_their_digits() -> None:
    """Numbers of one to five digits, put together in blocks of as many digits."""
    ids = [f"{number:06d}" for number in range(12_345)]
    rows_csv, _ = rows_and_films(columns_of(ids, ["film"]))
    lines = rows_csv.decode().splitlines()[1:]
    assert lines == [f"{n},{clip},film,,,ok,,,,," for n, clip in enumerate(ids)]


def test_rows_become_columns_and_rows_again() -> None:
    rows = [Row("a", "m", 1.0, 2.5, "failed", "why", 3, "0" * 16, 4, 0), Row("b", "n")]
    columns = RowColumns.of(rows)
    assert [columns[number] for number in range(len(columns))] == rows
