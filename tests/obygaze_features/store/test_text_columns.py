"""Columns of texts: tables of texts of one length give the bytes that single texts give."""

import hashlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from obygaze_features.core.files import canonical_json
from obygaze_features.store.decoding import decode_texts
from obygaze_features.store.encoding import text_file
from obygaze_features.store.layout import column_of
from obygaze_features.store.rows import RowColumns

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
def test_tables_of_ids_are_those_of_single_texts(ids, films) -> None:
    columns = columns_of(ids, films)
    pairs = [[clip, film] for clip, film in zip(ids, columns.movie_ids, strict=True)]
    expected = hashlib.sha256(canonical_json(pairs)).hexdigest()
    assert columns.clips_sha256 == expected
    for name, texts in (("clip_id", columns.clip_ids), ("movie_id", columns.movie_ids)):
        column = column_of(name, len(ids))
        data = text_file(column, texts, 0, len(ids))
        read = decode_texts(np.frombuffer(data[:-4], np.uint8), column.chunk_rows)
        expected_texts = [*texts, *[""] * (column.chunk_rows - len(ids))]
        assert list(read) == expected_texts
