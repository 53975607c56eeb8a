"""The extraction pipeline beside its own stages, and beside one clip at a time."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import Comparison, Contestant, Settings, compare
from obygaze_features.backbones.base import Backbone
from obygaze_features.backbones.families import PRETRAINED
from obygaze_features.backbones.pretrained import save_random
from obygaze_features.core.files import write_atomic
from obygaze_features.core.lazy import need
from obygaze_features.extraction.compute import (
    ThreadComputer,
    clip_threads,
    computer_for,
    stack,
)
from obygaze_features.extraction.decoding import DecodedRow, decode_rows
from obygaze_features.extraction.plan import ExtractPlan, PlannedClip, Target
from obygaze_features.extraction.run import (
    LoadedTarget,
    Resources,
    extract_rows,
    load_targets,
    pending_work,
)
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.store.read.reader import open_store
from obygaze_features.video.decoded_clip import DecodedClip, View
from obygaze_features.video.index import sample_indices
from obygaze_features.video.pool import DecodePool

WIDTH = 640
HEIGHT = 272
RATE = 24
SECONDS = 12
BATCH = 4
# The first clip is decoded before anything is computed, and the last is computed after everything
# is decoded: of many clips, these ends are a small part.
N_CLIPS = 64
N_FILMS = 8
ROUNDS = 3

# A clip takes a few tenths of a second on one core.
SMALL: dict[str, Any] = {
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "patch_size": 32,
}
# A card of their own: weights must be what their card says.
SMALL_CARD = """\
schema = "obygaze-backbone/1"
like = "{like}"
name = "{name}"
title = "{name}: random weights for the benchmark"

[tokens]
grid = [16, 7, 7]
width = 384
out = {out}

[depth]
layers = 6
hidden = 1536
heads = 6
"""


@dataclass(frozen=True)
class RandomModel:
    """A card, and the sizes of the random weights that replace its own."""

    card: str
    family: str
    extra: dict[str, Any]
    real: dict[str, Any]
    out: int

    def backbone(self, folder: Path, *, real_size: bool) -> str:
        """The card that its weights are of: the checkpoint's, or one written for the small ones."""
        if real_size:
            return self.card
        path = folder / "backbones" / f"small-{self.family}.toml"
        text = SMALL_CARD.format(like=self.card, name=path.stem, out=self.out)
        write_atomic(path, text.encode("utf-8"))
        return path.stem

    def save(self, folder: Path, *, real_size: bool) -> Path:
        """Write its checkpoint."""
        sizes = {**self.extra, **self.real} if real_size else {**SMALL, **self.extra}
        return save_random(PRETRAINED[self.family], sizes, folder)


MODELS = (
    RandomModel(
        "clip-b16",
        "clip",
        {"image_size": 224, "projection_dim": 256},
        {
            "patch_size": 16,
            "hidden_size": 768,
            "intermediate_size": 3072,
            "projection_dim": 512,
        },
        256,
    ),
    RandomModel(
        "dinov2-b",
        "dinov2",
        {"image_size": 224, "mlp_ratio": 4},
        {"patch_size": 14, "hidden_size": 768, "image_size": 518},
        384,
    ),
)


@dataclass(frozen=True)
class Plans:
    """A plan for one backbone and one for two, and the decoded frames of the clips."""

    folder: Path
    plan_of_one: ExtractPlan
    plan_of_two: ExtractPlan
    loaded_one: Sequence[LoadedTarget]
    loaded_two: Sequence[LoadedTarget]
    decoded: Sequence[DecodedClip]


@dataclass(frozen=True)
class Size:
    """The number of clips and rounds, and how and where the models run."""

    clips: int
    rounds: int
    device: str = "cpu"
    batch: int = BATCH
    dtype: str = "float32"
    real_size: bool = False


def measure(settings: Settings) -> Comparison:
    """Measure the pipeline on the CPU with small models."""
    return measure_size(
        Size(4 if settings.quick else N_CLIPS, settings.rounds_or(ROUNDS))
    )


def no_gpu() -> str:
    """Return why PyTorch has no GPU here, or an empty string if it has one."""
    torch = need("torch", "extract", "measuring on a GPU")
    if torch.cuda.is_available():
        return ""
    if torch.version.cuda is None:
        return f"PyTorch {torch.__version__} was built without CUDA"
    return "PyTorch finds no GPU on this machine"


def measure_size(size: Size) -> Comparison:
    """Measure the pipeline, its stages alone, and one clip at a time.

    Ratios between stages are among the facts of the result.
    """
    torch = need("torch", "extract", "measuring the extraction")
    torch.set_num_threads(1)
    # One core decodes and one computes, so that each stage alone has what it has in the pipeline.
    resources = Resources(device=size.device, workers=1, threads=1, batch=size.batch)
    with tempfile.TemporaryDirectory(prefix="obygaze-bench-") as folder:
        plans = _make_plans(Path(folder), size, resources)
        result = compare(
            f"extraction of {size.clips} clips of {SECONDS} s, {WIDTH} x {HEIGHT}, on"
            f" {size.device}",
            _contestants(plans, resources),
            reference="pipeline",
            rounds=size.rounds,
            packages=("torch", "transformers", "av", "zarr"),
        )
        return replace(result, facts=_facts(result, size.clips, plans))


def _contestants(plans: Plans, resources: Resources) -> list[Contestant]:
    first = plans.loaded_two[0]

    def fresh(loaded: Sequence[LoadedTarget]) -> Callable[[], None]:
        return lambda: _empty_stores(loaded)

    def pipeline(
        loaded: Sequence[LoadedTarget], plan: ExtractPlan
    ) -> Callable[[], object]:
        return lambda: extract_rows(
            pending_work(loaded, plan), plan, resources, StopFlag()
        )

    def forward_both() -> None:
        for loaded in plans.loaded_two:
            _forward(loaded, plans.decoded, resources)

    return [
        Contestant("decode alone", lambda: _decode(plans, resources)),
        Contestant("forward alone", lambda: _forward(first, plans.decoded, resources)),
        Contestant(
            "pipeline",
            pipeline(plans.loaded_one, plans.plan_of_one),
            fresh(plans.loaded_one),
        ),
        Contestant("forward of two", forward_both),
        Contestant(
            "two, one pass",
            pipeline(plans.loaded_two, plans.plan_of_two),
            fresh(plans.loaded_two),
        ),
        Contestant("one clip at a time", lambda: _one_at_a_time(plans, first.backbone)),
        Contestant(
            "reading back",
            lambda: open_store(plans.plan_of_one.targets[0].store).matrix("frames"),
        ),
    ]


def _facts(result: Comparison, clips: int, plans: Plans) -> dict[str, str]:
    wall = {timing.name: timing.wall_s for timing in result.timings}

    def ratio(ours: str, rival: Callable[[int], float]) -> str:
        pairs = (seconds / rival(i) for i, seconds in enumerate(wall[ours]))
        return f"{statistics.median(pairs):.2f}"

    larger = ratio(
        "pipeline", lambda i: max(wall["decode alone"][i], wall["forward alone"][i])
    )
    total = ratio(
        "pipeline", lambda i: wall["decode alone"][i] + wall["forward alone"][i]
    )
    two_in_one_pass = ratio(
        "two, one pass", lambda i: wall["decode alone"][i] + wall["forward of two"][i]
    )
    cpu = {timing.name: statistics.median(timing.cpu_s) for timing in result.timings}
    stages = cpu["decode alone"] + cpu["forward alone"]
    rate = clips / statistics.median(wall["pipeline"])
    return {
        "pipeline / larger of decode and forward": larger,
        "pipeline / its own computing": f"{wall['pipeline'][-1] / _busy_s(plans):.2f}",
        "pipeline / sum of decode and forward": total,
        "CPU of the pipeline / CPU of decode and forward": f"{cpu['pipeline'] / stages:.2f}",
        "two in one pass / one decode + both forwards": two_in_one_pass,
        "clips a second": f"{rate:.2f}",
    }


def _busy_s(plans: Plans) -> float:
    """The seconds that the last run of the pipeline prepared and computed clips.

    The rest of it is waiting, most of all for the first picture. Unlike other ratios it is of one
    run, so it does not vary with the speed of the machine.
    """
    store = open_store(plans.plan_of_one.targets[0].store)
    markers = filter(None, map(store.commits.marker, range(store.plan.n_blocks)))
    return sum(
        marker.seconds["preprocess"] + marker.seconds["forward"] for marker in markers
    )


def _make_plans(folder: Path, size: Size, resources: Resources) -> Plans:
    films = [
        make_film(folder / f"{n:03d}.mp4", n) for n in range(min(size.clips, N_FILMS))
    ]
    videos = [films[number % len(films)] for number in range(size.clips)]
    rows = tuple(
        PlannedClip(f"tt-{number:03d}", "tt", str(path))
        for number, path in enumerate(videos)
    )
    targets = [
        Target(
            store=str(folder / "stores" / model.card),
            backbone=model.backbone(folder, real_size=size.real_size),
            weights=str(model.save(folder / model.card, real_size=size.real_size)),
            dtype=size.dtype,
        )
        for model in MODELS
    ]
    alone = replace(targets[0], store=str(folder / "stores" / "alone"))
    plan_of_one = ExtractPlan("bench", "", "", rows, (alone,), workspace=str(folder))
    plan_of_two = ExtractPlan(
        "bench", "", "", rows, tuple(targets), workspace=str(folder)
    )
    loaded = (
        load_targets(plan_of_one, resources.device),
        load_targets(plan_of_two, resources.device),
    )
    view = loaded[0][0].view
    clips = [row.clips[view] for row in _decoded(plan_of_one, view, resources)]
    decoded = [clip for clip in clips if isinstance(clip, DecodedClip)]
    return Plans(folder, plan_of_one, plan_of_two, *loaded, decoded)


def make_film(path: Path, seed: int, seconds: int = SECONDS) -> Path:
    """Make a film of smooth motion with a few cuts, with the defaults of the codec."""
    av = need("av", "video", "measuring the extraction")
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32) / 60
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=RATE, options={"preset": "veryfast"})
        stream.width = WIDTH
        stream.height = HEIGHT
        stream.pix_fmt = "yuv420p"
        for number in range(RATE * seconds):
            if number % 60 == 0:
                phase = random.uniform(0, 6.28, 3).astype(np.float32)
            waves = (
                np.sin(x + p + number / 20) * np.cos(y * (1 + c) - p)
                for c, p in enumerate(phase)
            )
            picture = np.stack(
                [(wave * 100 + 128).astype(np.uint8) for wave in waves], axis=-1
            )
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        out.mux(stream.encode())
    return path


def _decoded(
    plan: ExtractPlan, view: View, resources: Resources
) -> Iterator[DecodedRow]:
    ahead = 2 * resources.workers + (resources.batch or BATCH)
    jobs = [(row, (view,)) for row in range(len(plan.rows))]
    with DecodePool(resources.workers, timeout_s=plan.timeout_s) as pool:
        yield from decode_rows(plan, jobs, pool, ahead=ahead)


def _decode(plans: Plans, resources: Resources) -> None:
    for _ in _decoded(plans.plan_of_one, plans.loaded_one[0].view, resources):
        pass


def _forward(
    loaded: LoadedTarget, clips: Sequence[DecodedClip], resources: Resources
) -> None:
    """Compute all clips as a run does, as many at once as there."""
    arrays = [spec for spec in loaded.writer.plan.arrays if spec.is_feature_array]
    with clip_threads(resources.compute_threads) as pool:
        computer = computer_for(loaded.backbone, arrays, pool)
        size = (
            len(clips)
            if isinstance(computer, ThreadComputer)
            else resources.batch or BATCH
        )
        for start in range(0, len(clips), size):
            computer.compute_all(clips[start : start + size])


def _one_at_a_time(plans: Plans, backbone: Backbone) -> None:
    """Read every frame in order, keep some, one clip a forward pass, one .pth a clip."""
    av = need("av", "video", "measuring the extraction")
    torch = need("torch", "extract", "measuring the extraction")
    for row in plans.plan_of_one.rows:
        with av.open(row.video) as source:
            frames = [
                frame.to_ndarray(format="rgb24") for frame in source.decode(video=0)
            ]
        chosen = sample_indices(len(frames), backbone.geometry.frames)
        pixels = backbone.preprocess(np.stack([frames[index] for index in chosen]))
        clip = backbone.forward(stack([pixels]), only={"clip"})["clip"]
        torch.save(clip.cpu(), plans.folder / f"{row.clip_id}.pth")


def _empty_stores(loaded: Sequence[LoadedTarget]) -> None:
    for target in loaded:
        store = Path(target.target.store)
        for marker in (store / "commits").glob("block-*.json"):
            marker.unlink()
        for chunk in (store / "data.zarr").glob("*/c.*"):
            if chunk.parent.name not in {"clip_id", "movie_id"}:
                chunk.unlink()
        shutil.rmtree(store / "staging", ignore_errors=True)
        (store / "staging").mkdir(exist_ok=True)
