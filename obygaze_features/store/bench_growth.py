"""How a store's costs grow with its clips: simulated stores, of a thousand to a million."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from obygaze_features.core.bench import duration
from obygaze_features.core.bench_apart import costs_apart
from obygaze_features.core.bench_sizes import Growth, Runs, take_runs
from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.machine import this_machine
from obygaze_features.store import bench_layouts
from obygaze_features.store.bench_layouts import Activations
from obygaze_features.store.describe import describe
from obygaze_features.store.reader import open_store
from obygaze_features.store.records import SEAL_FILE, Marker, Plan, Seal, marker_key
from obygaze_features.store.schema import ArraySpec, FileMark
from obygaze_features.store.writer import StoreWriter

SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 2_000, 4_000)
ROUNDS, QUICK_ROUNDS = 5, 1
LEVEL, WIDTH, N_READ = "pooled", 256, 100
METADATA, READ = "bytes of metadata", f"{N_READ} clips at random, by id"


def measure_stores(quick: bool = False, progress: Progress | None = None) -> Growth:
    """Time a store's parts at each size, each size in a process of its own."""
    progress = progress or Quiet()
    sizes = QUICK_SIZES if quick else SIZES
    rounds = QUICK_ROUNDS if quick else ROUNDS
    target = f"{__name__}:measure_one"
    costs = costs_apart(
        target, sizes, rounds, {METADATA: "B"}, lambda size: progress.say(f"a store of {size}")
    )
    last = {cost.name: cost.medians[-1] for cost in costs}
    facts = {
        "stores": f"{WIDTH} floats a clip, blocks of 64; only the blocks that are read are real",
        f"a clip of {sizes[-1]:,}": f"{last[METADATA] / sizes[-1]:.0f} B of metadata,"
        f" {duration(last[READ] / N_READ)} to read one of {N_READ}",
    }
    machine = this_machine(("numpy", "zarr"))
    return Growth("Clips in a store", "clips", sizes, tuple(costs), machine, facts)


def measure_one(n_clips: int, rounds: int) -> dict[str, Runs]:
    """The costs at one size, on a store half made, then on the same one sealed."""
    with tempfile.TemporaryDirectory(prefix="obygaze-bench-") as folder:
        path = Path(folder) / "store"
        clips, movies = bench_layouts.ids(n_clips)
        rows = np.random.default_rng(0).permutation(n_clips)[:N_READ]
        wanted = [clips[row] for row in rows.tolist()]
        made = Activations(clips, movies, {})
        specs = [ArraySpec(LEVEL, (WIDTH,))]

        def gone() -> None:
            shutil.rmtree(path, ignore_errors=True)

        def planned() -> None:
            bench_layouts.plan(path, made, specs=specs)

        def read() -> None:
            open_store(path).matrix(LEVEL, clips=wanted)

        costs = {"planning it": take_runs(planned, rounds, prepare=gone)}
        blocks = set((rows // open_store(path).plan.block_rows).tolist())
        marks = _half_made(path, blocks)
        half = {
            "half made: which blocks are missing": lambda: StoreWriter(path).pending_blocks(),
            "half made: status of every clip": lambda: open_store(path).status(),
            f"half made: {READ}": read,
        }
        costs |= {name: take_runs(work, rounds) for name, work in half.items()}
        _sealed(path, marks)
        whole = {
            "sealed: open": lambda: open_store(path).n_clips,
            "sealed: info": lambda: describe(open_store(path)),
            READ: read,
        }
        costs |= {name: take_runs(work, rounds) for name, work in whole.items()}
        return {**costs, METADATA: Runs.counted(_metadata_bytes(path))}


def _half_made(path: Path, real: set[int]) -> dict[str, FileMark]:
    """Commit the `real` blocks, and pretend that every other block that is left is there too."""
    writer = StoreWriter(path)
    plan = writer.plan
    random = np.random.default_rng(1)
    marks: dict[str, FileMark] = {}
    for block in range(plan.n_blocks):
        if block in real:
            first, after = plan.block_range(block)
            writer.commit_block(block, {LEVEL: random.random((after - first, WIDTH), np.float32)})
            marker = writer.marker(block)
            marks.update(marker.files if marker else {})
            continue
        pretended = _pretended(plan, block)
        marks.update(pretended.files)
        if block % 2:
            (path / marker_key(block)).write_bytes(pretended.to_bytes())
    return marks


def _pretended(plan: Plan, block: int) -> Marker:
    """The marker of a block that nobody made."""
    files = {plan.block_key(LEVEL, block): FileMark(1, f"{block:064x}")}
    return Marker(block, plan.block_range(block), plan.recipe, {}, files)


def _sealed(path: Path, marks: Mapping[str, FileMark]) -> None:
    plan = open_store(path).plan
    seal = Seal(plan.recipe.fingerprint, {"ok": plan.n_clips}, {}, {**plan.files, **marks})
    (path / SEAL_FILE).write_bytes(seal.to_bytes())
    shutil.rmtree(path / "commits")


def _metadata_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in _metadata(path))


def _metadata(path: Path) -> Iterator[Path]:
    """What is read or fetched before any feature is: all files but the blocks of the level."""
    blocks = path / "data.zarr" / LEVEL
    return (
        file
        for file in bench_layouts.files_of(path)
        if file.parent != blocks or not file.name.startswith("c.")
    )
