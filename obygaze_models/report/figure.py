"""The frame that all figures of a report share: canvas, files, caption, colours and axes."""

from __future__ import annotations

import base64
import math
import re
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from obygaze_features.core.figures import MUTED, canvas, save, svg_bytes
from obygaze_models.report.tables import report_text

# Different in brightness as well as in hue, for print and for colour-blind readers.
MODEL = "#2f5d8a"
BASELINE = "#a9a69d"
WRONG = "#d98c3f"
NARROW_INCHES = 3.73  # of 358 pixels, a telephone of 390 without margins
MAX_NARROW_TICKS, LONG_ENTRY = 6, 26
LABEL_STYLE = ("fontsize", "rotation", "ha", "va")
FONTS = "'DejaVu Sans', Verdana, 'Helvetica Neue', sans-serif"


@dataclass(frozen=True)
class Figure:
    """A figure on disk with its title, its caption and the section it belongs to."""

    section: str
    key: str
    title: str
    caption: str
    svg: Path
    png: Path
    narrow: str = ""

    @property
    def data_url(self) -> str:
        """The drawing as a URL for an HTML page."""
        return _data_url(self.svg.read_text("utf-8"))

    @property
    def narrow_url(self) -> str:
        """The same for a narrow screen; empty if the drawing fits one."""
        return _data_url(self.narrow) if self.narrow else ""

    @property
    def width(self) -> int:
        """The width on the page, in pixels."""
        found = re.search(r'width="([0-9.]+)pt"', self.svg.read_text("utf-8")[:2000])
        return round(float(found[1]) * 4 / 3) if found else 720


def _data_url(svg: str) -> str:
    # Where the font of the drawing is missing, these fonts are as wide.
    text = re.sub(r"'DejaVu Sans'(?!,)", FONTS, svg)
    # Two decimals of a point are enough for a screen, and halve the page.
    numbers = re.compile(r"(\.\d\d)\d+")
    text = re.sub(r' (?:d|x|y)="[^"]*"', lambda found: numbers.sub(r"\1", found[0]), text)
    return f"data:image/svg+xml;base64,{base64.b64encode(text.encode()).decode('ascii')}"


@dataclass(frozen=True)
class FigureSet:
    """The figures of a run in the order of the page; `draw` adds one.

    `for_page` draws each wide figure a second time, for narrow screens.
    """

    folder: Path
    figures: list[Figure] = field(default_factory=list)
    for_page: bool = False

    @contextmanager
    def draw(
        self,
        kind: str,
        key: str,
        size: tuple[float, float],
        layout: Mapping[str, Any] | None = None,
        **names: object,
    ) -> Iterator[tuple[Any, Any]]:
        """Yield a matplotlib figure and its axes to draw on, then write it as SVG and PNG.

        Args:
            kind: The kind of figure in texts.toml.
            key: The file name without suffix.
            size: Width and height in inches.
            layout: Arguments of `Figure.subplots`.
            names: The names to fill into title and caption.
        """
        with canvas(*size, **(layout or {})) as (figure, axes):
            yield figure, axes
            svg, png = save(figure, self.folder / key)
            narrow = narrow_svg(figure) if self.for_page and size[0] > NARROW_INCHES else ""
        self.add(kind, key, svg, png, narrow, **names)

    def add(
        self, kind: str, key: str, svg: Path, png: Path, narrow: str = "", **names: object
    ) -> None:
        """Add a figure that is already on disk."""
        text = report_text()["figures"][kind]
        title = text["title"].format(**names)
        caption = text["caption"].format(title=title, **names)
        self.figures.append(Figure(text["section"], key, title, caption, svg, png, narrow))


def narrow_svg(figure: Any) -> str:
    """Return a drawn figure as SVG for a narrow screen: same font size, columns under each other.

    The figure itself is changed.
    """
    from matplotlib.ticker import FixedLocator

    width, height = figure.get_size_inches()
    grid = figure.axes[0].get_gridspec()
    n_columns = max(1, int(grid.ncols * NARROW_INCHES / width + 0.1))
    n_parts = math.ceil(grid.ncols / n_columns)
    if n_parts > 1:
        stacked = figure.add_gridspec(grid.nrows * n_parts, n_columns)
        by_place = {divmod(axes.get_subplotspec().num1, grid.ncols): axes for axes in figure.axes}
        for (row, column), axes in by_place.items():
            part, place = divmod(column, n_columns)
            axes.set_subplotspec(stacked[part * grid.nrows + row, place])
            if part and not place:
                first = by_place[row, 0].yaxis.label
                style = {name: getattr(first, f"get_{name}")() for name in LABEL_STYLE}
                axes.set_ylabel(first.get_text(), **style)
                axes.tick_params(labelleft=True)
    n_lines = 1
    for axes in figure.axes:
        axes.set_title(textwrap.fill(axes.get_title("left"), 30), loc="left")
        labels = [textwrap.fill(label.get_text(), 26) for label in axes.get_yticklabels()]
        if any("\n" in label for label in labels):
            axes.set_yticks(axes.get_yticks(), labels)
            n_lines = max(n_lines, *(label.count("\n") + 1 for label in labels))
        ticks, names = axes.get_xticks(), [label.get_text() for label in axes.get_xticklabels()]
        is_fixed = isinstance(axes.xaxis.get_major_locator(), FixedLocator)
        if is_fixed and len(ticks) > MAX_NARROW_TICKS and not _is_rotated(axes):
            step = math.ceil(len(names) / MAX_NARROW_TICKS)
            axes.set_xticks(ticks[::step], names[::step])
        if legend := axes.get_legend():
            names = [entry.get_text() for entry in legend.get_texts()]
            n_columns = 2 if max(map(len, names)) < LONG_ENTRY else 1
            style = {"ncols": n_columns, "fontsize": 6.5, "handlelength": 1, "columnspacing": 1}
            # Above the panel and its title.
            place = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "borderpad": 0}
            place["borderaxespad"] = 3.0 if axes.get_title("left") else 0.5
            axes.legend(legend.legend_handles, names, **place, **style)
    figure.set_size_inches(NARROW_INCHES, height * n_parts * (1 + 0.4 * (n_lines - 1)))
    return svg_bytes(figure).decode("utf-8")


def _is_rotated(axes: Any) -> bool:
    return any(label.get_rotation() for label in axes.get_xticklabels())


def hide_ticks(axes: Any, *sides: str) -> None:
    """Remove the tick marks, and the named spines; without names all spines."""
    axes.tick_params(axis="both", length=0)
    for side in sides or ("left", "right", "top", "bottom"):
        axes.spines[side].set_visible(False)


def draw_reference(axes: Any, at: float) -> None:
    """Draw a dashed vertical line for comparison."""
    axes.axvline(at, color=MUTED, lw=0.8, ls=(0, (3, 3)), zorder=0)
