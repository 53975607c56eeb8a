"""The figure of an audit: a dot with its interval on each labelled row."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from obygaze_features.core.figures import (
    COLORS,
    WIDTH,
    canvas,
    draw_dots,
    draw_grid,
    label_rows,
    save,
)

MAX_ROWS = 40


class Point(NamedTuple):
    """A labelled row: a value with the ends of its interval, and a note beside the axes."""

    label: str
    value: float
    ends: Sequence[float | None] = ()
    note: str = ""


class Plot(NamedTuple):
    """Rows from top to bottom; `line` is a value that all rows are compared with."""

    title: str
    points: Sequence[Point]
    xlabel: str
    line: float | None = None


def save_plot(plot: Plot, path: Path, *, force: bool = True) -> tuple[Path, ...]:
    """Draw the first 40 rows into a file, or as SVG and PNG, and return the paths."""
    points = plot.points[:MAX_ROWS]
    n_all = len(plot.points)
    with canvas(WIDTH, 65 + 20 * max(len(points), 1)) as (figure, axes):
        for row, (_, value, ends, note) in enumerate(points):
            is_below = plot.line is not None and value < plot.line
            color = "wrong" if is_below else "model"
            draw_dots(axes, [value], [row], color, 6)
            if ends and None not in ends:
                axes.plot(ends, [row, row], color=COLORS[color], lw=1.7, alpha=0.75)
            beside = {
                "xycoords": ("axes fraction", "data"),
                "textcoords": "offset points",
            }
            style = {"va": "center", "fontsize": 7.5}
            axes.annotate(note, (1.0, row), xytext=(5, 0), **beside, **style)
        label_rows(
            axes, [textwrap.shorten(p.label, 60, placeholder=" …") for p in points]
        )
        if plot.line is not None:
            axes.axvline(plot.line, color=COLORS["muted"], lw=0.8, zorder=1)
        draw_grid(axes)
        axes.set_xlabel(plot.xlabel)
        title = plot.title
        if n_all > MAX_ROWS:
            title += f" ({MAX_ROWS} of {n_all} rows)"
        axes.set_title(title)
        return save(figure, path, force=force)
