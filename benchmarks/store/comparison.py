"""Stores beside other file formats, holding the same numbers: reading, writing, opening."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.store import layouts
from benchmarks.store.layouts import OBYGAZE, Activations, Read
from benchmarks.store.over_http import LATENCY_S, LinkCost, measure_link
from benchmarks.timing import Comparison, Contestant, Settings, compare
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import Corrupt, InstallExtra
from obygaze_features.core.files import sync_dir
from obygaze_features.core.lazy import need
from obygaze_features.core.machine import duration
from obygaze_features.store.format.records import Plan, Seal
from obygaze_features.store.format.schema import ArraySpec, FileMark
from obygaze_features.store.read.reader import open_store
from obygaze_features.store.write.writer import StoreWriter

PACKAGES = ("numpy", "zarr", "h5py", "torch", "obstore")
RAW = "the same files, each with fsync"
MIDDLE = 1000


@dataclass(frozen=True)
class Sizes:
    """The number of clips and of rounds."""

    n_clips: int = 1914
    n_frames: int = 32
    openings: Sequence[int] = (1914, 100_000, 1_000_000)
    rounds: int = 5
    cold_rounds: int = 3
    blocks: int = 15


QUICK = Sizes(130, 4, (130, 2_000), 2, 1, 2)


@dataclass(frozen=True)
class StoreComparison:
    """All comparisons, and the cost of reading over http."""

    results: Sequence[Comparison]
    link: Sequence[LinkCost]

    def to_json(self) -> dict[str, Any]:
        """Return every single time as JSON."""
        return {
            "results": [result.to_json() for result in self.results],
            "link": {
                "latency_s": LATENCY_S,
                "ways": [asdict(cost) for cost in self.link],
            },
        }

    def to_text(self) -> str:
        """Return the tables, one below the other."""
        reading = [result for result in self.results if result.reference == OBYGAZE]
        names = [timing.name for timing in reading[0].timings]
        rows = []
        for result in reading:
            cells = [_cell(result, name) for name in names]
            rows.append([result.title, *cells])
        about = f"medians, and in brackets how many times that of {OBYGAZE!r}, pairs of one round"
        parts = [f"{table(['', *names], rows)}\n{about}"]
        parts += [result.to_text() for result in self.results if result not in reading]
        if self.link:
            costs = [
                [
                    cost.part,
                    str(cost.n_requests),
                    human(cost.n_bytes),
                    duration(cost.seconds),
                ]
                for cost in self.link
            ]
            headers = ("over http", "requests", "bytes", "time")
            title = f"Reading in place, {LATENCY_S * 1000:.0f} ms a request"
            parts.append(f"{title}\n{table(headers, costs)}")
        return "\n\n".join(parts)


def _cell(result: Comparison, name: str) -> str:
    took = duration(result.timing(name).median_s)
    return took if name == result.reference else f"{took} ({result.ratio(name):.3g}x)"


def measure(settings: Settings) -> StoreComparison:
    """Measure everything in the temporary folder, which needs 600 MB of free disk."""
    sizes = QUICK if settings.quick else Sizes()
    return measure_sizes(replace(sizes, rounds=settings.rounds or sizes.rounds))


def measure_sizes(sizes: Sizes) -> StoreComparison:
    """Measure reading, writing, opening and reading over http."""
    activations = layouts.make_up(sizes.n_clips, sizes.n_frames)
    with tempfile.TemporaryDirectory(prefix="obygaze-bench-") as name:
        root = Path(name)
        readers = layouts.write_all(root / "layouts", activations)
        results = list(_reading(activations, readers, root / "layouts", sizes))
        results.append(_writing(root / "written", activations, sizes))
        results.append(_opening(root / "opened", sizes))
        link = measure_link(root / "layouts" / "store") if _has_obstore() else []
        return StoreComparison(results, link)


def _has_obstore() -> bool:
    try:
        need("obstore", "remote", "reading over http")
    except InstallExtra:
        return False
    return True


def _reading(
    activations: Activations, readers: dict[str, Read], root: Path, sizes: Sizes
) -> Iterator[Comparison]:
    tenth = (
        np.random.default_rng(1)
        .permutation(sizes.n_clips)[: sizes.n_clips // 10]
        .tolist()
    )
    parts: dict[str, list[int] | None] = {
        "all clips": None,
        "a random tenth": tenth,
        "one clip": [min(MIDDLE, sizes.n_clips - 1)],
    }
    for array, values in activations.arrays.items():
        for part, rows in parts.items():
            _check_equal(readers, array, rows, values)
            chosen = values if rows is None else values[rows]
            options: dict[str, Any] = {
                "reference": OBYGAZE,
                "packages": PACKAGES,
                "facts": {"bytes": human(chosen.nbytes)},
            }
            yield compare(
                f"Reading {array}, {part}, warm",
                list(_contestants(readers, array, rows, None)),
                rounds=sizes.rounds,
                **options,
            )
            yield compare(
                f"Reading {array}, {part}, cold",
                list(_contestants(readers, array, rows, root)),
                rounds=sizes.cold_rounds,
                warmups=0,
                **options,
            )


def _check_equal(
    readers: dict[str, Read], array: str, rows: list[int] | None, values: Any
) -> None:
    wanted = values if rows is None else values[rows]
    for name, read in readers.items():
        if not np.array_equal(read(array, rows), wanted):
            raise Corrupt(f"{name} does not return {array} as it was written")


def _contestants(
    readers: dict[str, Read], array: str, rows: list[int] | None, cold: Path | None
) -> Iterator[Contestant]:
    prepare = None if cold is None else (lambda: layouts.forget(cold))
    for name, read in readers.items():
        yield Contestant(name, _bound(read, array, rows), prepare)


def _bound(read: Read, array: str, rows: list[int] | None) -> Callable[[], object]:
    return lambda: read(array, rows)


def _writing(root: Path, activations: Activations, sizes: Sizes) -> Comparison:
    """Time writing one block, into a store and as plain files."""
    root.mkdir()
    layouts.plan(root / "store", activations)
    writer = StoreWriter(root / "store")
    raw = root / "raw"
    raw.mkdir()
    blocks = iter(range(writer.plan.n_blocks))
    files = iter(range(10**9))
    rows = slice(*writer.plan.block_range(0))
    values = {
        name: np.ascontiguousarray(array[rows])
        for name, array in activations.arrays.items()
    }

    def commit() -> None:
        writer.commit_block(next(blocks), values)

    def write_files() -> None:
        for name, array in values.items():
            with (raw / f"{name}.{next(files)}").open("xb") as stream:
                stream.write(array.data)
                stream.flush()
                os.fsync(stream.fileno())
        sync_dir(raw)

    rounds = min(sizes.blocks, writer.plan.n_blocks - 2)
    result = compare(
        "Writing one block",
        [Contestant(OBYGAZE, commit), Contestant(RAW, write_files)],
        reference=RAW,
        rounds=rounds,
        packages=PACKAGES,
    )
    overhead = result.timing(OBYGAZE).median_s - result.timing(RAW).median_s
    facts = {
        "bytes of a block": human(sum(array.nbytes for array in values.values())),
        "overhead of the commit": duration(max(overhead, 0.0)),
    }
    return replace(result, facts=facts)


def _opening(root: Path, sizes: Sizes) -> Comparison:
    """Time opening stores of many clips, whose blocks of features are absent."""
    contestants = []
    for n_clips in sizes.openings:
        path = root / str(n_clips)
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
    )


def _opener(path: Path, attribute: str) -> Callable[[], object]:
    return lambda: getattr(open_store(path), attribute or "n_clips")


def _plan_only(path: Path, n_clips: int) -> None:
    clips, films = layouts.ids(n_clips)
    empty = Activations(clips, films, {})
    arrays = [
        ArraySpec("pooled", (512,)),
        ArraySpec("frames", (32, 512), dtype="float16"),
    ]
    layouts.plan(path, empty, specs=arrays)
    plan = open_store(path).plan
    names = []
    for spec in arrays:
        names += [plan.block_key(spec.name, block) for block in range(plan.n_blocks)]
    marks = {name: FileMark(1, f"{row:064x}") for row, name in enumerate(names)}
    seal = Seal(
        fingerprint=plan.recipe.fingerprint,
        counts={"ok": n_clips},
        status_of_row={},
        files={**plan.files, **marks, Plan.FILE: FileMark(1, plan.sha256)},
    )
    (path / Seal.FILE).write_bytes(seal.to_bytes())
