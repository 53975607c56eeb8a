"""Every figure of a GPU: precision, speed, overlap, memory and kills."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.extraction.pipeline import MODELS, make_film, no_gpu
from benchmarks.timing import NotMeasured, Settings
from obygaze_features.backbones.base import Backbone
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.families import PRETRAINED
from obygaze_features.backbones.load import as_arrays, load_backbone
from obygaze_features.backbones.pretrained import save_random
from obygaze_features.core.console import table
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.lazy import need
from obygaze_features.core.machine import Machine, this_machine, usable_cores
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.bench import forward_runs
from obygaze_features.extraction.plan import ExtractPlan, PlannedClip, Target, write_plan
from obygaze_features.extraction.run import Resources, extract
from obygaze_features.extraction.shared_machine import StopFlag

# The configurations of random weights with the sizes of the real cards.
SIZES: dict[str, dict[str, Any]] = {
    "xclip-b16-k600-zs": {
        "projection_dim": 512,
        "vision_config": {"patch_size": 16, "num_frames": 32},
    },
    "clip-b16": {"patch_size": 16, "projection_dim": 512},
    "siglip2-b16": {},
    "dinov2-b": {"patch_size": 14, "image_size": 518},
    "dinov3-b16": {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
        "num_register_tokens": 4,
    },
    "vivit-b16x2-k400": {},
    "videomae-b": {},
    "timesformer-b-k400": {},
    "videoprism-b": {},
    "vjepa2-l": {},
}
# Precision and whether TF32 is allowed; the peak of an H200 without sparsity, in TFLOP/s.
PRECISIONS = {
    "float32": ("float32", False, 67),
    "tf32": ("float32", True, 494),
    "bf16": ("bfloat16", False, 989),
}
BATCHES = (4, 16, 64)
N_CLIPS, N_KILLS, HUGE_BATCH = 64, 3, 1 << 14


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
            values = [[_text(value) for value in row.values()] for row in rows]
            parts.append(f"{title}, on {self.device}\n{table(tuple(rows[0]), values)}")
        parts += [f"{name}: {value}" for name, value in self.facts.items()]
        return "\n\n".join([*parts, self.machine.line()])

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON."""
        facts, tables = dict(self.facts), {name: list(rows) for name, rows in self.tables.items()}
        return {"device": self.device, "tables": tables, "facts": facts}


@dataclass(frozen=True)
class Model:
    """A card and a folder with random weights of its sizes."""

    card: str
    weights: Path

    def load(self, device: str, workspace: Path, precision: str = "float32") -> Backbone:
        """Load it in a precision."""
        dtype, tf32, _ = PRECISIONS[precision]
        space = Workspace(workspace)
        options: dict[str, Any] = {"device": device, "dtype": dtype, "tf32": tf32}
        return load_backbone(self.card, self.weights, workspace=space, **options)


def measure(settings: Settings) -> GpuResult:
    """Measure every family and whole runs on a device; small models if quick."""
    device = settings.device
    if device.startswith("cuda") and (why_not := no_gpu()):
        raise NotMeasured(why_not)
    with tempfile.TemporaryDirectory(prefix="obygaze-gpu-") as name:
        folder = Path(name)
        models = list(_models(folder, settings.quick))
        rounds, n_clips = settings.rounds_or(3), 4 if settings.quick else N_CLIPS
        batches = (2,) if settings.quick else BATCHES
        rows = [row for m in models for row in _precisions(m, folder, device, batches, rounds)]
        runs, facts = _runs(models[:2], folder, device, n_clips, settings.quick)
    packages = ("torch", "transformers", "av")
    tables = {"families": rows, "runs": runs}
    return GpuResult(_device_name(device), tables, facts, this_machine(packages))


def _models(folder: Path, quick: bool) -> Iterator[Model]:
    if quick:
        for small in MODELS:
            weights = small.save(folder / small.card, real_size=False)
            yield Model(small.backbone(folder, real_size=False), weights)
        return
    for card, sizes in SIZES.items():
        family = PRETRAINED[find_card(card).family.name]
        yield Model(card, save_random(family, sizes, folder / card))


def _precisions(
    model: Model, folder: Path, device: str, batches: Sequence[int], rounds: int
) -> Iterator[dict[str, Any]]:
    """Yield a row for each precision: difference to the CPU, and the speed of the best batch."""
    reference = model.load("cpu", folder)
    size, n_frames = reference.geometry.size, reference.geometry.frames
    frames = np.random.default_rng(0).integers(0, 256, (n_frames, size, size, 3), dtype=np.uint8)
    pixels = np.asarray(reference.preprocess(frames))[None]
    expected = as_arrays(reference.forward(pixels))
    for name, (_, _, peak) in PRECISIONS.items():
        backbone = model.load(device, folder, name)
        found = as_arrays(backbone.forward(pixels))
        worst = max(np.abs(found[n] - x).max() / np.abs(x).max() for n, x in expected.items())
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


def _runs(
    models: Sequence[Model], folder: Path, device: str, n_clips: int, quick: bool
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    seconds = 2 if quick else 12
    films = [make_film(folder / f"{i:03d}.mp4", i, seconds) for i in range(n_clips)]
    clips = tuple(PlannedClip(f"tt-{i:03d}", "tt", str(film)) for i, film in enumerate(films))

    def plan(name: str, chosen: Sequence[Model], **settings: Any) -> ExtractPlan:
        targets = tuple(
            Target(str(folder / f"{name}-{i}"), m.card, str(m.weights), block_rows=4, **settings)
            for i, m in enumerate(chosen)
        )
        return ExtractPlan("bench", "", "", clips, targets, workspace=str(folder))

    used = Resources(device=device, workers=1 if quick else usable_cores())
    rows = []
    one, two = plan("one", models[:1]), plan("two", models)
    for name, chosen, resources in (
        ("one backbone", one, used),
        ("two backbones, one pass", two, used),
        ("a batch that does not fit", plan("oom", models[:1]), replace(used, batch=HUGE_BATCH)),
    ):
        with _busy(device) as busy:
            started = time.monotonic()
            states = extract(chosen, resources, StopFlag())
            wall_s = time.monotonic() - started
        row = {"run": name, "ok": states[0].ok, "clips/s": n_clips / wall_s}
        rows.append({**row, "GPU busy": busy.get("share"), "copies beside": busy.get("beside")})
    killed = plan("killed", models[:1])
    n_killed = _kill_and_resume(killed, folder, device, 1 if quick else N_KILLS)
    same = _digest(killed) == _digest(one)
    text = f"{n_killed} kills, then resumed: {'the same' if same else 'OTHER'} bytes"
    return rows, {"kills": text, "cores": str(used.workers)}


def _kill_and_resume(plan: ExtractPlan, folder: Path, device: str, n_kills: int) -> int:
    """Run the command, kill it after its next commit, several times; then let it end."""
    file = folder / "plan.json"
    write_plan(plan, file)
    words = [sys.executable, "-m", "obygaze", "-q", "extract", "run", str(file), "--no-seal"]
    words += ["--device", device, "--share"]
    commits, n_killed = Path(plan.targets[0].store) / "commits", 0
    for _ in range(n_kills):
        before = len(list(commits.glob("block-*.json")))
        run = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while run.poll() is None and len(list(commits.glob("block-*.json"))) == before:
            time.sleep(0.01)
        if run.poll() is None:
            run.kill()
            n_killed += 1
        run.wait()
    if subprocess.run([*words], stdout=subprocess.DEVNULL).returncode:
        raise ObygazeError("the killed run could not be resumed")
    return n_killed


def _digest(plan: ExtractPlan) -> str:
    """Return a hash of all arrays of the first store."""
    root, digest = Path(plan.targets[0].store) / "data.zarr", hashlib.sha256()
    for path in sorted(root.rglob("c.*")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()


@contextmanager
def _busy(device: str) -> Iterator[dict[str, float]]:
    """Return the share of time with a kernel, and that of the copies' time beside a kernel."""
    found: dict[str, float] = {}
    if not device.startswith("cuda"):
        yield found
        return
    torch = need("torch", "extract", "measuring on a GPU")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        yield found
    spans: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            is_copy = event.name.lower().startswith("memcpy")
            spans[is_copy].append((event.time_range.start, event.time_range.end))
    found |= overlap(spans[False], spans[True])


def overlap(
    kernels: Sequence[tuple[float, float]], copies: Sequence[tuple[float, float]]
) -> dict[str, float]:
    """Return the share of the time from first to last kernel that has one, and of copies beside."""
    if not kernels:
        return {}
    merged: list[tuple[float, float]] = []
    for start, end in sorted(kernels):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    total = sum(end - start for start, end in merged)
    found = {"share": total / (merged[-1][1] - merged[0][0])}
    copied = sum(end - start for start, end in copies)
    if copied:
        pairs = ((copy, span) for copy in copies for span in merged)
        common = (max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in pairs)
        found["beside"] = sum(common) / copied
    return found


def _device_name(device: str) -> str:
    if not device.startswith("cuda"):
        return device
    name: str = need("torch", "extract", "measuring on a GPU").cuda.get_device_name(device)
    return name


def _text(value: Any) -> Any:
    return f"{value:.3g}" if isinstance(value, float) else value
