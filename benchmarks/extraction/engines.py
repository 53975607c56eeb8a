"""The overhead of each engine for a block, and the gain of a second worker."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.extraction.ways import (
    ALONE,
    PAIRS,
    Kind,
    Way,
    committed_s,
    digest,
    limited_to,
    ways,
)
from benchmarks.timing import Settings, rounds_text
from obygaze_features.core.console import table
from obygaze_features.core.errors import Corrupt
from obygaze_features.core.lazy import need
from obygaze_features.core.machine import Machine, duration, this_machine

KINDS = (
    Kind("Blocks of real work", 4, 10, True),
    Kind("Blocks that are next to empty", 4, 60, False),
)
QUICK = tuple(replace(kind, block_rows=2, n_blocks=4) for kind in KINDS)
PACKAGES = ("av", "numpy", "zarr")


@dataclass(frozen=True)
class RunTimes:
    """The time of a run until its first commit, of one block, and after its last commit.

    They are the times of the commits, so that the time of a block includes neither start nor end.
    """

    first_s: float
    block_s: float
    end_s: float


@dataclass(frozen=True)
class WayTimes:
    """The times of all rounds of one way."""

    name: str
    runs: tuple[RunTimes, ...]

    @property
    def block_s(self) -> tuple[float, ...]:
        """The time of a block in each round."""
        return tuple(run.block_s for run in self.runs)

    def median_of(self, part: str) -> float:
        """Return the median of one part of the runs."""
        parts: list[float] = [getattr(run, part) for run in self.runs]
        return statistics.median(parts)

    def ratio(self, other: WayTimes) -> float:
        """Return the time of a block over that of another way: the median over rounds."""
        pairs = zip(self.block_s, other.block_s, strict=True)
        return statistics.median(ours / reference for ours, reference in pairs)

    def overhead_s(self, work: WayTimes) -> float:
        """Return the time of a block minus that of its work: the median over rounds."""
        pairs = zip(self.block_s, work.block_s, strict=True)
        return statistics.median(ours - reference for ours, reference in pairs)


@dataclass(frozen=True)
class KindTimes:
    """Every way on one kind of block."""

    kind: str
    n_blocks: int
    taken: Sequence[WayTimes]

    def of(self, name: str) -> WayTimes:
        """Return one way."""
        return next(taken for taken in self.taken if taken.name == name)

    @property
    def speed_ups(self) -> dict[str, float]:
        """The speed of a block with two workers over that with one, by engine."""
        names = {taken.name for taken in self.taken}
        return {
            faster: 1 / self.of(slower).ratio(self.of(faster))
            for faster, slower in PAIRS.items()
            if slower in names
        }

    def to_json(self) -> dict[str, Any]:
        """Return the times of every round as JSON."""
        work = self.of(ALONE)
        ways = [_way_to_json(taken, work) for taken in self.taken]
        return {
            "kind": self.kind,
            "n_blocks": self.n_blocks,
            "ways": ways,
            "speed_ups": self.speed_ups,
            "ideal": 2,
        }

    def to_text(self) -> str:
        """Return the table."""
        work = self.of(ALONE)
        rows = [
            (
                taken.name,
                duration(taken.median_of("first_s")),
                duration(taken.median_of("end_s")),
                duration(taken.median_of("block_s")),
                f"{duration(min(taken.block_s))} to {duration(max(taken.block_s))}",
                f"{taken.ratio(work):.2f}x",
                None
                if taken is work or taken.name in PAIRS.values()
                else _more(taken, work),
            )
            for taken in self.taken
        ]
        headers = (
            "way",
            "to the first block",
            "after the last",
            "a block",
            "from to",
            "to the work",
            "overhead a block",
        )
        gains = [
            f"two workers against one, {name}: {times:.2f} times as quick a block; ideal 2"
            for name, times in self.speed_ups.items()
        ]
        about = f"runs of {self.n_blocks} blocks, {rounds_text(len(work.runs))}"
        same = "all ways wrote the same bytes"
        return "\n".join([self.kind, table(headers, rows), *gains, f"{about}; {same}"])


def _more(taken: WayTimes, work: WayTimes) -> str:
    seconds = taken.overhead_s(work)
    ratio = taken.ratio(work) - 1
    sign = "-" if seconds < 0 else "+"
    return f"{sign}{duration(abs(seconds))} ({ratio:+.0%})"


def _way_to_json(taken: WayTimes, work: WayTimes) -> dict[str, Any]:
    return {
        "name": taken.name,
        "runs": [asdict(run) for run in taken.runs],
        "first_s": taken.median_of("first_s"),
        "block_s": taken.median_of("block_s"),
        "end_s": taken.median_of("end_s"),
        "to_work": taken.ratio(work),
        "overhead_to_work": taken.ratio(work) - 1,
    }


@dataclass(frozen=True)
class EngineComparison:
    """Both kinds of block, and what could not be measured here."""

    kinds: Sequence[KindTimes]
    absent: Mapping[str, str]
    machine: Machine

    def to_json(self) -> dict[str, Any]:
        """Return every round as JSON."""
        return {
            "kinds": [kind.to_json() for kind in self.kinds],
            "absent": dict(self.absent),
            "machine": self.machine.to_json(),
        }

    def to_text(self) -> str:
        """Return the tables, one below the other."""
        absent = [
            f"{name} was not measured: {why}" for name, why in self.absent.items()
        ]
        about = (
            "every way has as many cores as workers, so that decoding in another process gains"
            " nothing; Slurm places its tasks itself"
        )
        tables = [kind.to_text() for kind in self.kinds]
        return "\n\n".join([*tables, "\n".join([about, *absent, self.machine.line()])])


def measure(settings: Settings) -> EngineComparison:
    """Time every way on this machine; raise Corrupt if one of them makes other bytes."""
    need("av", "video", "measuring engines")
    possible, absent = ways()
    kinds = []
    chosen = QUICK if settings.quick else KINDS
    for kind in chosen:
        with tempfile.TemporaryDirectory(prefix="obygaze-bench-") as folder:
            kinds.append(_one_kind(kind, possible, Path(folder), settings.rounds_or(3)))
    return EngineComparison(kinds, absent, this_machine(PACKAGES))


def _one_kind(
    kind: Kind, possible: Mapping[str, Way], folder: Path, rounds: int
) -> KindTimes:
    runs: dict[str, list[RunTimes]] = {name: [] for name in possible}
    # A warm-up run: imports, films, the cache of the system.
    expected = _run(kind, ALONE, possible[ALONE], folder)[1]
    for _ in range(rounds):
        for name, way in possible.items():
            run, written = _run(kind, name, way, folder)
            if written != expected:
                raise Corrupt(
                    f"{name!r} writes other bytes than {ALONE!r}", where=kind.title
                )
            runs[name].append(run)
    taken = [WayTimes(name, tuple(times)) for name, times in runs.items()]
    return KindTimes(kind.title, kind.n_blocks, taken)


def _run(
    kind: Kind, name: str, way: Way, folder: Path
) -> tuple[RunTimes, dict[str, str]]:
    plan = kind.plan(folder)
    n_workers = 2 if name in PAIRS.values() else 1
    with limited_to(n_workers):
        started = time.time()  # as the commits' times are
        way(plan)
        ended = time.time()
    first, *_, last = committed_s(plan)
    # Two workers start together: one block of each is complete at the first commit.
    later = kind.n_blocks - n_workers
    run = RunTimes(
        first - started, max(last - first, 1e-6) / later, max(ended - last, 0.0)
    )
    digests = digest(plan)
    shutil.rmtree(plan.targets[0].store)
    return run, digests
