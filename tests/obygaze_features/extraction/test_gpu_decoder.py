"""Runs whose films a GPU decodes: a recipe of their own, a reason for what it may not decode."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.extraction import film_folder, keep_manifest
from support.gpu_decoders import install_stand_in
from support.videos import write_video

from obygaze_features.core.errors import FixUsage
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.plan import ExtractPlan, PlannedClip, Target
from obygaze_features.extraction.recipes import target_of
from obygaze_features.extraction.windows import make_windows
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.windows import Grid
from obygaze_features.store import open_store

N_CLIPS = 5
RUN = ("extract", "run", "films", "-b", "descriptors", "--workers", "1")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Films of which one has ten bits, on a machine with the stand-in of a GPU."""
    manifest = film_folder(tmp_path, N_CLIPS)
    keep_manifest(manifest, tmp_path)
    of_ten_bits = tmp_path / "videos" / manifest.clips[2].video
    write_video(of_ten_bits, pix_fmt="yuv420p10le", numbers=range(2, 20), size=(64, 48))
    install_stand_in(monkeypatch)
    return tmp_path


@pytest.mark.check("whole runs")
def test_a_run_has_its_own_recipe_and_names_what_it_refuses(world: Path) -> None:
    done = call_obygaze("-C", world, *RUN, "--decoder", "cuda", "--json")
    assert done.code == 3
    document = done.json()
    assert (document["ok"], document["failed"]) == (4, 1)
    assert "the pixel format is yuv420p10le" in str(document["failures"])
    store = open_store(world / "stores" / "films.descriptors")
    status = store.status().status_of_row[2]
    assert (status.state, status.stage, status.error) == ("failed", "decode", "gpu")
    recipe = store.recipe.to_json()
    assert recipe["decoder"] == {
        "name": "torchcodec",
        "version": "0.17.0",
        "device": "cuda",
        "rule": 1,
    }
    assert target_of(recipe, None).decoder == "cuda"
    # The store of the CPU has another recipe, one more clip, and nearly the same features.
    of_cpu = call_obygaze("-C", world, *RUN, "--store", "descriptors=cpu")
    assert of_cpu.code == 0
    other = open_store(world / "stores" / "cpu")
    assert other.fingerprint != store.fingerprint
    assert target_of(other.recipe.to_json(), None).decoder == "cpu"
    clips = [f"tt0-{number:03d}" for number in (0, 1, 3, 4)]
    ours, theirs = (s.matrix("clip", clips=clips).values for s in (store, other))
    assert np.abs(ours - theirs).max() < 0.02


@pytest.mark.parametrize("first", [(), ("--decoder", "cuda")])
def test_one_store_never_has_both(first: tuple[str, ...], world: Path) -> None:
    assert call_obygaze("-C", world, *RUN, *first, "--no-seal").code in {0, 3}
    second = () if first else ("--decoder", "cuda")
    refused = call_obygaze("-C", world, *RUN, *second, "--retry-failed")
    assert refused.code == 5
    assert "torchcodec" in refused.stderr and "pyav" in refused.stderr


@pytest.mark.check("whole runs")
def test_a_cpu_does_not_read_pictures_of_a_gpu_nor_the_other_way(world: Path) -> None:
    frames = ("extract", "run", "films", "-b", "frames:descriptors")
    assert call_obygaze("-C", world, *frames).code == 0
    on_gpu = call_obygaze("-C", world, *RUN, "--decoder", "cuda")
    assert on_gpu.code == 3 and "kept pictures" not in on_gpu.stderr
    on_cpu = call_obygaze("-C", world, *RUN, "--store", "descriptors=cpu")
    assert "kept pictures are read from" in on_cpu.stderr


def test_a_plan_has_the_decoder_and_its_workers_use_it(world: Path) -> None:
    plan = world / "plan.json"
    chosen = ("-b", "descriptors", "--decoder", "cuda", "-o", plan)
    written = call_obygaze("-C", world, "extract", "plan", "films", *chosen)
    assert written.code == 0
    assert json.loads(plan.read_bytes())["targets"][0]["decoder"] == "cuda"
    assert call_obygaze("-C", world, "extract", "run", plan).code == 3
    store = open_store(world / "stores" / "films.descriptors")
    assert store.recipe.to_json()["decoder"]["name"] == "torchcodec"


def test_a_plan_for_a_gpu_can_be_made_without_one(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    planned = call_obygaze(
        "-C",
        world,
        "extract",
        "plan",
        "films",
        "-b",
        "descriptors",
        "--decoder",
        "cuda",
    )
    assert planned.code == 0
    assert "cuda could not be tried here" in planned.stdout
    run = call_obygaze("-C", world, *RUN, "--decoder", "cuda")
    assert run.code == 2 and "PyTorch finds none" in run.stderr


def test_the_backbones_of_a_plan_have_one_decoder() -> None:
    targets = (Target("a", "descriptors"), Target("b", "clip-b16", decoder="cuda"))
    with pytest.raises(FixUsage, match="have the decoders cpu and cuda"):
        ExtractPlan("films", "", "", (PlannedClip("a", "a", ""),), targets)


@pytest.mark.check("whole runs")
def test_windows_of_films(world: Path) -> None:
    manifest = make_windows(
        world / "videos", Grid(6, 4), workspace=Workspace(world), name="windows"
    )
    write_manifest(manifest, world / "manifests" / "windows.toml")
    assert len(manifest) > N_CLIPS
    run = ("extract", "run", "windows", "-b", "descriptors", "--workers", "1")
    done = call_obygaze("-C", world, *run, "--decoder", "cuda")
    assert done.code == 3
    store = open_store(world / "stores" / "windows.descriptors")
    assert call_obygaze("-C", world, *run, "--store", "descriptors=cpu").code == 0
    other = open_store(world / "stores" / "cpu")
    rows = np.flatnonzero(store.status().is_ok)
    assert 0 < len(rows) < len(manifest)
    ids = [store.clip_ids[row] for row in rows]
    ours, theirs = (s.matrix("clip", clips=ids).values for s in (store, other))
    assert np.abs(ours - theirs).max() < 0.02
