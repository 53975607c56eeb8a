"""Pictures arrive in memory that a GPU reads itself; its size follows a formula."""

from __future__ import annotations

import math
import mmap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.checkpoints import save_tiny, write_tiny_card
from support.extraction import BLOCK_ROWS, array_bytes, film_folder
from support.simulated_gpu import SimulatedGpu

from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction import run
from obygaze_features.extraction.page_locks import GpuPageLocks
from obygaze_features.extraction.plan import ExtractPlan, Target, make_plan
from obygaze_features.extraction.recipes import load_target
from obygaze_features.extraction.run import Resources, extract_plan
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import open_store
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import View
from obygaze_features.video.pool import DecodeJob, DecodePool
from obygaze_features.video.worker import SharedMemory

pytest.importorskip("transformers")
N_CLIPS = 9
RESOURCES = Resources(device="cuda", workers=2, batch=2)


def plan_of_two(folder: Path, manifest: Manifest) -> ExtractPlan:
    """A plan with two backbones that see the same pictures."""
    card = write_tiny_card("clip", folder)
    weights = save_tiny("clip", folder / "weights")
    targets = []
    for name in ("first", "second"):
        store = str(folder / name)
        targets.append(Target(store, str(card), str(weights), block_rows=BLOCK_ROWS))
    return make_plan(manifest, targets, workspace=folder)


def extracted(
    folder: Path, manifest: Manifest, gpu: SimulatedGpu, patch: pytest.MonkeyPatch
) -> tuple[dict[str, bytes], list[str]]:
    """Extract on a simulated GPU; return the arrays of the first store, and the notes."""
    folder.mkdir()
    plan = plan_of_two(folder, manifest)
    # Weights are loaded on the CPU; what is computed with them is computed on the GPU.
    backbones = {}
    for target in plan.targets:
        backbone = load_target(target, Workspace(folder), "cpu")
        backbone.placement = replace(backbone.placement, device="cuda")
        backbones[target] = backbone
    patch.setattr(run, "load_target", lambda target, *_: backbones[target])
    notes: list[str] = []
    with gpu:
        states = extract_plan(plan, RESOURCES, StopFlag(), note=notes.append)
    assert [state.ok for state in states] == [N_CLIPS, N_CLIPS]
    return array_bytes(folder / "first"), notes


def test_locked_and_pinned_memory_follow_their_formula(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = film_folder(tmp_path / "films", N_CLIPS)
    gpu = SimulatedGpu()
    _, notes = extracted(tmp_path / "locked", manifest, gpu, monkeypatch)
    assert notes == []
    store = open_store(tmp_path / "locked" / "first")
    # Of the pictures, and of the features of each backbone.
    recipe = store.recipe.to_json()
    n_frames = recipe["sampling"]["frames"]
    size = recipe["preprocessing"]["size"]
    pages = -(-n_frames * size * size * 3 // mmap.PAGESIZE)
    clips = 2 * RESOURCES.workers + 3 * 2 + 1
    assert pages * mmap.PAGESIZE <= gpu.peak_locked <= clips * pages * mmap.PAGESIZE
    n_bytes = 0
    for spec in store.plan.arrays:
        if spec.is_feature_array:
            of_clip = math.prod(spec.tail_shape) * np.dtype(spec.dtype).itemsize
            of_batch = 2 * of_clip
            n_bytes += 3 * (1 << (of_batch - 1).bit_length())
    flags_and_rows = 4096
    assert 0 < gpu.pinned_bytes <= 2 * n_bytes + flags_and_rows
    # The host copies numbers of pictures and flags, no pictures.
    assert gpu.staged_bytes < N_CLIPS * n_frames * size * size * 3
    assert gpu.locked == {}
    # The tables of levels of two backbones.
    assert gpu.blocking_copies == 2


def test_a_driver_that_locks_nothing_is_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = film_folder(tmp_path / "films", N_CLIPS)
    expected, _ = extracted(tmp_path / "locked", manifest, SimulatedGpu(), monkeypatch)
    gpu = SimulatedGpu(refuses_locks=True)
    arrays, notes = extracted(tmp_path / "refused", manifest, gpu, monkeypatch)
    assert arrays == expected
    assert len(notes) == 1 and "(CUDA error 801)" in notes[0]
    assert (gpu.peak_locked, gpu.blocking_copies) == (0, 2)


def test_memory_is_unlocked_before_it_is_mapped_no_more(tmp_path: Path) -> None:
    """A longer clip needs more memory, and a clip that hangs leaves its memory behind."""
    with SimulatedGpu() as gpu:
        memory = SharedMemory(locks=GpuPageLocks("cuda"))
        memory.arrays([(1000,)])
        assert list(gpu.locked.values()) == [mmap.PAGESIZE]
        memory.arrays([(500,)])
        assert len(gpu.locked) == 1
        memory.arrays([(mmap.PAGESIZE + 1,)])
        assert list(gpu.locked.values()) == [2 * mmap.PAGESIZE]
        memory.unlock()
        assert gpu.locked == {}


def test_a_pool_locks_the_memory_of_its_clips(tmp_path: Path) -> None:
    film_folder(tmp_path, 1)
    (film,) = tmp_path.glob("**/*.mp4")
    view = View(4)
    expected = decode_clip(film, view).pictures
    with SimulatedGpu() as gpu:
        with DecodePool(1, locks=GpuPageLocks("cuda")) as pool:
            (result,) = pool.map([DecodeJob(film, (view,))])
            assert result.clips is not None
            assert (result.clips[view].pictures == expected).all()
            assert len(gpu.locked) == 1
        assert gpu.locked == {}
