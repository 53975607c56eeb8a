"""Very many clips: planned, filled by four processes, sealed, read; each in a new process."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.formats import Values
from benchmarks.timing import Measured, duration, run_command
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import Corrupt
from obygaze_features.core.machine import this_machine
from obygaze_features.store import Array, Recipe, Row, open_store
from obygaze_features.store.filling import Filling, choose_block, plan_filling
from obygaze_features.store.records import ComputeSetup, Maker, ManifestMark
from obygaze_features.store.sealing import seal

NAME = "many"
N_WORKERS = 4
CLIPS_OF_A_FILM = 160
ARRAY = Array.of("pooled", "float32", (512,))
MAKER = Maker("benchmark", "cpu", "", "float32")


def plan(target: Path, n_clips: int) -> None:
    """Plan a store of so many clips."""
    rows = []
    for row in range(n_clips):
        film = f"tt{row // CLIPS_OF_A_FILM:07d}"
        rows.append(Row(f"{film}-{row % CLIPS_OF_A_FILM:03d}", film))
    plan_filling(
        target,
        rows,
        arrays=[ARRAY],
        recipe=Recipe.unknown("made up", {"purpose": "a benchmark"}),
        manifest=ManifestMark("made-up", "0" * 64),
        kind=ComputeSetup("cpu", "float32"),
    )


def values_of(block: int, n_rows: int) -> Values:
    """Return the made-up features of the rows of a block."""
    random = np.random.default_rng(block)
    return random.standard_normal((n_rows, *ARRAY.shape), dtype=np.float32)


def fill(target: Path, worker: int) -> None:
    """Compute blocks until none is left, as each of the processes does."""
    filling = Filling.open(target)
    start = filling.needed[worker * len(filling.needed) // N_WORKERS]
    while True:
        block = choose_block(filling.needed, *filling.list_blocks(), start)
        if block is None:
            return
        writer = filling.begin(block, MAKER)
        if writer is None:
            continue
        with writer:
            values = values_of(block, len(writer.rows))
            for number, vector in zip(writer.rows, values, strict=True):
                writer.add(filling.rows[number], {ARRAY.name: vector})
            writer.commit()


def read(target: Path, n_clips: int) -> None:
    """Read some random clips, or all."""
    store = open_store(target)
    if n_clips < len(store):
        rows = np.random.default_rng(0).permutation(len(store))[:n_clips]
        films = rows // CLIPS_OF_A_FILM
        numbers = rows % CLIPS_OF_A_FILM
        pairs = zip(films.tolist(), numbers.tolist(), strict=True)
        clips = [f"tt{film:07d}-{number:03d}" for film, number in pairs]
        store.matrix(ARRAY.name, clips=clips)
    else:
        store.matrix(ARRAY.name)


def check(target: Path, block_rows: int) -> None:
    """Raise an error unless the rows are those that were computed; a few blocks are compared."""
    store = open_store(target)
    for block in range(0, -(-len(store) // block_rows), 97):
        first = block * block_rows
        rows = np.arange(first, min(first + block_rows, len(store)))
        values = store.read(ARRAY.name, rows)
        if not np.array_equal(values, values_of(block, len(rows))):
            raise Corrupt(f"block {block} is not what was computed", where=str(target))


STEPS = {"plan": plan, "fill": fill, "read": read}


def measure(quick: bool) -> str:
    """Return the time, the memory and the files of each step."""
    n_clips = 2_000 if quick else 1_000_000
    with TemporaryDirectory(prefix="obygaze-bench-") as folder:
        target = Path(folder, NAME)
        rows = [_row("plan", [_step("plan", target, n_clips)], target)]
        with ThreadPoolExecutor(N_WORKERS) as pool:
            steps = [pool.submit(_step, "fill", target, n) for n in range(N_WORKERS)]
            costs = [step.result() for step in steps]
        block_rows = Filling.open(target).plan.block_rows
        rows.append(_row(f"fill, {N_WORKERS} processes", costs, target))
        rows.append(_row("seal", [_step("seal", target, 0)], target))
        for title, n_read in (("read 100 clips", 100), ("read all", n_clips)):
            rows.append(_row(title, [_step("read", target, n_read)], target))
        check(target, block_rows)
    headers = ("step", "wall time", "CPU time", "peak memory of one", "files then")
    title = f"{n_clips:,} clips with {ARRAY.shape[0]} numbers, blocks of {block_rows}"
    machine = this_machine(("numpy",)).line()
    return f"{title}\n{table(headers, rows)}\n{machine}"


def _step(step: str, target: Path, number: int) -> Measured:
    words = [sys.executable, "-m", "benchmarks.filling", step, str(target), str(number)]
    return run_command(step, words)


def _row(title: str, costs: list[Measured], target: Path) -> tuple[str, ...]:
    wall_s, cpu_s, peaks = zip(*costs, strict=True)
    n_files = sum(path.is_file() for path in target.parent.rglob("*"))
    times = (duration(max(wall_s)), duration(sum(cpu_s)))
    return (title, *times, human(max(peaks)), f"{n_files:,}")


if __name__ == "__main__":
    _, name, folder, text = sys.argv
    if name == "seal":
        seal(Path(folder))
    else:
        STEPS[name](Path(folder), int(text))
