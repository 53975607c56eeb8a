"""`obygaze bench extract`: the pipeline against its own stages and against one clip at a time."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from obygaze_features.backbones.base import Backbone
from obygaze_features.core.bench import BenchResult, Contestant, compare
from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.extras import need
from obygaze_features.extraction.backends import stack, to_numpy
from obygaze_features.extraction.bench_models import MODELS
from obygaze_features.extraction.decoding import DecodeSettings, decode_rows
from obygaze_features.extraction.plan import ExtractPlan, Row, Target
from obygaze_features.extraction.run import Loaded, Machine, extract_into, load_targets
from obygaze_features.extraction.signals import StopFlag
from obygaze_features.store.reader import open_store
from obygaze_features.video.decode import Clip, View
from obygaze_features.video.sampling import sample_indices

WIDTH, HEIGHT, RATE, SECONDS = 640, 272, 24, 12
BATCH = 4


@dataclass(frozen=True)
class World:
    """Clips, a plan for one backbone and one for two, and the clips' frames decoded already."""

    folder: Path
    one: ExtractPlan
    two: ExtractPlan
    loaded_one: Sequence[Loaded]
    loaded_two: Sequence[Loaded]
    decoded: Sequence[Clip]


@click.command(
    "extract",
    cls=ExampleCommand,
    examples="""
    obygaze bench extract
    obygaze bench extract --clips 8 --rounds 1
    obygaze bench extract --device cuda --real-size --batch 32 --dtype bfloat16
    """,
)
@click.option("--clips", default=12, show_default=True, help="How many clips.")
@click.option("--rounds", default=3, show_default=True, help="Rounds that count.")
@click.option("--device", default="cpu", show_default=True, help="Where the models run.")
@click.option("--workers", default=1, show_default=True, help="Decode processes.")
@click.option("--batch", default=BATCH, show_default=True, help="Clips in a batch.")
@click.option("--dtype", default="float32", show_default=True, help="Precision of the models.")
@click.option("--real-size", is_flag=True, help="Backbones of the size of their checkpoints.")
@json_option
@pass_session
def bench_extract(session: Session, /, as_json: bool, **options: Any) -> None:
    """The pipeline against its own stages and against one clip at a time."""
    total = (options["rounds"] + 1) * 7
    with session.console.progress("bench extract", total, "runs") as progress:
        result = run_bench(**options, progress=progress)
    if as_json:
        session.console.json(result.as_json())
    else:
        session.console.result(result.as_text())


def run_bench(
    *,
    clips: int,
    rounds: int,
    device: str,
    workers: int,
    batch: int,
    dtype: str,
    real_size: bool,
    progress: Any = None,
) -> BenchResult:
    """Measure everything in one run; ratios between stages go into the facts."""
    if clips < 1 or rounds < 1:
        raise FixUsage("a bench needs at least one clip and one round")
    torch = need("torch", "extract", "the extraction bench")
    torch.set_num_threads(1)
    machine = Machine(device=device, workers=workers, batch=batch)
    with tempfile.TemporaryDirectory(prefix="obygaze-bench-") as folder:
        world = _make_world(Path(folder), clips, machine, dtype, real_size)
        result = compare(
            f"extraction of {clips} clips of {SECONDS} s, {WIDTH} x {HEIGHT}, on {device}",
            _contestants(world, machine),
            reference="pipeline",
            rounds=rounds,
            packages=("torch", "transformers", "av", "zarr"),
            progress=progress,
        )
    return replace(result, facts=_facts(result, clips, world))


def _contestants(world: World, machine: Machine) -> list[Contestant]:
    first, second = (loaded.backbone for loaded in world.loaded_two)

    def fresh(loaded: Sequence[Loaded]) -> Callable[[], None]:
        return lambda: _empty_stores(loaded)

    def pipeline(loaded: Sequence[Loaded], plan: ExtractPlan) -> Callable[[], object]:
        return lambda: extract_into(loaded, plan, machine, StopFlag())

    def forward_both() -> None:
        _forward(first, world.decoded, machine)
        _forward(second, world.decoded, machine)

    return [
        Contestant("decode alone", lambda: _decode(world, machine)),
        Contestant("forward alone", lambda: _forward(first, world.decoded, machine)),
        Contestant("pipeline", pipeline(world.loaded_one, world.one), fresh(world.loaded_one)),
        Contestant("forward of two", forward_both),
        Contestant("two, one pass", pipeline(world.loaded_two, world.two), fresh(world.loaded_two)),
        Contestant("one clip at a time", lambda: _released_way(world, first)),
        Contestant("reading back", lambda: open_store(world.one.targets[0].store).matrix("frames")),
    ]


def _facts(result: BenchResult, clips: int, world: World) -> dict[str, str]:
    wall = {timing.name: timing.wall_s for timing in result.timings}

    def ratio(ours: str, rival: Callable[[int], float]) -> str:
        pairs = (seconds / rival(i) for i, seconds in enumerate(wall[ours]))
        return f"{statistics.median(pairs):.2f}"

    larger = ratio("pipeline", lambda i: max(wall["decode alone"][i], wall["forward alone"][i]))
    total = ratio("pipeline", lambda i: wall["decode alone"][i] + wall["forward alone"][i])
    both = ratio("two, one pass", lambda i: wall["decode alone"][i] + wall["forward of two"][i])
    flops = world.loaded_one[0].backbone.flops * clips
    rate = clips / statistics.median(wall["pipeline"])
    return {
        "pipeline / larger of decode and forward": larger,
        "pipeline / sum of decode and forward": total,
        "two in one pass / one decode + both forwards": both,
        "clips a second": f"{rate:.2f}",
        "GFLOP/s of the model": f"{flops / statistics.median(wall['pipeline']) / 1e9:.1f}",
    }


def _make_world(folder: Path, n_clips: int, machine: Machine, dtype: str, real_size: bool) -> World:
    videos = [make_film(folder / f"{number:03d}.mp4", number) for number in range(n_clips)]
    rows = tuple(Row(f"tt-{number:03d}", "tt", str(path)) for number, path in enumerate(videos))
    targets = [
        Target(
            store=str(folder / "stores" / model.card),
            backbone=model.card,
            weights=str(model.save(folder / model.card, real_size=real_size)),
            dtype=dtype,
        )
        for model in MODELS
    ]
    alone = replace(targets[0], store=str(folder / "stores" / "alone"))
    one = ExtractPlan("bench", "", "", rows, (alone,), workspace=str(folder))
    two = ExtractPlan("bench", "", "", rows, tuple(targets), workspace=str(folder))
    loaded = load_targets(one, machine.device), load_targets(two, machine.device)
    view = loaded[0][0].view
    clips = [found.clips[view] for found in _decoded(rows, view, machine)]
    return World(folder, one, two, *loaded, [clip for clip in clips if isinstance(clip, Clip)])


def make_film(path: Path, seed: int, seconds: int = SECONDS) -> Path:
    """Smooth motion with a few cuts, at the codec's own choice of groups."""
    av = need("av", "video", "the extraction bench")
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32) / 60
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=RATE, options={"preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for number in range(RATE * seconds):
            if number % 60 == 0:
                phase = random.uniform(0, 6.28, 3).astype(np.float32)
            waves = (
                np.sin(x + p + number / 20) * np.cos(y * (1 + c) - p) for c, p in enumerate(phase)
            )
            picture = np.stack([(wave * 100 + 128).astype(np.uint8) for wave in waves], axis=-1)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        out.mux(stream.encode())
    return path


def _decoded(rows: Sequence[Row], view: View, machine: Machine) -> Any:
    ahead = 2 * machine.workers + (machine.batch or BATCH)
    jobs = [(number, (view,)) for number in range(len(rows))]
    return decode_rows(rows, jobs, DecodeSettings(machine.workers, 300, 1 / 8, ahead))


def _decode(world: World, machine: Machine) -> None:
    for _ in _decoded(world.one.rows, world.loaded_one[0].view, machine):
        pass


def _forward(backbone: Backbone, clips: Sequence[Clip], machine: Machine) -> None:
    size = machine.batch or BATCH
    for start in range(0, len(clips), size):
        pixels = stack([backbone.preprocess(clip.frames) for clip in clips[start : start + size]])
        for level in backbone.forward(pixels, only={"clip", "pooled", "frames"}).values():
            to_numpy(level)


def _released_way(world: World, backbone: Backbone) -> None:
    """Read every frame in order, keep some, one clip a forward pass, one .pth a clip."""
    av = need("av", "video", "the extraction bench")
    torch = need("torch", "extract", "the extraction bench")
    for row in world.one.rows:
        with av.open(row.video) as source:
            frames = [frame.to_ndarray(format="rgb24") for frame in source.decode(video=0)]
        chosen = sample_indices(len(frames), backbone.geometry.frames)
        pixels = backbone.preprocess(np.stack([frames[index] for index in chosen]))
        clip = backbone.forward(stack([pixels]), only={"clip"})["clip"]
        torch.save(clip.cpu(), world.folder / f"{row.clip_id}.pth")


def _empty_stores(loaded: Sequence[Loaded]) -> None:
    for one in loaded:
        store = Path(one.target.store)
        for marker in (store / "commits").glob("block-*.json"):
            marker.unlink()
        for chunk in (store / "data.zarr").glob("*/c.*"):
            if chunk.parent.name not in {"clip_id", "movie_id"}:
                chunk.unlink()
        shutil.rmtree(store / "staging", ignore_errors=True)
        (store / "staging").mkdir(exist_ok=True)
