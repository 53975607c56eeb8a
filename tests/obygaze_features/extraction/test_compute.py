import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.checkpoints import TINY, lsmdc_card, save_lsmdc, save_tiny, tiny_card
from support.simulated_gpu import SimulatedGpu, a_clip, arrays_of_features
from support.sound_checkpoints import save_tiny_sound, tiny_sound_card

from obygaze_features.backbones.actions import load_backbone
from obygaze_features.backbones.backbone import Backbone
from obygaze_features.backbones.sound import ClipSound, SoundBackbone
from obygaze_features.extraction.clips import HeardClip, ViewedClip
from obygaze_features.extraction.compute import (
    BatchComputer,
    Computed,
    ThreadComputer,
    Uploads,
    clip_threads,
    make_computer,
)
from obygaze_features.store import Array

pytest.importorskip("transformers")
FAMILIES = (*TINY, "lsmdc")


def tiny(family: str, folder: Path) -> Backbone:
    if family == "lsmdc":
        return load_backbone(lsmdc_card(), save_lsmdc(folder))
    return load_backbone(tiny_card(family), save_tiny(family, folder))


def some_clips(backbone: Backbone, n_clips: int) -> list[ViewedClip]:
    masked = int(backbone.takes_mask)
    clips = [
        a_clip(i, backbone.geometry.frames, masked * (i % 3)) for i in range(n_clips)
    ]
    assert backbone.resize is not None
    return [replace(clip, pictures=backbone.resize(clip.pictures)) for clip in clips]


def as_bytes(found: Sequence[Computed]) -> dict[str, bytes]:
    """The features of all clips, whatever batches they were computed in."""
    arrays = [each.arrays for each in found]
    return {name: b"".join(one[name].tobytes() for one in arrays) for name in arrays[0]}


@pytest.fixture
def four_threads_of_torch() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    assert torch.get_num_threads() == 4
    torch.set_num_threads(before)


@pytest.mark.usefixtures("four_threads_of_torch")
@pytest.mark.parametrize("family", FAMILIES)
def test_features_on_a_cpu_do_not_depend_on_threads_or_batches(family, tmp_path):
    backbone = tiny(family, tmp_path)
    clips, specs = some_clips(backbone, 7), arrays_of_features(backbone)
    found = []
    for n_threads, n_clips in ((1, 1), (1, 7), (4, 2), (3, 7)):
        with clip_threads(n_threads) as pool:
            computer = make_computer(backbone, specs, pool)
            computed = []
            for i in range(0, 7, n_clips):
                computed += computer.compute_all(clips[i : i + n_clips])
            found.append(as_bytes(computed))
    assert found[0].keys() == backbone.arrays.keys()
    assert all(other == found[0] for other in found[1:])
    assert len(set(found[0].values())) > 1


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_of_a_gpu_has_the_features_of_its_clips(family, tmp_path) -> None:
    backbone = tiny(family, tmp_path)
    clips, specs = some_clips(backbone, 6), arrays_of_features(backbone)
    with clip_threads(1) as pool:
        expected = make_computer(backbone, specs, pool).compute_all(clips)
    backbone.placement = replace(backbone.placement, device="cuda")
    with SimulatedGpu() as gpu, clip_threads(1) as pool:
        computer = make_computer(backbone, specs, pool)
        assert isinstance(computer, BatchComputer)
        computer.start(clips[:1])()  # tables are moved once
        gpu.waits.clear()
        found = [computer.start(clips[:4]), computer.start(clips[4:])]
        assert gpu.waits == []
        results = [result() for result in found]
        assert {*gpu.waits} == {"event"}
    for name in backbone.arrays:
        values = np.concatenate([one.arrays[name] for one in results])
        alone = np.concatenate([one.arrays[name] for one in expected])
        values, alone = values.astype("f4"), alone.astype("f4")
        np.testing.assert_allclose(values, alone, rtol=2e-3, atol=2e-5)
        assert all(one.finite[name].all() for one in results)


@pytest.mark.parametrize("family", ["clap", "wavlm"])
def test_sound_on_a_gpu_has_its_features_and_waits_for_events(family, tmp_path) -> None:
    folder = tmp_path / "weights"
    save_tiny_sound(family, folder)
    backbone = load_backbone(tiny_sound_card(family, tmp_path, 1.0), folder)
    assert isinstance(backbone, SoundBackbone)
    random = np.random.default_rng(3)
    clips = []
    for seconds in (0.3, 1.0, 2.3):
        n_samples = round(seconds * backbone.view.rate)
        samples = random.standard_normal(n_samples).astype(np.float32)
        clips.append(HeardClip(ClipSound(0.1 * samples, n_samples // 10), {}))
    specs = arrays_of_features(backbone)
    with clip_threads(1) as pool:
        expected = make_computer(backbone, specs, pool).compute_all(clips)
    backbone.placement = replace(backbone.placement, device="cuda")
    with SimulatedGpu() as gpu, clip_threads(1) as pool:
        result = make_computer(backbone, specs, pool).start(clips)
        assert gpu.waits == []
        found = result()
    for name in backbone.arrays:
        alone = np.concatenate([one.arrays[name] for one in expected])
        np.testing.assert_allclose(found.arrays[name], alone, rtol=2e-3, atol=2e-5)
        assert found.finite[name].all()


def test_backbones_share_the_pictures_on_a_gpu(tmp_path: Path) -> None:
    backbone = tiny("clip", tmp_path)
    specs = arrays_of_features(backbone)
    clips = some_clips(backbone, 5)
    # Another sampling of the same pictures, and one whose last frames are padding.
    backwards = [replace(clip, rows=clip.rows[::-1].copy()) for clip in clips]
    padded = [replace(clip, mask=np.arange(len(clip.rows)) < 2) for clip in clips]
    groups = (clips, backwards, padded)
    backbone.placement = replace(backbone.placement, device="cuda")
    with SimulatedGpu(), clip_threads(1) as pool:
        expected = []
        for group in groups:
            alone = make_computer(backbone, specs, pool)
            expected.append(as_bytes(alone.compute_all(group)))
    with SimulatedGpu() as gpu, clip_threads(1) as pool:
        uploads = Uploads("cuda")
        results = []
        for group in groups:
            of_group = make_computer(backbone, specs, pool, uploads)
            results.append(as_bytes(of_group.compute_all(group)))
        assert uploads.n_copies == 5 and {*gpu.waits} == {"event"}
        assert results == expected
        # Other pictures, which may be at the same place in memory, are copied.
        del clips, backwards, padded, groups, group, alone
        others = some_clips(backbone, 2)
        of_group.compute_all(others)
        assert uploads.n_copies == 7
        assert len(uploads._copies) == 2


def test_clips_of_a_sweep_share_their_pictures_on_a_gpu(tmp_path: Path) -> None:
    backbone = tiny("clip", tmp_path)
    specs = arrays_of_features(backbone)
    clips = some_clips(backbone, 3)
    whole = np.concatenate([clip.pictures for clip in clips])
    firsts = np.cumsum([0, *(len(clip.pictures) for clip in clips[:-1])])
    swept = [
        replace(clip, pictures=whole, rows=clip.rows + first)
        for clip, first in zip(clips, firsts, strict=True)
    ]
    # A batch may have clips of two sweeps.
    others = some_clips(backbone, 1)
    backbone.placement = replace(backbone.placement, device="cuda")
    with SimulatedGpu(), clip_threads(1) as pool:
        uploads = Uploads("cuda")
        alone = make_computer(backbone, specs, pool)
        expected = as_bytes([alone.start([*clips, *others])()])
        shared = make_computer(backbone, specs, pool, uploads)
        found = as_bytes([shared.start([*swept, *others])()])
    assert found == expected
    assert uploads.n_copies == 2


class Values:
    """A backbone whose only array is its pixels: numbers that a store must round."""

    takes_mask = False

    def __init__(self, values: Any, device: str) -> None:
        self.values, self.placement = values, type("Placement", (), {"device": device})
        self.card = type("Card", (), {"code": {}})

    def normalise(self, frames: Any) -> Any:
        return torch.from_numpy(self.values).to(self.placement.device)  # type: ignore[attr-defined]

    def forward(self, pixels: Any, mask: Any, only: Any) -> Any:
        return {"frames": pixels}


def test_numbers_are_rounded_as_numpy_rounds_them() -> None:
    random = np.random.default_rng(0)
    exponents = random.uniform(-30, 20, (4, 5000))
    signs = random.choice([-1, 1], exponents.shape)
    values = (signs * 2.0**exponents).astype(np.float32)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    assert np.isinf(expected).any() and (np.abs(expected[expected != 0]) < 1e-6).any()
    specs = [Array.of("frames", "float16", values.shape)]
    with ThreadPoolExecutor(1) as pool:
        backbone: Any = Values(values, "cpu")
        (on_cpu,) = ThreadComputer(backbone, specs, pool).compute_all([a_clip(0, 2)])
    with SimulatedGpu():
        backbone = Values(values, "cuda")
        (on_gpu,) = BatchComputer(backbone, specs).compute_all([a_clip(0, 2)])
    for found in (on_cpu, on_gpu):
        np.testing.assert_array_equal(found.arrays["frames"][0], expected)
        assert found.finite["frames"].tolist() == [False]


@pytest.mark.parametrize(("code", "most"), [({}, 3), ({"files": {}}, 1)])
def test_code_of_the_user_computes_one_clip_at_a_time(code, most) -> None:
    """It may not work in several threads."""
    backbone: Any = Values(np.zeros((1, 1), np.float32), "cpu")
    backbone.card.code = code
    specs = [Array.of("frames", "float32", (1, 1))]
    with ThreadPoolExecutor(3) as pool:
        assert ThreadComputer(backbone, specs, pool).split(3) == (1, most)


def test_code_of_the_user_never_computes_for_two_stores_at_once() -> None:
    """Two backbones of one file may share a tensor, or the list of a hook."""
    together = threading.Barrier(2)
    met = []

    class Shared(Values):
        def forward(self, pixels: Any, mask: Any, only: Any) -> Any:
            with suppress(threading.BrokenBarrierError):
                together.wait(0.2)
                met.append(self)
            return {"frames": pixels}

    specs = [Array.of("frames", "float32", (1, 1))]
    with ThreadPoolExecutor(2) as pool:
        results = []
        for _ in range(2):
            backbone: Any = Shared(np.zeros((1, 1), np.float32), "cpu")
            backbone.card.code = {"files": {}}
            results.append(ThreadComputer(backbone, specs, pool).start([a_clip(0, 1)]))
        for result in results:
            result()
    assert not met
