"""`obygaze bench`: what is measured with the user's films, backbones and stores."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.checkpoints import save_tiny, write_tiny_card
from support.cli import call_obygaze
from support.store_servers import web_server
from support.stores import plan_store, sealed_store
from support.videos import write_video

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.machine import Machine, Runs
from obygaze_features.extraction import bench
from obygaze_features.extraction.bench import (
    BenchResult,
    measure_decoding,
    measure_forward,
    measure_reading,
)


def test_speed_is_clips_and_bytes_over_the_median(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = iter([Runs((2.0, 0.5, 1.0), (0.25, 0.25, 0.75)), Runs((0.001,), (0.001,))])
    monkeypatch.setattr(bench, "time_runs", lambda *words, **more: next(timed))
    one = bench._measure("batch 4", lambda: None, 3, 4, 3_000_000)
    assert (one["clips_per_s"], one["bytes_per_s"]) == (4.0, 3e6)
    opened = bench._measure("open", lambda: None, 1, 0)
    assert opened["bytes_per_s"] is None
    result = BenchResult("title", (one, opened), Machine("CPU", 2, "Linux", "3.11.7", {}))
    assert result.to_text().splitlines() == [
        "title",
        "         median  from to        CPU time  clips/s  speed",
        "batch 4  1 s     500 ms to 2 s  250 ms          4  3.0 MB/s",
        "open     1 ms    1 ms to 1 ms   1 ms            -  -",
        "medians of up to 3 runs after a warm-up run; CPU, 2 cores, Linux, Python 3.11.7",
    ]
    assert result.to_json()["measurements"][0]["runs"]["wall_s"] == (2.0, 0.5, 1.0)


def test_decoding_measures_each_video_by_both_rules(tmp_path: Path) -> None:
    pytest.importorskip("av")
    path = tmp_path / "film.mp4"
    write_video(path, numbers=range(30))
    result = measure_decoding([path], count=8, rounds=2)
    assert [one["name"] for one in result.measurements] == [
        "film.mp4, 160 x 120, even",
        "film.mp4, 160 x 120, keyframes",
    ]
    for one in result.measurements:
        assert (one["n_clips"], one["n_bytes"]) == (1, 8 * 160 * 120 * 3)
        assert len(one["runs"]["wall_s"]) == 2
    reported = call_obygaze("bench", "decode", path, "--count", "4", "--rounds", "1", "--json")
    assert [one["n_bytes"] for one in reported.ok().json()["measurements"]] == [
        4 * 160 * 120 * 3
    ] * 2
    missing = call_obygaze("bench", "decode", tmp_path / "absent.mp4")
    assert missing.code == 1
    assert "absent.mp4" in missing.stderr


def test_forward_measures_each_batch(tmp_path: Path) -> None:
    result = measure_forward("descriptors", batches=(1, 3), rounds=1)
    assert [(one["name"], one["n_clips"]) for one in result.measurements] == [
        ("prepare frames", 1),
        ("forward, batch 1", 1),
        ("forward, batch 3", 3),
    ]
    with pytest.raises(FixUsage, match="a batch must be at least 1 clip, got 0"):
        measure_forward("descriptors", batches=(0,))
    done = call_obygaze("bench", "forward", "descriptors", "--batch", "2", "--rounds", "1").ok()
    assert "forward, batch 2" in done.stdout
    assert call_obygaze("bench", "forward", "no-such-backbone").code != 0


def test_forward_runs_a_backbone_of_torch(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    weights = save_tiny("clip", tmp_path)
    card = str(write_tiny_card("clip", tmp_path))
    result = measure_forward(card, weights, batches=(2,), rounds=1)
    assert result.title == "Backbone tiny-clip on cpu, float32"
    assert result.measurements[-1]["median_s"] > 0


@pytest.mark.parametrize("is_remote", [False, True])
def test_reading_measures_all_parts_of_a_store(tmp_path: Path, is_remote: bool) -> None:
    sealed_store(tmp_path / "store")
    rows = {"open": 0, "all clips": 23, "movie tt0000102": 5, "a random tenth": 2, "one clip": 1}
    if is_remote:
        pytest.importorskip("obstore")
        with web_server(tmp_path) as server:
            result = measure_reading(f"{server.url}/store", "pooled", rounds=1)
    else:
        result = measure_reading(tmp_path / "store", "pooled", rounds=1)
    assert {one["name"]: one["n_clips"] for one in result.measurements} == rows
    # Six float32 a clip.
    assert [one["n_bytes"] for one in result.measurements[1:]] == [
        n * 24 for n in list(rows.values())[1:]
    ]


def test_reading_needs_clips_with_features(tmp_path: Path) -> None:
    plan_store(tmp_path / "stores" / "films")
    with pytest.raises(FixInput, match="no clip has features; nothing to read"):
        measure_reading(tmp_path / "stores" / "films")
    done = call_obygaze("-C", tmp_path, "bench", "read", "films")
    assert done.code == 1
    assert "nothing to read" in done.stderr


def test_reading_takes_the_first_level_and_lists_them_for_an_unknown_one(tmp_path: Path) -> None:
    sealed_store(tmp_path / "stores" / "films")
    done = call_obygaze("-C", tmp_path, "bench", "read", "films", "--rounds", "1").ok()
    assert done.stdout.startswith("Reading level clip of ")
    unknown = call_obygaze("-C", tmp_path, "bench", "read", "films", "--level", "none")
    assert unknown.code != 0
    assert "pooled" in unknown.stderr
