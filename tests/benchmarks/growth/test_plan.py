"""The made-up manifests whose costs are measured, and what is measured of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.growth import costs, plan
from benchmarks.growth.plan import FILE, READING, measure_one, measure_plans
from benchmarks.timing import Settings
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.stats import compute_stats

pytestmark = pytest.mark.check("benchmarks")


def test_the_manifest_is_one_of_films_with_scenes_in_order(tmp_path: Path) -> None:
    manifest = read_manifest(plan._manifest(tmp_path, 330))
    assert len(manifest.films) == 3  # 160 clips a film
    first, last = manifest.clips[0], manifest.clips[-1]
    assert (first.clip_id, first.scene, first.video) == (
        "tt0000000-001",
        1,
        "tt0000000.mkv",
    )
    assert (last.clip_id, last.scene, last.end_s) == ("tt0000002-010", 10, 54.5)
    assert compute_stats(manifest).levels == {"EN": 110, "HN": 110, "NS": 0, "S": 110}
    assert {clip.concepts for clip in manifest if clip.level == "S"} == {("Body",)}


def test_one_size_is_measured_whole() -> None:
    found = measure_one(1000, 1)
    assert {READING, FILE, "planning", "writing the plan", "5 folds of films"} < set(
        found
    )
    # A row of the file: six lines of keys, ids and times.
    assert 150 < found[FILE].wall_s[0] / 1000 < 250


def test_the_table_has_a_column_for_each_size(monkeypatch) -> None:
    results = iter([({READING: [[1.0], [1.0]], FILE: [[10.0], [10.0]]}, 100)] * 2)
    monkeypatch.setattr(plan, "QUICK_SIZES", (10, 20))
    monkeypatch.setattr(costs, "run_apart", lambda target, **arguments: next(results))
    growth = measure_plans(Settings(quick=True))
    assert growth.sizes == (10, 20)
    assert [cost.name for cost in growth.costs] == [READING, FILE, "peak memory"]
    assert growth.facts["a clip of 20"] == "50 ms to read it, 5 B of memory"
