"""Extractions on a simulated GPU with a clock of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.backbones.base import Backbone
from obygaze_features.backbones.load import load_backbone
from obygaze_features.extraction.blocks import BlockMaker, run_rows
from obygaze_features.extraction.compute import BatchComputer, Uploads
from obygaze_features.extraction.decoding import DecodedRow
from obygaze_features.extraction.plan import Target
from obygaze_features.extraction.recipes import arrays_of, recipe_of, view_of
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.store import StoreWriter, create_store
from obygaze_features.video.decoded_clip import DecodedClip, View
from support.simulated_gpu import SimulatedGpu, TimedBackbone

HOST_S = 0.012
BLOCK_ROWS = 64


def timed_run(
    folder: Path, device_s: float, n_clips: int, batch: int, n_backbones: int = 1
) -> tuple[float, SimulatedGpu]:
    """Extract clips that take 12 ms of the host each; return the seconds, and the GPU.

    All backbones together take `device_s` for a clip. Their stores are in the folder, by number.
    """
    inner = load_backbone("descriptors")
    view = view_of(inner, Target("s", "descriptors"))
    with SimulatedGpu() as gpu:
        uploads = Uploads("cuda")
        makers = []
        for number in range(n_backbones):
            writer = new_store(folder / str(number), inner, n_clips)
            backbone: Any = TimedBackbone(inner, gpu, device_s / n_backbones)
            makers.append(new_maker(backbone, writer, view, batch, uploads))

        def decode(
            jobs: Sequence[tuple[int, tuple[View, ...]]],
        ) -> Iterator[DecodedRow]:
            for row, views in jobs:
                gpu.clock.sleep(HOST_S)
                yield DecodedRow(row, dict.fromkeys(views, a_clip(row)))

        run_rows(makers, decode, StopFlag(), lambda row, failed: None)
        return gpu.clock.time(), gpu


def new_store(store: Path, inner: Backbone, n_clips: int) -> StoreWriter:
    """Make a store for the features of some clips."""
    view = view_of(inner, Target("s", "descriptors"))
    create_store(
        store,
        recipe=recipe_of(inner, view, inner.arrays),
        manifest_name="m",
        manifest_sha256="0" * 64,
        clip_ids=[f"c-{i:04d}" for i in range(n_clips)],
        movie_ids=["c"] * n_clips,
        arrays=arrays_of(inner, inner.arrays),
        licence="",
        citation="",
        block_rows=BLOCK_ROWS,
    )
    return StoreWriter(store)


def new_maker(
    backbone: Any, writer: StoreWriter, view: View, batch: int, uploads: Uploads
) -> BlockMaker:
    """Return the block maker of all rows of a new store, on a simulated GPU."""
    wanted = {}
    for block in writer.pending_blocks():
        wanted[block] = list(range(*writer.plan.block_range(block)))
    arrays = [spec for spec in writer.plan.arrays if spec.is_feature_array]
    computer = BatchComputer(backbone, arrays, uploads)
    return BlockMaker(computer, writer, view, wanted, batch=batch)


def a_clip(seed: int, n_frames: int = 16, n_masked: int = 0) -> DecodedClip:
    """Return a clip of small random pictures."""
    random = np.random.default_rng(seed)
    pictures = random.integers(0, 256, (n_frames, 40, 56, 3), dtype=np.uint8)
    index = np.arange(n_frames)
    no = np.zeros(n_frames, bool)
    times = index / 25
    mask = index < n_frames - n_masked
    return DecodedClip(
        Path("x"), pictures, index, index, times, times, no, mask, 99, False, 0.0
    )
