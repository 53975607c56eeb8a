"""Every figure of a GPU: precision, speed, overlap, memory and kills."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.extraction.gpu_decoding import decoder_rows
from benchmarks.extraction.gpu_models import PRECISIONS, Model, models
from benchmarks.extraction.gpu_runs import Bench, cached_rows, killed_run, memory_rows
from benchmarks.extraction.hardware import hardware_rows
from benchmarks.extraction.pipeline import no_gpu
from benchmarks.timing import NotMeasured, Settings
from obygaze_features.backbones.base import Backbone
from obygaze_features.backbones.load import as_arrays
from obygaze_features.core.console import table
from obygaze_features.core.lazy import need
from obygaze_features.core.machine import Machine, this_machine
from obygaze_features.extraction.estimate import forward_runs

BATCHES = (4, 16, 64)


@dataclass(frozen=True)
class GpuResult:
    """Rows of each table by its title, and facts."""

    device: str
    tables: Mapping[str, Sequence[Mapping[str, Any]]]
    facts: Mapping[str, str]
    machine: Machine

    def to_text(self) -> str:
        """Return all tables and facts."""
        parts = []
        for title, rows in self.tables.items():
            values = [list(map(_text, row.values())) for row in rows]
            parts.append(f"{title}, on {self.device}\n{table(tuple(rows[0]), values)}")
        parts += [f"{name}: {value}" for name, value in self.facts.items()]
        return "\n\n".join([*parts, self.machine.line()])

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON."""
        facts = dict(self.facts)
        tables = {name: list(rows) for name, rows in self.tables.items()}
        return {"device": self.device, "tables": tables, "facts": facts}


def measure(settings: Settings) -> GpuResult:
    """Measure every family and whole runs on a device; small models if quick."""
    device = settings.device
    quick = settings.quick
    if device.startswith("cuda"):
        why_not = no_gpu()
        if why_not:
            raise NotMeasured(why_not)
    with tempfile.TemporaryDirectory(prefix="obygaze-gpu-") as name:
        folder = Path(name)
        chosen = list(models(folder, small=quick, names=settings.backbones))
        batches = (2,) if quick else BATCHES
        rounds = settings.rounds_or(3)
        rows: list[dict[str, Any]] = []
        for model in chosen:
            rows += _precisions(model, folder, device, batches, rounds)
        bench = Bench.make(folder, device, quick=quick)
        runs = list(memory_rows(bench, chosen))
        tables = {
            "families": rows,
            "whole runs": list(cached_rows(bench, chosen)),
            "memory": runs,
            "decoding": list(
                hardware_rows(folder, device, quick=quick, workers=bench.workers)
            ),
            "decoding, exact or refused": list(
                decoder_rows(folder, device, quick=quick, workers=bench.workers)
            ),
        }
        minutes = 0 if quick else settings.minutes
        killed = killed_run(bench, chosen[0], runs[0]["clips/s"], minutes)
    facts = {"killed": killed, "decoders": str(bench.workers)}
    machine = this_machine(("torch", "transformers", "av"))
    return GpuResult(_device_name(device), tables, facts, machine)


def _precisions(
    model: Model, folder: Path, device: str, batches: Sequence[int], rounds: int
) -> Iterator[dict[str, Any]]:
    """Yield a row for each precision: difference to the CPU, and the speed of the best batch."""
    reference = model.load("cpu", folder)
    size = reference.geometry.size
    n_frames = reference.geometry.frames
    frames = np.random.default_rng(0).integers(
        0, 256, (n_frames, size, size, 3), dtype=np.uint8
    )
    pixels = np.asarray(reference.preprocess(frames))[None]
    expected = as_arrays(reference.forward(pixels))
    for name, (_, _, peak) in PRECISIONS.items():
        backbone = model.load(device, folder, name)
        outputs = as_arrays(backbone.forward(pixels))
        worst = max(
            np.abs(outputs[n] - x).max() / np.abs(x).max() for n, x in expected.items()
        )
        runs = forward_runs(backbone, batches, rounds)[1:]
        best = max(runs, key=lambda run: run["clips_per_s"])
        tflops = backbone.card.gflop * best["clips_per_s"] / 1e3
        yield {
            "backbone": model.card,
            "precision": name,
            "difference": float(worst),
            "clips/s": best["clips_per_s"],
            "batch": best["n_clips"],
            "TFLOP/s": tflops,
            "share of peak": tflops / peak if device.startswith("cuda") else None,
            "waits": _waits(backbone, device),
        }


def _waits(backbone: Backbone, device: str) -> str | None:
    """Return where the host waits for the GPU while a batch is started: nowhere, if all is well."""
    if not device.startswith("cuda"):
        return None
    torch = need("torch", "extract", "measuring on a GPU")
    torch.cuda.set_sync_debug_mode("error")
    try:
        forward_runs(backbone, [2], 1)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return "none"


def _device_name(device: str) -> str:
    if not device.startswith("cuda"):
        return device
    name: str = need("torch", "extract", "measuring on a GPU").cuda.get_device_name(
        device
    )
    return name


def _text(value: Any) -> Any:
    return f"{value:.3g}" if isinstance(value, float) else value
