"""`obygaze bench`: what is measured with the user's films, backbones and stores."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.checkpoints import save_tiny, write_tiny_card
from support.cli import call_obygaze
from support.store_servers import web_server
from support.stores import plan_store, sealed_store
from support.videos import write_video

from obygaze_features.core.errors import FixInput
from obygaze_features.core.machine import Runs
from obygaze_features.extraction import bench
from obygaze_features.extraction.bench import read_runs
from obygaze_features.store import open_store


def test_speed_is_clips_and_bytes_over_the_median(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [Runs((2.0, 0.5, 1.0), (0.25, 0.25, 0.75)), Runs((0.002,), (0.002,))] * 2
    timed = iter(times)
    monkeypatch.setattr(bench, "time_runs", lambda *words, **more: next(timed))
    write_video(tmp_path / "film.mp4", numbers=range(30))
    words = ("bench", "decode", tmp_path / "film.mp4", "--count", "4")
    shown = call_obygaze(*words).ok().stdout.splitlines()
    # 4 frames of 160 x 120 in 3 colours.
    assert shown[:-1] == [
        "Decoding 4 frames of a clip",
        "                                median  CPU time  clips/s  speed",
        "film.mp4, 160 x 120, even       1 s     250 ms          1  230.4 kB/s",
        "film.mp4, 160 x 120, keyframes  2 ms    2 ms          500  115.2 MB/s",
    ]
    assert shown[-1].startswith("medians of 3 runs after a warm-up run; ")
    one, _ = call_obygaze(*words, "--json").ok().json()["measurements"]
    assert (one["clips_per_s"], one["bytes_per_s"]) == (1.0, 4 * 160 * 120 * 3)
    assert one["runs"]["wall_s"] == [2.0, 0.5, 1.0]


def test_decoding_needs_its_videos(tmp_path: Path) -> None:
    pytest.importorskip("av")
    missing = call_obygaze("bench", "decode", tmp_path / "absent.mp4")
    assert missing.code == 1
    assert "absent.mp4" in missing.stderr


def test_forward_measures_each_batch() -> None:
    words = (
        "bench",
        "forward",
        "descriptors",
        "--batch",
        "1",
        "--batch",
        "3",
        "--json",
    )
    found = call_obygaze(*words).ok().json()["measurements"]
    assert [
        (one["name"], one["n_clips"], len(one["runs"]["wall_s"])) for one in found
    ] == [
        ("prepare frames", 1, 3),
        ("forward, batch 1", 1, 3),
        ("forward, batch 3", 3, 3),
    ]
    assert call_obygaze("bench", "forward", "no-such-backbone").code != 0


def test_forward_runs_a_backbone_of_torch(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    weights = save_tiny("clip", tmp_path)
    card = str(write_tiny_card("clip", tmp_path))
    words = ("bench", "forward", card, "--weights", weights, "--batch", "2", "--json")
    found = call_obygaze(*words).ok().json()
    assert found["title"] == "Backbone tiny-clip on cpu, float32"
    assert found["measurements"][-1]["median_s"] > 0


@pytest.mark.parametrize("is_remote", [False, True])
def test_reading_measures_all_parts_of_a_store(tmp_path: Path, is_remote: bool) -> None:
    sealed_store(tmp_path / "store")
    rows = {
        "open": 0,
        "all clips": 23,
        "film tt0000102": 5,
        "a random tenth": 2,
        "one clip": 1,
    }
    if is_remote:
        pytest.importorskip("obstore")
        with web_server(tmp_path) as server:
            result = [*read_runs(f"{server.url}/store", "pooled")]
    else:
        result = [*read_runs(tmp_path / "store", "pooled")]
    assert {one["name"]: one["n_clips"] for one in result} == rows
    # Six float32 a clip.
    assert [one["n_bytes"] for one in result[1:]] == [
        n * 24 for n in list(rows.values())[1:]
    ]


def test_reading_needs_clips_with_features(tmp_path: Path) -> None:
    plan_store(tmp_path / "stores" / "films")
    with pytest.raises(FixInput, match="no clip has features; nothing to read"):
        next(read_runs(tmp_path / "stores" / "films"))
    done = call_obygaze("-C", tmp_path, "bench", "read", "films")
    assert done.code == 1
    assert "nothing to read" in done.stderr


def test_reading_takes_the_first_array_and_lists_them_for_an_unknown_one(
    tmp_path: Path,
) -> None:
    sealed_store(tmp_path / "stores" / "films")
    done = call_obygaze("-C", tmp_path, "bench", "read", "films", "--json").ok().json()
    assert (
        done["measurements"][1]["n_bytes"]
        == open_store(tmp_path / "stores" / "films")
        .matrix("clip", missing="drop")
        .values.nbytes
    )
    unknown = call_obygaze("-C", tmp_path, "bench", "read", "films", "--array", "none")
    assert unknown.code != 0
    assert "pooled" in unknown.stderr
