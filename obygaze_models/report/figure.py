"""The frame that all figures of a report share: canvas, files, caption, colours and axes.

Every figure is as wide as the screen of a telephone, or a column of a paper, so that one drawing
fits each place. On a wide screen several stand side by side.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from obygaze_features.core.figures import (
    LEVEL_COLORS,
    LEVEL_NAMES,
    MUTED,
    canvas,
    save,
)
from obygaze_features.core.file_names import FileNames
from obygaze_models.report.tables import report_text

WIDTH_INCHES = 3.4
# Different in brightness as well as in hue, for print and for colour-blind readers.
MODEL = "#2f5d8a"
BASELINE = "#a9a69d"
WRONG = "#d98c3f"
# Of a clip without a level.
UNKNOWN_LEVEL = "#f6f5f1"
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
        # Two decimals of a point are enough for a screen, and halve the page.
        numbers = re.compile(r"(\.\d\d)\d+")
        text = re.sub(
            r' (?:d|x|y)="[^"]*"', lambda match: numbers.sub(r"\1", match[0]), text
        )
        encoded = base64.b64encode(text.encode()).decode("ascii")
        return f"data:image/svg+xml;base64,{encoded}"


@dataclass(frozen=True)
class FigureSet:
    """The figures of a run in the order of the page; `draw` adds one."""

    folder: Path
    figures: list[Figure] = field(default_factory=list)
    names: FileNames = field(default_factory=FileNames)

    @contextmanager
    def draw(
        self,
        kind: str,
        key: str,
        height: float,
        layout: Mapping[str, Any] | None = None,
        **names: object,
    ) -> Iterator[tuple[Any, Any]]:
        """Yield a matplotlib figure and its axes to draw on, then write it as SVG and PNG.

        Args:
            kind: The kind of figure in texts.toml.
            key: The file name without suffix; a number is added if another figure has it.
            height: The height in inches.
            layout: Arguments of `Figure.subplots`.
            names: The names to fill into title and caption.
        """
        key = self.names.name_of(key)
        with canvas(WIDTH_INCHES, height, **(layout or {})) as (figure, axes):
            yield figure, axes
            svg, png = save(figure, self.folder / key)
        self.add(kind, key, svg, png, **names)

    def add(self, kind: str, key: str, svg: Path, png: Path, **names: object) -> None:
        """Add a figure that is already on disk."""
        text = report_text()["figures"][kind]
        title = text["title"].format(**names)
        caption = text["caption"].format(**names)
        self.figures.append(Figure(text["section"], key, title, caption, svg, png))


def hide_ticks(axes: Any, *sides: str) -> None:
    """Remove the tick marks, and the named spines; without names all spines."""
    axes.tick_params(axis="both", length=0)
    for side in sides or ("left", "right", "top", "bottom"):
        axes.spines[side].set_visible(False)


def draw_reference(axes: Any, at: float) -> None:
    """Draw a dashed vertical line for comparison."""
    axes.axvline(at, color=MUTED, lw=0.8, ls=(0, (3, 3)), zorder=0)


def draw_legend(figure: Any, levels: set[str], others: Mapping[str, str]) -> None:
    """Draw the colours of levels, and of others, beside a figure."""
    from matplotlib.patches import Patch

    used = [level for level in LEVEL_COLORS if level in levels]
    entries = {f"{level} {LEVEL_NAMES[level]}": LEVEL_COLORS[level] for level in used}
    entries |= others
    handles = [Patch(color=color, label=label) for label, color in entries.items()]
    style = {"fontsize": 5, "handlelength": 1, "columnspacing": 1, "borderpad": 0}
    figure.legend(handles=handles, loc="outside upper left", ncols=3, **style)
