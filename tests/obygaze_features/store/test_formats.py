"""The table of formats: what lists formats has all of them, and a name says the right one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from obygaze_features.core.errors import Corrupt, FixUsage
from obygaze_features.store import import_features
from obygaze_features.store.importing import feature_paths


@pytest.mark.parametrize(
    ("name", "format"),
    [("a.npz", "npz"), ("A.HDF5", "hdf5"), ("a.h5", "hdf5"), ("b.parquet", "parquet")],
)
def test_the_ending_says_the_format(tmp_path: Path, name: str, format: str) -> None:
    (tmp_path / name).write_bytes(b"")
    assert feature_paths(tmp_path / name) == (format, [tmp_path / name])


def test_a_folder_is_looked_into(tmp_path: Path) -> None:
    folder = tmp_path / "features"
    (folder / "film").mkdir(parents=True)
    for number in range(3):
        np.save(folder / "film" / f"{number}.npy", np.full(2, number))
    (folder / "README.md").write_text("")
    (folder / ".old.pth").write_bytes(b"")
    assert feature_paths(folder)[0] == "npy"
    assert len(feature_paths(folder)[1]) == 3
    (folder / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(FixUsage, match="expected files of one format"):
        feature_paths(folder)


def test_a_file_without_an_ending_is_none_of_a_format(tmp_path: Path) -> None:
    path = tmp_path / "numbers.data"
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(FixUsage, match=r"end with \.npz, \.h5, \.hdf5, \.parquet"):
        import_features(path, tmp_path / "store")


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
