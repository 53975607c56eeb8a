"""The benchmark of rivals: each format returns what was written, whichever are installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.store import layouts, rivals
from benchmarks.timing import Settings

pytestmark = pytest.mark.check("benchmarks")


def test_every_format_returns_the_rows_that_are_asked_for(tmp_path: Path) -> None:
    clips, films = layouts.ids(200)
    openers = rivals.write_all(tmp_path / "r", clips, films, [rivals.POOLED])
    assert {rivals.NPY, rivals.OBYGAZE, rivals.ZARR, rivals.HDF5} <= openers.keys()
    whole = np.load(tmp_path / "r/npy/pooled.npy")
    chosen = [170, 3, 99]
    for opener in openers.values():
        opened = opener()
        np.testing.assert_array_equal(opened.all("pooled"), whole)
        values = opened.clips("pooled", [clips[row] for row in chosen])
        np.testing.assert_array_equal(values, whole[chosen])
        np.testing.assert_array_equal(opened.film("pooled", films[199]), whole[160:])


def test_the_table_has_a_row_for_each_read() -> None:
    result = rivals.measure(Settings(quick=True))
    text = result.to_text()
    for row in ("open", "pooled, all, cold", "tokens, 100 random clips, warm"):
        assert row in text
    assert "one film of 1,000 clips, cold" in text
    assert len(result.link) == 2 and all(cost.n_requests > 0 for cost in result.link)
