"""`obygaze bench engines`: what engines add to a block's work, and what two workers do."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from obygaze_features.core.bench import duration
from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.console import Progress, Quiet, table
from obygaze_features.core.errors import Corrupt, FixUsage
from obygaze_features.core.extras import need
from obygaze_features.core.machine import Machine, this_machine
from obygaze_features.extraction.bench_ways import (
    ALONE,
    PAIRS,
    Kind,
    Way,
    committed_s,
    digest,
    held_to,
    ways,
)

KINDS = (
    Kind("Blocks of real work", 4, 10, True),
    Kind("Blocks that are next to empty", 4, 60, False),
)
QUICK = tuple(replace(kind, block_rows=2, n_blocks=4) for kind in KINDS)
PACKAGES = ("av", "numpy", "zarr", "distributed")


@dataclass(frozen=True)
class Run:
    """One run: until its first block was committed, from one block to the next, and until its end.

    Taken from the commits' own times, so that neither start nor end is in a block's time.
    """

    first_s: float
    block_s: float
    end_s: float


@dataclass(frozen=True)
class Taken:
    """What the rounds of one way took."""

    name: str
    runs: tuple[Run, ...]

    @property
    def block_s(self) -> tuple[float, ...]:
        """A block of each round."""
        return tuple(run.block_s for run in self.runs)

    def median_of(self, part: str) -> float:
        """The median of one part of its runs."""
        parts: list[float] = [getattr(run, part) for run in self.runs]
        return statistics.median(parts)

    def ratio(self, other: Taken) -> float:
        """How many times the other's time for a block: the median over rounds."""
        pairs = zip(self.block_s, other.block_s, strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)

    def overhead_s(self, work: Taken) -> float:
        """What a block takes more than its work."""
        pairs = zip(self.block_s, work.block_s, strict=True)
        return statistics.median(ours - theirs for ours, theirs in pairs)


@dataclass(frozen=True)
class Engines:
    """Every way on one kind of block."""

    kind: str
    n_blocks: int
    taken: Sequence[Taken]

    def of(self, name: str) -> Taken:
        """One way."""
        return next(taken for taken in self.taken if taken.name == name)

    @property
    def speed_ups(self) -> dict[str, float]:
        """How many times as quick two workers are as one, a block, by the engine."""
        names = {taken.name for taken in self.taken}
        return {
            one: 1 / self.of(two).ratio(self.of(one)) for one, two in PAIRS.items() if two in names
        }

    def as_json(self) -> dict[str, Any]:
        """The times of every round, and what they come to."""
        work = self.of(ALONE)
        ways = [
            {
                "name": taken.name,
                "runs": [asdict(run) for run in taken.runs],
                "first_s": taken.median_of("first_s"),
                "block_s": taken.median_of("block_s"),
                "end_s": taken.median_of("end_s"),
                "to_work": taken.ratio(work),
                "overhead_to_work": taken.ratio(work) - 1,
            }
            for taken in self.taken
        ]
        return {
            "kind": self.kind,
            "n_blocks": self.n_blocks,
            "ways": ways,
            "speed_ups": self.speed_ups,
            "ideal": 2,
        }

    def as_text(self) -> str:
        """The table."""
        work = self.of(ALONE)
        rows = [
            (
                taken.name,
                duration(taken.median_of("first_s")),
                duration(taken.median_of("end_s")),
                duration(taken.median_of("block_s")),
                f"{duration(min(taken.block_s))} to {duration(max(taken.block_s))}",
                f"{taken.ratio(work):.2f}x",
                None if taken is work or taken.name in PAIRS.values() else _more(taken, work),
            )
            for taken in self.taken
        ]
        headers = (
            *("way", "to the first block", "after the last", "a block", "from to"),
            *("to the work", "overhead a block"),
        )
        told = [
            f"two workers against one, {name}: {times:.2f} times as quick a block; ideal 2"
            for name, times in self.speed_ups.items()
        ]
        about = (
            f"runs of {self.n_blocks} blocks, {_rounds(len(work.runs))}; same bytes from all ways"
        )
        return "\n".join([self.kind, table(headers, rows), *told, about])


def _rounds(n: int) -> str:
    return f"medians of {n} rounds taken in turns" if n > 1 else "a single round"


def _more(taken: Taken, work: Taken) -> str:
    seconds, ratio = taken.overhead_s(work), taken.ratio(work) - 1
    sign = "-" if seconds < 0 else "+"
    return f"{sign}{duration(abs(seconds))} ({ratio:+.0%})"


@dataclass(frozen=True)
class EngineBench:
    """Both kinds of block, and what could not be measured here."""

    kinds: Sequence[Engines]
    absent: Mapping[str, str]
    machine: Machine

    def as_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        return {
            "kinds": [kind.as_json() for kind in self.kinds],
            "absent": dict(self.absent),
            "machine": self.machine.as_json(),
        }

    def as_text(self) -> str:
        """The tables, one below the other."""
        absent = [f"{name} is not here: {why}" for name, why in self.absent.items()]
        about = (
            "every way is held to as many cores as it has workers, so that decoding in a process"
            " beside gains nothing; Slurm places its tasks itself"
        )
        tables = [kind.as_text() for kind in self.kinds]
        return "\n\n".join([*tables, "\n".join([about, *absent, self.machine.line()])])


def measure_engines(
    rounds: int = 3, *, quick: bool = False, progress: Progress | None = None
) -> EngineBench:
    """Time every way on this machine; an error where one of them makes other bytes."""
    need("av", "video", "the bench of engines")
    if rounds < 1:
        raise FixUsage("a bench needs at least one round")
    found, absent = ways()
    kinds = []
    for kind in QUICK if quick else KINDS:
        with tempfile.TemporaryDirectory(prefix="obygaze-bench-") as folder:
            kinds.append(_one_kind(kind, found, Path(folder), rounds, progress or Quiet()))
    return EngineBench(kinds, absent, this_machine(PACKAGES))


def _one_kind(
    kind: Kind, found: Mapping[str, Way], folder: Path, rounds: int, progress: Progress
) -> Engines:
    runs: dict[str, list[Run]] = {name: [] for name in found}
    # A run that does not count: imports, films, files that nobody has read yet.
    expected = _run(kind, ALONE, found[ALONE], folder)[1]
    for _ in range(rounds):
        for name, way in found.items():
            progress.say(name)
            run, made = _run(kind, name, way, folder)
            if made != expected:
                raise Corrupt(f"{name!r} makes other bytes than {ALONE!r}", where=kind.title)
            runs[name].append(run)
            progress.advance()
    taken = [Taken(name, tuple(found)) for name, found in runs.items()]
    return Engines(kind.title, kind.n_blocks, taken)


def _run(kind: Kind, name: str, way: Way, folder: Path) -> tuple[Run, dict[str, str]]:
    plan = kind.plan(folder)
    n_workers = 2 if name in PAIRS.values() else 1
    with held_to(n_workers):
        started = time.time()  # as the commits' times are
        way(plan)
        ended = time.time()
    first, *_, last = committed_s(plan)
    # Two workers begin together: what follows the first commit is all but a block of each.
    later = kind.n_blocks - n_workers
    run = Run(first - started, max(last - first, 1e-6) / later, max(ended - last, 0.0))
    made = digest(plan)
    shutil.rmtree(plan.targets[0].store)
    return run, made


@click.command(
    "engines",
    cls=ExampleCommand,
    examples="""
    obygaze bench engines
    obygaze bench engines --rounds 5
    obygaze bench engines --quick --json
    """,
)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Rounds.")
@click.option("--quick", is_flag=True, help="A few blocks, one round: shows that it works.")
@json_option
@pass_session
def bench_engines(session: Session, rounds: int, quick: bool, as_json: bool) -> None:
    """What an engine adds to a block's own work, and two workers against one.

    The same plan extracted in this process, by slices in processes of their own, on a Dask
    cluster, and on Slurm where there is one. All must make the same bytes. Takes about two
    minutes; with --quick less than one.
    """
    rounds = 1 if quick else rounds
    total = rounds * len(KINDS) * len(ways()[0])
    with session.console.progress("engines", total, "runs") as progress:
        result = measure_engines(rounds, quick=quick, progress=progress)
    if as_json:
        session.console.json(result.as_json())
    else:
        session.console.result(result.as_text())
