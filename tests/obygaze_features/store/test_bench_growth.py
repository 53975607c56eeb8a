"""The simulated stores of `obygaze bench growth`: what is real in them, and what is counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from obygaze_features.store import bench_growth, bench_layouts
from obygaze_features.store.bench_growth import LEVEL, METADATA, READ, WIDTH, measure_one
from obygaze_features.store.bench_layouts import Activations
from obygaze_features.store.reader import open_store
from obygaze_features.store.schema import ArraySpec
from obygaze_features.store.writer import StoreWriter


def test_a_store_half_made_then_sealed(tmp_path: Path) -> None:
    clips, movies = bench_layouts.ids(1000)
    path = tmp_path / "store"
    bench_layouts.plan(path, Activations(clips, movies, {}), specs=[ArraySpec(LEVEL, (WIDTH,))])
    marks = bench_growth._half_made(path, {2, 15})
    # 16 blocks: the odd ones are pretended or real, of the even ones 2 is real.
    assert StoreWriter(path).pending_blocks() == [0, 4, 6, 8, 10, 12, 14]
    wanted = [clips[130], clips[999], clips[128]]
    before = open_store(path).matrix(LEVEL, clips=wanted).values
    bench_growth._sealed(path, marks)
    store = open_store(path)
    assert store.sealed
    assert store.status().counts == {"ok": 1000}
    np.testing.assert_array_equal(store.matrix(LEVEL, clips=wanted).values, before)
    assert (before >= 0).all()
    assert (before < 1).all()


def test_metadata_is_everything_but_features(tmp_path: Path) -> None:
    made = bench_layouts.make_up(130, 2, 16)
    bench_layouts.plan(tmp_path / "s", made, specs=[made.specs[0]])
    empty = bench_growth._metadata_bytes(tmp_path / "s")
    assert empty == sum(file.stat().st_size for file in bench_layouts.files_of(tmp_path / "s"))
    writer = StoreWriter(tmp_path / "s")
    writer.commit_block(0, {"pooled": made.levels["pooled"][:64]})
    marker = (tmp_path / "s" / "commits" / "block-00000.json").stat().st_size
    assert bench_growth._metadata_bytes(tmp_path / "s") == empty + marker


def test_one_size_is_measured_whole() -> None:
    found = measure_one(200, 1)
    assert {READ, METADATA, "planning it", "sealed: open", "sealed: info"} < set(found)
    assert all(len(runs.wall) == 1 and runs.wall[0] > 0 for runs in found.values())
