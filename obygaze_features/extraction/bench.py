"""Measure this machine on a person's own films, backbone and store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.console import human, table
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.machine import Machine, this_machine
from obygaze_features.core.timing import Runs, duration, time_runs

MAX_S = 30.0


@dataclass(frozen=True)
class Measurement:
    """The runs of work on `n_clips` clips, or on `n_bytes` bytes where that is known."""

    name: str
    runs: Runs
    n_clips: int
    n_bytes: int | None = None

    @property
    def clips_per_s(self) -> float:
        """The clips per second of wall time."""
        return self.n_clips / max(self.runs.median_s, 1e-6)

    @property
    def bytes_per_s(self) -> float | None:
        """The bytes per second of wall time."""
        return None if self.n_bytes is None else self.n_bytes / max(self.runs.median_s, 1e-6)


@dataclass(frozen=True)
class BenchResult:
    """Measurements on one machine."""

    title: str
    measurements: tuple[Measurement, ...]
    machine: Machine

    def as_json(self) -> dict[str, Any]:
        """Return every single time as JSON."""
        measurements = [
            {
                **asdict(one),
                "runs": one.runs._asdict(),
                "median_s": one.runs.median_s,
                "median_cpu_s": one.runs.median_cpu_s,
                "clips_per_s": one.clips_per_s,
                "bytes_per_s": one.bytes_per_s,
            }
            for one in self.measurements
        ]
        return {
            "title": self.title,
            "machine": self.machine.as_json(),
            "measurements": measurements,
        }

    def as_text(self) -> str:
        """Return a table with the machine below it."""
        rows = [
            (
                one.name,
                duration(one.runs.median_s),
                f"{duration(min(one.runs.wall_s))} to {duration(max(one.runs.wall_s))}",
                duration(one.runs.median_cpu_s),
                f"{one.clips_per_s:.3g}" if one.n_clips else None,
                None if one.bytes_per_s is None else f"{human(one.bytes_per_s)}/s",
            )
            for one in self.measurements
        ]
        headers = ("", "median", "from to", "CPU time", "clips/s", "speed")
        n_runs = max(len(one.runs.wall_s) for one in self.measurements)
        about = f"medians of up to {n_runs} runs after a warm-up run; {self.machine.line()}"
        return "\n".join([self.title, table(headers, rows), about])


def measure_decoding(
    videos: Sequence[str | Path],
    *,
    count: int = 32,
    sampling: Sequence[str] = ("even", "keyframes"),
    rounds: int = 3,
) -> BenchResult:
    """Measure how fast this machine decodes `count` frames of each video, on one core.

    A video counts as one clip, and is decoded once for each rule of `sampling`. The bytes are
    those of the decoded frames.
    """
    from obygaze_features.video.decode import View, decode_clip

    measurements = []
    for video in videos:
        for rule in sampling:
            view = View(count, rule)  # type: ignore[arg-type]
            clip = decode_clip(video, view)
            height, width = clip.frames.shape[1:3]
            name = f"{Path(video).name}, {width} x {height}, {rule}"
            runs = time_runs(lambda: decode_clip(video, view), rounds, max_s=MAX_S)  # noqa: B023
            measurements.append(Measurement(name, runs, 1, clip.frames.nbytes))
    title = f"Decoding {count} frames of a clip"
    return BenchResult(title, tuple(measurements), this_machine(("av", "numpy")))


def measure_forward(
    backbone: str,
    weights: str | Path | None = None,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    batches: Sequence[int] = (1, 4, 16),
    rounds: int = 3,
    workspace: Any = None,
) -> BenchResult:
    """Measure how many clips a second a backbone handles on a device, by the size of the batch.

    Frames are random numbers of the backbone's own shape. The first row is the preparation of the
    frames of one clip, which runs on the CPU for every backbone.
    """
    from obygaze_features.backbones.load import load_backbone
    from obygaze_features.extraction.blocks import stack, to_numpy

    if not batches or min(batches) < 1:
        raise FixUsage(f"a batch must be at least 1 clip, got {', '.join(map(str, batches))}")
    model = load_backbone(backbone, weights, device=device, dtype=dtype, workspace=workspace)
    size = model.geometry.size or 224
    shape = (model.geometry.frames, size, size, 3)
    frames = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    pixels = model.preprocess(frames)

    def forward(batch: int) -> Callable[[], object]:
        inputs = stack([pixels] * batch)
        # Copying a result to the CPU waits until the device has computed it.
        return lambda: [to_numpy(level) for level in model.forward(inputs).values()]

    prepare = time_runs(lambda: model.preprocess(frames), rounds, max_s=MAX_S)
    measurements = [Measurement("prepare frames", prepare, 1, frames.nbytes)]
    for batch in batches:
        runs = time_runs(forward(batch), rounds, max_s=MAX_S)
        measurements.append(Measurement(f"forward, batch {batch}", runs, batch))
    title = f"Backbone {model.card.label} on {device}, {dtype}"
    return BenchResult(title, tuple(measurements), this_machine(("torch", "transformers")))


def measure_reading(
    location: str | Path, level: str | None = None, *, rounds: int = 3
) -> BenchResult:
    """Measure how fast a level of a store is read: all clips, a movie, a random tenth, one clip.

    The store is opened again for every run. Clips without features are left out. On a local disk,
    all but the warm-up run may read from the cache of the system.
    """
    from obygaze_features.store.read.reader import open_store

    store = open_store(location)
    level = level or store.levels[0]
    everything = store.matrix(level, missing="drop")
    ids = everything.clip_ids
    if not len(ids):
        raise FixInput("no clip has features; nothing to read", where=store.location)
    first = int(len(ids) // 2)
    movie = str(store.movie_ids[everything.rows[first]])
    tenth = np.random.default_rng(0).permutation(ids)[: max(1, len(ids) // 10)].tolist()
    parts: dict[str, dict[str, Any]] = {
        "all clips": {},
        f"movie {movie}": {"movies": [movie]},
        "a random tenth": {"clips": tenth},
        "one clip": {"clips": [str(ids[first])]},
    }
    measurements = [Measurement("open", time_runs(lambda: open_store(location), rounds), 0)]
    for name, part in parts.items():

        def read(part: dict[str, Any] = part) -> Any:
            return open_store(location).matrix(level, missing="drop", **part)

        found = read()
        runs = time_runs(read, rounds, max_s=MAX_S)
        measurements.append(Measurement(name, runs, len(found.clip_ids), found.values.nbytes))
    title = f"Reading level {level} of {store.location}"
    return BenchResult(title, tuple(measurements), this_machine(("numpy", "zarr", "obstore")))
