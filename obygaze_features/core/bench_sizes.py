"""How a cost grows: the same work at several sizes, and whether it grows as they do."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

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


@dataclass(frozen=True)
class Cost:
    """One kind of work: what each of its runs took at each size, in seconds or in bytes."""

    name: str
    runs: tuple[tuple[float, ...], ...]
    unit: str = "s"

    @property
    def medians(self) -> tuple[float, ...]:
        """The median of each size."""
        return tuple(statistics.median(runs) for runs in self.runs)

    @property
    def spread(self) -> float | None:
        """How far apart the runs of a size were, at the size where that was most, to its median."""
        apart = [
            (max(runs) - min(runs)) / max(statistics.median(runs), 1e-9)
            for runs in self.runs
            if len(runs) > 1
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
        """The power of the size that a cost grows with, over the largest sizes."""
        sizes = np.log(np.asarray(self.sizes[-FITTED:], dtype=np.float64))
        # A clock that did not tick is as good as one microsecond.
        costs = np.log(np.maximum(cost.medians[-FITTED:], 1e-6))
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
                "runs": [list(runs) for runs in cost.runs],
                "medians": list(cost.medians),
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
        most = max(len(runs) for cost in self.costs for runs in cost.runs)
        fewest = min(len(runs) for cost in self.costs for runs in cost.runs)
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
            f"power: of the size, fitted to the {n} largest; linear is 1 +- {TOLERANCE}",
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
) -> tuple[float, ...]:
    """The times of some runs: `rounds` of them, or fewer where they take too many seconds.

    A first run that is quick does not count.
    """
    if rounds < 1:
        raise FixUsage("a bench needs at least one round")
    taken: list[float] = []
    while len(taken) < rounds + 1:
        if prepare is not None:
            prepare()
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
        if sum(taken) + taken[-1] > seconds:
            break
    return tuple(taken[1:] if len(taken) > 1 else taken)


def merged(parts: Sequence[Mapping[str, Sequence[float]]], units: Mapping[str, str]) -> list[Cost]:
    """Costs from what was measured at each size, by the name of the cost."""
    return [
        Cost(name, tuple(tuple(part[name]) for part in parts), units.get(name, "s"))
        for name in parts[0]
    ]
