"""Pictures arrive in memory that a GPU reads itself; its size follows a formula."""

from __future__ import annotations

import mmap
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.checkpoints import save_tiny, write_tiny_card
from support.extracted_stores import bytes_of, run
from support.extraction import film_folder
from support.simulated_gpu import SimulatedGpu

from obygaze_features.backbones.actions import load_backbone
from obygaze_features.extraction import planning
from obygaze_features.extraction.gpu import GpuPageLocks
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import open_store
from obygaze_features.video import DecodeJob, DecodePool, View, decode_clip
from obygaze_features.video.worker import SharedMemory

pytest.importorskip("transformers")
N_CLIPS = 9
WORKERS = 2
BATCH = 2


def extracted(
    folder: Path, manifest: Manifest, gpu: SimulatedGpu, patch: pytest.MonkeyPatch
) -> tuple[Path, list[str]]:
    """Extract with two backbones that see the same pictures, on a simulated GPU.

    Return the first store, and the notes about the GPU.
    """
    folder.mkdir()
    card = str(write_tiny_card("clip", folder))
    weights = str(save_tiny("clip", folder / "weights"))
    # The same card by two names.
    names = (card, card.replace(".toml", "-again.toml"))
    shutil.copy(*names)
    stores = dict(zip(names, ("first", "second"), strict=True))
    # Weights are loaded on the CPU; what is computed with them is computed on the GPU.
    backbones = []
    for _ in names:
        backbone = load_backbone(card, weights)
        backbone.placement = replace(backbone.placement, device="cuda")
        backbones.append(backbone)
    patch.setattr(planning, "load_backbone", lambda *_, **__: backbones.pop())
    notes: list[str] = []
    settings = {"device": "cuda", "workers": WORKERS, "batch": BATCH}
    with gpu:
        done = run(
            manifest, folder, names, stores=stores, note=notes.append, **settings
        )
    assert [state.ok for state in done] == [N_CLIPS, N_CLIPS]
    return folder / "stores" / "first", [note for note in notes if "CUDA" in note]


def test_locked_and_pinned_memory_follow_their_formula(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = film_folder(tmp_path / "films", N_CLIPS)
    gpu = SimulatedGpu()
    path, notes = extracted(tmp_path / "locked", manifest, gpu, monkeypatch)
    assert notes == []
    store = open_store(path)
    # Of the pictures, and of the features of each backbone.
    recipe = store.recipe.to_json()
    n_frames = recipe["sampling"]["frames"]
    size = recipe["preprocessing"]["size"]
    pages = -(-n_frames * size * size * 3 // mmap.PAGESIZE)
    clips = 2 * WORKERS + 3 * BATCH + 1
    assert pages * mmap.PAGESIZE <= gpu.peak_locked <= clips * pages * mmap.PAGESIZE
    n_bytes = 0
    for array in store.record.arrays:
        if array.name in store.feature_arrays:
            of_batch = BATCH * array.row_bytes
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
    path, notes = extracted(tmp_path / "refused", manifest, gpu, monkeypatch)
    assert bytes_of(path) == bytes_of(expected)
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
            result = pool.submit(DecodeJob(film, (view,))).result()
            assert result.clips is not None
            assert (result.clips[view].pictures == expected).all()
            assert len(gpu.locked) == 1
        assert gpu.locked == {}
