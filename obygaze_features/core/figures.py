"""Figures in one style, drawn by matplotlib; the same data give the same bytes.

A figure is written as SVG, PNG or PDF with the colours of paper. On a page, a figure is an element
whose colours are variables of the page. These variables follow the light or dark scheme of the
reader.
"""

import json
import math
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from obygaze_features.core.files import write_all_new
from obygaze_features.core.untrusted_text import safe_text, visible

# Ordered from absence to presence, distinct in print and to colour-blind eyes.
LEVEL_COLORS = {"EN": "#d4d4d0", "HN": "#7fa8c9", "NS": "#e3a857", "S": "#a8324a"}
LEVEL_NAMES = {
    "EN": "easy negative",
    "HN": "hard negative",
    "NS": "not sure",
    "S": "sure",
}


def level_words(
    levels: Iterable[str], words_of: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Return the codes of levels as text, each with its words: `levels: EN easy negative`.

    `words_of` maps a level to the words that a table has for it. Other levels get their usual name.
    """
    named = []
    for level in levels:
        words = (words_of or {}).get(level) or [LEVEL_NAMES[level]]
        named.append(f"{level} {' or '.join(words)}")
    return f"levels: {', '.join(named)}"


COLORS = {
    "ink": "#26251f",
    "paper": "#ffffff",
    "muted": "#68655c",
    "line": "#dedbd2",
    "model": "#2f5d8a",
    "baseline": "#97948b",
    "wrong": "#c9711f",
}
DARK_COLORS = {
    "ink": "#e8e6df",
    "paper": "#191815",
    "muted": "#a19e94",
    "line": "#3b3a35",
    "model": "#7fb2e3",
    "baseline": "#8d8a81",
    "wrong": "#eb9a4d",
}
FONT = "DejaVu Sans"  # comes with matplotlib, which measures texts in it
FONTS_OF_READERS = f"system-ui, '{FONT}', Verdana, sans-serif"
POINTS = 72  # points per inch
WIDTH = 520  # width of a figure, in points
LABEL_WIDTH = 140  # space for labels to the left of rows, in points
ROW_WIDTH = 364  # space for the data of rows, in points
RIGHT_OF_ROWS = 16
BELOW_ROWS = 36
LETTERS_OF_LABEL = 24
MOST_LETTERS_OF_LABEL = 60
LETTER_WIDTH = 5.4  # of a letter of a label, in points
LEAST_LETTER_HEIGHT = 11  # of the letters of a figure on a page, in pixels
CUT = " …"  # the end of a shortened text
SUFFIXES = (".svg", ".png", ".pdf")

_SVG = "{http://www.w3.org/2000/svg}"
FONT_SIZE = 9
_STYLE = {
    "font.family": [FONT],
    "font.size": FONT_SIZE,
    "text.color": COLORS["ink"],
    "text.parse_math": False,  # a dollar sign in a name is no formula
    "figure.facecolor": COLORS["paper"],
    "axes.facecolor": "none",
    "axes.labelcolor": COLORS["muted"],
    "axes.labelsize": FONT_SIZE,
    "axes.edgecolor": COLORS["muted"],
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "grid.color": COLORS["line"],
    "grid.linewidth": 0.7,
    "xtick.color": COLORS["muted"],
    "xtick.labelsize": FONT_SIZE,
    "ytick.color": COLORS["ink"],
    "legend.frameon": False,
    "legend.fontsize": FONT_SIZE,
    "legend.labelcolor": COLORS["muted"],
    "svg.fonttype": "none",
    "svg.hashsalt": "obygaze",
    "pdf.fonttype": 42,  # text that other programs can edit
}


def _style() -> AbstractContextManager[None]:
    """Return a context with the common style, in which the user's matplotlibrc has no effect."""
    import matplotlib

    settings = {**matplotlib.rcParamsDefault, **_STYLE}
    settings.pop("backend")  # the backend of a notebook stays
    return matplotlib.rc_context(settings)


@contextmanager
def canvas(width: float, height: float, **axes: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its axes in the common style, without a screen.

    `width` and `height` are in points (1/72 inch). `axes` are arguments of `subplots`. matplotlib
    chooses the margins, unless `gridspec_kw` contains them.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with _style():
        layout: Any = None if "gridspec_kw" in axes else "constrained"
        figure = Figure(figsize=(width / POINTS, height / POINTS), layout=layout)
        FigureCanvasAgg(figure)
        yield figure, figure.subplots(**axes)


@contextmanager
def row_canvas(
    height: float,
    top: float,
    limits: tuple[float, float],
    xlabel: str,
    *,
    left: float = LABEL_WIDTH,
    right: float = RIGHT_OF_ROWS,
) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and axes for labelled rows; y is in points (1/72 inch), from the top down.

    Args:
        height: Height of all rows, in points.
        top: Space above the rows, in points.
        limits: The ends of the horizontal axis.
        xlabel: The name of the horizontal axis.
        left: Space for labels, in points.
        right: Space to the right of the rows, in points.
    """
    total = top + height + BELOW_ROWS
    width = left + ROW_WIDTH + right
    margins = {
        "left": left / width,
        "right": 1 - right / width,
        "bottom": BELOW_ROWS / total,
        "top": 1 - top / total,
    }
    with canvas(width, total, gridspec_kw=margins) as (figure, axes):
        axes.set(xlim=limits, ylim=(height, 0), xlabel=xlabel, yticks=[])
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(axis="x", length=0)
        draw_grid(axes)
        yield figure, axes


def letters_of_labels(labels: Iterable[str]) -> int:
    """Return how many letters a line of a label needs, so that each label fits in two lines.

    A label is shortened only if it needs more than `MOST_LETTERS_OF_LABEL`, because two labels may
    differ in any letter.
    """
    letters = LETTERS_OF_LABEL
    for label in labels:
        while letters < MOST_LETTERS_OF_LABEL and wrap_label(label, letters).endswith(
            CUT
        ):
            letters += 1
    return letters


def draw_label(axes: Any, y: float, label: str, letters: int) -> None:
    """Write the label of a row to the left of the axes, in up to two lines."""
    axes.annotate(
        wrap_label(label, letters),
        (0, y),
        xytext=(-10, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="right",
        va="center_baseline",
    )


def wrap_label(text: str, letters: int) -> str:
    """Return untrusted text in at most two lines, each of at most `letters` characters.

    A longer text ends with `CUT`.
    """
    safe = safe_text(text, "terminal")
    return "\n".join(textwrap.wrap(safe, letters, max_lines=2, placeholder=CUT))


def draw_dots(
    axes: Any,
    x: Sequence[float],
    y: Sequence[float],
    color: str,
    size: float,
    *,
    alpha: float = 1,
    is_open: bool = False,
    about: Sequence[str] = (),
    **style: Any,
) -> None:
    """Draw dots of one colour.

    Args:
        axes: The matplotlib axes.
        x: Positions of the dots on the horizontal axis.
        y: Positions of the dots on the vertical axis.
        color: Name of the colour, a key of `COLORS`.
        size: Diameter of a dot, in points (1/72 inch).
        alpha: Opacity, from 0 to 1.
        is_open: Whether rings are drawn instead of dots.
        about: A description of each dot, which an SVG shows to a reader who points at the dot.
            Empty: no descriptions.
        style: Further settings of `scatter` of matplotlib.
    """
    from matplotlib.colors import to_rgba

    look = {"clip_on": False, "zorder": 3, **style}
    look["linewidth"] = size / 4.5 if is_open else 0
    if "marker" in style:  # a line has no face
        look["color"] = COLORS[color]
    else:
        look["facecolor"] = [to_rgba(COLORS[color], 0 if is_open else alpha)]
        look["edgecolor"] = COLORS[color]
    dots = axes.scatter(x, y, s=size**2, **look)
    if about:
        dots.set_gid(json.dumps([safe_text(text, "terminal") for text in about]))


# The form of a dot in a legend: its colour, its diameter in points, and other arguments of
# `draw_dots`.
Look = tuple[str, float, Mapping[str, Any]]


def draw_legend(figure: Any, entries: Mapping[str, Look]) -> None:
    """Draw the legend of dots, in one line at the top of a figure."""
    (axes,) = figure.axes
    for label, (color, size, style) in entries.items():
        draw_dots(axes, [], [], color, size, label=label, **style)
    figure.legend(
        loc="upper left",
        ncols=len(entries),
        handletextpad=0,
        columnspacing=1,
        borderaxespad=0.2,
    )


def save(figure: Any, path: Path, *, force: bool = True) -> tuple[Path, ...]:
    """Write a figure as SVG and PNG, or in the format of the extension; return the paths.

    Args:
        figure: The matplotlib figure.
        path: A file with .svg, .png or .pdf. For another name, two files are written: .svg and .png
            are added to the name.
        force: Replace files that have other contents.
    """
    paths = [path]
    if path.suffix not in SUFFIXES:
        paths = [path.with_name(f"{path.name}{suffix}") for suffix in (".svg", ".png")]
    files = {path: render_figure(figure, path.suffix) for path in paths}
    write_all_new(files, force=force)
    return tuple(paths)


def render_figure(figure: Any, suffix: str, title: str = "") -> bytes:
    """Return the bytes of a figure file in one format; the file contains no date.

    Args:
        figure: The matplotlib figure.
        suffix: The format: .svg, .png or .pdf.
        title: A description for readers who cannot see the figure; only SVG contains it.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf

    if suffix == ".png":
        figure.set_dpi(160)
        return _print_figure(figure, FigureCanvasAgg(figure).print_png, "Software")
    if suffix == ".pdf":
        left_out = ("CreationDate", "Creator", "Producer")
        return _print_figure(figure, FigureCanvasPdf(figure).print_pdf, *left_out)
    svg = ElementTree.tostring(_svg(figure, title), "unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{svg}\n'.encode()


def page_markup(file: bytes, key: str) -> str:
    """Return a figure as an element of a page; the page defines its colours as variables.

    Args:
        file: The figure as an SVG file.
        key: A word that no other figure of the page has; the ids in the figure begin with it.
    """
    svg = ElementTree.fromstring(file)
    for size in ("width", "height"):  # the page decides the size
        del svg.attrib[size]
    width = float(svg.attrib["viewBox"].split()[2])
    least = math.ceil(width * LEAST_LETTER_HEIGHT / FONT_SIZE)
    svg.set("style", f"min-width: {least}px; max-width: {2 * least}px")
    for element in svg.iter():
        for name, value in element.attrib.items():
            if name == "id":
                element.set(name, f"{key}-{value}")
            elif name == "style":
                element.set(name, _use_variables(value))
            else:
                # The value may refer to another element of the figure, with url(#...) or as a link.
                linked = value.replace("url(#", f"url(#{key}-")
                if name.endswith("href"):
                    linked = f"#{key}-{value.removeprefix('#')}"
                element.set(name, linked)
    return ElementTree.tostring(svg, "unicode")


def _use_variables(style: str) -> str:
    for name, color in COLORS.items():
        style = style.replace(color, f"var(--{name})")
    return style


def _svg(figure: Any, title: str) -> ElementTree.Element:
    """Return a figure as SVG: dots get their descriptions, and unneeded elements are removed."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    ElementTree.register_namespace("", _SVG.strip("{}"))
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    canvas = FigureCanvasSVG(figure)
    svg = ElementTree.fromstring(
        _print_figure(figure, canvas.print_svg, "Date", "Creator")
    )
    # These attributes replace a style sheet, which would change other figures of a page.
    joins = {"stroke-linejoin": "round", "stroke-linecap": "butt"}
    svg.attrib |= {"role": "img", "aria-label": safe_text(title, "terminal"), **joins}
    for element in list(svg):
        is_style = element.find(f"{_SVG}style") is not None
        if is_style or element.tag == f"{_SVG}metadata":
            svg.remove(element)
    for group in svg.iter(f"{_SVG}g"):
        name = group.attrib.pop("id", "")
        if name.startswith("["):  # see `draw_dots`
            dots = group.iter(f"{_SVG}use")
            for dot, text in zip(dots, json.loads(name), strict=True):
                ElementTree.SubElement(dot, f"{_SVG}title").text = text
        for dot in group.findall(f"{_SVG}use"):  # they have one style
            group.set("style", dot.attrib.pop("style"))
    for text in svg.iter(f"{_SVG}text"):
        style = text.attrib["style"].replace(f"'{FONT}'", FONTS_OF_READERS)
        text.set("style", style)
    return svg


def _print_figure(figure: Any, write: Callable[..., Any], *left_out: str) -> bytes:
    """Return the bytes that `write` prints; `savefig` would draw the figure twice."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_text(visible(text.get_text()))  # some characters are not valid in SVG
    stream = BytesIO()
    with warnings.catch_warnings(), _style():
        # Missing characters in the font, and labels too long for the layout, are not errors.
        warnings.filterwarnings("ignore", "Glyph|constrained_layout", UserWarning)
        write(stream, metadata=dict.fromkeys(left_out))
    # The layout is not computed again for another format.
    figure.set(layout_engine="none")
    return stream.getvalue()


def spread_dots(values: Sequence[float], least: float) -> list[float]:
    """Return the vertical shift of each dot of a row, so that no dot covers another.

    Args:
        values: The positions of the dots along the row.
        least: Least distance between two dots along the row. Dots that are closer are shifted, in
            steps of 1, evenly to both sides of the row.
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


def tick_text(value: float, place: int | None = None) -> str:
    """Return the number at a tick of an axis without its leading 0, such as `.5`.

    matplotlib also passes the place of the tick, which is not used.
    """
    text = f"{value:g}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def draw_grid(axes: Any) -> None:
    """Draw light lines behind the data, at the ticks of the horizontal axis."""
    axes.xaxis.grid(visible=True)
    axes.set_axisbelow(True)


def label_rows(axes: Any, names: Sequence[str], *, upwards: bool = False) -> None:
    """Label rows 0, 1, ... without tick marks.

    Args:
        axes: The matplotlib axes.
        names: The labels.
        upwards: Whether row 0 is at the bottom.
    """
    safe = [safe_text(name, "terminal") for name in names]
    axes.set_yticks(range(len(names)), safe)
    axes.tick_params(axis="y", length=0)
    ends = (-0.6, max(len(names), 1) - 0.4)
    axes.set_ylim(ends if upwards else ends[::-1])
