"""Measure how long a function takes: wall time and CPU time of repeated runs."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

from obygaze_features.core.errors import FixUsage

MAX_S = 2.0


class Elapsed(NamedTuple):
    """The wall time and the CPU time of one run, in seconds."""

    wall_s: float
    cpu_s: float


class Runs(NamedTuple):
    """The wall times and the CPU times of repeated runs of the same work, in seconds."""

    wall_s: tuple[float, ...]
    cpu_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        """The median of the wall times."""
        return statistics.median(self.wall_s)

    @property
    def median_cpu_s(self) -> float:
        """The median of the CPU times."""
        return statistics.median(self.cpu_s)


def time_once(work: Callable[[], object]) -> Elapsed:
    """Run `work` once and return its wall time and CPU time.

    The CPU time counts all threads of this process, and child processes that `work` waited for.
    """
    cpu, wall = _cpu_time(), time.perf_counter()
    work()
    wall_s = time.perf_counter() - wall
    return Elapsed(wall_s, _cpu_time() - cpu)


def time_runs(
    work: Callable[[], object],
    rounds: int,
    *,
    prepare: Callable[[], object] | None = None,
    max_s: float = MAX_S,
) -> Runs:
    """Run `work` up to `rounds` times after a warm-up run, and return the times.

    `prepare` runs before each run and is not timed. No further run starts when the total would
    exceed `max_s`. If there was time for one run only, its time is returned.
    """
    if rounds < 1:
        raise FixUsage(f"rounds must be at least 1, got {rounds}")
    taken: list[Elapsed] = []
    spent_s = 0.0
    while len(taken) < rounds + 1:
        if prepare is not None:
            prepare()
        taken.append(time_once(work))
        spent_s += taken[-1].wall_s
        if spent_s + taken[-1].wall_s > max_s:
            break
    kept = taken[1:] or taken
    return Runs(tuple(run.wall_s for run in kept), tuple(run.cpu_s for run in kept))


def duration(seconds: float) -> str:
    """Format a time with three digits, in us, ms or s."""
    if seconds >= 999.5:
        return f"{seconds:,.0f} s"
    if seconds >= 0.9995:  # a value that rounds to 1000 is shown in the larger unit
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 0.9995e-3 else f"{seconds * 1e6:.3g} us"


def _cpu_time() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
