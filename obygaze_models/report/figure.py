"""What every figure of a report shares: where it lies, what is said of it, its colours."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.figures import MUTED

# Apart in brightness as well as in hue, for print and for every kind of eye.
MODEL = "#2f5d8a"
BLIND = "#a9a69d"
WRONG = "#d98c3f"
PALE = "#ecebe7"
ORDER_COLORS = {"greedy": "#2f5d8a", "uncertainty": "#d98c3f", "random": "#a9a69d"}


@dataclass(frozen=True)
class Figure:
    """A figure on disk, and what to say about it."""

    key: str
    title: str
    caption: str
    svg: Path
    png: Path
    section: str


def bare(axes: Any, *sides: str) -> None:
    """Axes without ticks, and without the spines that are named."""
    axes.tick_params(axis="both", length=0)
    for side in sides or ("left", "right", "top", "bottom"):
        axes.spines[side].set_visible(False)


def rule(axes: Any, at: float) -> None:
    """A dashed line to compare with."""
    axes.axvline(at, color=MUTED, lw=0.8, ls=(0, (3, 3)), zorder=0)
