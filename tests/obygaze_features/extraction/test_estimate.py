"""The estimate of a plan is compared with the stores that the run writes."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.checkpoints import save_lsmdc, save_tiny
from support.cli import call_obygaze, run_obygaze, without_torch
from support.extraction import film_folder, keep_manifest
from support.videos import write_video

from obygaze_features.backbones.cards import find_card
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction import devices as devices_module
from obygaze_features.extraction import estimate as estimate_module
from obygaze_features.extraction import extracting
from obygaze_features.extraction.estimate import (
    CostEstimate,
    StoreEstimate,
    _peak_bytes,
    _store,
    _weights_of,
    estimate,
)
from obygaze_features.extraction.plan import Target, make_plan, read_plan_file
from obygaze_features.extraction.run import Resources
from obygaze_features.manifest.model import Clip, Header, Manifest

XCLIP, LSMDC = "xclip-b32-k400", "xclip-lsmdc-b32"


@pytest.fixture
def world(tmp_path: Path) -> Path:
    keep_manifest(film_folder(tmp_path / "films", 5), tmp_path)
    return tmp_path


def _plan(world: Path, *words: str | Path) -> dict[str, Any]:
    probe = () if "--probe" in words else ("--probe", "1")
    done = call_obygaze(
        "-C", world, "extract", "plan", "films", *words, *probe, "--json"
    )
    document: dict[str, Any] = done.ok().json()
    return document


@pytest.mark.parametrize(
    ("n_rows", "expected"),
    [
        (0, []),
        (1, [0]),
        (2, [0, 4]),
        (3, [0, 4, 7]),
        (4, [0, 2, 4, 7]),
        (6, [0, 1, 2, 4, 5, 7]),
        (20, [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_a_probe_takes_a_clip_of_each_film_before_a_second_one(
    tmp_path: Path, n_rows: int, expected: list[int]
) -> None:
    """Film a has rows 0 to 3, b 4 to 6, c row 7."""
    films = "aaaabbbc"
    clips = [
        Clip(f"{film}-{number}", film, number, f"{film}.mp4")
        for number, film in enumerate(films)
    ]
    target = Target(str(tmp_path / "s"), "descriptors")
    plan = make_plan(
        Manifest("m", Header("m"), tuple(clips)), [target], workspace=tmp_path
    )
    assert "".join(row.movie_id for row in plan.rows) == films
    assert estimate_module.spread_over_films(plan, range(8), n_rows) == expected


def test_the_hours_are_those_of_the_slower_stage_or_of_both() -> None:
    """Half of one store is left and all of the other: 1800 clips, by hand."""
    half = StoreEstimate("a", "a", {}, 4, 2, 0, 0, 0.0, "cached", forward_s=2.0)
    whole = replace(half, blocks_done=0, forward_s=0.5)
    found = CostEstimate(2000, 1800, [], [half, whole], 4.0, {}, 0, 0, workers=4)
    assert found.hours() == {"decode_hours": 0.5, "forward_hours": 0.75, "hours": 1.25}
    assert replace(found, device="cuda:0").hours()["hours"] == 0.75
    assert "about 1.25 hours in all on cpu" in str(found)
    unknown = replace(found, stores=[half, replace(whole, forward_s=None)])
    assert unknown.hours() == {
        "decode_hours": 0.5,
        "forward_hours": None,
        "hours": None,
    }
    # Of the store that is half done, half of 1800 * 4 s is left for four workers.
    assert replace(found, stores=[half]).hours()["decode_hours"] == 0.25
    done = replace(whole, blocks_done=4, forward_s=None)
    assert replace(found, stores=[half, done]).hours()["forward_hours"] == 0.5


def test_each_disk_needs_room_for_the_stores_on_it() -> None:
    # 600 bytes fit on a disk with 1000, not on one with 400; the third store is written.
    first = StoreEstimate(
        *("/a/one", "a", {}, 4, 0, 0, 600, 0.0, "cached"), disk=1, disk_free_bytes=1000
    )
    second = replace(first, store="/b/two", disk=2, disk_free_bytes=400)
    third = replace(second, store="/b/three", n_bytes=300, blocks_done=4)
    found = CostEstimate(9, 9, [], [first, second, third], 1.0, {}, 0, 400, workers=1)
    assert found.obstacles == ["600 B of disk needed, 400 B free: two, three"]
    same = replace(first, store="/a/two")
    found = replace(found, stores=[first, same])
    assert found.obstacles == ["1.2 kB of disk needed, 1.0 kB free: one, two"]
    assert replace(found, stores=[first]).obstacles == []


def test_the_batch_of_an_option_is_the_batch_of_the_estimate(world: Path) -> None:
    """Each clip more of a batch on a GPU is four clips more in memory: three of it, one ahead."""
    manifest = film_folder(world / "more", 2)
    plan = make_plan(
        manifest, [Target(str(world / "s"), "descriptors")], workspace=world
    )
    used = Resources(device="cuda:0", workers=1)
    peaks = {
        batch: estimate(
            plan, [replace(used, batch=batch)], n_probed=1, timed=False
        ).peak_bytes
        for batch in (1, 2, 16, None)
    }
    clip_bytes = 16 * 256 * 256 * 3
    assert peaks[2] - peaks[1] == 4 * clip_bytes
    assert peaks[16] - peaks[2] == 14 * 4 * clip_bytes
    # Without an option, a GPU that has room for all gets sixteen.
    assert peaks[None] == peaks[16]
    assert (
        used.batch_of(10**9, 70 * 10**9) == 16 and used.batch_of(10**9, 20 * 10**9) == 8
    )


def test_peak_memory_by_hand() -> None:
    """Two decoders; 64 rows of 10 bytes and 8 rows of 1000 bytes in a block, held twice."""
    none = StoreEstimate("a", "a", {"clip": 100, "frames": 900}, 1, 0, 0, 0, 0.0, "")
    first = replace(none, activation_bytes=1000)
    second = replace(
        none, arrays={"clip": 10}, activation_bytes=3000, weight_bytes=5000
    )
    targets = (Target("a", "a", block_rows=8), Target("b", "b"))
    plan: Any = types.SimpleNamespace(targets=targets)
    blocks_and_weights = 2 * (8 * 1000 + 64 * 10) + 5000
    # Pictures of 7 bytes: 2 * 2 + 1 ahead, 1 that is decoded, and three of each of two batches.
    cpu = Resources(workers=2, batch=1, threads=4)
    assert _peak_bytes(plan, [first, second], 7, cpu) == (
        700_000_000 + 2 * 150_000_000 + 12 * 7 + 3000 + blocks_and_weights
    )
    # Batches of two are computed on the GPU: 2 * 2 + 2 ahead, 1, and three of each of two.
    gpu = replace(cpu, device="cuda:0", batch=2)
    assert _peak_bytes(plan, [first, second], 7, gpu) == (
        700_000_000 + 2 * 150_000_000 + 19 * 7 + blocks_and_weights
    )
    plan.targets = targets[:1]
    assert _peak_bytes(plan, [first], 7, cpu) == (
        150_000_000 + 2 * 150_000_000 + (5 + 1 + 3) * 7 + 1000 + 2 * 8 * 1000
    )


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    manifest = film_folder(tmp_path / "films", 3, bad={0: b"no video"})
    keep_manifest(manifest, tmp_path)
    (tmp_path / "films" / "videos" / manifest.clips[2].video).unlink()
    first, second = _plan(tmp_path, "-b", "descriptors")["obstacles"]
    assert first == "1 videos of the manifest are missing: tt0-002"
    assert second.startswith("tt0-000 cannot be decoded: ")


def test_clips_in_milliseconds_are_counted_in_a_film_that_is_read(
    tmp_path: Path,
) -> None:
    write_video(tmp_path / "night.mp4", numbers=range(50), size=(64, 48))
    spans = {"a": (0.0, 1.0), "b": (0.0, 3000.0), "c": (1.0, 3000.0), "d": (1.5, 2.4)}
    clips = tuple(
        Clip(name, "night", video="night.mp4", start_s=start_s, end_s=end_s)
        for name, (start_s, end_s) in spans.items()
    )
    header = Header("Night", {}, video_root=str(tmp_path))
    keep_manifest(Manifest("films", header, clips), tmp_path)
    estimated = _plan(tmp_path, "-b", "descriptors")
    assert list(estimated["too_long"]) == ["b", "c"]
    (obstacle,) = estimated["obstacles"]
    assert obstacle.startswith("2 clips of the films tried here end too long after")
    assert obstacle.endswith("b: the part ends at 3000 s, the film at 2.00 s")


def test_a_missing_torch_is_an_obstacle_with_the_extra_to_install(world: Path) -> None:
    words = (
        "extract",
        "plan",
        "films",
        "-b",
        "clip-b16",
        "-b",
        "descriptors",
        "--probe",
        "0",
    )
    env = without_torch(world / "hidden")
    plan = run_obygaze("-C", world, *words, "--json", env=env).ok().json()
    missing = 'clip-b16: torch is not installed here: pip install "obygaze[extract]"'
    assert plan["obstacles"][-1] == missing
    assert plan["without_torch"] == ["clip-b16"]
    pytest.importorskip("torch")
    plan = call_obygaze("-C", world, *words, "--json").ok().json()
    assert missing not in plan["obstacles"]


def test_unusable_weights_are_obstacles(world: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    clip = save_tiny("clip", world / "clip")
    cut = save_lsmdc(world / "lsmdc")
    cut.write_bytes(cut.read_bytes()[:9000])
    named = {XCLIP: clip, LSMDC: cut, "clip-b16": world / "nowhere"}
    words = [w for k, v in named.items() for w in ("-b", k, "--weights", f"{k}={v}")]
    plan = _plan(world, *words)
    assert [store["weights"] for store in plan["stores"]] == [
        "unusable",
        "unusable",
        "not found",
    ]
    first, second, third = plan["obstacles"]
    assert "got 'clip'" in first
    assert "truncated" in second
    assert third == "clip-b16: weights not found"
    assert json.dumps(plan["stores"][0]["arrays"]) == json.dumps(
        {"clip": 2048, "pooled": 3072, "frames": 8192, "frames_mit": 8192}
    ), "the sizes of the card, if the weights cannot be read"


def test_the_hint_for_weights_is_how_to_fetch_those_that_are_not_cached() -> None:
    first = StoreEstimate("a", "one", {}, 4, 0, 0, 0, 0.0, "not cached")
    stores = [
        first,
        replace(first, backbone="two", weights="not found"),
        replace(first, backbone="three", weights="unusable", why="truncated"),
        replace(first, backbone="four", weights="cached"),
    ]
    found = CostEstimate(1, 1, [], stores, 1.0, {}, 0, 0, workers=1)
    assert found.obstacles == [
        "one: weights not cached; obygaze backbones fetch one",
        "two: weights not found",
        "three: weights unusable: truncated",
    ]


def test_a_plan_for_a_gpu_that_is_not_here_says_so_and_keeps_it(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate_module, "has_cuda", lambda: False)
    path = world / "plan.json"
    plan = ("-C", world, "extract", "plan")
    words = ("films", "-b", "descriptors", "--device", "cuda", "-o", path)
    done = call_obygaze(*plan, *words).ok()
    assert (
        "cuda could not be tried here: this machine has no CUDA device" in done.stdout
    )
    assert read_plan_file(path).device == "cuda"
    # Runs of the plan are on its device, unless they are given another.
    assert call_obygaze(*plan, path, "--json").ok().json()["untried_device"] == "cuda"
    on_cpu = call_obygaze(*plan, path, "--device", "cpu", "--json").ok().json()
    assert on_cpu["untried_device"] == ""
    asked: list[str] = []

    def busy_gpus(devices: Sequence[str]) -> list[str]:
        asked.extend(devices)
        return []

    monkeypatch.setattr(extracting, "busy_gpus", busy_gpus)
    monkeypatch.setattr(devices_module, "extract_plan", lambda *args, **settings: [])
    for device, expected in ((None, "cuda"), ("cuda:1", "cuda:1"), ("cpu", "cpu")):
        extracting.extract(path, device=device)
        assert asked.pop() == expected


def test_a_plan_without_a_device_is_for_the_cpu(world: Path) -> None:
    path = world / "plan.json"
    _plan(world, "-b", "descriptors", "-o", path)
    document = json.loads(path.read_text("utf-8"))
    assert document["device"] == "cpu"
    assert read_plan_file(path).device == "cpu"


def test_an_idle_gpu_is_named_with_the_option_that_uses_it() -> None:
    store = StoreEstimate("a", "one", {}, 4, 0, 0, 0, 0.0, "cached")
    found = CostEstimate(1, 1, [], [store], 1.0, {}, 0, 0, workers=1)
    assert "idle" not in str(found)
    text = str(replace(found, idle_gpus=("cuda:1",)))
    assert text.endswith("\n  cuda:1 is idle: use --device cuda:1")


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_gpus_are_idle_only_for_backbones_with_weights_on_the_cpu(
    world: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    module = sys.modules[estimate.__module__]
    monkeypatch.setattr(module, "idle_gpus", lambda: ("cuda:1",))
    manifest = film_folder(world / "more", 2)
    for backbone, uses_gpu in (("descriptors", False), (XCLIP, True)):
        target = Target(str(world / "s"), backbone)
        plan = make_plan(manifest, [target], workspace=world)
        used = Resources(device=device, workers=1)
        found = estimate(plan, [used], n_probed=0, timed=False)
        expected = ("cuda:1",) if uses_gpu and device == "cpu" else ()
        assert found.idle_gpus == expected


@pytest.mark.parametrize(("backbone", "mask"), [("descriptors", 0), (LSMDC, 1)])
def test_bytes_of_a_store_have_the_two_times_of_each_frame(
    world: Path, backbone: str, mask: int
) -> None:
    """Five clips in a block of five: the arrays, and two times of 8 bytes for each frame.

    Of a backbone that pads short clips, each frame has one byte more: whether it is real.
    """
    manifest = film_folder(world / "more", 5)
    target = Target(str(world / "s"), backbone)
    plan = make_plan(manifest, [target], workspace=world)
    card = find_card(backbone, Workspace(world))
    target = plan.targets[0]
    store = _store(plan, target, _weights_of(target, card))
    n_frames = card.geometry.frames
    assert card.family.takes_mask == bool(mask)
    assert store.n_bytes == 5 * (sum(store.arrays.values()) + (16 + mask) * n_frames)
