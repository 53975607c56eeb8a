"""The made-up manifests of `obygaze bench growth`, and what is measured of them."""

from __future__ import annotations

from pathlib import Path

from obygaze_features.core import bench_apart
from obygaze_features.extraction import bench_growth
from obygaze_features.extraction.bench_growth import FILE, READING, measure_one, measure_plans
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.stats import compute_stats


def test_the_manifest_is_one_of_films_with_scenes_in_order(tmp_path: Path) -> None:
    manifest = read_manifest(bench_growth._manifest(tmp_path, 330))
    assert len(manifest.movies) == 3  # 160 clips a film
    first, last = manifest.clips[0], manifest.clips[-1]
    assert (first.clip_id, first.scene, first.video) == ("tt0000000-001", 1, "tt0000000.mkv")
    assert (last.clip_id, last.scene, last.end_s) == ("tt0000002-010", 10, 54.5)
    assert compute_stats(manifest).levels == {"EN": 110, "HN": 110, "NS": 0, "S": 110}
    assert {clip.concepts for clip in manifest if clip.level == "S"} == {("Body",)}


def test_one_size_is_measured_whole() -> None:
    found = measure_one(1000, 1)
    assert {READING, FILE, "planning", "writing the plan", "5 folds of neighbours"} < set(found)
    # A row of the file: six lines of keys, ids and times.
    assert 150 < found[FILE].wall[0] / 1000 < 250


def test_the_table_has_a_column_for_each_size(monkeypatch) -> None:
    told = iter([({READING: [[1.0], [1.0]], FILE: [[10.0], [10.0]]}, 100)] * 2)
    monkeypatch.setattr(bench_growth, "QUICK_SIZES", (10, 20))
    monkeypatch.setattr(bench_apart, "run_apart", lambda target, **words: next(told))
    growth = measure_plans(quick=True)
    assert growth.sizes == (10, 20)
    assert [cost.name for cost in growth.costs] == [READING, FILE, "peak memory"]
    assert growth.facts["a clip of 20"] == "50 ms to read it, 5 B of memory"
