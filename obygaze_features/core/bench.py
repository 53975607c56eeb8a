"""The one stop-watch of all benches: contestants side by side, in one run, on one machine."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from obygaze_features.core.console import Progress, Quiet, human, table
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.machine import Machine, this_machine

Work = Callable[[], object] | Sequence[str]
"""What is timed: a function of this process, or the words of a command."""


@dataclass(frozen=True)
class Contestant:
    """One way of doing the job, and what must happen untimed before each of its rounds."""

    name: str
    work: Work
    prepare: Callable[[], object] | None = None


@dataclass(frozen=True)
class Timing:
    """What the rounds of one contestant took."""

    name: str
    wall_s: tuple[float, ...]
    cpu_s: tuple[float, ...]
    peak_rss_bytes: int | None = None

    @property
    def median_s(self) -> float:
        """The median of the wall times."""
        return statistics.median(self.wall_s)


@dataclass(frozen=True)
class BenchResult:
    """A finished comparison: the times of all, and how they stand to one of them."""

    title: str
    reference: str
    timings: tuple[Timing, ...]
    machine: Machine
    facts: Mapping[str, Any] = field(default_factory=dict)

    def timing(self, name: str) -> Timing:
        """The times of one contestant."""
        return next(timing for timing in self.timings if timing.name == name)

    def ratio(self, name: str, clock: str = "wall_s") -> float:
        """How many times the reference's time `name` needs: the median over pairs of one round.

        `clock` is "wall_s" or "cpu_s". Pairs, because the machine's own mood changes from round
        to round and is the same within one.
        """
        ours: tuple[float, ...] = getattr(self.timing(self.reference), clock)
        theirs: tuple[float, ...] = getattr(self.timing(name), clock)
        # A clock that did not tick is as good as one microsecond.
        pairs = zip(theirs, ours, strict=True)
        return statistics.median(max(a, 1e-6) / max(b, 1e-6) for a, b in pairs)

    def as_json(self) -> dict[str, Any]:
        """The result as one JSON object, every single time included."""
        contestants = [
            {
                **asdict(timing),
                "median_s": timing.median_s,
                "ratio": self.ratio(timing.name),
                "ratio_cpu": self.ratio(timing.name, "cpu_s"),
            }
            for timing in self.timings
        ]
        return {
            "title": self.title,
            "reference": self.reference,
            "machine": self.machine.as_json(),
            "facts": dict(self.facts),
            "contestants": contestants,
        }

    def as_text(self) -> str:
        """The result as a table with the machine under it."""
        rows = [
            (
                timing.name,
                duration(timing.median_s),
                f"{duration(min(timing.wall_s))} to {duration(max(timing.wall_s))}",
                f"{self.ratio(timing.name):.2f}x",
                f"{self.ratio(timing.name, 'cpu_s'):.2f}x",
                human(timing.peak_rss_bytes) if timing.peak_rss_bytes else None,
            )
            for timing in self.timings
        ]
        headers = ("contestant", "median", "from to", "time ratio", "CPU ratio", "peak memory")
        facts = [f"{name}: {value}" for name, value in self.facts.items()]
        rounds = len(self.timings[0].wall_s)
        taken = f"median of {rounds} rounds taken in turns" if rounds > 1 else "a single round"
        about = f"ratios to {self.reference!r}, {taken}"
        return "\n".join([self.title, table(headers, rows), *facts, about, self.machine.line()])


def compare(
    title: str,
    contestants: Sequence[Contestant],
    *,
    reference: str,
    rounds: int = 5,
    warmups: int = 1,
    packages: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> BenchResult:
    """Time all contestants in turns (A B A B ...), after a warm-up that does not count."""
    names = [contestant.name for contestant in contestants]
    if reference not in names or len(set(names)) < len(names) or rounds < 1:
        raise FixUsage(f"a bench needs rounds and unlike names, {reference!r} among them")
    progress = progress or Quiet()
    taken: dict[str, list[Taken]] = {name: [] for name in names}
    for turn in range(warmups + rounds):
        for contestant in contestants:
            if contestant.prepare is not None:
                contestant.prepare()
            progress.say(contestant.name)
            result = _take(contestant)
            progress.advance()
            if turn >= warmups:
                taken[contestant.name].append(result)
    return BenchResult(
        title=title,
        reference=reference,
        timings=tuple(_timing(name, results) for name, results in taken.items()),
        machine=this_machine(packages),
        facts=dict(facts or {}),
    )


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds >= 999.5:
        return f"{seconds:,.0f} s"
    if seconds >= 0.9995:  # what rounds to 1000 is said in the larger unit
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 0.9995e-3 else f"{seconds * 1e6:.3g} us"


@dataclass(frozen=True)
class Taken:
    """What one run took."""

    wall_s: float
    cpu_s: float
    peak_rss_bytes: int | None = None


def _take(contestant: Contestant) -> Taken:
    work = contestant.work
    if not callable(work):
        return take_command(contestant.name, list(work))
    cpu, wall = _cpu_time(), time.perf_counter()
    work()
    wall_s = time.perf_counter() - wall
    return Taken(wall_s, _cpu_time() - cpu)


def _cpu_time() -> float:
    """CPU time of all threads of this process and of the workers it has waited for."""
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + workers.ru_utime + workers.ru_stime


def take_command(name: str, argv: list[str]) -> Taken:
    """Run a command once, its output thrown away; an error that names it where it fails."""
    launcher = [sys.executable, "-I", "-S", str(Path(__file__).with_name("launch.py"))]
    done = subprocess.run([*launcher, *argv], capture_output=True, text=True, check=False)
    taken = json.loads(done.stdout) if done.returncode == 0 else {"code": "no start"}
    code = taken.pop("code")
    if code != 0:
        raise FixInput(
            f"the contestant {name!r} failed ({code})",
            where=" ".join(argv)[:200],
            hint=(done.stderr.splitlines() or ["the same command by hand"])[-1],
        )
    return Taken(**taken)


def _timing(name: str, results: Sequence[Taken]) -> Timing:
    peaks = [taken.peak_rss_bytes for taken in results if taken.peak_rss_bytes is not None]
    return Timing(
        name=name,
        wall_s=tuple(taken.wall_s for taken in results),
        cpu_s=tuple(taken.cpu_s for taken in results),
        peak_rss_bytes=max(peaks) if peaks else None,
    )
