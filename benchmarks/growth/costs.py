"""How a cost grows with a size: the same work at several sizes, and the fitted power."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.timing import TICK_S, run_apart
from obygaze_features.core.console import human, table
from obygaze_features.core.machine import Machine, Runs, duration

# Exponents within this distance of 1 are called linear: measurements are not more exact.
TOLERANCE = 0.25
# The power is fitted to this many of the largest sizes: at smaller ones, the fixed cost of a call
# hides how the cost grows.
FITTED = 3
MEMORY = "peak memory"


@dataclass(frozen=True)
class Cost:
    """The runs of one kind of work at each size, in seconds or in bytes."""

    name: str
    runs: tuple[Runs, ...]
    unit: str = "s"

    @property
    def medians(self) -> tuple[float, ...]:
        """The median wall time at each size."""
        return tuple(runs.median_s for runs in self.runs)

    @property
    def cpu_medians(self) -> tuple[float, ...]:
        """The median CPU time at each size."""
        return tuple(runs.median_cpu_s for runs in self.runs)

    @property
    def spread(self) -> float | None:
        """The range of the wall times of a size over their median: the largest of all sizes."""
        spreads = [
            (max(runs.wall_s) - min(runs.wall_s)) / max(runs.median_s, TICK_S)
            for runs in self.runs
            if len(runs.wall_s) > 1
        ]
        return max(spreads, default=None)


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
        """Return the power of the size with which a cost grows, over the largest sizes.

        It is fitted to the CPU time, which other programs on the machine hardly change.
        """
        sizes = np.log(np.asarray(self.sizes[-FITTED:], dtype=np.float64))
        costs = np.log(np.maximum(cost.cpu_medians[-FITTED:], TICK_S))
        centred = sizes - sizes.mean()
        return float(centred @ costs / (centred @ centred))

    def steps(self, cost: Cost) -> list[float]:
        """Return the cost at each size divided by the cost at the size before it."""
        medians = [max(median, TICK_S) for median in cost.medians]
        return [after / before for before, after in pairwise(medians)]

    def to_json(self) -> dict[str, Any]:
        """Return every single run as JSON."""
        return {
            "title": self.title,
            "axis": self.axis,
            "sizes": list(self.sizes),
            "machine": self.machine.to_json(),
            "facts": dict(self.facts),
            "costs": [self._cost_to_json(cost) for cost in self.costs],
        }

    def _cost_to_json(self, cost: Cost) -> dict[str, Any]:
        return {
            "name": cost.name,
            "unit": cost.unit,
            "runs": [list(runs.wall_s) for runs in cost.runs],
            "cpu_runs": [list(runs.cpu_s) for runs in cost.runs],
            "medians": list(cost.medians),
            "cpu_medians": list(cost.cpu_medians),
            "steps": self.steps(cost),
            "exponent": self.exponent(cost),
            "growth": growth_word(self.exponent(cost)),
        }

    def to_text(self) -> str:
        """Return a table with the machine below it."""
        sizes = [f"{size:,}" for size in self.sizes]
        rows = [self._row(cost) for cost in self.costs]
        facts = [f"{name}: {value}" for name, value in self.facts.items()]
        lengths: list[int] = []
        for cost in self.costs:
            if cost.unit == "s":
                lengths += [len(runs.wall_s) for runs in cost.runs]
        most = max(lengths, default=1)
        fewest = min(lengths, default=1)
        n_runs = f"{most} runs" if fewest == most > 1 else f"{fewest} to {most} runs"
        how = "single runs" if most == 1 else f"medians of {n_runs}"
        ratios = " to ".join(f"{ratio:.3g}" for ratio in sorted(set(self._ratios())))
        about = f"{how}; in brackets, times the size before it, which is {ratios} times smaller"
        headers = (self.axis, *sizes, "power", "growth", "spread")
        return "\n".join(
            [
                self.title,
                table(headers, rows),
                *facts,
                about,
                *self._words(),
                self.machine.line(),
            ]
        )

    def _row(self, cost: Cost) -> list[object]:
        text = human if cost.unit == "B" else duration
        first, *larger = (text(median) for median in cost.medians)
        steps = [
            f"{median} ({step:.3g}x)"
            for median, step in zip(larger, self.steps(cost), strict=True)
        ]
        power = self.exponent(cost)
        spread = "-" if cost.spread is None else f"{cost.spread:.0%}"
        return [cost.name, first, *steps, f"{power:.2f}", growth_word(power), spread]

    def _ratios(self) -> list[float]:
        return [round(after / before, 3) for before, after in pairwise(self.sizes)]

    def _words(self) -> list[str]:
        above = [
            c.name
            for c in self.costs
            if growth_word(self.exponent(c)) == "above linear"
        ]
        n = min(FITTED, len(self.sizes))
        return [
            f"power: of the size that CPU time or bytes grow with, fitted to the {n} largest;"
            f" linear is 1 +- {TOLERANCE}",
            f"above linear: {', '.join(above) or 'nothing'}",
        ]


def growth_word(exponent: float) -> str:
    """Return an exponent in words."""
    if abs(exponent - 1) <= TOLERANCE:
        return "linear"
    return "above linear" if exponent > 1 else "below linear"


def costs_apart(
    target: str, sizes: Sequence[int], rounds: int, units: Mapping[str, str]
) -> list[Cost]:
    """Call a function of `n_clips` and `rounds` in a new process for each size; return its costs.

    The function ("module:name") returns the Runs of each cost by name. The peak memory of the
    process is one more cost.
    """
    parts = []
    for n_clips in sizes:
        part, memory = run_apart(target, n_clips=n_clips, rounds=rounds)
        parts.append({**part, MEMORY: counted(memory)})
    return merged(parts, {**units, MEMORY: "B"})


def counted(value: float) -> Runs:
    """Return a count, for example of bytes, in the form of a single run."""
    return Runs((value,), (value,))


def merged(
    parts: Sequence[Mapping[str, Sequence[Any]]], units: Mapping[str, str]
) -> list[Cost]:
    """Return the costs by name from what was measured at each size; runs may be JSON lists."""
    costs = []
    for name in parts[0]:
        runs = tuple(Runs(*map(tuple, part[name])) for part in parts)
        costs.append(Cost(name, runs, units.get(name, "s")))
    return costs
