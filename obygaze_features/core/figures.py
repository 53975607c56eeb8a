"""Figures in one style; the same data give the same bytes."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from obygaze_features.core.files import write_all_new

# Ordered from absence to presence, distinct in print and to colour-blind eyes.
LEVEL_COLORS = {"EN": "#d4d4d0", "HN": "#7fa8c9", "NS": "#e3a857", "S": "#a8324a"}
LEVEL_NAMES = {
    "EN": "easy negative",
    "HN": "hard negative",
    "NS": "not sure",
    "S": "sure",
}


def level_words(levels: Iterable[str]) -> str:
    """Return the codes of levels with their words."""
    words = [f"{level} {LEVEL_NAMES[level]}" for level in levels]
    return f"levels: {', '.join(words)}"


INK = "#2b2b2b"
MUTED = "#77756f"
PALE = "#ecebe7"

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
    """Yield a figure and its axes in the common style, without a screen."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure, figure.subplots(**layout)


def save(figure: Any, stem: Path, *, force: bool = True) -> tuple[Path, Path]:
    """Write a finished figure as SVG and PNG, without dates, and return both paths.

    Args:
        figure: The matplotlib figure.
        stem: The path without its suffix.
        force: Replace files that have other contents.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    # The printers of the canvases draw once; `savefig` draws everything twice.
    drawn = {"svg": _printed(FigureCanvasSVG(figure).print_svg, "Date", "Creator")}
    # The layout of the SVG, which is not computed again.
    figure.set(layout_engine="none", dpi=160)
    drawn["png"] = _printed(FigureCanvasAgg(figure).print_png, "Software")
    files = {
        stem.with_name(f"{stem.name}.{kind}"): data for kind, data in drawn.items()
    }
    write_all_new(files, force=force)
    first, second = files
    return first, second


def _printed(write: Callable[..., Any], *left_out: str) -> bytes:
    stream = BytesIO()
    with warnings.catch_warnings():
        # Missing characters in the font, and labels too long for the layout, are not errors.
        warnings.filterwarnings("ignore", "Glyph|constrained_layout", UserWarning)
        write(stream, metadata=dict.fromkeys(left_out))
    return stream.getvalue()


def spread_dots(values: Sequence[float], least: float) -> list[float]:
    """Return how far to move the dots of one row up or down, so that none covers another.

    Args:
        values: The positions of the dots along the row.
        least: Dots nearer to each other than this are spread evenly around the row, in steps of 1.
    """
    order = sorted(range(len(values)), key=lambda i: values[i])
    clusters: list[list[int]] = []
    for i in order:
        if clusters and values[i] - values[clusters[-1][-1]] < least:
            clusters[-1].append(i)
        else:
            clusters.append([i])
    moved = [0.0] * len(values)
    for cluster in clusters:
        for rank, i in enumerate(sorted(cluster)):
            moved[i] = rank - (len(cluster) - 1) / 2
    return moved


def draw_grid(axes: Any, direction: str = "x") -> None:
    """Draw light lines behind the data, at the ticks of one axis."""
    getattr(axes, f"{direction}axis").grid(visible=True, color=PALE, lw=0.7)
    axes.set_axisbelow(True)


def label_rows(
    axes: Any,
    names: Sequence[str],
    *,
    upwards: bool = False,
    **style: Any,
) -> None:
    """Label rows 0, 1, ... without tick marks.

    Args:
        axes: The matplotlib axes.
        names: The labels.
        upwards: Whether row 0 is at the bottom.
        style: The style of the labels.
    """
    axes.set_yticks(range(len(names)), names, **style)
    axes.tick_params(axis="y", length=0)
    ends = (-0.6, max(len(names), 1) - 0.4)
    axes.set_ylim(ends if upwards else ends[::-1])


def figure_stem(path: Path) -> Path:
    """Return the path without .svg or .png; a figure is written as both."""
    return path.with_suffix("") if path.suffix in {".svg", ".png"} else path
