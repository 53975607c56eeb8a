"""Drawings as SVG, written by hand: the same data give the same bytes, in a millisecond.

A drawing names classes of colour, not colours. On a page, these follow the scheme of the reader,
light or dark; a file of its own has the colours of paper.
"""

import math
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from string import Template

from obygaze_features.core.outside import safe_text

WIDTH = 640
LEFT = 170  # the width of the labels of rows
RIGHT = 20
LETTERS = 21  # of a label, in one line
ROUNDING = 1e-9

# Left, top, width and height.
Box = tuple[float, float, float, float]

COLOURS = {
    "ink": "#26251f",
    "paper": "#ffffff",
    "muted": "#68655c",
    "line": "#dedbd2",
    "model": "#2f5d8a",
    "guess": "#97948b",
    "wrong": "#c9711f",
}
DARK = {
    "ink": "#e8e6df",
    "paper": "#191815",
    "muted": "#a19e94",
    "line": "#3b3a35",
    "model": "#7fb2e3",
    "guess": "#8d8a81",
    "wrong": "#eb9a4d",
}
STYLE = Template(
    "svg text{font:13px system-ui,'DejaVu Sans',Verdana,sans-serif;fill:$ink}"
    "svg .small{font-size:11px}svg .bold{font-weight:600}"
    "svg .muted{fill:$muted}svg .grid{stroke:$line}svg .rule{stroke:$muted;stroke-dasharray:4 3}"
    "svg .tick{stroke:$ink;stroke-width:1.5}"
    "svg .model{fill:$model}svg .model-line{stroke:$model;stroke-width:2.5}"
    "svg .guess{fill:$guess}svg .guess-line{stroke:$guess;stroke-width:2.5}"
    "svg .wrong{fill:$wrong}svg .wrong-line{stroke:$wrong;stroke-width:2.5}"
    "svg .open{fill:none;stroke:$model;stroke-width:1.5}"
    "svg .film{opacity:.65}"
    "svg .paper{fill:$paper}svg .box{fill:$model;stroke:$muted}"
)


def colour_names() -> dict[str, str]:
    """Return each colour as a variable of a page."""
    return {name: f"var(--{name})" for name in COLOURS}


@dataclass
class Drawing:
    """The elements of a drawing, 640 wide, and its height so far."""

    height: float = 0.0
    width: int = WIDTH
    elements: list[str] = field(default_factory=list)

    def text(
        self, x: float, y: float, text: object, kind: str = "", anchor: str = "start"
    ) -> None:
        """Write a line of text from a point, to it (`end`) or around it (`middle`)."""
        safe = escape(safe_text(text, "terminal"))
        self.elements.append(
            f'<text x="{x:.2f}" y="{y:.2f}" class="{kind}" text-anchor="{anchor}">{safe}</text>'
        )

    def label(self, y: float, text: str) -> None:
        """Write the label of a row to the left of the axis, in up to two lines."""
        lines = textwrap.wrap(text, LETTERS, max_lines=2, placeholder=" …") or [""]
        first = y + 4 - 7 * (len(lines) - 1)
        for number, line in enumerate(lines):
            self.text(LEFT - 12, first + 14 * number, line, anchor="end")

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """Draw a line."""
        self.elements.append(
            f'<line x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}" class="{kind}"/>'
        )

    def interval(
        self, axis: "Axis", low: float, high: float, y: float, kind: str
    ) -> None:
        """Draw an interval on an axis; nothing where its ends are NaN."""
        if not math.isnan(low + high):
            self.line(axis.x(low), y, axis.x(high), y, kind)

    def dot(
        self, x: float, y: float, radius: float, kind: str, about: str = ""
    ) -> None:
        """Draw a dot; a reader who points at it sees what it is about."""
        title = ""
        if about:
            title = f"<title>{escape(safe_text(about, 'terminal'))}</title>"
        self.elements.append(
            f'<circle cx="{x:.2f}" cy="{y:.2f}" r="{radius:g}" class="{kind}">{title}</circle>'
        )

    def box(
        self, x: float, y: float, width: float, height: float, shade: float
    ) -> None:
        """Draw a box with a border; its shade is from 0, that of the paper, to 1."""
        self.elements.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:g}" height="{height:g}" rx="4" '
            'class="paper"/>'
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:g}" height="{height:g}" rx="4" '
            f'class="box" fill-opacity="{shade:.2f}"/>'
        )

    def bars(self, boxes: Iterable[Box], kind: str) -> None:
        """Draw filled rectangles of one colour as one element."""
        path = [
            f"M{x:.1f} {y:.1f}h{width:.1f}v{height:.1f}h{-width:.1f}z"
            for x, y, width, height in boxes
        ]
        if path:
            self.elements.append(f'<path d="{"".join(path)}" class="{kind}"/>')

    def legend(self, entries: Mapping[str, str], x: float = LEFT) -> None:
        """Write what each colour means, at the top, in as many lines as are needed."""
        self.height += 16
        left = x
        for text, kind in entries.items():
            width = 7 * len(text) + 34
            if left > x and left + width > self.width:
                left = x
                self.height += 18
            self.dot(left + 5, self.height - 4, 5, kind)
            self.text(left + 16, self.height, text, "small muted")
            left += width
        self.height += 10

    def markup(self, title: str) -> str:
        """Return the drawing as an element of a page."""
        return self._svg(title, "")

    def file(self, title: str) -> str:
        """Return the drawing as a file of its own."""
        style = f"<style>{STYLE.substitute(COLOURS)}</style>"
        return '<?xml version="1.0" encoding="utf-8"?>\n' + self._svg(title, style)

    def _svg(self, title: str, style: str) -> str:
        name = escape(safe_text(title, "terminal"))
        body = "\n".join(self.elements)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height:.0f}"'
            f' role="img" aria-label="{name}">{style}\n{body}\n</svg>\n'
        )


@dataclass(frozen=True)
class Axis:
    """A horizontal axis from one value to another, to the right of the labels of rows."""

    low: float
    high: float
    left: float = LEFT
    right: float = WIDTH - RIGHT

    @classmethod
    def around(cls, values: Iterable[float]) -> "Axis":
        """Return an axis from 0 to 1, or farther where values are."""
        known = [value for value in values if value == value]
        low = min([0.0, *known])
        high = max([1.0, *known])
        margin = 0.02 * (high - low)
        return cls(low - margin, high + margin)

    def x(self, value: float) -> float:
        """Return the place of a value; beyond the axis, its end."""
        inside = min(max(value, self.low), self.high)
        return self.left + (self.right - self.left) * (inside - self.low) / (
            self.high - self.low
        )

    @property
    def ticks(self) -> list[float]:
        """Some round values on the axis."""
        length = self.high - self.low
        power = 10.0 ** math.ceil(math.log10(length / 8))
        steps = (0.2, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0)
        step = next((step for step in steps if length / step <= 8), power)
        first = math.ceil(self.low / step - ROUNDING)
        last = math.floor(self.high / step + ROUNDING)
        return [number * step for number in range(first, last + 1)]

    def draw(self, drawing: Drawing, top: float, bottom: float, name: str) -> None:
        """Draw lines at the ticks behind the rows, with their values and a name below."""
        lines = Drawing()
        for tick in self.ticks:
            lines.line(self.x(tick), top, self.x(tick), bottom, "grid")
        drawing.elements[:0] = lines.elements
        for tick in self.ticks:
            text = f"{tick:z.2f}".rstrip("0")
            text = f"{text}0" if text.endswith(".") else text
            drawing.text(self.x(tick), bottom + 16, text, "small muted", "middle")
        middle = (self.left + self.right) / 2
        drawing.text(middle, bottom + 34, name, "small muted", "middle")
        drawing.height = bottom + 42
