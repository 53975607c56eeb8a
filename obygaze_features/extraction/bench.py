"""`obygaze bench`: the speed of this machine with the user's own films, backbones and stores."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import click

from obygaze_features.backbones.actions import (
    Attention,
    Device,
    Precision,
    Weights,
    check_backbone,
)
from obygaze_features.backbones.base import Backbone, Card
from obygaze_features.core.console import human, table
from obygaze_features.core.docstrings import described_as_in
from obygaze_features.core.errors import FixInput
from obygaze_features.core.function_commands import FunctionGroup
from obygaze_features.core.machine import (
    Machine,
    duration,
    this_machine,
    time_runs,
    usable_cores,
)
from obygaze_features.core.options import Option
from obygaze_features.core.workspace import PathLike, Workspace

ROUNDS = 3
MAX_S = 30.0

# The runs of work on `n_clips` clips, or on `n_bytes` bytes where that is known, with the speeds.
Measurement = dict[str, Any]


def decode_runs(videos: Sequence[Path], count: int) -> Iterator[Measurement]:
    """Yield the times to decode `count` frames of each video, spread evenly and from key frames.

    A video counts as one clip. One core decodes. The bytes are those of the decoded frames.
    """
    from obygaze_features.video.decode import decode_clip
    from obygaze_features.video.decoded_clip import View

    for video in videos:
        for view in (View(count, "even"), View(count, "keyframes")):
            pictures = decode_clip(video, view).pictures
            name = f"{video.name}, {pictures.shape[2]} x {pictures.shape[1]}, {view.sampling}"
            yield _measure(name, partial(decode_clip, video, view), 1, pictures.nbytes)


def forward_runs(
    model: Backbone, batches: Sequence[int], rounds: int = ROUNDS
) -> list[Measurement]:
    """Return the times to prepare random frames of one clip, and to compute clips at once.

    The decoder has resized the frames. On a CPU, the clips of a batch are computed in threads, one
    a core.
    """
    import numpy as np

    from obygaze_features.extraction.compute import (
        clip_of_levels,
        clip_threads,
        computer_for,
    )
    from obygaze_features.extraction.recipes import arrays_of, chosen_arrays

    random = np.random.default_rng(0)
    clip = clip_of_levels(
        model, lambda shape, dtype: random.integers(0, 256, shape, dtype)
    )
    resized = clip.shared_pictures
    prepare = partial(model.normalise, resized)
    measurements = [_measure("prepare frames", prepare, 1, resized.nbytes, rounds)]
    specs = [
        spec
        for spec in arrays_of(model, chosen_arrays(model, ()))
        if spec.is_feature_array
    ]
    with clip_threads(usable_cores()) as pool:
        computer = computer_for(model, specs, pool)
        for batch in batches:
            work = partial(computer.compute_all, [clip] * batch)
            name = f"forward, batch {batch}"
            measurements.append(_measure(name, work, batch, rounds=rounds))
    return measurements


def read_runs(location: str | Path, array: str | None = None) -> Iterator[Measurement]:
    """Yield the times to read an array of a store: all clips, a film, a random tenth, one clip.

    The store is opened again for every run. Clips without features are left out. On a local disk,
    all but the warm-up run may read from the cache of the system.
    """
    import numpy as np

    from obygaze_features.store.read.reader import open_store

    store = open_store(location)
    array = array or store.feature_arrays[0]
    everything = store.matrix(array, missing="drop")
    ids = everything.clip_ids
    if not len(ids):
        raise FixInput("no clip has features; nothing to read", where=store.location)
    middle = len(ids) // 2
    film = str(store.movie_ids[everything.rows[middle]])
    tenth = np.random.default_rng(0).permutation(ids)[: max(1, len(ids) // 10)].tolist()
    selections: dict[str, dict[str, Any]] = {
        "all clips": {},
        f"film {film}": {"films": [film]},
        "a random tenth": {"clips": tenth},
        "one clip": {"clips": [str(ids[middle])]},
    }
    yield _measure("open", partial(open_store, location), 0)
    for name, selection in selections.items():
        matrix = store.matrix(array, missing="drop", **selection)

        def read(selection: dict[str, Any] = selection) -> object:
            return open_store(location).matrix(array, missing="drop", **selection)

        yield _measure(name, read, len(matrix.clip_ids), matrix.values.nbytes)


def _measure(
    name: str,
    work: Callable[[], object],
    n_clips: int,
    n_bytes: int | None = None,
    rounds: int = ROUNDS,
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


@dataclass(frozen=True)
class Speeds:
    """Measurements of one kind of work on this machine."""

    title: str
    measurements: Sequence[Measurement]
    machine: Machine

    def to_json(self) -> dict[str, Any]:
        """Return the measurements, with the machine below them."""
        return {
            "title": self.title,
            "measurements": self.measurements,
            "machine": self.machine.to_json(),
        }

    def __str__(self) -> str:
        rows = []
        for measurement in self.measurements:
            bytes_per_s = measurement["bytes_per_s"]
            clips_per_s = None
            if measurement["n_clips"]:
                clips_per_s = f"{measurement['clips_per_s']:.3g}"
            row = (
                measurement["name"],
                duration(measurement["median_s"]),
                duration(measurement["median_cpu_s"]),
                clips_per_s,
                None if bytes_per_s is None else f"{human(bytes_per_s)}/s",
            )
            rows.append(row)
        speeds = table(("", "median", "CPU time", "clips/s", "speed"), rows)
        about = f"medians of {ROUNDS} runs after a warm-up run; {self.machine.line()}"
        return f"{self.title}\n{speeds}\n{about}"


def bench_decode(
    videos: Sequence[str | Path],
    *,
    count: Annotated[int, Option(least=1, most=100_000)] = 32,
) -> Speeds:
    """Measure how fast your videos are decoded.

    Each video is one clip. Its frames are decoded twice: spread evenly, and from key frames only.

    Args:
        videos: The files of the videos.
        count: Frames of a clip.

    Commands:
        obygaze bench decode film.mkv
        obygaze bench decode films/*.mp4 --count 16 --json
    """
    title = f"Decoding {count} frames of a clip"
    runs = [*decode_runs([Path(video) for video in videos], count)]
    return Speeds(title, runs, this_machine(("av", "numpy")))


@described_as_in(check_backbone)
def bench_forward(
    name: str | Card,
    *,
    weights: Weights = None,
    device: Device = "cpu",
    dtype: Precision = "float32",
    attn_implementation: Attention = None,
    batches: Annotated[Sequence[int], Option("--batch", least=1, most=100_000)] = (
        1,
        4,
        16,
    ),
    workspace: PathLike | None = None,
) -> Speeds:
    """Measure how many clips a second a backbone handles.

    The frames are random numbers. Decoding is not included; see `obygaze bench decode`.

    Args:
        batches: Clips computed at once.

    Commands:
        obygaze bench forward descriptors
        obygaze bench forward xclip-b16-k400 --device cuda --dtype bfloat16 --batch 8 --batch 32
        obygaze bench forward vivit-b16x2-k400 --weights vivit --json
    """
    from obygaze_features.backbones.load import load_backbone

    model = load_backbone(
        name,
        weights,
        device=device,
        dtype=dtype,
        attn_implementation=attn_implementation,
        workspace=workspace,
    )
    title = f"Backbone {model.card.label} on {model.placement.device}, {model.placement.dtype}"
    runs = forward_runs(model, batches)
    return Speeds(title, runs, this_machine(("torch", "transformers")))


def bench_read(
    store: str, *, array: str | None = None, workspace: PathLike | None = None
) -> Speeds:
    """Measure how fast a store is read.

    STORE is a name, a path or a URL. It reads all clips, one film, a random tenth, and one clip.

    Args:
        store: The store.
        array: The array to read. [default: the first]
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze bench read films.vivit
        obygaze bench read https://example.org/stores/films.vivit --array pooled --json
    """
    location = Workspace.of(workspace).existing_store(store)
    runs = [*read_runs(location, array)]
    machine = this_machine(("numpy", "zarr", "obstore"))
    return Speeds(f"Reading {location}", runs, machine)


HERE = "obygaze_features.extraction.bench"
COMMANDS = {
    "decode": (f"{HERE}:bench_decode", "Measure how fast your videos are decoded."),
    "forward": (
        f"{HERE}:bench_forward",
        "Measure how many clips a second a backbone handles.",
    ),
    "read": (f"{HERE}:bench_read", "Measure how fast a store is read."),
}


@click.group(cls=FunctionGroup, table=COMMANDS)
def bench() -> None:
    """Measure this machine on your own films, backbones and stores."""
