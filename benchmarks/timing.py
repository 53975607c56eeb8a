"""Time several ways of doing one job in turns, in this process or as commands."""

from __future__ import annotations

import importlib
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from obygaze_features.core.console import human, table
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.machine import Machine, duration, this_machine, time_once

ROOT = Path(__file__).resolve().parents[1]
OBYGAZE = (sys.executable, "-m", "obygaze")
# The clock may not tick during very short work; then this is taken.
TICK_S = 1e-6

Work = Callable[[], object] | Sequence[str]
"""What is timed: a function of this process, or the words of a command."""


class NotMeasured(Exception):
    """This machine lacks what a benchmark measures; the message says what."""


class Result(Protocol):
    """What every benchmark returns."""

    def to_text(self) -> str:
        """Return tables for people."""

    def to_json(self) -> dict[str, Any]:
        """Return every single measurement as JSON."""


@dataclass(frozen=True)
class Settings:
    """How long a benchmark may take."""

    quick: bool = False
    rounds: int | None = None

    def rounds_or(self, default: int) -> int:
        """The number of rounds: as set, 1 if quick, or the benchmark's own default."""
        return self.rounds or (1 if self.quick else default)


@dataclass(frozen=True)
class Contestant:
    """One way of doing the job; `prepare` runs before each of its rounds and is not timed."""

    name: str
    work: Work
    prepare: Callable[[], object] | None = None


@dataclass(frozen=True)
class Timing:
    """The times of all rounds of one contestant."""

    name: str
    wall_s: tuple[float, ...]
    cpu_s: tuple[float, ...]
    peak_rss_bytes: int | None = None

    @property
    def median_s(self) -> float:
        """The median of the wall times."""
        return statistics.median(self.wall_s)


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

    def ratio(self, name: str, clock: str = "wall_s") -> float:
        """Return the median over rounds of the time of `name` divided by the reference's.

        `clock` is "wall_s" or "cpu_s". Only times of the same round are divided, because the
        speed of a machine changes from round to round.
        """
        reference: tuple[float, ...] = getattr(self.timing(self.reference), clock)
        times: tuple[float, ...] = getattr(self.timing(name), clock)
        pairs = zip(times, reference, strict=True)
        return statistics.median(max(a, TICK_S) / max(b, TICK_S) for a, b in pairs)

    def to_json(self) -> dict[str, Any]:
        """Return every single time as JSON."""
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
            "machine": self.machine.to_json(),
            "facts": dict(self.facts),
            "contestants": contestants,
        }

    def to_text(self) -> str:
        """Return a table with the machine below it."""
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
        headers = (
            "contestant",
            "median",
            "from to",
            "time ratio",
            "CPU ratio",
            "peak memory",
        )
        facts = [f"{name}: {value}" for name, value in self.facts.items()]
        about = (
            f"ratios to {self.reference!r}, {rounds_text(len(self.timings[0].wall_s))}"
        )
        return "\n".join(
            [self.title, table(headers, rows), *facts, about, self.machine.line()]
        )


def rounds_text(n: int) -> str:
    """Return how the values of a table were taken."""
    return f"median of {n} rounds taken in turns" if n > 1 else "a single round"


def compare(
    title: str,
    contestants: Sequence[Contestant],
    *,
    reference: str,
    rounds: int = 5,
    warmups: int = 1,
    packages: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
) -> Comparison:
    """Time all contestants in turns (A B A B ...), after warm-up rounds that do not count."""
    names = [contestant.name for contestant in contestants]
    _check_names(names, reference)
    if rounds < 1:
        raise FixUsage(f"rounds must be at least 1, got {rounds}")
    measured: dict[str, list[Measured]] = {name: [] for name in names}
    for turn in range(warmups + rounds):
        for contestant in contestants:
            if contestant.prepare is not None:
                contestant.prepare()
            result = _measure(contestant)
            if turn >= warmups:
                measured[contestant.name].append(result)
    return Comparison(
        title=title,
        reference=reference,
        timings=tuple(_timing(name, results) for name, results in measured.items()),
        machine=this_machine(packages),
        facts=dict(facts or {}),
    )


def _check_names(names: Sequence[str], reference: str) -> None:
    if reference not in names:
        raise FixUsage(
            f"reference {reference!r} is not a contestant: {', '.join(names)}"
        )
    if len(set(names)) < len(names):
        raise FixUsage(f"contestants need different names, got {', '.join(names)}")


@dataclass(frozen=True)
class Measured:
    """The time, and for a command the memory, of one run."""

    wall_s: float
    cpu_s: float
    peak_rss_bytes: int | None = None


def _measure(contestant: Contestant) -> Measured:
    work = contestant.work
    return (
        Measured(*time_once(work))
        if callable(work)
        else run_command(contestant.name, work)
    )


def _timing(name: str, results: Sequence[Measured]) -> Timing:
    peaks = [
        result.peak_rss_bytes for result in results if result.peak_rss_bytes is not None
    ]
    return Timing(
        name=name,
        wall_s=tuple(result.wall_s for result in results),
        cpu_s=tuple(result.cpu_s for result in results),
        peak_rss_bytes=max(peaks) if peaks else None,
    )


def run_command(
    name: str, argv: Sequence[str], limit_s: float | None = None
) -> Measured:
    """Run a command once and return what it took; its output is discarded.

    It starts in the root of the repository. Raises FixInput if it fails, or if it has not ended
    after `limit_s` seconds.
    """
    launcher = [sys.executable, "-I", "-S", str(Path(__file__).with_name("launch.py"))]
    with subprocess.Popen(
        [*launcher, *argv],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=limit_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # its child processes too
            if isinstance(error, subprocess.TimeoutExpired):
                raise FixInput(f"{name!r} has not ended after {limit_s:g} s") from None
            raise
    measured = json.loads(out) if process.returncode == 0 else {"code": "not started"}
    code = measured.pop("code")
    if code != 0:
        raise FixInput(
            f"{name!r} failed ({code})",
            where=" ".join(argv)[:200],
            hint=(err.splitlines() or ["run the same command by hand"])[-1],
        )
    return Measured(**measured)


def run_apart(
    target: str, *, limit_s: float | None = None, **arguments: Any
) -> tuple[Any, int]:
    """Call a function ("module:name") in a new process; return its result and peak memory.

    Arguments and result are passed as JSON.
    """
    with TemporaryDirectory(prefix="obygaze-bench-") as folder:
        file = Path(folder) / "result.json"
        call = [target, json.dumps(arguments), str(file)]
        measured = run_command(target, [sys.executable, "-m", __name__, *call], limit_s)
        return json.loads(
            file.read_text(encoding="utf-8")
        ), measured.peak_rss_bytes or 0


def main(argv: Sequence[str]) -> None:
    """Call the function as `run_apart` asked; write its result to a file."""
    target, arguments, file = argv
    module, name = target.split(":")
    result = getattr(importlib.import_module(module), name)(**json.loads(arguments))
    Path(file).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
