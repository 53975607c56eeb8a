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
from obygaze_features.backbones.load import load_backbone
from obygaze_features.core.console import table
from obygaze_features.extraction.blocks import BlockMaker, run_rows
from obygaze_features.extraction.compute import BatchComputer
from obygaze_features.extraction.decoding import DecodedRow
from obygaze_features.extraction.plan import Target
from obygaze_features.extraction.recipes import arrays_of, recipe_of, view_of
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.store import StoreWriter, create_store
from obygaze_features.video.decoded_clip import DecodedClip, View

HOST_S = 0.012
DEVICE_S = (0.005, 0.012, 0.022)
N_CLIPS = 256
BATCH = 4
BLOCK_ROWS = 64


@dataclass(frozen=True)
class Overlap:
    """The seconds of runs on a simulated GPU, by the seconds of a clip on the device."""

    seconds: dict[float, float]
    blocking_copies: int

    def to_text(self) -> str:
        """Return a table."""
        rows = [
            (f"{HOST_S * 1000:.0f}", f"{device * 1000:.0f}", f"{ratio:.3f}")
            for device, ratio in self.ratios().items()
        ]
        headers = ("host, ms a clip", "device, ms a clip", "run / slower of the two")
        return f"{table(headers, rows)}\nblocking copies: {self.blocking_copies}"

    def to_json(self) -> dict[str, Any]:
        """Return the ratios as JSON."""
        return {"ratios": self.ratios(), "blocking_copies": self.blocking_copies}

    def ratios(self) -> dict[float, float]:
        """Return the time of each run, divided by that of the slower of host and device."""
        return {d: s / (N_CLIPS * max(HOST_S, d)) for d, s in self.seconds.items()}


def measure(settings: Settings) -> Overlap:
    """Run the pipeline with three speeds of the device."""
    seconds = {}
    n_copies = 0
    with tempfile.TemporaryDirectory(prefix="obygaze-overlap-") as folder:
        for device_s in DEVICE_S:
            store = Path(folder, str(device_s))
            seconds[device_s], gpu = timed_run(store, device_s, N_CLIPS, BATCH)
            n_copies += gpu.blocking_copies
    return Overlap(seconds, n_copies)


def timed_run(
    store: Path, device_s: float, n_clips: int, batch: int
) -> tuple[float, SimulatedGpu]:
    """Extract clips that take 12 ms of the host each; return the seconds, and the GPU."""
    inner = load_backbone("descriptors")
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
    writer = StoreWriter(store)
    wanted = {
        b: list(range(*writer.plan.block_range(b))) for b in writer.pending_blocks()
    }
    with SimulatedGpu() as gpu:
        backbone: Any = TimedBackbone(inner, gpu, device_s)

        def decode(
            jobs: Sequence[tuple[int, tuple[View, ...]]],
        ) -> Iterator[DecodedRow]:
            for row, views in jobs:
                gpu.clock.sleep(HOST_S)
                yield DecodedRow(row, dict.fromkeys(views, a_clip(row)))

        arrays = [spec for spec in writer.plan.arrays if spec.is_feature_array]
        maker = BlockMaker(
            BatchComputer(backbone, arrays), writer, view, wanted, batch=batch
        )
        run_rows([maker], decode, StopFlag(), lambda row, failed: None)
        return gpu.clock.time(), gpu


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
