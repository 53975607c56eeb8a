import weakref
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.extraction import CountingBackbone
from support.simulated_gpu import (
    SimulatedGpu,
    a_clip,
    fill_stores,
    new_filler,
    new_filling,
)

from obygaze_features.backbones.actions import load_backbone
from obygaze_features.core.errors import ObygazeError
from obygaze_features.extraction.clips import ViewedClip
from obygaze_features.extraction.loop import StoreFiller
from obygaze_features.store import Store, layout, open_store
from obygaze_features.store.sealing import seal

N = 7
BLOCK = 4
# Of three clips: a batch ends with its block.
FULL_BATCHES = [3, 1, 3]


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedGpu]:
    monkeypatch.setattr(layout, "CLIPS_OF_A_BLOCK", BLOCK)
    with SimulatedGpu() as simulated:
        yield simulated


class World:
    """A store of seven clips in blocks of four, and a decoder that returns random clips."""

    def __init__(self, folder: Path, n_clips: int = N, **backbone: Any) -> None:
        self.inner = load_backbone("descriptors")
        self.backbone = CountingBackbone(self.inner, **backbone)
        self.path = folder / "store"
        self.filling = new_filling(self.path, self.inner, n_clips)
        self.decoded: list[int] = []

    def decode(self, row: int) -> ViewedClip:
        self.decoded.append(row)
        return _as_seen(row)

    def run(self, batch: int = 3) -> None:
        with new_filler(self.backbone, self.filling, self.inner, batch) as filler:
            fill_stores([filler], self.decode)

    def store(self) -> Store:
        seal(self.path)
        return open_store(self.path)


@cache
def _as_seen(row: int) -> ViewedClip:
    """The clip of a row as the decoder gives it to the descriptors."""
    clip = a_clip(row)
    resize = load_backbone("descriptors").resize
    assert resize is not None
    return replace(clip, pictures=resize(clip.pictures))


def test_a_row_that_only_another_store_needs_is_in_no_batch(tmp_path: Path) -> None:
    """Two stores see the same pictures of a clip; one of them has the odd rows already."""
    one, two = World(tmp_path / "one"), World(tmp_path / "two")
    even_rows = [row % 2 == 0 for row in range(N)]
    two.filling = new_filling(tmp_path / "two" / "part", two.inner, N, even_rows)
    with ExitStack() as stack:
        fillers: list[StoreFiller] = []
        for world in (one, two):
            filler = new_filler(world.backbone, world.filling, world.inner, 3)
            fillers.append(stack.enter_context(filler))
        fill_stores(fillers, one.decode)
    assert one.backbone.batches == FULL_BATCHES
    assert two.backbone.batches == [2, 2]
    assert not two.filling.missing()
    # Alone, it decodes no other row.
    alone = World(tmp_path / "alone")
    alone.filling = new_filling(tmp_path / "alone" / "part", alone.inner, N, even_rows)
    alone.run()
    assert alone.decoded == list(range(0, N, 2))


def test_out_of_memory_halves_all_later_batches(tmp_path: Path) -> None:
    world = World(tmp_path, most=1)
    world.run(batch=4)
    assert set(world.backbone.batches) == {1}
    # The first block was computed three times: with batches of 4, of 2, and of 1.
    n_times = [world.decoded.count(row) for row in range(N)]
    assert n_times[:2] == [3, 3]
    assert n_times[BLOCK:] == [1] * (N - BLOCK)
    assert world.store().status().counts == {"ok": N}


def test_a_clip_that_does_not_fit_into_memory_is_an_error(tmp_path: Path) -> None:
    world = World(tmp_path, most_waiting=0)
    with pytest.raises(ObygazeError, match="one clip of descriptors does not fit"):
        world.run(batch=2)
    assert world.filling.list_blocks() == (set(), {})


def test_memory_of_what_did_not_fit_is_free_before_the_next_try(tmp_path, monkeypatch):
    """While a traceback held the tensors, giving back the memory of the GPU gave back nothing."""
    world = World(tmp_path, BLOCK)
    forward = world.backbone.forward
    held: list[weakref.ref[Any]] = []
    freed: list[bool] = []

    def forward_of_two(pixels: Any, *args: Any, **options: Any) -> Any:
        if len(pixels) > 2:
            activations = np.zeros(10)
            held.append(weakref.ref(activations))
            raise RuntimeError("CUDA out of memory")
        return forward(pixels, *args, **options)

    def note() -> None:
        freed.append(held[-1]() is None)

    world.backbone.forward = forward_of_two  # type: ignore[method-assign]
    monkeypatch.setattr(torch.cuda, "empty_cache", note)
    world.run(batch=4)
    assert freed == [True]
    assert world.store().status().counts == {"ok": BLOCK}
