"""Time several ways of doing one job in turns, as commands."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from obygaze_features.core.console import human, table
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.machine import Machine, this_machine

ROOT = Path(__file__).resolve().parents[1]
OBYGAZE = (sys.executable, "-m", "obygaze")
# The clock may not tick during very short work; then this is taken.
TICK_S = 1e-6
# Linux counts the memory of the process that starts a program as a part of that program's peak, so
# that commands are started by this small program, which holds nothing.
LAUNCHER = """\
import json, os, sys, time
discard = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
started = time.perf_counter()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], dict(os.environ), file_actions=discard)
_, status, usage = os.wait4(pid, 0)
took = time.perf_counter() - started
cpu = usage.ru_utime + usage.ru_stime
code = os.waitstatus_to_exitcode(status)
print(json.dumps([code, took, cpu, usage.ru_maxrss * 1024]))
"""

Measured = tuple[float, float, int]
"""Wall time, CPU time, and the peak memory in bytes."""


@dataclass(frozen=True)
class Contestant:
    """One way of doing the job: the words of a command."""

    name: str
    work: Sequence[str]


@dataclass(frozen=True)
class Timing:
    """The times of all rounds of one contestant."""

    name: str
    wall_s: tuple[float, ...]
    cpu_s: tuple[float, ...]
    peak_rss_bytes: int | None = None


@dataclass(frozen=True)
class Comparison:
    """The times of all contestants, one of which is the reference of the ratios."""

    title: str
    reference: str
    timings: tuple[Timing, ...]
    machine: Machine
    facts: Mapping[str, Any] = field(default_factory=dict)

    def timing(self, name: str) -> Timing:
        """Return the times of one contestant."""
        return next(timing for timing in self.timings if timing.name == name)

    def ratio(self, name: str, reference: str = "") -> float:
        """Return the median over rounds of the CPU time of `name` divided by the reference's.

        The reference is that of all ratios if none is named.

        Only times of the same round are divided, because the speed of a machine changes from round
        to round.
        """
        divisors = self.timing(reference or self.reference).cpu_s
        pairs = zip(self.timing(name).cpu_s, divisors, strict=True)
        return statistics.median(max(a, TICK_S) / max(b, TICK_S) for a, b in pairs)

    def to_text(self) -> str:
        """Return a table with the machine below it."""
        rows = []
        for timing in self.timings:
            low = duration(min(timing.cpu_s))
            high = duration(max(timing.cpu_s))
            peak = timing.peak_rss_bytes
            row = (
                timing.name,
                duration(statistics.median(timing.cpu_s)),
                f"{low} to {high}",
                f"{self.ratio(timing.name):.2f}x",
                human(peak) if peak else None,
            )
            rows.append(row)
        headers = ("contestant", "CPU time", "from to", "ratio", "peak memory")
        n_rounds = len(self.timings[0].cpu_s)
        about = f"ratios to {self.reference!r}, median of rounds taken in turns ({n_rounds})"
        facts = [f"{name}: {value}" for name, value in self.facts.items()]
        lines = [self.title, table(headers, rows), *facts, about, self.machine.line()]
        return "\n".join(lines)


def compare(
    title: str,
    contestants: Sequence[Contestant],
    *,
    reference: str,
    rounds: int,
    packages: Sequence[str] = (),
) -> Comparison:
    """Time all contestants in turns (A B A B ...)."""
    names = [contestant.name for contestant in contestants]
    if reference not in names or len(set(names)) < len(names):
        raise FixUsage(f"contestants need different names, among them {reference!r}")
    measured: dict[str, list[Measured]] = {name: [] for name in names}
    for _ in range(rounds):
        for contestant in contestants:
            result = run_command(contestant.name, contestant.work)
            measured[contestant.name].append(result)
    timings = []
    for name, results in measured.items():
        wall_s, cpu_s, peaks = zip(*results, strict=True)
        timings.append(Timing(name, wall_s, cpu_s, max(peaks)))
    return Comparison(title, reference, tuple(timings), this_machine(packages))


def run_command(name: str, argv: Sequence[str]) -> Measured:
    """Run a command once; return its wall time, CPU time and peak memory.

    It starts in the root of the repository, and its output is discarded.
    """
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, *argv]
    done = subprocess.run(
        launcher, cwd=ROOT, capture_output=True, text=True, check=False
    )
    code: int | str = "not started"
    if done.returncode == 0:
        code, wall_s, cpu_s, peak = json.loads(done.stdout)
    if code != 0:
        said = done.stderr.splitlines() or ["run the same command by hand"]
        raise FixInput(f"{name!r} failed ({code})", hint=said[-1])
    return wall_s, cpu_s, peak


def duration(seconds: float) -> str:
    """Format a time with three digits, in us, ms or s."""
    if seconds >= 999.5:
        return f"{seconds:,.0f} s"
    if seconds >= 0.9995:  # a value that rounds to 1000 is shown in the larger unit
        return f"{seconds:.3g} s"
    if seconds >= 0.9995e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} us"
