"""How a cost grows: the same work at several sizes, and whether it grows as they do."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from obygaze_features.core.bench import duration
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.machine import Machine

# Exponents this near to 1 are called linear: clocks are not better than that.
TOLERANCE = 0.25
# Of so many of the largest sizes: below them, what every call costs hides how it grows.
FITTED = 3
SECONDS = 2.0


class Runs(NamedTuple):
    """What the runs of one size took by the clock on the wall, and of the processor."""

    wall: tuple[float, ...]
    cpu: tuple[float, ...]

    @classmethod
    def counted(cls, value: float) -> Runs:
        """What was counted and not timed: bytes."""
        return cls((value,), (value,))


@dataclass(frozen=True)
class Cost:
    """One kind of work: what its runs took at each size, in seconds or in bytes."""

    name: str
    runs: tuple[Runs, ...]
    unit: str = "s"

    @property
    def medians(self) -> tuple[float, ...]:
        """The median of each size, by the clock on the wall."""
        return tuple(statistics.median(runs.wall) for runs in self.runs)

    @property
    def cpu_medians(self) -> tuple[float, ...]:
        """The median of each size, of the processor."""
        return tuple(statistics.median(runs.cpu) for runs in self.runs)

    @property
    def spread(self) -> float | None:
        """How far apart the runs of a size were, at the size where that was most, to its median."""
        apart = [
            (max(runs.wall) - min(runs.wall)) / max(statistics.median(runs.wall), 1e-9)
            for runs in self.runs
            if len(runs.wall) > 1
        ]
        return max(apart, default=None)


@dataclass(frozen=True)
class Growth:
    """Costs over the sizes of one thing."""

    title: str
    axis: str
    sizes: tuple[int, ...]
    costs: tuple[Cost, ...]
    machine: Machine
    facts: Mapping[str, Any] = field(default_factory=dict)

    def exponent(self, cost: Cost) -> float:
        """The power of the size that a cost grows with, over the largest sizes.

        Of the processor's time: others on the machine hardly change that.
        """
        sizes = np.log(np.asarray(self.sizes[-FITTED:], dtype=np.float64))
        # A clock that did not tick is as good as one microsecond.
        costs = np.log(np.maximum(cost.cpu_medians[-FITTED:], 1e-6))
        away = sizes - sizes.mean()
        return float(away @ costs / (away @ away))

    def steps(self, cost: Cost) -> list[float]:
        """How many times a cost each size is, of the size before it."""
        medians = [max(median, 1e-6) for median in cost.medians]
        return [after / before for before, after in pairwise(medians)]

    def as_json(self) -> dict[str, Any]:
        """The table as one JSON object, every single run included."""
        costs = [
            {
                "name": cost.name,
                "unit": cost.unit,
                "runs": [list(runs.wall) for runs in cost.runs],
                "cpu_runs": [list(runs.cpu) for runs in cost.runs],
                "medians": list(cost.medians),
                "cpu_medians": list(cost.cpu_medians),
                "steps": self.steps(cost),
                "exponent": self.exponent(cost),
                "growth": growth_word(self.exponent(cost)),
            }
            for cost in self.costs
        ]
        return {
            "title": self.title,
            "axis": self.axis,
            "sizes": list(self.sizes),
            "machine": self.machine.as_json(),
            "facts": dict(self.facts),
            "costs": costs,
        }

    def as_text(self) -> str:
        """The table, with the machine under it."""
        sizes = [f"{size:,}" for size in self.sizes]
        rows = [self._row(cost) for cost in self.costs]
        facts = [f"{name}: {value}" for name, value in self.facts.items()]
        lengths = [len(r.wall) for cost in self.costs if cost.unit == "s" for r in cost.runs]
        most, fewest = max(lengths, default=1), min(lengths, default=1)
        counted = f"{most} runs" if fewest == most > 1 else f"{fewest} to {most} runs"
        told = "single runs" if most == 1 else f"medians of {counted}"
        ratios = " to ".join(f"{ratio:.3g}" for ratio in sorted(set(self._ratios())))
        about = f"{told}; in brackets, times the size before it, which is {ratios} times smaller"
        headers = (self.axis, *sizes, "power", "growth", "spread")
        return "\n".join(
            [self.title, table(headers, rows), *facts, about, *self._words(), self.machine.line()]
        )

    def _row(self, cost: Cost) -> list[object]:
        say = human if cost.unit == "B" else duration
        first, *rest = (say(median) for median in cost.medians)
        steps = [f"{one} ({step:.3g}x)" for one, step in zip(rest, self.steps(cost), strict=True)]
        power = self.exponent(cost)
        spread = "-" if cost.spread is None else f"{cost.spread:.0%}"
        return [cost.name, first, *steps, f"{power:.2f}", growth_word(power), spread]

    def _ratios(self) -> list[float]:
        return [round(after / before, 3) for before, after in pairwise(self.sizes)]

    def _words(self) -> list[str]:
        above = [c.name for c in self.costs if growth_word(self.exponent(c)) == "above linear"]
        n = min(FITTED, len(self.sizes))
        return [
            f"power: of the size that CPU time or bytes grow with, fitted to the {n} largest;"
            f" linear is 1 +- {TOLERANCE}",
            f"above linear: {', '.join(above) or 'nothing'}",
        ]


def growth_word(exponent: float) -> str:
    """What an exponent means."""
    if abs(exponent - 1) <= TOLERANCE:
        return "linear"
    return "above linear" if exponent > 1 else "below linear"


def take_runs(
    work: Callable[[], object],
    rounds: int,
    *,
    prepare: Callable[[], object] | None = None,
    seconds: float = SECONDS,
) -> Runs:
    """The times of some runs: `rounds` of them, or fewer where they take too many seconds.

    A first run that is quick does not count.
    """
    if rounds < 1:
        raise FixUsage("a bench needs at least one round")
    taken: list[tuple[float, float]] = []
    spent = 0.0
    while len(taken) < rounds + 1:
        if prepare is not None:
            prepare()
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        taken.append((time.perf_counter() - wall, time.process_time() - cpu))
        spent += taken[-1][0]
        if spent + taken[-1][0] > seconds:
            break
    kept = taken[1:] or taken
    return Runs(tuple(wall for wall, _ in kept), tuple(cpu for _, cpu in kept))


def merged(parts: Sequence[Mapping[str, Sequence[Any]]], units: Mapping[str, str]) -> list[Cost]:
    """Costs from what was measured at each size, by the name of the cost.

    Runs may have been JSON on their way.
    """
    return [
        Cost(name, tuple(_runs(part[name]) for part in parts), units.get(name, "s"))
        for name in parts[0]
    ]


def _runs(value: Sequence[Any]) -> Runs:
    wall, cpu = value
    return Runs(tuple(map(float, wall)), tuple(map(float, cpu)))
