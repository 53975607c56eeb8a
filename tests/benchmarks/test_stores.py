"""Each format returns what was written, whichever are installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import stores

pytestmark = pytest.mark.check("benchmarks")


def test_every_format_returns_the_rows_that_are_asked_for(tmp_path: Path) -> None:
    data = stores.make_up(200, {"pooled": (8,)}, "float32")
    openers = stores.write_all(tmp_path / "r", data)
    assert {"np.load", "obygaze", "zarr alone", "HDF5"} <= openers.keys()
    whole = data.arrays["pooled"]
    chosen = [170, 3, 99]
    for opener in openers.values():
        opened = opener()
        np.testing.assert_array_equal(opened.all("pooled"), whole)
        values = opened.of_clips("pooled", [data.clips[row] for row in chosen])
        np.testing.assert_array_equal(values, whole[chosen])
        of_film = opened.of_film("pooled", data.films[199])
        np.testing.assert_array_equal(of_film, whole[160:])


def test_the_table_has_a_row_for_each_read() -> None:
    text = stores.measure_reads(quick=True)
    for row in ("open", "pooled, all, cold", "tokens, 100 clips, warm"):
        assert f"\n{row}  " in text
    assert "one film of 1,000 clips, cold" in text


def test_each_format_is_written_and_counted() -> None:
    text = stores.measure_writes(quick=True)
    for name in ("np.load", "obygaze", "HDF5"):
        assert text.count(f"\n{name}  ") == 2  # its time, and its files
