"""Measure the speed of this machine with the user's own films, backbones and stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from obygaze_features.core.console import human, table
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.machine import Machine, duration, this_machine, time_runs, usable_cores

if TYPE_CHECKING:
    from obygaze_features.backbones.base import Backbone
    from obygaze_features.store.read.reader import Matrix

MAX_S = 30.0
# The size of the frames that time a model of any size.
SIZE_OF_ANY = 224


# The runs of work on `n_clips` clips, or on `n_bytes` bytes where that is known, with the speeds.
Measurement = dict[str, Any]


@dataclass(frozen=True)
class BenchResult:
    """Measurements on one machine."""

    title: str
    measurements: Sequence[Measurement]
    machine: Machine

    def to_json(self) -> dict[str, Any]:
        """Return every single time as JSON."""
        return asdict(self)

    def to_text(self) -> str:
        """Return a table with the machine below it."""
        rows = [
            (
                one["name"],
                duration(one["median_s"]),
                f"{duration(min(one['runs']['wall_s']))} to {duration(max(one['runs']['wall_s']))}",
                duration(one["median_cpu_s"]),
                f"{one['clips_per_s']:.3g}" if one["n_clips"] else None,
                None if one["n_bytes"] is None else f"{human(one['bytes_per_s'])}/s",
            )
            for one in self.measurements
        ]
        headers = ("", "median", "from to", "CPU time", "clips/s", "speed")
        n_runs = max(len(one["runs"]["wall_s"]) for one in self.measurements)
        about = f"medians of up to {n_runs} runs after a warm-up run; {self.machine.line()}"
        return "\n".join([self.title, table(headers, rows), about])


def measure_decoding(
    videos: Sequence[str | Path], *, count: int = 32, rounds: int = 3
) -> BenchResult:
    """Measure how fast this machine decodes `count` frames of each video, on one core.

    A video counts as one clip. It is decoded with its frames spread evenly, and from key frames
    only. The bytes are those of the decoded frames.
    """
    from obygaze_features.video.decode import decode_clip
    from obygaze_features.video.decoded_clip import View

    measurements = []
    for video in videos:
        for view in (View(count, "even"), View(count, "keyframes")):
            frames = decode_clip(video, view).frames
            name = f"{Path(video).name}, {frames.shape[2]} x {frames.shape[1]}, {view.sampling}"
            work = partial(decode_clip, video, view)
            measurements.append(_measure(name, work, rounds, 1, frames.nbytes))
    title = f"Decoding {count} frames of a clip"
    return BenchResult(title, measurements, this_machine(("av", "numpy")))


def measure_forward(
    backbone: str,
    weights: str | Path | None = None,
    *,
    batches: Sequence[int] = (1, 4, 16),
    rounds: int = 3,
    attention: str | None = None,
    **settings: Any,
) -> BenchResult:
    """Measure how many clips a second a backbone handles on a device, by the size of the batch.

    Frames are random numbers of the backbone's own shape. The first row is the preparation of the
    frames of one clip, which the decoder has resized. On a CPU, the clips of a batch are computed
    in threads, one a core. The settings are those of `load_backbone`, such as device and dtype.
    """
    from obygaze_features.backbones.load import load_backbone

    if not batches or min(batches) < 1:
        raise FixUsage(f"a batch must be at least 1 clip, got {', '.join(map(str, batches))}")
    model = load_backbone(backbone, weights, attn_implementation=attention, **settings)
    runs = forward_runs(model, batches, rounds)
    title = f"Backbone {model.card.label} on {model.placement.device}, {model.placement.dtype}"
    return BenchResult(title, runs, this_machine(("torch", "transformers")))


def forward_runs(model: Backbone, batches: Sequence[int], rounds: int) -> list[Measurement]:
    """Return the times to prepare random frames of one clip, and to compute clips at once."""
    from obygaze_features.extraction.compute import clip_threads, computer_for
    from obygaze_features.extraction.recipes import arrays_of, chosen_levels
    from obygaze_features.video.decoded_clip import DecodedClip

    size, n_frames = model.geometry.size or SIZE_OF_ANY, model.geometry.frames
    shape = (n_frames, size, size, 3)
    frames = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    pictures = frames if model.resize is None else model.resize(frames)
    index, real = np.arange(n_frames), np.ones(n_frames, bool)
    facts = (index, index, index / 25, index / 25, ~real, real, n_frames, False, 0.0)
    clip = DecodedClip(Path(), pictures, *facts)
    prepare = partial(model.normalise, pictures)
    measurements = [_measure("prepare frames", prepare, rounds, 1, frames.nbytes)]
    specs = [spec for spec in arrays_of(model, chosen_levels(model, ())) if spec.is_level]
    with clip_threads(usable_cores()) as pool:
        computer = computer_for(model, specs, pool)
        for batch in batches:
            work = partial(computer.compute_all, [clip] * batch)
            measurements.append(_measure(f"forward, batch {batch}", work, rounds, batch))
    return measurements


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
    middle = len(ids) // 2
    movie = str(store.movie_ids[everything.rows[middle]])
    tenth = np.random.default_rng(0).permutation(ids)[: max(1, len(ids) // 10)].tolist()
    selections: dict[str, dict[str, Any]] = {
        "all clips": {},
        f"movie {movie}": {"movies": [movie]},
        "a random tenth": {"clips": tenth},
        "one clip": {"clips": [str(ids[middle])]},
    }

    def read(selection: dict[str, Any]) -> Matrix:
        return open_store(location).matrix(level, missing="drop", **selection)

    measurements = [_measure("open", partial(open_store, location), rounds, 0)]
    for name, selection in selections.items():
        found, work = read(selection), partial(read, selection)
        measurements.append(_measure(name, work, rounds, len(found.clip_ids), found.values.nbytes))
    title = f"Reading level {level} of {store.location}"
    return BenchResult(title, measurements, this_machine(("numpy", "zarr", "obstore")))


def _measure(
    name: str, work: Callable[[], object], rounds: int, n_clips: int, n_bytes: int | None = None
) -> Measurement:
    runs = time_runs(work, rounds, max_s=MAX_S)
    median_s = max(runs.median_s, 1e-6)
    return {
        "name": name,
        "runs": runs._asdict(),
        "n_clips": n_clips,
        "n_bytes": n_bytes,
        "median_s": runs.median_s,
        "median_cpu_s": runs.median_cpu_s,
        "clips_per_s": n_clips / median_s,
        "bytes_per_s": None if n_bytes is None else n_bytes / median_s,
    }
