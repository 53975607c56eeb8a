"""Draw how costs grow: a panel for each table, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth.costs import Growth
from benchmarks.timing import TICK_S
from obygaze_features.core.figures import MUTED, canvas, save
from obygaze_features.core.machine import duration

COLORS = ("#4f7ea3", "#a8324a", "#e3a857", "#5f8f6b", "#8a6fa8", "#77756f")
DASHES = ("-", "--", ":")
GRID = "#ecebe7"


def draw_growth(growths: Sequence[Growth], stem: Path) -> tuple[Path, Path]:
    """Draw the CPU times of each table over its sizes, beside a linear line."""
    rows = -(-len(growths) // 2)
    with canvas(9.6, 0.4 + 2.5 * rows, nrows=rows, ncols=2, squeeze=False) as (
        figure,
        grid,
    ):
        panels = grid.ravel()
        for axes, growth in zip(panels, growths, strict=False):
            _panel(axes, growth)
        for axes in panels[len(growths) :]:
            axes.axis("off")
        return save(figure, stem, force=True)


def _panel(axes: Any, growth: Growth) -> None:
    from matplotlib.ticker import LogLocator

    sizes = np.asarray(growth.sizes, dtype=np.float64)
    timed = [cost for cost in growth.costs if cost.unit == "s"]
    # The legend lists lines from top to bottom: the most expensive first.
    ordered = sorted(timed, key=lambda cost: -cost.cpu_medians[-1])
    axes.set_xscale("log")
    axes.set_yscale("log")
    for series, cost in enumerate(ordered):
        axes.plot(
            sizes,
            np.maximum(cost.cpu_medians, TICK_S),
            color=COLORS[series % len(COLORS)],
            ls=DASHES[series // len(COLORS) % len(DASHES)],
            marker="o",
            ms=3,
            lw=1.3,
            label=f"{cost.name}, power {growth.exponent(cost):.2f}",
        )
    low, high = axes.get_ylim()
    # Through the middle of the panel, so that every line can be compared with it.
    middle = np.sqrt(low * high) / np.sqrt(sizes[0] * sizes[-1])
    axes.plot(
        sizes, middle * sizes, color=MUTED, lw=0.8, ls=(0, (1, 2)), label="linear"
    )
    axes.set_ylim(low, high)
    axes.set_xticks(growth.sizes, [_short(size) for size in growth.sizes])
    # Within a decade or two, powers of ten alone would leave an axis without numbers.
    axes.yaxis.set_major_locator(
        LogLocator(subs=(1.0, 2.0, 5.0) if high < 30 * low else (1.0,))
    )
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: duration(value))
    axes.set_ylabel("CPU time", color=MUTED)
    axes.grid(visible=True, color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(growth.axis, color=MUTED)
    axes.set_title(growth.title)
    axes.legend(
        loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=6.5, labelspacing=0.7
    )


def _short(size: int) -> str:
    """Return a size short enough for the axis of a narrow panel."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return f"{size:,}"
