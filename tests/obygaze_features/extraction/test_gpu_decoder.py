"""Runs whose films a GPU decodes: a recipe of their own, a reason for what it may not decode."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.extraction import film_folder, keep_manifest
from support.gpu_decoders import install_stand_in
from support.videos import write_video

from obygaze_features.core.errors import FixUsage
from obygaze_features.extraction.plan import ExtractPlan, PlannedClip, Target
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


@pytest.mark.parametrize("first", [(), ("--decoder", "cuda")])
def test_one_store_never_has_both(first: tuple[str, ...], world: Path) -> None:
    assert call_obygaze("-C", world, *RUN, *first, "--no-seal").code in {0, 3}
    second = () if first else ("--decoder", "cuda")
    refused = call_obygaze("-C", world, *RUN, *second, "--retry-failed")
    assert refused.code == 5
    assert "torchcodec" in refused.stderr and "pyav" in refused.stderr


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
