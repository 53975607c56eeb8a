"""How the costs of a store grow with its clips: simulated stores, of a thousand to a million."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from benchmarks.growth.costs import Growth, costs_apart, counted
from benchmarks.store import layouts
from benchmarks.store.layouts import Activations
from benchmarks.timing import Settings
from obygaze_features.core.machine import Runs, duration, this_machine, time_runs
from obygaze_features.store.format.records import Marker, Plan, Seal, marker_key
from obygaze_features.store.format.schema import ArraySpec, FileMark
from obygaze_features.store.read.describe import describe
from obygaze_features.store.read.reader import open_store
from obygaze_features.store.write.writer import StoreWriter

SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 2_000, 4_000)
ROUNDS = 5
LEVEL = "pooled"
WIDTH = 256
N_READ = 100
METADATA = "bytes of metadata"
READ = f"{N_READ} clips at random, by id"


def measure_stores(settings: Settings) -> Growth:
    """Time a store's parts at each size, each size in a process of its own."""
    sizes = QUICK_SIZES if settings.quick else SIZES
    rounds = settings.rounds_or(ROUNDS)
    costs = costs_apart(f"{__name__}:measure_one", sizes, rounds, {METADATA: "B"})
    last = {cost.name: cost.medians[-1] for cost in costs}
    facts = {
        "stores": f"{WIDTH} floats a clip, blocks of 64 or more;"
        " only the blocks that are read are real",
        f"a clip of {sizes[-1]:,}": f"{last[METADATA] / sizes[-1]:.0f} B of metadata,"
        f" {duration(last[READ] / N_READ)} to read one of {N_READ}",
    }
    machine = this_machine(("numpy", "zarr"))
    return Growth("Clips in a store", "clips", sizes, tuple(costs), machine, facts)


def measure_one(n_clips: int, rounds: int) -> dict[str, Runs]:
    """Return the costs at one size, for a store that is half complete, then for the sealed one."""
    with tempfile.TemporaryDirectory(prefix="obygaze-bench-") as folder:
        path = Path(folder) / "store"
        clips, films = layouts.ids(n_clips)
        rows = np.random.default_rng(0).permutation(n_clips)[:N_READ]
        wanted = [clips[row] for row in rows.tolist()]
        activations = Activations(clips, films, {})
        specs = [ArraySpec(LEVEL, (WIDTH,))]

        def remove() -> None:
            shutil.rmtree(path, ignore_errors=True)

        def plan_it() -> None:
            layouts.plan(path, activations, specs=specs)

        def read() -> None:
            open_store(path).matrix(LEVEL, clips=wanted)

        costs = {"planning it": time_runs(plan_it, rounds, prepare=remove)}
        blocks = set((rows // open_store(path).plan.block_rows).tolist())
        marks = _half_complete(path, blocks)
        incomplete = {
            "half complete: which blocks are missing": lambda: StoreWriter(
                path
            ).pending_blocks(),
            "half complete: status of every clip": lambda: open_store(path).status(),
            f"half complete: {READ}": read,
        }
        costs |= {name: time_runs(work, rounds) for name, work in incomplete.items()}
        _sealed(path, marks)
        sealed = {
            "sealed: open": lambda: open_store(path).n_clips,
            "sealed: info": lambda: describe(open_store(path)),
            READ: read,
        }
        costs |= {name: time_runs(work, rounds) for name, work in sealed.items()}
        return {**costs, METADATA: counted(_metadata_bytes(path))}


def _half_complete(path: Path, real: set[int]) -> dict[str, FileMark]:
    """Commit the `real` blocks, and write the markers only of every other block of the rest."""
    writer = StoreWriter(path)
    plan = writer.plan
    random = np.random.default_rng(1)
    marks: dict[str, FileMark] = {}
    for block in range(plan.n_blocks):
        if block in real:
            first, after = plan.block_range(block)
            writer.commit_block(
                block, {LEVEL: random.random((after - first, WIDTH), np.float32)}
            )
            marker = writer.marker(block)
            marks.update(marker.files if marker else {})
            continue
        simulated = _simulated(plan, block)
        marks.update(simulated.files)
        if block % 2:
            (path / marker_key(block)).write_bytes(simulated.to_bytes())
    return marks


def _simulated(plan: Plan, block: int) -> Marker:
    """Return the marker of a block that does not exist."""
    files = {plan.block_key(LEVEL, block): FileMark(1, f"{block:064x}")}
    return Marker(
        block=block,
        rows=plan.block_range(block),
        recipe=plan.recipe,
        status_of_row={},
        files=files,
    )


def _sealed(path: Path, marks: Mapping[str, FileMark]) -> None:
    plan = open_store(path).plan
    seal = Seal(
        fingerprint=plan.recipe.fingerprint,
        counts={"ok": plan.n_clips},
        status_of_row={},
        files={**plan.files, **marks, Plan.FILE: FileMark(1, plan.sha256)},
    )
    (path / Seal.FILE).write_bytes(seal.to_bytes())
    shutil.rmtree(path / "commits")


def _metadata_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in _metadata(path))


def _metadata(path: Path) -> Iterator[Path]:
    """Yield all files but the blocks of the level: what is read before any feature is."""
    blocks = path / "data.zarr" / LEVEL
    return (
        file
        for file in layouts.files_of(path)
        if file.parent != blocks or not file.name.startswith("c.")
    )
