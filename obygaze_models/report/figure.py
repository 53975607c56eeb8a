"""The frame that all figures of a report share: canvas, files, caption, colours and axes."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from obygaze_features.core.figures import MUTED, canvas, save
from obygaze_models.report.texts import report_text

# Different in brightness as well as in hue, for print and for colour-blind readers.
MODEL = "#2f5d8a"
BASELINE = "#a9a69d"
WRONG = "#d98c3f"
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

    @property
    def data_url(self) -> str:
        """The drawing as a URL for an HTML page."""
        # Where the font of the drawing is missing, these fonts are as wide.
        text = re.sub(r"'DejaVu Sans'(?!,)", FONTS, self.svg.read_text("utf-8"))
        return f"data:image/svg+xml;base64,{base64.b64encode(text.encode()).decode('ascii')}"

    @property
    def width(self) -> int:
        """The width on the page, in pixels."""
        found = re.search(r'width="([0-9.]+)pt"', self.svg.read_text("utf-8")[:2000])
        return round(float(found[1]) * 4 / 3) if found else 720


@dataclass(frozen=True)
class FigureSet:
    """The figures of a run in the order of the page; `draw` adds one."""

    folder: Path
    figures: list[Figure] = field(default_factory=list)

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
        self.add(kind, key, svg, png, **names)

    def add(self, kind: str, key: str, svg: Path, png: Path, **names: object) -> None:
        """Add a figure that is already on disk."""
        text = report_text().figures[kind]
        title = text.title.format(**names)
        caption = text.caption.format(title=title, **names)
        self.figures.append(Figure(text.section, key, title, caption, svg, png))


def hide_ticks(axes: Any, *sides: str) -> None:
    """Remove the tick marks, and the named spines; without names all spines."""
    axes.tick_params(axis="both", length=0)
    for side in sides or ("left", "right", "top", "bottom"):
        axes.spines[side].set_visible(False)


def draw_reference(axes: Any, at: float) -> None:
    """Draw a dashed vertical line for comparison."""
    axes.axvline(at, color=MUTED, lw=0.8, ls=(0, (3, 3)), zorder=0)
