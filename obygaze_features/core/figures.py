"""Figures that look alike everywhere, and come out as the same bytes for the same data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Ordered from absence to presence, distinct in print and to colour-blind eyes.
LEVEL_COLORS = {"EN": "#d4d4d0", "HN": "#7fa8c9", "NS": "#e3a857", "S": "#a8324a"}
LEVEL_NAMES = {"EN": "easy negative", "HN": "hard negative", "NS": "not sure", "S": "sure"}
INK = "#2b2b2b"
MUTED = "#77756f"

_STYLE = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,  # names are text, whatever signs they hold
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": MUTED,
    "ytick.color": INK,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "obygaze",
}


@contextmanager
def canvas(width: float, height: float, **layout: Any) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes in the house's style, off screen, closed at the end."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure, figure.subplots(**layout)


def save(figure: Any, stem: Path) -> tuple[Path, Path]:
    """Write a figure as SVG and PNG beside each other; the SVG carries no date."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    svg, png = stem.with_name(f"{stem.name}.svg"), stem.with_name(f"{stem.name}.png")
    figure.savefig(svg, metadata={"Date": None, "Creator": None})
    figure.savefig(png, dpi=160, metadata={"Software": None})
    return svg, png


def figure_stem(path: Path) -> Path:
    """The name two files are made of, whichever of the two was asked for."""
    return path.with_suffix("") if path.suffix in {".svg", ".png"} else path
