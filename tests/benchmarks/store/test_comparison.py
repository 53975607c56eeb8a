from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks.store import comparison, layouts
from benchmarks.store.comparison import Sizes, measure_sizes
from benchmarks.store.over_http import measure_link
from obygaze_features.core.errors import Corrupt

# What its tests share is made once: they stay in one process.
pytestmark = [pytest.mark.check("benchmarks"), pytest.mark.xdist_group("bench store")]


@pytest.fixture(scope="module")
def measured() -> comparison.StoreComparison:
    with pytest.MonkeyPatch.context() as patch:
        # All disks of the machine: not for a test.
        patch.setattr(os, "sync", lambda: None)
        return measure_sizes(Sizes(130, 2, (130, 500), 1, 1, 1))


def test_every_layout_is_measured_on_the_same_numbers(
    measured: comparison.StoreComparison,
) -> None:
    reading = [
        result for result in measured.results if result.title.startswith("Reading")
    ]
    assert len(reading) == 2 * 3 * 2
    for result in reading:
        names = {timing.name for timing in result.timings}
        assert {layouts.OBYGAZE, layouts.NPY, layouts.HDF5} <= names
        assert result.reference == layouts.OBYGAZE


def test_writing_and_opening_are_measured(measured: comparison.StoreComparison) -> None:
    writing, opening = measured.results[-2:]
    assert "overhead of the commit" in writing.facts
    # 64 rows of 512 floats and of 2 x 512 halves.
    assert writing.facts["bytes of a block"] == "262.1 kB"
    assert [timing.name for timing in opening.timings][:2] == [
        "130 clips: open",
        "130 clips: open, seal",
    ]


def test_the_result_is_told_in_both_ways(measured: comparison.StoreComparison) -> None:
    text = measured.to_text()
    assert "Reading frames, a random tenth, cold" in text
    assert "one film, pooled" in text
    whole = measured.to_json()
    assert len(whole["results"]) == len(measured.results)
    assert whole["link"]["latency_s"] == 0.03


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sync", lambda: None)


def test_requests_and_bytes_are_counted_by_hand(tmp_path: Path) -> None:
    made = layouts.make_up(200, 2, 16)
    readers = layouts.write_all(tmp_path, made)
    costs = {cost.part: cost for cost in measure_link(tmp_path / "store", 0.0)}
    documents = sum(
        (tmp_path / "store" / name).stat().st_size
        for name in ("store.json", "seal.json")
    )
    films = (tmp_path / "store" / "data.zarr" / "movie_id" / "c.0").stat().st_size
    # Clip 100 is of the first film: rows 0 to 159, three blocks of 64 rows, each with a crc32c.
    block = 64 * 16 * 4 + 4
    assert costs["one film, pooled"].n_requests == 4 + 3
    assert costs["one film, pooled"].n_bytes == documents + films + 3 * block
    assert costs["all clips, pooled"].n_requests == 3 + 4
    rows = [150, 3, 77]
    for name, read in readers.items():
        np.testing.assert_array_equal(
            read("frames", rows), made.arrays["frames"][rows], err_msg=name
        )


def test_a_layout_that_reads_other_numbers_ends_the_bench(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = layouts.write_all

    def lying(root: Path, made: layouts.Activations) -> dict[str, layouts.Read]:
        readers = honest(root, made)
        return {
            **readers,
            "liar": lambda level, rows: readers[layouts.NPY](level, rows) + 1,
        }

    monkeypatch.setattr(layouts, "write_all", lying)
    with pytest.raises(Corrupt, match="liar does not return"):
        measure_sizes(Sizes(65, 2, (10,), 1, 1, 1))
