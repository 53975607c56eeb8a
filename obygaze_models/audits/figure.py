"""The figures of audits: dots, strips of dots and ticks on labelled rows, in one or more panels."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.figures import INK, MUTED, canvas, draw_grid, label_rows, save

BLUE, RED = "#4f7ea3", "#a8324a"
COLORS = (BLUE, RED, "#e3a857", "#5f8f6b", "#8a6fa8", "#77756f")
MAX_ROWS = 40
DOT, TICK = "o", "|"


class Dot(NamedTuple):
    """A value, with a line between the ends of its interval."""

    value: float
    color: str
    interval: Sequence[float | None] = ()
    lift: float = 0.0

    def draw(self, axes: Any, row: float) -> None:
        """Draw the dot on a row."""
        if self.interval and None not in self.interval:
            axes.plot(self.interval, [row, row], color=self.color, lw=1.7, alpha=0.75)
        axes.scatter(self.value, row, s=34, color=self.color, zorder=3)


class Strip(NamedTuple):
    """Many values as small dots, and their mean as a thick line."""

    values: NDArray[np.float64]
    color: str
    lift: float = 0.0

    def draw(self, axes: Any, row: float) -> None:
        """Draw the strip on a row."""
        if len(self.values):
            # Not random: the same figure must give the same bytes.
            spread = 0.06 * np.cos(2.4 * np.arange(len(self.values)))
            style = {"color": self.color, "alpha": 0.55, "lw": 0, "zorder": 2}
            axes.scatter(self.values, row + spread, s=12, **style)
            mean = float(self.values.mean())
            axes.plot([mean, mean], [row - 0.14, row + 0.14], color=self.color, lw=2.6)


class Tick(NamedTuple):
    """A value to compare with: a short line across the row."""

    value: float
    color: str
    lift: float = 0.0

    def draw(self, axes: Any, row: float) -> None:
        """Draw the tick on a row."""
        axes.plot([self.value, self.value], [row - 0.3, row + 0.3], color=self.color, lw=2)


class Row(NamedTuple):
    """A labelled row of marks, with a note beside the axes."""

    label: str
    marks: Sequence[Dot | Strip | Tick]
    note: str = ""


class Panel(NamedTuple):
    """Rows from top to bottom; `line` is a value that all rows are compared with."""

    title: str
    rows: Sequence[Row]
    xlabel: str = ""
    line: float | None = None
    limits: tuple[float, float] | None = None


class Drawing(NamedTuple):
    """Panels in a column, or side by side with the same rows; the legend has marker and colour."""

    panels: Sequence[Panel]
    legend: Mapping[str, tuple[str, str]] = {}
    title: str = ""
    side_by_side: bool = False


def save_drawing(drawing: Drawing, stem: Path, *, force: bool = True) -> tuple[Path, Path]:
    """Draw into STEM.svg and STEM.png, and return both paths."""
    panels = drawing.panels
    inches = 0.36 if any(_has_strip(panel) for panel in panels) else 0.28
    heights = [0.5 + inches * max(len(panel.rows), 1) for panel in panels]
    grid: dict[str, Any] = {"nrows": len(panels), "height_ratios": heights}
    if drawing.side_by_side:
        grid, heights = {"ncols": len(panels), "sharey": True}, [max(heights)]
    height = sum(heights) + 0.4 + 0.3 * bool(drawing.legend) + 0.3 * bool(drawing.title)
    with canvas(7.6, height, squeeze=False, **grid) as (figure, all_axes):
        for axes, panel in zip(all_axes.flat, panels, strict=True):
            _draw_panel(axes, panel, "normal" if drawing.title else "bold")
        if drawing.title:
            figure.suptitle(drawing.title, x=0.01, ha="left", fontsize=10, weight="bold")
        for label, (marker, color) in drawing.legend.items():
            style = {"markersize": 6 if marker == DOT else 11, "markeredgewidth": 1.5}
            all_axes.flat[0].plot([], [], marker, color=color, label=label, **style)
        if drawing.legend:
            figure.legend(loc="outside lower center", ncols=4, fontsize=8)
        return save(figure, stem, force=force)


def _has_strip(panel: Panel) -> bool:
    return any(isinstance(mark, Strip) for row in panel.rows for mark in row.marks)


def _draw_panel(axes: Any, panel: Panel, weight: str) -> None:
    rows = panel.rows[::-1]
    for place, row in enumerate(rows):
        for mark in row.marks:
            mark.draw(axes, place + mark.lift)
        beside = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        style = {"va": "center", "fontsize": 7.5, "color": INK}
        axes.annotate(row.note, (1.0, place), xytext=(5, 0), **beside, **style)
    labels = [textwrap.shorten(row.label, 60, placeholder=" …") for row in rows]
    label_rows(axes, labels, upwards=True)
    if panel.line is not None:
        axes.axvline(panel.line, color=MUTED, lw=0.8, zorder=1)
    if panel.limits:
        axes.set_xlim(*panel.limits)
    draw_grid(axes)
    axes.set_xlabel(panel.xlabel, color=MUTED)
    axes.set_title(panel.title, weight=weight, fontsize=10 if weight == "bold" else 8)
