"""`obygaze bench store`: the format beside the layouts people use, on the same numbers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from obygaze_features.core.bench import BenchResult, Contestant, compare, duration
from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.console import Progress, Quiet, human, table
from obygaze_features.core.errors import Corrupt, InstallExtra
from obygaze_features.core.extras import need
from obygaze_features.core.files import sync_dir
from obygaze_features.store import bench_layouts
from obygaze_features.store.bench_layouts import OBYGAZE, Activations, Read
from obygaze_features.store.bench_link import LATENCY_S, LinkCost, measure_link
from obygaze_features.store.reader import open_store
from obygaze_features.store.records import SEAL_FILE, Seal
from obygaze_features.store.schema import ArraySpec, FileMark
from obygaze_features.store.writer import StoreWriter

PACKAGES = ("numpy", "zarr", "h5py", "torch", "obstore")
RAW = "the same files, each with fsync"
ONE = 1000  # a clip in the middle


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    n_clips: int = 1914
    n_frames: int = 32
    openings: Sequence[int] = (1914, 100_000, 1_000_000)
    rounds: int = 5
    cold_rounds: int = 3
    blocks: int = 15


QUICK = Sizes(130, 4, (130, 2_000), 2, 1, 2)


@dataclass(frozen=True)
class StoreBench:
    """All comparisons, and what the link cost."""

    results: Sequence[BenchResult]
    link: Sequence[LinkCost]

    def as_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        return {
            "results": [result.as_json() for result in self.results],
            "link": {"latency_s": LATENCY_S, "ways": [asdict(cost) for cost in self.link]},
        }

    def as_text(self) -> str:
        """The tables, one below the other."""
        reading = [result for result in self.results if result.reference == OBYGAZE]
        names = [timing.name for timing in reading[0].timings]
        rows = [[result.title, *(_cell(result, name) for name in names)] for result in reading]
        about = f"medians, and in brackets how many times that of {OBYGAZE!r}, pairs of one round"
        parts = [f"{table(['', *names], rows)}\n{about}"]
        parts += [result.as_text() for result in self.results if result not in reading]
        if self.link:
            costs = [
                [cost.what, str(cost.n_requests), human(cost.n_bytes), duration(cost.seconds)]
                for cost in self.link
            ]
            headers = ("over http", "requests", "bytes", "time")
            title = f"Reading in place, {LATENCY_S * 1000:.0f} ms a request"
            parts.append(f"{title}\n{table(headers, costs)}")
        return "\n\n".join(parts)


def _cell(result: BenchResult, name: str) -> str:
    took = duration(result.timing(name).median_s)
    return took if name == result.reference else f"{took} ({result.ratio(name):.3g}x)"


def measure_store(
    sizes: Sizes | None = None, folder: Path | None = None, progress: Progress | None = None
) -> StoreBench:
    """Measure reading, writing, opening and the link, below a temporary folder."""
    sizes, progress = sizes or Sizes(), progress or Quiet()
    made = bench_layouts.make_up(sizes.n_clips, sizes.n_frames)
    with tempfile.TemporaryDirectory(prefix="obygaze-bench-", dir=folder) as name:
        root = Path(name)
        progress.say("writing all layouts")
        readers = bench_layouts.write_all(root / "layouts", made)
        results = list(_reading(made, readers, root / "layouts", sizes, progress))
        results.append(_writing(root / "written", made, sizes, progress))
        results.append(_opening(root / "opened", sizes, progress))
        progress.say("reading over http")
        link = measure_link(root / "layouts" / "store") if _has_obstore() else []
        return StoreBench(results, link)


def _has_obstore() -> bool:
    try:
        need("obstore", "remote", "the link")
    except InstallExtra:
        return False
    return True


def _reading(
    made: Activations, readers: dict[str, Read], root: Path, sizes: Sizes, progress: Progress
) -> Iterator[BenchResult]:
    tenth = np.random.default_rng(1).permutation(sizes.n_clips)[: sizes.n_clips // 10].tolist()
    parts: dict[str, list[int] | None] = {
        "all clips": None,
        "a random tenth": tenth,
        "one clip": [min(ONE, sizes.n_clips - 1)],
    }
    for level, values in made.levels.items():
        for what, rows in parts.items():
            _check_equal(readers, level, rows, values)
            for cold in (False, True):
                yield compare(
                    f"Reading {level}, {what}, {'cold' if cold else 'warm'}",
                    list(_contestants(readers, level, rows, root if cold else None)),
                    reference=OBYGAZE,
                    rounds=sizes.cold_rounds if cold else sizes.rounds,
                    warmups=0 if cold else 1,
                    packages=PACKAGES,
                    facts={"bytes": human((values if rows is None else values[rows]).nbytes)},
                    progress=progress,
                )


def _check_equal(readers: dict[str, Read], level: str, rows: list[int] | None, values: Any) -> None:
    wanted = values if rows is None else values[rows]
    for name, read in readers.items():
        if not np.array_equal(read(level, rows), wanted):
            raise Corrupt(f"{name} does not give back {level} as it was written")


def _contestants(
    readers: dict[str, Read], level: str, rows: list[int] | None, cold: Path | None
) -> Iterator[Contestant]:
    prepare = None if cold is None else (lambda: bench_layouts.forget(cold))
    for name, read in readers.items():
        yield Contestant(name, _bound(read, level, rows), prepare)


def _bound(read: Read, level: str, rows: list[int] | None) -> Callable[[], object]:
    return lambda: read(level, rows)


def _writing(root: Path, made: Activations, sizes: Sizes, progress: Progress) -> BenchResult:
    """One block a round, into a store and as bare files."""
    root.mkdir()
    bench_layouts.plan(root / "store", made)
    writer, raw = StoreWriter(root / "store"), root / "raw"
    raw.mkdir()
    blocks, files = iter(range(writer.plan.n_blocks)), iter(range(10**9))
    rows = slice(*writer.plan.block_range(0))
    values = {name: np.ascontiguousarray(array[rows]) for name, array in made.levels.items()}

    def commit() -> None:
        writer.commit_block(next(blocks), values)

    def bare() -> None:
        for name, array in values.items():
            with (raw / f"{name}.{next(files)}").open("xb") as stream:
                stream.write(array.data)
                stream.flush()
                os.fsync(stream.fileno())
        sync_dir(raw)

    rounds = min(sizes.blocks, writer.plan.n_blocks - 2)
    result = compare(
        "Writing one block",
        [Contestant(OBYGAZE, commit), Contestant(RAW, bare)],
        reference=RAW,
        rounds=rounds,
        packages=PACKAGES,
        progress=progress,
    )
    overhead = result.timing(OBYGAZE).median_s - result.timing(RAW).median_s
    facts = {
        "bytes of a block": human(sum(array.nbytes for array in values.values())),
        "overhead of the commit": duration(max(overhead, 0.0)),
    }
    return BenchResult(result.title, result.reference, result.timings, result.machine, facts)


def _opening(root: Path, sizes: Sizes, progress: Progress) -> BenchResult:
    """Stores of many clips, as large on paper as they say, without their chunks."""
    contestants = []
    for n_clips in sizes.openings:
        path = root / str(n_clips)
        progress.say(f"planning {n_clips:,} clips")
        _plan_only(path, n_clips)
        contestants += [
            Contestant(f"{n_clips:,} clips: open", _opener(path, "")),
            Contestant(f"{n_clips:,} clips: open, seal", _opener(path, "sealed")),
            Contestant(f"{n_clips:,} clips: open, all ids", _opener(path, "clip_ids")),
        ]
    return compare(
        "Opening",
        contestants,
        reference=contestants[0].name,
        rounds=sizes.rounds,
        packages=PACKAGES,
        progress=progress,
    )


def _opener(path: Path, attribute: str) -> Callable[[], object]:
    return lambda: getattr(open_store(path), attribute or "n_clips")


def _plan_only(path: Path, n_clips: int) -> None:
    clips, movies = bench_layouts.ids(n_clips)
    empty = Activations(clips, movies, {})
    arrays = [ArraySpec("pooled", (512,)), ArraySpec("frames", (32, 512), dtype="float16")]
    bench_layouts.plan(path, empty, specs=arrays)
    plan = open_store(path).plan
    names = [plan.block_key(spec.name, b) for spec in arrays for b in range(plan.n_blocks)]
    marks = {name: FileMark(1, f"{row:064x}") for row, name in enumerate(names)}
    seal = Seal(plan.recipe.fingerprint, {"ok": n_clips}, {}, {**plan.files, **marks})
    (path / SEAL_FILE).write_bytes(seal.to_bytes())


@click.command(
    "store",
    cls=ExampleCommand,
    examples="""
    obygaze bench store
    obygaze bench store --quick --json
    obygaze bench store --folder /scratch
    """,
)
@click.option("--quick", is_flag=True, help="A few clips and rounds: shows that it works.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Measure on the disk of this folder. [default: the temporary folder]",
)
@json_option
@pass_session
def bench_store(session: Session, quick: bool, folder: Path | None, as_json: bool) -> None:
    """Reading, writing and opening stores, beside other layouts and over http.

    Needs 600 MB of disk and about three minutes; with --quick seconds.
    """
    sizes = QUICK if quick else Sizes()
    with session.console.progress("store", n_runs(sizes), "runs") as progress:
        result = measure_store(sizes, folder, progress)
    if as_json:
        session.console.json(result.as_json())
    else:
        session.console.result(result.as_text())


def n_runs(sizes: Sizes) -> int:
    """How many runs the bench takes, where all packages are there."""
    reading = 2 * 3 * 5 * (sizes.rounds + 1 + sizes.cold_rounds)
    return reading + 2 * (sizes.blocks + 1) + 3 * len(sizes.openings) * (sizes.rounds + 1)
