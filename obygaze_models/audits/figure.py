"""The figures of audits: dots, strips of dots and ticks on labelled rows."""

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
DOT, TICK, STRIP = "o", "|", "."


class Mark(NamedTuple):
    """What is drawn on a row: a dot, a tick to compare with, or a strip of many small dots.

    A dot has a line between the ends of its interval, a strip a thick line at its mean.
    """

    kind: str
    values: float | NDArray[np.float64]
    color: str
    ends: Sequence[float | None] = ()
    lift: float = 0.0


class Row(NamedTuple):
    """A labelled row of marks, with a note beside the axes."""

    label: str
    marks: Sequence[Mark]
    note: str = ""


class Panel(NamedTuple):
    """Rows from top to bottom; `line` is a value that all rows are compared with."""

    title: str
    rows: Sequence[Row]
    xlabel: str = ""
    line: float | None = None
    limits: tuple[float, float] | None = None


class Drawing(NamedTuple):
    """Panels side by side with the same rows; the legend has marker and colour of each label."""

    panels: Sequence[Panel]
    legend: Mapping[str, tuple[str, str]] = {}
    title: str = ""


def save_drawing(drawing: Drawing, stem: Path, *, force: bool = True) -> tuple[Path, Path]:
    """Draw into STEM.svg and STEM.png, and return both paths."""
    rows = drawing.panels[0].rows
    has_strips = any(mark.kind == STRIP for row in rows for mark in row.marks)
    height = 0.9 + (0.36 if has_strips else 0.28) * max(len(rows), 1)
    height += 0.3 * bool(drawing.legend) + 0.3 * bool(drawing.title)
    grid = {"ncols": len(drawing.panels), "sharey": True, "squeeze": False}
    with canvas(7.6, height, **grid) as (figure, all_axes):
        for axes, panel in zip(all_axes[0], drawing.panels, strict=True):
            _draw_panel(axes, panel)
            if drawing.title:
                axes.set_title(panel.title, weight="normal", fontsize=8)
        if drawing.title:
            figure.suptitle(drawing.title, x=0.01, ha="left", fontsize=10, weight="bold")
        for label, (marker, color) in drawing.legend.items():
            style = {"markersize": 6 if marker == DOT else 11, "markeredgewidth": 1.5}
            all_axes[0, 0].plot([], [], marker, color=color, label=label, **style)
        if drawing.legend:
            figure.legend(loc="outside lower center", ncols=4, fontsize=8)
        return save(figure, stem, force=force)


def _draw_panel(axes: Any, panel: Panel) -> None:
    rows = panel.rows[::-1]
    for place, row in enumerate(rows):
        for mark in row.marks:
            _draw_mark(axes, place + mark.lift, mark)
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
    axes.set_title(panel.title)


def _draw_mark(axes: Any, row: float, mark: Mark) -> None:
    _, values, color, ends, _ = mark
    if mark.kind == TICK:
        axes.plot([values, values], [row - 0.3, row + 0.3], color=color, lw=2)
    elif mark.kind == DOT:
        axes.scatter(values, row, s=34, color=color, zorder=3)
        if ends and None not in ends:
            axes.plot(ends, [row, row], color=color, lw=1.7, alpha=0.75)
    elif np.size(values):
        # Not random: the same figure must give the same bytes.
        spread = row + 0.06 * np.cos(2.4 * np.arange(np.size(values)))
        axes.scatter(values, spread, s=12, color=color, alpha=0.55, lw=0, zorder=2)
        mean = float(np.mean(values))
        axes.plot([mean, mean], [row - 0.14, row + 0.14], color=color, lw=2.6)
