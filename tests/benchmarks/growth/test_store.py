"""The simulated stores whose costs are measured: what is real in them, and what is counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.growth import store as growth_store
from benchmarks.growth.store import LEVEL, METADATA, READ, WIDTH, measure_one
from benchmarks.store import layouts
from benchmarks.store.layouts import Activations
from obygaze_features.store.format.schema import ArraySpec
from obygaze_features.store.read.reader import open_store
from obygaze_features.store.write.writer import StoreWriter

pytestmark = pytest.mark.check("benchmarks")


def test_a_store_that_is_half_complete_then_sealed(tmp_path: Path) -> None:
    clips, films = layouts.ids(1000)
    path = tmp_path / "store"
    layouts.plan(
        path, Activations(clips, films, {}), specs=[ArraySpec(LEVEL, (WIDTH,))]
    )
    marks = growth_store._half_complete(path, {2, 15})
    # 16 blocks: the odd ones are simulated or real, of the even ones 2 is real.
    assert StoreWriter(path).pending_blocks() == [0, 4, 6, 8, 10, 12, 14]
    wanted = [clips[130], clips[999], clips[128]]
    before = open_store(path).matrix(LEVEL, clips=wanted).values
    growth_store._sealed(path, marks)
    store = open_store(path)
    assert store.sealed
    assert store.status().counts == {"ok": 1000}
    np.testing.assert_array_equal(store.matrix(LEVEL, clips=wanted).values, before)
    assert (before >= 0).all()
    assert (before < 1).all()


def test_metadata_is_everything_but_features(tmp_path: Path) -> None:
    made = layouts.make_up(130, 2, 16)
    layouts.plan(tmp_path / "s", made, specs=[made.specs[0]])
    empty = growth_store._metadata_bytes(tmp_path / "s")
    assert empty == sum(
        file.stat().st_size for file in layouts.files_of(tmp_path / "s")
    )
    writer = StoreWriter(tmp_path / "s")
    writer.commit_block(0, {"pooled": made.arrays["pooled"][:64]})
    # The marker, and the name of the same file that decides between writers.
    marker = 2 * (tmp_path / "s" / "commits" / "block-00000.json").stat().st_size
    assert growth_store._metadata_bytes(tmp_path / "s") == empty + marker


def test_one_size_is_measured_whole() -> None:
    found = measure_one(200, 1)
    assert {READ, METADATA, "planning it", "sealed: open", "sealed: info"} < set(found)
    assert all(len(runs.wall_s) == 1 and runs.wall_s[0] > 0 for runs in found.values())
