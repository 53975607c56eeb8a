"""Whole runs on a GPU: from films and from kept pictures, out of memory, killed and resumed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.extraction.gpu_models import PRECISIONS, Model
from benchmarks.extraction.pipeline import make_film
from obygaze_features.backbones.cards import find_card
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.lazy import need
from obygaze_features.core.machine import usable_cores
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.blocks import BlockMaker
from obygaze_features.extraction.compute import Computer
from obygaze_features.extraction.estimate import forward_runs
from obygaze_features.extraction.plan import (
    ExtractPlan,
    PlannedClip,
    Target,
    write_plan,
)
from obygaze_features.extraction.run import MAX_BATCH, Resources, extract_plan
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.store import open_store

N_FILMS = 16
FILM_S = 12
N_CLIPS = 256
N_KILLS = 3
# A batch does not extend over the end of a block, so a block has room for the largest.
BLOCK_ROWS = MAX_BATCH
Row = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """A folder with films, the device, and how many clips a run has; links repeat the films."""

    folder: Path
    device: str
    n_films: int
    n_clips: int
    block_rows: int
    workers: int

    @classmethod
    def make(cls, folder: Path, device: str, *, quick: bool) -> Bench:
        """Make the films; a few short ones, and one decoder, if quick."""
        n_films, seconds, workers = (
            (4, 1, 1) if quick else (N_FILMS, FILM_S, usable_cores())
        )
        for i in range(n_films):
            make_film(folder / f"film-{i:03d}.mp4", i, seconds)
        n_clips, block_rows = (4, 2) if quick else (N_CLIPS, BLOCK_ROWS)
        return cls(folder, device, n_films, n_clips, block_rows, workers)

    @property
    def resources(self) -> Resources:
        """The device and its decoders."""
        return Resources(device=self.device, workers=self.workers)

    def plan(
        self, targets: Sequence[Target], n_clips: int | None = None
    ) -> ExtractPlan:
        """Return the plan of some targets, by default with the usual number of clips."""
        clips = [self._clip(number) for number in range(n_clips or self.n_clips)]
        return ExtractPlan(
            "bench", "", "", tuple(clips), tuple(targets), workspace=str(self.folder)
        )

    def target(self, model: Model, name: str, precision: str = "float32") -> Target:
        """Return a target with a store of its own."""
        return model.target(self.folder / "stores" / name, self.block_rows, precision)

    def _clip(self, number: int) -> PlannedClip:
        """Return a clip with a file of its own, since clips of one file share an index."""
        link = self.folder / "clips" / f"{number:07d}.mp4"
        if not link.exists():
            link.parent.mkdir(exist_ok=True)
            os.link(self.folder / f"film-{number % self.n_films:03d}.mp4", link)
        return PlannedClip(f"tt-{number:07d}", "tt", str(link))


def cached_rows(bench: Bench, models: Sequence[Model]) -> Iterator[Row]:
    """Yield a row for each backbone and precision: a run from films, and one from kept pictures."""
    for model in models:
        targets = [
            bench.target(model, f"{model.card}-{name}", name) for name in PRECISIONS
        ]
        films = [_timed(bench, bench.plan([target])) for target in targets]
        pictures = _keep_pictures(bench, model)
        again = [replace(target, store=f"{target.store}-kept") for target in targets]
        from_pictures = [_timed(bench, bench.plan([target])) for target in again]
        same = [digest(a) == digest(b) for a, b in zip(targets, again, strict=True)]
        for target in (pictures, *targets, *again):
            shutil.rmtree(target.store)
        for name, from_film, two, is_same in zip(
            PRECISIONS, films, from_pictures, same, strict=True
        ):
            yield {
                "backbone": model.card,
                "precision": name,
                "clips/s from films": from_film["clips/s"],
                "GPU busy": from_film["GPU busy"],
                "clips/s from cache": two["clips/s"],
                "GPU busy, cache": two["GPU busy"],
                "copies beside, cache": two["copies beside"],
                "bytes": "the same" if is_same else "OTHER",
            }


def _keep_pictures(bench: Bench, model: Model) -> Target:
    """Extract the pictures that a backbone sees to where the next run finds them."""
    workspace = Workspace(bench.folder)
    card = find_card(f"frames:{model.card}", workspace=workspace).name
    store = workspace.folder("stores") / f"bench.{card}"
    target = Target(str(store), f"frames:{model.card}", block_rows=bench.block_rows)
    extract_plan(
        bench.plan([target]), replace(bench.resources, device="cpu"), StopFlag()
    )
    return target


def memory_rows(bench: Bench, models: Sequence[Model]) -> Iterator[Row]:
    """Yield runs of one backbone, of two in one pass, and of one whose batch does not fit."""
    alone = bench.target(models[0], "one")
    together = [bench.target(model, f"two-{i}") for i, model in enumerate(models[:2])]
    large = bench.target(models[0], "large")
    yield {
        "run": "one backbone",
        **_timed(bench, bench.plan([alone])),
        "difference": None,
    }
    row = _timed(bench, bench.plan(together))
    yield {
        "run": "two backbones, one pass",
        **row,
        "difference": difference(together[0], alone),
    }
    with _too_little_memory(bench, models[0]):
        row = _timed(bench, bench.plan([large]), BLOCK_ROWS)
    yield {
        "run": "a batch that does not fit",
        **row,
        "difference": difference(large, alone),
    }


def _timed(bench: Bench, plan: ExtractPlan, batch: int | None = None) -> Row:
    """Extract a plan; the time begins with the first clip, after loading and starting."""
    add = BlockMaker.add
    restart = BlockMaker.restart
    first = list[float]()
    halvings = list[int]()

    def added(maker: BlockMaker, *row: Any) -> None:
        first.append(time.monotonic())
        add(maker, *row)

    def halved(maker: BlockMaker) -> None:
        halvings.append(maker.batch)
        restart(maker)

    resources = replace(bench.resources, batch=batch)
    with (
        busy(bench.device) as share,
        mock.patch.multiple(BlockMaker, add=added, restart=halved),
    ):
        (state, *_) = extract_plan(plan, resources, StopFlag())
        seconds = time.monotonic() - first[0]
    return {
        "ok": state.ok,
        "clips/s": state.ok / seconds,
        "GPU busy": share.get("share"),
        "copies beside": share.get("beside"),
        "batches halved": len(halvings),
    }


@contextmanager
def _too_little_memory(bench: Bench, model: Model) -> Iterator[None]:
    """Let half of the largest batch fit at most; on a CPU, let the first clip not fit."""
    if bench.device.startswith("cuda"):
        cuda = need("torch", "extract", "measuring on a GPU").cuda
        total = cuda.get_device_properties(bench.device).total_memory
        limit = _memory_of_half_a_batch(bench, model)
        cuda.set_per_process_memory_fraction(min(1.0, limit / total), bench.device)
        try:
            yield
        finally:
            cuda.set_per_process_memory_fraction(1.0, bench.device)
        return
    forward = Computer.forward
    fails = iter([True])

    def fails_once(computer: Computer, *clips: Any) -> dict[str, Any]:
        if next(fails, False):
            raise MemoryError
        return forward(computer, *clips)

    with mock.patch.object(Computer, "forward", fails_once):
        yield


def _memory_of_half_a_batch(bench: Bench, model: Model) -> float:
    """Return the mean of what a batch of one and the largest batch take of a GPU's memory."""
    torch = need("torch", "extract", "measuring on a GPU")
    backbone = model.load(bench.device, bench.folder)
    peaks = []
    for batch in (1, BLOCK_ROWS):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(bench.device)
        forward_runs(backbone, [batch], 1)
        peaks.append(torch.cuda.max_memory_reserved(bench.device))
    del backbone
    torch.cuda.empty_cache()
    return float(np.mean(peaks))


def killed_run(bench: Bench, model: Model, clips_per_s: float, minutes: float) -> str:
    """Kill a run of some minutes several times, resume it, and compare all blocks with another's.

    Its films repeat, so the blocks of a run over all films once are those of the long run.
    """
    n_rounds = max(2, round(clips_per_s * 60 * minutes / bench.n_films))
    short = bench.target(model, "short")
    long = bench.target(model, "long")
    extract_plan(bench.plan([short], bench.n_films), bench.resources, StopFlag())
    n_clips = n_rounds * bench.n_films
    plan = bench.plan([long], n_clips)
    file = bench.folder / "plan.json"
    write_plan(plan, file)
    words = [
        sys.executable,
        "-m",
        "obygaze",
        "-q",
        "extract",
        "run",
        str(file),
        "--no-seal",
    ]
    words += ["--device", bench.device, "--share", "--workers", str(bench.workers)]
    started = time.monotonic()
    n_killed = 0
    for _ in range(N_KILLS):
        n_killed += _kill(words, Path(long.store), 60 * minutes / (N_KILLS + 1))
    if subprocess.run(words, stdout=subprocess.DEVNULL).returncode:
        raise ObygazeError("the killed run could not be resumed")
    took = (time.monotonic() - started) / 60
    n_blocks = bench.n_films // bench.block_rows
    wrong = _blocks_that_differ(Path(long.store), Path(short.store), n_blocks)
    same = "the same bytes" if not wrong else f"OTHER bytes in {wrong} files"
    return (
        f"{n_clips} clips in {took:.1f} minutes, {n_killed} kills, then resumed: {same}"
    )


def _kill(words: Sequence[str], store: Path, after_s: float) -> bool:
    """Kill a command after some seconds and its next commit; return whether it still ran."""
    commits = store / "commits"
    before = len(list(commits.glob("block-*.json")))
    due = time.monotonic() + after_s
    run = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while run.poll() is None:
        if time.monotonic() > due and len(list(commits.glob("block-*.json"))) > before:
            run.kill()
            run.wait()
            return True
        time.sleep(0.01)
    return False


def _blocks_that_differ(long: Path, short: Path, n_blocks: int) -> int:
    """Return how many files of blocks are not those of the run over all films once."""
    wrong = 0
    for array in open_store(long).feature_arrays:
        folder = f"data.zarr/{array}"
        for path in (long / folder).glob("c.*"):
            _, block, *suffixes = path.name.split(".")
            name = ".".join(["c", str(int(block) % n_blocks), *suffixes])
            wrong += path.read_bytes() != (short / folder / name).read_bytes()
    return wrong


def digest(target: Target) -> str:
    """Return a hash of all arrays of a store."""
    root = Path(target.store) / "data.zarr"
    sha256 = hashlib.sha256()
    for path in sorted(root.rglob("c.*")):
        sha256.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return sha256.hexdigest()


def difference(target: Target, reference: Target) -> float:
    """Return the largest difference of two stores, relative to the largest number of an array."""
    stores = open_store(target.store), open_store(reference.store)
    worst = 0.0
    for array in stores[0].feature_arrays:
        first, second = (
            store.matrix(array).values.astype(np.float64) for store in stores
        )
        worst = max(worst, float(np.abs(first - second).max() / np.abs(second).max()))
    return worst


@contextmanager
def busy(device: str) -> Iterator[dict[str, float]]:
    """Return the share of time with a kernel, and that of the copies' time beside a kernel."""
    shares: dict[str, float] = {}
    if not device.startswith("cuda"):
        yield shares
        return
    torch = need("torch", "extract", "measuring on a GPU")
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CUDA]
    ) as profile:
        yield shares
    spans: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            is_copy = event.name.lower().startswith("memcpy")
            spans[is_copy].append((event.time_range.start, event.time_range.end))
    shares |= overlap(spans[False], spans[True])


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
    starts, ends = np.array(merged).T
    shares = {"share": float((ends - starts).sum() / (ends[-1] - starts[0]))}
    copied = sum(end - start for start, end in copies)
    if copied:
        common = sum(
            np.clip(np.minimum(ends, end) - np.maximum(starts, start), 0, None).sum()
            for start, end in copies
        )
        shares["beside"] = float(common / copied)
    return shares
