"""What a chunk with a right checksum must not have; texts of one length and of several."""

import hashlib
import struct

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs import VLenUTF8

from obygaze_features.core.files import canonical_json
from obygaze_features.store.decoding import check_content, decode_texts
from obygaze_features.store.encoding import text_file
from obygaze_features.store.layout import Array, column_of
from obygaze_features.store.rows import RowColumns


def checked(content: bytes, array: Array) -> list[int]:
    """The content of a chunk whose checksum is right."""
    crc = google_crc32c.value(content)
    chunk = np.frombuffer(content + struct.pack("<I", crc), np.uint8)
    return check_content(array, chunk, crc).tolist()


def test_a_bool_is_0_or_1() -> None:
    array = Array("mask", "bool", (2,), ("t",), 2, 2)
    assert checked(b"\0\1\1\0", array) == [0, 1, 1, 0]
    with pytest.raises(ValueError, match="expected only the bytes 0 and 1"):
        checked(b"\0\1\2\0", array)


TEXTS = st.one_of(
    st.lists(st.text(max_size=4), min_size=1, max_size=20),
    st.lists(st.text(st.sampled_from("ab\0"), min_size=3, max_size=3), min_size=1),
)


@settings(max_examples=60, deadline=None)
@given(texts=TEXTS, n_more=st.integers(0, 5))
def test_texts_are_those_that_numcodecs_writes(texts: list[str], n_more: int) -> None:
    array = np.array([*texts, *[""] * n_more], dtype=object)
    content = np.frombuffer(VLenUTF8().encode(array), np.uint8)
    read = decode_texts(content, len(texts))
    assert list(read) == texts


@pytest.mark.parametrize(
    ("lengths", "letters"),
    [((1, 2, 3), b"abbcc"), ((2, 2, 2**32 - 1), b"aabbcc"), ((2, 2, 2), b"aabbc")],
)
def test_a_text_ends_in_its_file(lengths: tuple[int, ...], letters: bytes) -> None:
    content = struct.pack("<I", len(lengths))
    for length in lengths:
        content += struct.pack("<I", length) + letters[:length]
        letters = letters[length:]
    with pytest.raises(ValueError, match="longer than the file"):
        decode_texts(np.frombuffer(content, np.uint8), len(lengths))


def test_a_chunk_has_a_text_for_each_row() -> None:
    content = np.frombuffer(struct.pack("<II", 1, 0), np.uint8)
    assert list(decode_texts(content, 1)) == [""]
    with pytest.raises(ValueError, match="one text for each row"):
        decode_texts(content, 2)


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
