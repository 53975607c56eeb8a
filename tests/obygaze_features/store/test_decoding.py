"""What a chunk with a right checksum must not have; texts of one length and of several."""

import struct

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs import VLenUTF8

from obygaze_features.store.decoding import checked_content, decode_texts
from obygaze_features.store.layout import Array


def checked(content: bytes, array: Array) -> list[int]:
    """The content of a chunk whose checksum is right."""
    crc = google_crc32c.value(content)
    chunk = np.frombuffer(content + struct.pack("<I", crc), np.uint8)
    return checked_content(array, chunk, crc).tolist()


def test_a_bool_is_0_or_1() -> None:
    array = Array("mask", "bool", (2,), ("t",), 2, 2)
    assert checked(b"\0\1\1\0", array) == [0, 1, 1, 0]
    with pytest.raises(ValueError, match="byte other than 0 and 1"):
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
    with pytest.raises(ValueError, match="longer than its file"):
        decode_texts(np.frombuffer(content, np.uint8), len(lengths))


def test_a_chunk_has_a_text_for_each_row() -> None:
    content = np.frombuffer(struct.pack("<II", 1, 0), np.uint8)
    assert list(decode_texts(content, 1)) == [""]
    with pytest.raises(ValueError, match="one text for each row"):
        decode_texts(content, 2)
