"""How many clips a second the host can launch for 13 backbones on a GPU that takes no time."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.extraction.overlap import a_clip, new_maker, new_store
from benchmarks.extraction.simulated_gpu import RealClock, SimulatedGpu
from benchmarks.timing import Settings
from obygaze_features.backbones.base import Backbone, Placement
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.load import load_backbone
from obygaze_features.backbones.torch_backbone import Preprocessor, on_device
from obygaze_features.core.console import table
from obygaze_features.core.machine import this_machine
from obygaze_features.extraction.blocks import run_rows
from obygaze_features.extraction.compute import Uploads
from obygaze_features.extraction.decoding import DecodedRow, Jobs
from obygaze_features.extraction.page_locks import GpuPageLocks
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.video.decoded_clip import View
from obygaze_features.video.worker import SharedMemory

N_BACKBONES = 13
N_CLIPS = 128
N_FRAMES = 16
EDGE = 224
BATCH = 16
# A vision transformer of 12 layers launches about so many kernels for a batch.
KERNELS = 200
ROUNDS = 5


@dataclass(frozen=True)
class Launching:
    """What one clip costs the thread that feeds a GPU, for all backbones together."""

    cpu_s: Sequence[float]
    launches: float
    staged_bytes: float

    @property
    def clips_a_second(self) -> float:
        """The clips a second that the host can launch, by the median of the rounds."""
        return N_CLIPS / statistics.median(self.cpu_s)

    def to_text(self) -> str:
        """Return a table."""
        cpu_ms = [1000 * seconds / N_CLIPS for seconds in self.cpu_s]
        rows = [
            (
                "clips a second that the host alone launches",
                f"{self.clips_a_second:.1f}",
            ),
            ("CPU ms a clip", f"{statistics.median(cpu_ms):.2f}"),
            ("from to", f"{min(cpu_ms):.2f} to {max(cpu_ms):.2f}"),
            ("launches a clip", f"{self.launches:.1f}"),
            (
                "MB a clip that the host copies to pinned memory",
                f"{self.staged_bytes / 1e6:.2f}",
            ),
        ]
        title = (
            f"{N_BACKBONES} backbones, {N_FRAMES} pictures of {EDGE} x {EDGE}, batches of {BATCH},"
            f" {KERNELS} kernels a forward pass"
        )
        about = f"medians of {len(self.cpu_s)} runs of {N_CLIPS} clips"
        machine = this_machine(("torch",)).line()
        return "\n".join([title, table(("", ""), rows), about, machine])

    def to_json(self) -> dict[str, Any]:
        """Return every measurement as JSON."""
        return {
            "clips_a_second": self.clips_a_second,
            "cpu_s": list(self.cpu_s),
            "launches": self.launches,
            "staged_bytes": self.staged_bytes,
        }


class LaunchingBackbone:
    """A backbone that launches as many kernels as a vision transformer, on a simulated GPU."""

    takes_mask = False

    def __init__(self, inner: Backbone, gpu: SimulatedGpu) -> None:
        card = find_card("clip-b16")
        self.card = inner.card
        self.arrays = inner.arrays
        self.pixels = Preprocessor(card.input, EDGE)
        self.resize = self.pixels.resize
        self.activation_bytes = 1
        self.gpu = gpu
        self.placement = Placement("cuda")

    def normalise(self, pictures: Any) -> torch.Tensor:
        """Return pixels as a backbone of torch does."""
        return self.pixels.normalise(on_device(pictures, "cuda"))

    def forward(
        self, pixels: torch.Tensor, mask: Any = None, only: Any = ()
    ) -> dict[str, Any]:
        """Return arrays of zeros after the kernels of a forward pass."""
        value = pixels.flatten(1)[:, :1]
        for _ in range(KERNELS - 2):
            value = value.relu_()
        return {
            name: value.view(-1, *[1] * len(array.shape)).expand(-1, *array.shape)
            for name, array in self.arrays.items()
            if name in only
        }


def measure(settings: Settings) -> Launching:
    """Run the pipeline without decoders, and without the time of the device."""
    cpu_s = []
    # The first run imports and allocates; its time does not count.
    for _ in range(settings.rounds_or(ROUNDS) + 1):
        with tempfile.TemporaryDirectory(prefix="obygaze-launching-") as folder:
            gpu, seconds = launching_run(Path(folder), N_CLIPS)
        cpu_s.append(seconds)
    launches = gpu.n_launches / N_CLIPS
    return Launching(cpu_s[1:], launches, gpu.staged_bytes / N_CLIPS)


def launching_run(folder: Path, n_clips: int) -> tuple[SimulatedGpu, float]:
    """Extract decoded clips; return the GPU, and the CPU seconds of the thread that feeds it."""
    inner = load_backbone("descriptors")
    view = View(N_FRAMES)
    with SimulatedGpu(RealClock(), computes=False) as gpu:
        uploads = Uploads("cuda")
        makers = []
        for number in range(N_BACKBONES):
            writer = new_store(folder / str(number), inner, n_clips)
            backbone = LaunchingBackbone(inner, gpu)
            makers.append(new_maker(backbone, writer, view, BATCH, uploads))
        locks = GpuPageLocks("cuda")
        memories = [SharedMemory(locks=locks) for _ in range(4 * BATCH)]
        shape = (N_FRAMES, EDGE, EDGE, 3)
        free = deque(memories)
        facts = a_clip(0, N_FRAMES)

        def decode(jobs: Jobs) -> Iterator[DecodedRow]:
            for row, views in jobs:
                memory = free.popleft()
                (pictures,) = memory.arrays([shape], partial(free.append, memory))
                clip = replace(facts, shared_pictures=pictures)
                yield DecodedRow(row, dict.fromkeys(views, clip))
                del pictures, clip

        # The decoders have written to the memory before: it is there.
        for memory in memories:
            memory.arrays([shape])[0][...] = 1
        started = time.thread_time()
        run_rows(makers, decode, StopFlag(), lambda row, failed: None)
        seconds = time.thread_time() - started
        for memory in memories:
            memory.unlock()
        return gpu, seconds
