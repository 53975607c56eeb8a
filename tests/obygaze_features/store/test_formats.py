"""The table of formats: what lists formats has all of them, and a name says the right one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.store import import_features
from obygaze_features.store.formats import (
    FORMATS,
    WRITTEN,
    format_of_output,
    format_of_source,
)
from obygaze_features.store.reading import open_store


@pytest.mark.parametrize(
    ("name", "format"),
    [("a.npz", "npz"), ("A.HDF5", "hdf5"), ("a.tsv", "csv"), ("b.xlsm", "xlsx")],
)
def test_the_ending_says_the_format(tmp_path: Path, name: str, format: str) -> None:
    (tmp_path / name).write_bytes(b"")
    assert format_of_source(tmp_path / name).name == format


def test_a_folder_is_looked_into(tmp_path: Path) -> None:
    folder = tmp_path / "features"
    (folder / "film").mkdir(parents=True)
    for number in range(3):
        np.save(folder / "film" / f"{number}.npy", np.full(2, number))
    (folder / "README.md").write_text("")
    (folder / ".old.pth").write_bytes(b"")
    assert format_of_source(folder).name == "npy"
    (folder / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(FixInput, match="several formats: npy, parquet") as e:
        format_of_source(folder)
    assert e.value.hint == "--as FORMAT reads those of one"
    import_features(folder, tmp_path / "store", format="npy")
    assert len(open_store(tmp_path / "store")) == 3


def test_a_file_without_an_ending_needs_its_format(tmp_path: Path) -> None:
    path = tmp_path / "numbers.data"
    path.write_text("clip_id,x,y\na,1,2\n", "utf-8")
    with pytest.raises(FixUsage, match="the ending of this name is that of no") as e:
        import_features(path, tmp_path / "store")
    assert e.value.hint == f"--as FORMAT, one of {', '.join(FORMATS)}"
    import_features(path, tmp_path / "store", format="csv")
    assert len(open_store(tmp_path / "store")) == 1


def test_a_name_says_how_features_are_written() -> None:
    for format in WRITTEN:
        for ending in format.endings:
            assert format_of_output(Path(f"a{ending}")) == format
            assert format_of_output(Path(f"a{ending}"), format.name) == format
    assert format_of_output(Path("a"), "parquet").is_folder
    with pytest.raises(FixUsage, match="the ending '' is none that features"):
        format_of_output(Path("a"))


@pytest.mark.parametrize(
    ("name", "start", "kind"),
    [
        ("a.csv", b"\x89HDF\r\n\x1a\n", "hdf5"),
        ("a.h5", b"PAR1", "parquet"),
        ("a.parquet", b"PK\x03\x04", "npz"),
    ],
)
def test_a_file_that_begins_as_another_format_is_refused(
    tmp_path: Path, name: str, start: bytes, kind: str
) -> None:
    path = tmp_path / name
    path.write_bytes(start + bytes(60))
    with pytest.raises(FixUsage, match=f"another format than {kind}, as which"):
        format_of_source(path)
