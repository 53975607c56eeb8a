from pathlib import Path

import numpy as np
import pytest
from support.damage import flip_bit

from obygaze_features.core.errors import AlreadyThere, Corrupt, FixInput
from obygaze_features.store import TextTable, read_texts, write_texts

VECTORS = np.array([[0.5, 2, 3], [4, 5, 6]], np.float32)
TABLE = TextTable(VECTORS, ["a cat", "a dog"], ["a {}"] * 2, ["cat", "dog"], "a@b#c")


def test_texts_are_an_npz_file_that_numpy_reads(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "t.npz", TABLE)
    with np.load(path) as arrays:
        assert arrays["embeddings"].dtype == np.float32
        assert arrays["embeddings"].tolist() == VECTORS.tolist()
        assert arrays["prompt"].tolist() == ["a cat", "a dog"]
        assert arrays["space_id"].item() == "a@b#c"
    found = read_texts(path)
    assert np.array_equal(found.embeddings, VECTORS)
    assert (found.prompt, found.attribute) == (["a cat", "a dog"], ["cat", "dog"])
    assert (found.template, found.space_id) == (["a {}", "a {}"], "a@b#c")


def test_vectors_of_another_program_need_their_attributes_only(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    np.savez_compressed(path, embeddings=VECTORS, attribute=["x", "y"])
    found = read_texts(path)
    assert (found.attribute, found.prompt, found.space_id) == (["x", "y"], ["", ""], "")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"embeddings": VECTORS}, "missing array attribute"),
        ({"attribute": ["x"]}, "missing array embeddings"),
        ({"embeddings": VECTORS, "attribute": ["x"]}, "each row must have"),
        ({"embeddings": ["a", "b"], "attribute": ["x"] * 2}, "must be numbers"),
        ({"embeddings": VECTORS * np.nan, "attribute": ["x"] * 2}, "row 0 contains"),
    ],
)
def test_what_is_no_table_of_texts(arrays, message, tmp_path) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, allow_pickle=True, **arrays)
    with pytest.raises((FixInput, Corrupt), match=message):
        read_texts(path)


def test_a_file_that_is_not_whole(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "t.npz", TABLE)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(Corrupt, match="not a complete npz file"):
        read_texts(path)
    path = write_texts(tmp_path / "u.npz", TABLE)
    flip_bit(path, path.read_bytes().index(VECTORS.tobytes()) + 3)
    with pytest.raises(Corrupt, match="Bad CRC"):
        read_texts(path)


def test_other_texts_are_replaced_only_with_force(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "t.npz", TABLE)
    other = TextTable(2 * VECTORS, TABLE.prompt, TABLE.template, TABLE.attribute, "")
    with pytest.raises(AlreadyThere):
        write_texts(path, other)
    write_texts(path, other, force=True)
    assert read_texts(path).embeddings[0, 0] == 1
