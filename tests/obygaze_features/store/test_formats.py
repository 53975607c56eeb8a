"""The table of formats: what lists formats has all of them, and a name says the right one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from obygaze_features.core.errors import Corrupt, FixInput, FixUsage
from obygaze_features.store import import_features
from obygaze_features.store.importing import format_of


@pytest.mark.parametrize(
    ("name", "format"),
    [("a.npz", "npz"), ("A.HDF5", "hdf5"), ("a.h5", "hdf5"), ("b.parquet", "parquet")],
)
def test_the_ending_says_the_format(tmp_path: Path, name: str, format: str) -> None:
    (tmp_path / name).write_bytes(b"")
    assert format_of(tmp_path / name) == format


def test_a_folder_is_looked_into(tmp_path: Path) -> None:
    folder = tmp_path / "features"
    (folder / "film").mkdir(parents=True)
    for number in range(3):
        np.save(folder / "film" / f"{number}.npy", np.full(2, number))
    (folder / "README.md").write_text("")
    (folder / ".old.pth").write_bytes(b"")
    assert format_of(folder) == "npy"
    (folder / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(FixInput, match="several formats: npy, parquet") as e:
        format_of(folder)
    assert e.value.hint == "a folder with the files of one"


def test_a_file_without_an_ending_is_none_of_a_format(tmp_path: Path) -> None:
    path = tmp_path / "numbers.data"
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(FixUsage, match="the ending of this name is that of no") as e:
        import_features(path, tmp_path / "store")
    assert e.value.hint == "a name that ends with .npz, .h5, .hdf5, .parquet"


def test_a_file_of_another_format_than_its_ending_is_refused(tmp_path: Path) -> None:
    for ending, start in (
        (".npz", b"PAR1"),
        (".h5", b"PK\x03\x04"),
        (".parquet", b"PK"),
    ):
        path = tmp_path / f"a{ending}"
        path.write_bytes(start + bytes(60))
        with pytest.raises(Corrupt, match="not a complete"):
            import_features(path, tmp_path / "store")
