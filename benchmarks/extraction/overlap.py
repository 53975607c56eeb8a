"""How well host and GPU work at the same time, on a simulated GPU with a clock of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.extraction.simulated_gpu import SimulatedGpu, TimedBackbone
from benchmarks.timing import Settings
from obygaze_features.backbones.base import Backbone
from obygaze_features.backbones.load import load_backbone
from obygaze_features.core.console import table
from obygaze_features.extraction.blocks import BlockMaker, run_rows
from obygaze_features.extraction.compute import BatchComputer, Uploads
from obygaze_features.extraction.decoding import DecodedRow
from obygaze_features.extraction.plan import Target
from obygaze_features.extraction.recipes import arrays_of, recipe_of, view_of
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.store import StoreWriter, create_store
from obygaze_features.video.decoded_clip import DecodedClip, View

HOST_S = 0.012
DEVICE_S = (0.005, 0.012, 0.022)
N_BACKBONES = (1, 13)
N_CLIPS = 256
BATCH = 4
BLOCK_ROWS = 64


@dataclass(frozen=True)
class Overlap:
    """The seconds of runs on a simulated GPU, by backbones and the seconds of a clip on it."""

    seconds: dict[tuple[int, float], float]
    blocking_copies: int

    def to_text(self) -> str:
        """Return a table."""
        rows = [
            (n, f"{HOST_S * 1000:.0f}", f"{device * 1000:.0f}", f"{ratio:.3f}")
            for (n, device), ratio in self.ratios().items()
        ]
        headers = (
            "backbones",
            "host, ms a clip",
            "device, ms a clip",
            "run / slower of the two",
        )
        return f"{table(headers, rows)}\nblocking copies: {self.blocking_copies}"

    def to_json(self) -> dict[str, Any]:
        """Return the ratios as JSON."""
        runs = [
            {"backbones": n, "device_s": device, "ratio": ratio}
            for (n, device), ratio in self.ratios().items()
        ]
        return {"runs": runs, "blocking_copies": self.blocking_copies}

    def ratios(self) -> dict[tuple[int, float], float]:
        """Return the time of each run, divided by that of the slower of host and device."""
        ratios = {}
        for (n, device), seconds in self.seconds.items():
            ratios[n, device] = seconds / (N_CLIPS * max(HOST_S, device))
        return ratios


def measure(settings: Settings) -> Overlap:
    """Run the pipeline with three speeds of the device, with one backbone and with many."""
    seconds = {}
    n_copies = 0
    with tempfile.TemporaryDirectory(prefix="obygaze-overlap-") as folder:
        for n_backbones in N_BACKBONES:
            for device_s in DEVICE_S:
                stores = Path(folder, f"{n_backbones}-{device_s}")
                seconds[n_backbones, device_s], gpu = timed_run(
                    stores, device_s, N_CLIPS, BATCH, n_backbones
                )
                n_copies += gpu.blocking_copies
    return Overlap(seconds, n_copies)


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
